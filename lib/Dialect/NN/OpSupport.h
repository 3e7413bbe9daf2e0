//===- OpSupport.h - What the definitions of nn ops share -------*- C++ -*-===//
//
// Private to the nn dialect: assembly directives, inference and vector-Jacobian helpers. Included before the
// generated op definitions, which name these functions.
//
//===----------------------------------------------------------------------===//
#ifndef PLUMB_LIB_DIALECT_NN_OPSUPPORT_H
#define PLUMB_LIB_DIALECT_NN_OPSUPPORT_H

#include "mlir/IR/OpImplementation.h"
#include "plumb/Dialect/NN/NN.h"
#include <initializer_list>

namespace plumb::nn {

using mlir::Location;
using mlir::OpBuilder;
using mlir::RankedTensorType;
using mlir::Value;
using mlir::ValueRange;

//===-- Assembly directives: a literal without its type -------------------===//

mlir::ParseResult parseBareInteger(mlir::OpAsmParser &parser, mlir::IntegerAttr &attr);
void printBareInteger(mlir::OpAsmPrinter &printer, mlir::Operation *, mlir::IntegerAttr attr);
mlir::ParseResult parseBareFloat(mlir::OpAsmParser &parser, mlir::FloatAttr &attr);
void printBareFloat(mlir::OpAsmPrinter &printer, mlir::Operation *, mlir::FloatAttr attr);

//===-- Types -------------------------------------------------------------===//

inline RankedTensorType tensorType(Value value) { return llvm::cast<RankedTensorType>(value.getType()); }
inline llvm::ArrayRef<int64_t> shapeOf(Value value) { return tensorType(value).getShape(); }
inline RankedTensorType withShape(RankedTensorType type, llvm::ArrayRef<int64_t> shape) {
  return RankedTensorType::get(shape, type.getElementType());
}

/// Checks that the values have one element type.
mlir::LogicalResult checkElementTypes(ValueRange values, EmitError emitError);

/// Checks that the op has the inferred result types.
mlir::LogicalResult checkResultTypes(mlir::Operation *op, mlir::TypeRange inferred);

/// The type of the operands broadcast against each other, dims aligned to the right.
mlir::LogicalResult inferBroadcast(ValueRange operands, EmitError emitError,
                                   llvm::SmallVectorImpl<mlir::Type> &types);

/// The type of a comparison of two operands: bools of their broadcast shape.
mlir::LogicalResult inferComparison(ValueRange operands, EmitError emitError,
                                    llvm::SmallVectorImpl<mlir::Type> &types);

/// The type of a choice by the first operand between the second and the third, broadcast against each other.
mlir::LogicalResult inferChoice(ValueRange operands, EmitError emitError,
                                llvm::SmallVectorImpl<mlir::Type> &types);

/// The type of a reduction of `input` over `dims`, which must be sorted, distinct and in range.
mlir::LogicalResult inferReduction(Value input, llvm::ArrayRef<int64_t> dims, bool keepdim,
                                   EmitError emitError, llvm::SmallVectorImpl<mlir::Type> &types);

/// The shape with size 1 in the given dims.
llvm::SmallVector<int64_t> withOnes(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> dims);

/// The dims of a tensor of the given rank that are not reduced.
llvm::SmallVector<int64_t> keptDims(int64_t rank, llvm::ArrayRef<int64_t> reduced);

mlir::LogicalResult checkDim(int64_t dim, int64_t rank, EmitError emitError);

/// Checks that `shape` can be broadcast to `target`, dims aligned to the right.
mlir::LogicalResult checkBroadcast(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> target,
                                   EmitError emitError);

//===-- Interface methods that many ops share -----------------------------===//

ShardingRule elementwiseRule(mlir::Operation *op, std::initializer_list<std::initializer_list<int>> linear);

/// Dims of one shape on every operand and result, the last `whole` of which may not be sharded.
ShardingRule rowRule(mlir::Operation *op, int64_t whole);

/// The rule of a reduction of one operand over `dims`, whose factors are of the given kind.
ShardingRule reductionRule(Value input, llvm::ArrayRef<int64_t> dims, bool keepdim, FactorKind kind);

/// The op on other operands with other result types. Discardable attributes are the caller's affair.
llvm::SmallVector<Value> rebuild(mlir::Operation *op, OpBuilder &builder, ValueRange operands,
                                 mlir::TypeRange types);

/// The answer of `backward` for an op that cannot be differentiated: an error that says so, and no gradients.
llvm::SmallVector<Value> refuseBackward(mlir::Operation *op, llvm::StringRef reason);

/// A VJP of an op with one result, operand by operand: `gradients[i]` builds the gradient of operand `i` and
/// runs only if that is wanted and the operand is a float tensor. A gradient of the broadcast shape is summed
/// to the operand's.
llvm::SmallVector<Value> backwardOf(mlir::Operation *op, OpBuilder &builder, llvm::ArrayRef<bool> wanted,
                                    std::initializer_list<llvm::function_ref<Value()>> gradients);

/// The value under another shape; itself where it has that shape.
Value viewAs(OpBuilder &builder, Location loc, Value value, llvm::ArrayRef<int64_t> shape);

/// A number of the element type of `like`, as a tensor of rank 0 that broadcasts.
Value numberLike(OpBuilder &builder, Location loc, Value like, double number);

/// Sums a cotangent over the dims along which `type` was broadcast.
Value sumTo(OpBuilder &builder, Location loc, Value cotangent, RankedTensorType type);

} // namespace plumb::nn

#endif // PLUMB_LIB_DIALECT_NN_OPSUPPORT_H
