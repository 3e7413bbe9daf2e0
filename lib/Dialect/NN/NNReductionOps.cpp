//===- NNReductionOps.cpp - Reductions other than the sum -----------------===//

#include "Lowering.h"
#include "OpSupport.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace plumb::nn;

#define GET_OP_CLASSES
#include "plumb/Dialect/NN/NNReductionOps.cpp.inc"

static Scalar first(ScalarBuilder &, ArrayRef<Scalar> x) { return x[0]; }

//===-- max ---------------------------------------------------------------===//

LogicalResult MaxOp::inferTypes(Adaptor adaptor, EmitError emitError, SmallVectorImpl<Type> &types) {
  for (int64_t dim : adaptor.getDims())
    if (dim >= 0 && dim < tensorType(adaptor.getInput()).getRank() && shapeOf(adaptor.getInput())[dim] == 0)
      return emitError() << "dim " << dim << " has no elements, of which none is the greatest";
  return inferReduction(adaptor.getInput(), adaptor.getDims(), adaptor.getKeepdim(), emitError, types);
}

ShardingRule MaxOp::getShardingRule() {
  return reductionRule(getInput(), getDims(), getKeepdim(), FactorKind::Replicated);
}

SmallVector<Value> MaxOp::backward(OpBuilder &builder, ArrayRef<Value> cotangents, ArrayRef<bool> wanted) {
  auto shared = [&]() -> Value {
    Location loc = getLoc();
    RankedTensorType type = getInput().getType();
    SmallVector<int64_t> kept = withOnes(type.getShape(), getDims());
    Value isGreatest = EqualOp::create(builder, loc, getInput(), viewAs(builder, loc, getResult(), kept));
    Value shares = ConvertOp::create(builder, loc, type, isGreatest);
    Value count = SumOp::create(builder, loc, shares, getDims(), /*keepdim=*/true);
    Value part = DivOp::create(builder, loc, viewAs(builder, loc, cotangents[0], kept), count);
    return MulOp::create(builder, loc, shares, part);
  };
  return backwardOf(*this, builder, wanted, {shared});
}

SmallVector<Value> MaxOp::lower(OpBuilder &builder, ValueRange operands) {
  ArrayRef<int64_t> loops = getInput().getType().getShape();
  Value greatest = reduce(builder, getLoc(), Reduction::Maximum, {alignedRight(operands[0], loops)}, loops,
                          keptDims(loops.size(), getDims()), first);
  greatest = convertTo(builder, getLoc(), greatest, getType());
  return {reshape(builder, getLoc(), greatest, getType().getShape())};
}

//===-- cumsum ------------------------------------------------------------===//

LogicalResult CumsumOp::inferTypes(Adaptor adaptor, EmitError emitError, SmallVectorImpl<Type> &types) {
  types.push_back(adaptor.getInput().getType());
  return checkDim(adaptor.getDim(), tensorType(adaptor.getInput()).getRank(), emitError);
}

ShardingRule CumsumOp::getShardingRule() {
  ShardingRule rule;
  ShardingRule::Tensor dims;
  for (auto [i, size] : llvm::enumerate(getType().getShape()))
    dims.push_back({rule.addFactor(size, static_cast<int64_t>(i) == static_cast<int64_t>(getDim())
                                             ? FactorKind::Replicated
                                             : FactorKind::Parallel)});
  rule.operands.push_back(dims);
  rule.results.push_back(dims);
  rule.linear.push_back({0});
  return rule;
}

SmallVector<Value> CumsumOp::backward(OpBuilder &builder, ArrayRef<Value> cotangents, ArrayRef<bool> wanted) {
  return backwardOf(*this, builder, wanted, {[&] {
    return CumsumOp::create(builder, getLoc(), cotangents[0], getDim(), !getReverse());
  }});
}

