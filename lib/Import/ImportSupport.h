//===- ImportSupport.h - What builders of ATen targets share ----*- C++ -*-===//
//
// Small compositions of operations, and arguments that many operators have in common.
//
//===----------------------------------------------------------------------===//

#ifndef PLUMB_LIB_IMPORT_IMPORTSUPPORT_H
#define PLUMB_LIB_IMPORT_IMPORTSUPPORT_H

#include "NodeBuilder.h"

namespace plumb {

//===-- Values ------------------------------------------------------------===//

inline mlir::Type elementOf(mlir::Value value) { return typeOf(value).getElementType(); }

mlir::Value filled(NodeBuilder &node, mlir::RankedTensorType type, double number);
/// A number as a tensor of rank 0, which broadcasts.
mlir::Value numberAs(NodeBuilder &node, mlir::Type element, double number);

// Each gives the value itself where nothing changes.
mlir::Value viewAs(NodeBuilder &node, mlir::Value value, llvm::ArrayRef<int64_t> shape);
mlir::Value permuted(NodeBuilder &node, mlir::Value value, llvm::ArrayRef<int64_t> permutation);
mlir::Value swapDims(NodeBuilder &node, mlir::Value value, int64_t first, int64_t second);
mlir::Value broadcastTo(NodeBuilder &node, mlir::Value value, llvm::ArrayRef<int64_t> shape);
mlir::Value convertTo(NodeBuilder &node, mlir::Value value, mlir::Type element);
mlir::Value scaled(NodeBuilder &node, mlir::Value value, double factor);

mlir::Value add(NodeBuilder &node, mlir::Value a, mlir::Value b);
mlir::Value subtract(NodeBuilder &node, mlir::Value a, mlir::Value b);
mlir::Value multiply(NodeBuilder &node, mlir::Value a, mlir::Value b);
mlir::Value divide(NodeBuilder &node, mlir::Value a, mlir::Value b);
/// An op of one operand and no attributes.
template <typename Op>
mlir::Value apply(NodeBuilder &node, mlir::Value value) {
  return node.infer<Op>(value)[0];
}
mlir::Value less(NodeBuilder &node, mlir::Value a, mlir::Value b);
/// `low` below it, `high` above it, where there is one; the derivative is 1 between and at both.
mlir::Value clamped(NodeBuilder &node, mlir::Value value, mlir::Value low, mlir::Value high);
mlir::Value power(NodeBuilder &node, mlir::Value value, double exponent);
mlir::Value where(NodeBuilder &node, mlir::Value condition, mlir::Value chosen, mlir::Value otherwise);
mlir::Value logicalNot(NodeBuilder &node, mlir::Value condition);
mlir::Value einsum(NodeBuilder &node, const std::string &equation, mlir::Value lhs, mlir::Value rhs);

mlir::Value sumOver(NodeBuilder &node, mlir::Value value, llvm::ArrayRef<int64_t> dims, bool keepdim);
/// The sum of `count` terms over the count less `correction`.
mlir::Value dividedByCount(NodeBuilder &node, mlir::Value sum, double count, double correction = 0);
mlir::Value meanOver(NodeBuilder &node, mlir::Value value, llvm::ArrayRef<int64_t> dims, bool keepdim);

/// Tensors one after the other along a dim.
mlir::Value joined(NodeBuilder &node, mlir::ValueRange parts, int64_t dim);
/// `count` elements from `start` on along a dim, `step` apart.
mlir::Value sliceOf(NodeBuilder &node, mlir::Value value, int64_t dim, int64_t start, int64_t count,
                    int64_t step = 1);
/// The value between `before` and `after` elements of `number` in each dim.
mlir::Value padWith(NodeBuilder &node, mlir::Value value, double number, llvm::ArrayRef<int64_t> before,
                    llvm::ArrayRef<int64_t> after);
/// One value for each channel, to broadcast against (batch, channels, spatial dims …).
mlir::Value perChannel(NodeBuilder &node, mlir::Value value, int64_t spatialDims);
/// 0, 1, … along dim `dim` of a tensor of rank `rank` whose other sizes are 1.
mlir::Value countAlong(NodeBuilder &node, int64_t size, int64_t dim, int64_t rank);
/// Each element repeated `count` times in a row along a dim.
mlir::Value repeatInterleaved(NodeBuilder &node, mlir::Value value, int64_t dim, int64_t count);

/// A value with elements set to zero with the given probability, the others scaled, and those that are kept.
struct Dropped {
  mlir::Value value, kept;
};
/// Nothing is dropped with the probability 0: then `kept` is null.
Dropped dropped(NodeBuilder &node, mlir::Value value, double probability);

//===-- Arguments ---------------------------------------------------------===//

/// A tensor argument in the element type of the result.
mlir::Value promoted(NodeBuilder &node, llvm::StringRef name);
/// The same for a tensor or a number.
mlir::Value promotedOrNumber(NodeBuilder &node, llvm::StringRef name);

/// The dims of a list, sorted and not negative; all dims where it is absent or empty.
llvm::SmallVector<int64_t> dimsOf(NodeBuilder &node, llvm::StringRef name, int64_t rank);

/// A list of `count` integers, of which one stands for all; `otherwise` where it is absent or empty.
llvm::SmallVector<int64_t> integersOr(NodeBuilder &node, llvm::StringRef name, int64_t count,
                                      int64_t otherwise);

/// The result of a loss from its value per element: itself, its mean or its sum.
void setReducedLoss(NodeBuilder &node, mlir::Value losses);

} // namespace plumb

#endif // PLUMB_LIB_IMPORT_IMPORTSUPPORT_H
