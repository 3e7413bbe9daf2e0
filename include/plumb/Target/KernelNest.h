// Loop nests over buffers, and the vector code of one point of them.
//
// Every structured op is lowered from this one form. Once shapes are static, the address of an operand is
// linear in the loop indices, so that the strides alone say which loops are contiguous, which broadcast, and
// which can be merged; indexing maps, views and transposes no longer matter.
#ifndef PLUMB_TARGET_KERNELNEST_H
#define PLUMB_TARGET_KERNELNEST_H

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Utils/StructuredOpsUtils.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

#include <functional>

namespace plumb::kernels {

/// What the code generator needs to know of the machine.
struct VectorTarget {
  int64_t vectorBytes = 16;
  int64_t vectorRegisters = 16;

  /// Elements of `type` in a vector register; narrow types use lanes of 32 bits, the width they are computed
  /// in.
  int64_t lanes(mlir::Type type) const;
};

/// One operand: the element at loop indices i lies at `pointer` + Σ strides[d]·i[d] elements.
struct Access {
  mlir::Value pointer;
  mlir::Type element;
  llvm::SmallVector<int64_t> strides;
};

/// A point of the iteration space, or `valid` ≤ `lanes` neighbouring points along the loop `lane`.
struct Point {
  /// One i64 per loop; null stands for 0.
  llvm::SmallVector<mlir::Value> indices;
  int lane = -1;
  int64_t lanes = 1;
  int64_t valid = 1;

  explicit Point(size_t loops) : indices(loops) {}
};

/// The body of a nest: values of inputs and outputs at a point → new values of the outputs. Values are
/// scalars where they are equal in all lanes, else vectors.
using NestBody = std::function<llvm::SmallVector<mlir::Value>(
    mlir::ImplicitLocOpBuilder &, const Point &, mlir::ValueRange inputs, mlir::ValueRange outputs)>;

inline constexpr int64_t kIrregular = INT64_MAX;

struct LoopNest {
  llvm::SmallVector<int64_t> sizes;
  llvm::SmallVector<bool> reduction;
  llvm::SmallVector<Access> inputs, outputs;
  /// Whether the body reads the input (output) at all.
  llvm::SmallVector<bool> readsInput, readsOutput;
  /// For each output the associative op that folds a value into it, or null.
  llvm::SmallVector<mlir::Operation *> combiners;
  /// Loads in the body at computed indices: the stride per loop, kIrregular where an index is any function of
  /// it.
  llvm::SmallVector<llvm::SmallVector<int64_t>> gathers;
  NestBody body;
  /// Arithmetic ops in the body: a measure of the code that one more copy of it costs.
  int64_t bodyOps = 0;
  /// The body asks for the index of a loop, so that loops may not be merged.
  bool usesIndices = false;
  /// Along this loop the outputs have room for whole vectors, so that lanes past the end are stored too.
  int padded = -1;
  /// The block of the structured op whose body it is, if any.
  mlir::Block *block = nullptr;

  size_t loops() const { return sizes.size(); }
};

/// Merges loops that run through memory as one in every operand, so that the innermost becomes long.
void mergeLoops(llvm::MutableArrayRef<LoopNest *> nests);

/// A vector of `lanes` elements, or the scalar type for one lane.
mlir::Type vectorOf(mlir::Type element, int64_t lanes);
/// The value in all lanes, if it is a scalar.
mlir::Value broadcast(mlir::ImplicitLocOpBuilder &b, mlir::Value value, int64_t lanes);
/// The op with its operands replaced, in all lanes if one of them is a vector.
mlir::Value applyLanewise(mlir::ImplicitLocOpBuilder &b, mlir::Operation *op, mlir::ValueRange operands,
                          int64_t lanes);

mlir::Value constantI64(mlir::ImplicitLocOpBuilder &b, int64_t value);
/// Σ strides[d]·indices[d] + offset, as an i64.
mlir::Value linearIndex(mlir::ImplicitLocOpBuilder &b, llvm::ArrayRef<int64_t> strides,
                        llvm::ArrayRef<mlir::Value> indices, int64_t offset = 0);
/// The access moved by a number of elements.
mlir::Value advance(mlir::ImplicitLocOpBuilder &b, const Access &access, mlir::Value elements);

/// The first `valid` of `lanes` lanes, as a vector of i1.
mlir::Value laneMask(mlir::ImplicitLocOpBuilder &b, int64_t lanes, int64_t valid);

mlir::Value loadElement(mlir::ImplicitLocOpBuilder &b, mlir::Type element, mlir::Value pointer);
/// `valid` consecutive elements, followed by zeros up to `lanes`.
mlir::Value loadVector(mlir::ImplicitLocOpBuilder &b, mlir::Type element, mlir::Value pointer, int64_t lanes,
                       int64_t valid);
/// Stores a scalar, or the first `valid` lanes.
void storeElements(mlir::ImplicitLocOpBuilder &b, mlir::Value value, mlir::Value pointer, int64_t valid);

/// The operand at a point: a scalar if it is the same in all lanes.
mlir::Value loadAt(mlir::ImplicitLocOpBuilder &b, const Access &access, const Point &point);
void storeAt(mlir::ImplicitLocOpBuilder &b, mlir::Value value, const Access &access, const Point &point);

/// The address of the first element of a buffer (its view included).
mlir::Value addressOf(mlir::ImplicitLocOpBuilder &b, mlir::Value memref);

/// A static loop; a single iteration needs none. The body returns the values carried on.
llvm::SmallVector<mlir::Value>
loop(mlir::ImplicitLocOpBuilder &b, int64_t lower, int64_t upper, int64_t step, mlir::ValueRange inits,
     llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::Value, mlir::ValueRange)> body);
/// Nested loops of step 1 over `dims`, outermost first, that set the indices of `point`.
llvm::SmallVector<mlir::Value>
loops(mlir::ImplicitLocOpBuilder &b, llvm::ArrayRef<int> dims, llvm::ArrayRef<int64_t> sizes, Point &point,
      mlir::ValueRange inits, llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::ValueRange)> body);

} // namespace plumb::kernels

#endif // PLUMB_TARGET_KERNELNEST_H
