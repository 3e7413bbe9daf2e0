//===- NNLogicOps.cpp - Comparison, choice and conversion -----------------===//

#include "Lowering.h"
#include "OpSupport.h"

using namespace mlir;

namespace plumb::nn {

//===-- Formulas ----------------------------------------------------------===//

static Scalar compute(EqualOp, ArrayRef<Scalar> x) { return isEqual(x[0], x[1]); }
static Scalar compute(LessOp, ArrayRef<Scalar> x) { return isLess(x[0], x[1]); }
static Scalar compute(LessEqualOp, ArrayRef<Scalar> x) { return isLessEqual(x[0], x[1]); }
static Scalar compute(WhereOp, ArrayRef<Scalar> x) { return select(x[0], x[1], x[2]); }
static Scalar compute(MaximumOp, ArrayRef<Scalar> x) { return maximum(x[0], x[1]); }
static Scalar compute(MinimumOp, ArrayRef<Scalar> x) { return minimum(x[0], x[1]); }

//===-- Derivatives -------------------------------------------------------===//

SmallVector<Value> EqualOp::backward(OpBuilder &, ArrayRef<Value>, ArrayRef<bool>) {
  return {Value(), Value()};
}
SmallVector<Value> LessOp::backward(OpBuilder &, ArrayRef<Value>, ArrayRef<bool>) {
  return {Value(), Value()};
}
SmallVector<Value> LessEqualOp::backward(OpBuilder &, ArrayRef<Value>, ArrayRef<bool>) {
  return {Value(), Value()};
}

SmallVector<Value> WhereOp::backward(OpBuilder &builder, ArrayRef<Value> cotangents, ArrayRef<bool> wanted) {
  auto part = [&](bool isChosen) -> Value {
    Value zero = numberLike(builder, getLoc(), cotangents[0], 0);
    return isChosen ? WhereOp::create(builder, getLoc(), getCondition(), cotangents[0], zero)
                    : WhereOp::create(builder, getLoc(), getCondition(), zero, cotangents[0]);
  };
  return backwardOf(*this, builder, wanted,
                    {[] { return Value(); }, [&] { return part(true); }, [&] { return part(false); }});
}

/// The cotangent where `lesser < greater`, half of it where they are equal, else 0.
static Value whereGreater(OpBuilder &builder, Location loc, Value cotangent, Value lesser, Value greater) {
  Value half = ScaleOp::create(builder, loc, cotangent, APFloat(0.5)),
        zero = numberLike(builder, loc, cotangent, 0);
  Value tied = WhereOp::create(builder, loc, EqualOp::create(builder, loc, lesser, greater), half, zero);
  return WhereOp::create(builder, loc, LessOp::create(builder, loc, lesser, greater), cotangent, tied);
}

SmallVector<Value> MaximumOp::backward(OpBuilder &builder, ArrayRef<Value> cotangents,
                                       ArrayRef<bool> wanted) {
  return backwardOf(*this, builder, wanted,
                    {[&] { return whereGreater(builder, getLoc(), cotangents[0], getRhs(), getLhs()); },
                     [&] { return whereGreater(builder, getLoc(), cotangents[0], getLhs(), getRhs()); }});
}

SmallVector<Value> MinimumOp::backward(OpBuilder &builder, ArrayRef<Value> cotangents,
                                       ArrayRef<bool> wanted) {
  return backwardOf(*this, builder, wanted,
                    {[&] { return whereGreater(builder, getLoc(), cotangents[0], getLhs(), getRhs()); },
                     [&] { return whereGreater(builder, getLoc(), cotangents[0], getRhs(), getLhs()); }});
}

//===-- convert -----------------------------------------------------------===//

LogicalResult ConvertOp::verify() {
  if (getInput().getType().getShape() != getType().getShape())
    return emitOpError() << "changes the shape of " << getInput().getType() << " to that of " << getType();
  return success();
}

static bool isFloat(Value value) { return isa<FloatType>(tensorType(value).getElementType()); }

ShardingRule ConvertOp::getShardingRule() {
  ShardingRule rule = elementwiseRule(*this, {});
  if (isFloat(getInput()) && isFloat(getResult()))
    rule.linear.push_back({0});
  return rule;
}

SmallVector<Value> ConvertOp::backward(OpBuilder &builder, ArrayRef<Value> cotangents,
                                       ArrayRef<bool> wanted) {
  return backwardOf(*this, builder, wanted, {[&] {
    return ConvertOp::create(builder, getLoc(), getInput().getType(), cotangents[0]);
  }});
}

SmallVector<Value> ConvertOp::lower(OpBuilder &builder, ValueRange operands) {
  Type element = computeType(getType().getElementType());
  return {pointwise(builder, getLoc(), operands, getType(),
                    [&](ScalarBuilder &, ArrayRef<Scalar> x) { return convert(x[0], element); })};
}

//===-- detach ------------------------------------------------------------===//

ShardingRule DetachOp::getShardingRule() { return elementwiseRule(*this, {{0}}); }
SmallVector<Value> DetachOp::backward(OpBuilder &, ArrayRef<Value>, ArrayRef<bool>) { return {Value()}; }
SmallVector<Value> DetachOp::lower(OpBuilder &, ValueRange operands) { return {operands[0]}; }

} // namespace plumb::nn

using namespace plumb::nn;

#define GET_OP_CLASSES
#include "plumb/Dialect/NN/NNLogicOps.cpp.inc"
