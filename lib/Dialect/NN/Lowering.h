//===- Lowering.h - Loop nests from formulas on scalars ---------*- C++ -*-===//
//
// Private to the nn dialect. An op lowers to few `linalg.generic`s, each given by the operands' index maps
// and one formula written in C++ arithmetic on `Scalar`. Floats narrower than 32 bits are computed, and
// accumulated, in f32.
//
//===----------------------------------------------------------------------===//
#ifndef PLUMB_LIB_DIALECT_NN_LOWERING_H
#define PLUMB_LIB_DIALECT_NN_LOWERING_H

#include "mlir/IR/AffineMap.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "plumb/Dialect/NN/NN.h"

namespace plumb::nn {

/// A number inside a loop body: an SSA value that knows where to build.
struct Scalar {
  mlir::ImplicitLocOpBuilder *builder;
  mlir::Value value;
};

Scalar operator+(Scalar a, Scalar b);
Scalar operator-(Scalar a, Scalar b);
Scalar operator*(Scalar a, Scalar b);
Scalar operator/(Scalar a, Scalar b);

/// A constant of the type of `like`.
Scalar constant(Scalar like, double value);

inline Scalar operator+(Scalar a, double b) { return a + constant(a, b); }
inline Scalar operator-(Scalar a, double b) { return a - constant(a, b); }
inline Scalar operator+(double a, Scalar b) { return constant(b, a) + b; }
inline Scalar operator-(double a, Scalar b) { return constant(b, a) - b; }
inline Scalar operator*(double a, Scalar b) { return constant(b, a) * b; }
inline Scalar operator/(double a, Scalar b) { return constant(b, a) / b; }

Scalar maximum(Scalar a, Scalar b); ///< NaN if either is.
Scalar minimum(Scalar a, Scalar b); ///< NaN if either is.
Scalar exp(Scalar x);
Scalar log(Scalar x);
Scalar sqrt(Scalar x);
Scalar tanh(Scalar x);
Scalar erf(Scalar x);
Scalar sin(Scalar x);
Scalar cos(Scalar x);
Scalar abs(Scalar x);
Scalar floor(Scalar x);
Scalar roundToEven(Scalar x);
Scalar power(Scalar x, double exponent);

// False where either is not a number.
Scalar isGreater(Scalar a, Scalar b);
Scalar isLess(Scalar a, Scalar b);
Scalar isLessEqual(Scalar a, Scalar b);
Scalar isEqual(Scalar a, Scalar b);

Scalar both(Scalar a, Scalar b);   ///< Of two conditions.
Scalar either(Scalar a, Scalar b); ///< Of two conditions.
Scalar select(Scalar condition, Scalar ifTrue, Scalar ifFalse);

/// The least number of the type of `like`, which a maximum ignores.
Scalar lowest(Scalar like);

/// The number in another type: floats are truncated to integers, bools are 0 and 1, and all but 0 is true.
Scalar convert(Scalar x, mlir::Type type);

/// The integer sign-extended to i64.
Scalar toI64(Scalar x);

/// What a formula may use besides its arguments.
struct ScalarBuilder {
  mlir::ImplicitLocOpBuilder &builder;

  /// The loop index along `dim`, as i64.
  Scalar index(int64_t dim);
  Scalar integer(int64_t value);              ///< A constant i64.
  Scalar real(mlir::Type type, double value); ///< A constant float.
};

using Formula = llvm::function_ref<Scalar(ScalarBuilder &, llvm::ArrayRef<Scalar>)>;

/// A tensor and the element of it that each point of the loop nest reads.
struct MappedTensor {
  mlir::Value tensor;
  mlir::AffineMap map;
};

/// Reads along the loops with dims aligned to the right; a dim of size 1 reads its only element.
MappedTensor alignedRight(mlir::Value tensor, llvm::ArrayRef<int64_t> loops);

/// Reads along the first loops, one per dim: a value per row.
MappedTensor alignedLeft(mlir::Value tensor, llvm::ArrayRef<int64_t> loops);

/// The element of a tensor at any place, in the type in which it is computed.
Scalar elementAt(ScalarBuilder &scalars, mlir::Value tensor, mlir::ValueRange place);

/// The index that `named` gives along a dim of `size` elements: the nearest one where it is out of range, so
/// that no access leaves the tensor.
mlir::Value indexInside(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value named, int64_t size);

/// A tensor of type `result` computed element by element.
mlir::Value pointwise(mlir::OpBuilder &builder, mlir::Location loc, llvm::ArrayRef<MappedTensor> inputs,
                      mlir::RankedTensorType result, Formula formula);

/// The same with all inputs aligned to the right.
mlir::Value pointwise(mlir::OpBuilder &builder, mlir::Location loc, mlir::ValueRange inputs,
                      mlir::RankedTensorType result, Formula formula);

enum class Reduction { Sum, Maximum };

/// Combines the formula's values over the loops that `kept` lacks; `kept` lists the loops of the result's
/// dims. The result has the type in which it was accumulated: that of the formula, `element`, by default the
/// one in which the first input is computed.
mlir::Value reduce(mlir::OpBuilder &builder, mlir::Location loc, Reduction kind,
                   llvm::ArrayRef<MappedTensor> inputs, llvm::ArrayRef<int64_t> loops,
                   llvm::ArrayRef<int64_t> kept, Formula formula, mlir::Type element = {});

/// A reduction over all but the first `rows` loops.
mlir::Value reduceRows(mlir::OpBuilder &builder, mlir::Location loc, Reduction kind,
                       llvm::ArrayRef<MappedTensor> inputs, llvm::ArrayRef<int64_t> loops, int64_t rows,
                       Formula formula, mlir::Type element = {});

/// `into` with `value` of the same shape added to it, written over `into` once bufferised.
mlir::Value addInto(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value, mlir::Value into);

/// The tensor with its elements rounded or widened to the element type of `type`.
mlir::Value convertTo(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value tensor,
                      mlir::RankedTensorType type);

/// A tensor of one value.
mlir::Value filled(mlir::OpBuilder &builder, mlir::Location loc, mlir::RankedTensorType type, double value);

/// A tensor whose elements do not matter yet.
mlir::Value emptyTensor(mlir::OpBuilder &builder, mlir::Location loc, mlir::RankedTensorType type);

/// The row-major elements under another shape, without moving them.
mlir::Value reshape(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value tensor,
                    llvm::ArrayRef<int64_t> shape);

/// The type in which elements of `type` are computed and accumulated.
mlir::Type computeType(mlir::Type type);

} // namespace plumb::nn

#endif // PLUMB_LIB_DIALECT_NN_LOWERING_H
