//===- CCLRotate.cpp - Blocks that walk around the ranks --------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "plumb/Dialect/CCL/CCL.h"

using namespace mlir;
using namespace plumb::ccl;
namespace nn = plumb::nn;

LogicalResult RotateOp::verify() {
  ArrayRef<int64_t> shape = cast<RankedTensorType>(getInput().getType()).getShape();
  if (static_cast<size_t>(getDim()) >= shape.size())
    return emitOpError("rotates dim ") << getDim() << " of a tensor with " << shape.size() << " dims";
  return success();
}

nn::ShardingRule RotateOp::getShardingRule() {
  ArrayRef<int64_t> shape = cast<RankedTensorType>(getInput().getType()).getShape();
  nn::ShardingRule rule = nn::ShardingRule::elementwise({shape}, shape);
  rule.linear.push_back({0});
  return rule;
}

/// The number of the dim and the distance are those of the global tensor; `lower-redistributions` knows the
/// ranks.
SmallVector<Value> RotateOp::localize(OpBuilder &builder, ValueRange operands, TypeRange types) {
  return {RotateOp::create(builder, getLoc(), types[0], operands[0], getDimAttr(), getByAttr())};
}

SmallVector<Value> RotateOp::backward(OpBuilder &builder, ArrayRef<Value> cotangents, ArrayRef<bool> wanted) {
  if (!wanted[0])
    return {Value()};
  return {RotateOp::create(builder, getLoc(), getType(), cotangents[0], getDimAttr(),
                           builder.getI64IntegerAttr(-static_cast<int64_t>(getBy())))};
}

SmallVector<Value> RotateOp::expand(OpBuilder &, int, int64_t) {
  llvm_unreachable("no factor of this op can be expanded");
}

/// On one rank: the last elements in front of the others.
SmallVector<Value> RotateOp::lower(OpBuilder &builder, ValueRange operands) {
  auto type = cast<RankedTensorType>(getType());
  int64_t dim = static_cast<int64_t>(getDim()), size = type.getDimSize(dim);
  int64_t first = size ? ((static_cast<int64_t>(getBy()) % size) + size) % size : 0;
  auto part = [&](int64_t begin, int64_t count) -> Value {
    SmallVector<OpFoldResult> offsets, sizes, strides(type.getRank(), builder.getIndexAttr(1));
    SmallVector<int64_t> shape(type.getShape());
    shape[dim] = count;
    for (auto [other, extent] : llvm::enumerate(shape)) {
      offsets.push_back(builder.getIndexAttr(static_cast<int64_t>(other) == dim ? begin : 0));
      sizes.push_back(builder.getIndexAttr(extent));
    }
    return tensor::ExtractSliceOp::create(builder, getLoc(), type.clone(shape), operands[0], offsets, sizes,
                                          strides);
  };
  auto place = [&](Value into, Value piece, int64_t begin) -> Value {
    auto pieceType = cast<RankedTensorType>(piece.getType());
    SmallVector<OpFoldResult> offsets, sizes, strides(type.getRank(), builder.getIndexAttr(1));
    for (auto [other, extent] : llvm::enumerate(pieceType.getShape())) {
      offsets.push_back(builder.getIndexAttr(static_cast<int64_t>(other) == dim ? begin : 0));
      sizes.push_back(builder.getIndexAttr(extent));
    }
    return tensor::InsertSliceOp::create(builder, getLoc(), piece, into, offsets, sizes, strides);
  };
  Value result = tensor::EmptyOp::create(builder, getLoc(), type.getShape(), type.getElementType());
  result = place(result, part(0, size - first), first);
  return {first ? place(result, part(size - first, first), 0) : result};
}