/// Walks along the dim with the running sum of a slice, which both the sum and the result take in place.
SmallVector<Value> CumsumOp::lower(OpBuilder &builder, ValueRange operands) {
  Location loc = getLoc();
  RankedTensorType type = getType();
  int64_t dim = getDim(), count = type.getDimSize(dim);
  if (type.getNumElements() == 0)
    return {emptyTensor(builder, loc, type)};
  SmallVector<int64_t> sliceShape = withOnes(type.getShape(), dim);
  auto wide = RankedTensorType::get(sliceShape, computeType(type.getElementType()));
  SmallVector<OpFoldResult> sizes = getAsIndexOpFoldResult(builder.getContext(), sliceShape);
  SmallVector<OpFoldResult> strides(type.getRank(), builder.getIndexAttr(1));
  auto index = [&](int64_t value) -> Value { return arith::ConstantIndexOp::create(builder, loc, value); };
  Value last = index(count - 1), zeros = filled(builder, loc, wide, 0.0);
  auto step = [&](OpBuilder &body, Location, Value position, ValueRange carried) {
    if (getReverse())
      position = arith::SubIOp::create(body, loc, last, position);
    SmallVector<OpFoldResult> offsets(type.getRank(), body.getIndexAttr(0));
    offsets[dim] = position;
    Value slice = tensor::ExtractSliceOp::create(body, loc, withShape(type, sliceShape), operands[0], offsets,
                                                 sizes, strides);
    Value sum = addInto(body, loc, slice, carried[0]);
    Value result = tensor::InsertSliceOp::create(body, loc, sum, carried[1], offsets, sizes, strides);
    scf::YieldOp::create(body, loc, {sum, result});
  };
  // Rounded once behind the loop, which so needs no memory of its own.
  Value sums = emptyTensor(builder, loc, withShape(wide, type.getShape()));
  auto walk =
      scf::ForOp::create(builder, loc, index(0), index(count), index(1), ValueRange{zeros, sums}, step);
  return {convertTo(builder, loc, walk.getResult(1), type)};
}

//===-- log_softmax -------------------------------------------------------===//

LogicalResult LogSoftmaxOp::inferTypes(Adaptor adaptor, EmitError emitError, SmallVectorImpl<Type> &types) {
  if (tensorType(adaptor.getInput()).getRank() == 0)
    return emitError() << "needs at least 1 dim";
  types.push_back(adaptor.getInput().getType());
  return success();
}

ShardingRule LogSoftmaxOp::getShardingRule() { return rowRule(*this, 1); }

SmallVector<Value> LogSoftmaxOp::backward(OpBuilder &builder, ArrayRef<Value> cotangents,
                                          ArrayRef<bool> wanted) {
  auto ofInput = [&] {
    Value total =
        SumOp::create(builder, getLoc(), cotangents[0], {getType().getRank() - 1}, /*keepdim=*/true);
    Value probabilities = ExpOp::create(builder, getLoc(), getResult());
    return SubOp::create(builder, getLoc(), cotangents[0],
                         MulOp::create(builder, getLoc(), probabilities, total));
  };
  return backwardOf(*this, builder, wanted, {ofInput});
}

SmallVector<Value> LogSoftmaxOp::lower(OpBuilder &builder, ValueRange operands) {
  Location loc = getLoc();
  ArrayRef<int64_t> loops = getType().getShape();
  int64_t rows = getType().getRank() - 1;
  MappedTensor input = alignedRight(operands[0], loops);
  Value largest = reduceRows(builder, loc, Reduction::Maximum, {input}, loops, rows, first);
  Value sums = reduceRows(builder, loc, Reduction::Sum, {input, alignedLeft(largest, loops)}, loops, rows,
                          [](ScalarBuilder &, ArrayRef<Scalar> x) { return exp(x[0] - x[1]); });
  Value logs = pointwise(builder, loc, {sums, largest}, tensorType(sums),
                         [](ScalarBuilder &, ArrayRef<Scalar> x) { return log(x[0]) + x[1]; });
  return {pointwise(builder, loc, {input, alignedLeft(logs, loops)}, getType(),
                    [](ScalarBuilder &, ArrayRef<Scalar> x) { return x[0] - x[1]; })};
}
