//===- NNOptimizerOps.cpp - How parameters are updated ---------------------===//
//
// The formulas are those of torch.optim.SGD, Adam and AdamW.
//
//===----------------------------------------------------------------------===//

#include "Lowering.h"
#include "OpSupport.h"

using namespace mlir;

namespace plumb::nn {

//===-- Formulas ----------------------------------------------------------===//

static Scalar compute(WeightedSumOp op, ArrayRef<Scalar> x) {
  return op.getLhsWeight().convertToDouble() * x[0] + op.getRhsWeight().convertToDouble() * x[1];
}

static Scalar compute(SgdOp, ArrayRef<Scalar> x) { return x[0] - x[2] * x[1]; }

static Scalar compute(AdamOp op, ArrayRef<Scalar> x) {
  Scalar parameter = x[0], first = x[1], second = x[2], rate = x[3], step = x[4], root = x[5];
  if (double decay = op.getDecay().convertToDouble(); decay != 0)
    parameter = parameter * (1.0 - decay * rate);
  return parameter - step * first / (sqrt(second) * root + op.getEpsilon().convertToDouble());
}

//===-- square_sum --------------------------------------------------------===//

LogicalResult SquareSumOp::inferTypes(Adaptor adaptor, EmitError, SmallVectorImpl<Type> &types) {
  types.push_back(withShape(tensorType(adaptor.getInput()), {}));
  return success();
}

static SmallVector<int64_t> allDims(Value value) {
  return llvm::to_vector(llvm::seq<int64_t>(0, tensorType(value).getRank()));
}

ShardingRule SquareSumOp::getShardingRule() {
  return reductionRule(getInput(), allDims(getInput()), /*keepdim=*/false, FactorKind::Reduction);
}

SmallVector<Value> SquareSumOp::lower(OpBuilder &builder, ValueRange operands) {
  ArrayRef<int64_t> loops = getInput().getType().getShape();
  Value sum = reduce(builder, getLoc(), Reduction::Sum, {alignedRight(operands[0], loops)}, loops,
                     /*kept=*/{}, [](ScalarBuilder &, ArrayRef<Scalar> x) { return x[0] * x[0]; });
  return {reshape(builder, getLoc(), convertTo(builder, getLoc(), sum, getType()), {})};
}

//===-- Derivatives -------------------------------------------------------===//

static SmallVector<Value> refuse(Operation *op) {
  return refuseBackward(op, "has no derivative: differentiate the loss, not the optimizer step");
}

SmallVector<Value> WeightedSumOp::backward(OpBuilder &, ArrayRef<Value>, ArrayRef<bool>) {
  return refuse(*this);
}
SmallVector<Value> SgdOp::backward(OpBuilder &, ArrayRef<Value>, ArrayRef<bool>) { return refuse(*this); }
SmallVector<Value> AdamOp::backward(OpBuilder &, ArrayRef<Value>, ArrayRef<bool>) { return refuse(*this); }
SmallVector<Value> SquareSumOp::backward(OpBuilder &, ArrayRef<Value>, ArrayRef<bool>) {
  return refuse(*this);
}

} // namespace plumb::nn

using namespace plumb::nn;

#define GET_OP_CLASSES
#include "plumb/Dialect/NN/NNOptimizerOps.cpp.inc"
