//===- NNMathOps.cpp - Functions of one number -----------------------------===//

#include "Lowering.h"
#include "OpSupport.h"
#include <numbers>

using namespace mlir;

namespace plumb::nn {

//===-- Formulas ----------------------------------------------------------===//

static Scalar compute(ExpOp, ArrayRef<Scalar> x) { return exp(x[0]); }
static Scalar compute(LogOp, ArrayRef<Scalar> x) { return log(x[0]); }
static Scalar compute(SinOp, ArrayRef<Scalar> x) { return sin(x[0]); }
static Scalar compute(CosOp, ArrayRef<Scalar> x) { return cos(x[0]); }
static Scalar compute(ErfOp, ArrayRef<Scalar> x) { return erf(x[0]); }
static Scalar compute(SigmoidOp, ArrayRef<Scalar> x) { return 1.0 / (1.0 + exp(-1.0 * x[0])); }
static Scalar compute(SoftplusOp, ArrayRef<Scalar> x) {
  return maximum(x[0], constant(x[0], 0)) + log(1.0 + exp(-1.0 * abs(x[0])));
}
static Scalar compute(PowerOp op, ArrayRef<Scalar> x) {
  return power(x[0], op.getExponent().convertToDouble());
}
static Scalar compute(FloorOp, ArrayRef<Scalar> x) { return floor(x[0]); }
static Scalar compute(RoundOp, ArrayRef<Scalar> x) { return roundToEven(x[0]); }

//===-- Derivatives -------------------------------------------------------===//

static Value times(OpBuilder &builder, Location loc, Value a, Value b) {
  return MulOp::create(builder, loc, a, b);
}
static Value scaled(OpBuilder &builder, Location loc, Value value, double factor) {
  return ScaleOp::create(builder, loc, value, APFloat(factor));
}

SmallVector<Value> ExpOp::backward(OpBuilder &builder, ArrayRef<Value> cotangents, ArrayRef<bool> wanted) {
  return backwardOf(*this, builder, wanted,
                    {[&] { return times(builder, getLoc(), cotangents[0], getResult()); }});
}

SmallVector<Value> LogOp::backward(OpBuilder &builder, ArrayRef<Value> cotangents, ArrayRef<bool> wanted) {
  return backwardOf(*this, builder, wanted,
                    {[&] { return DivOp::create(builder, getLoc(), cotangents[0], getInput()); }});
}

SmallVector<Value> SinOp::backward(OpBuilder &builder, ArrayRef<Value> cotangents, ArrayRef<bool> wanted) {
  return backwardOf(*this, builder, wanted, {[&] {
    return times(builder, getLoc(), cotangents[0], CosOp::create(builder, getLoc(), getInput()));
  }});
}

SmallVector<Value> CosOp::backward(OpBuilder &builder, ArrayRef<Value> cotangents, ArrayRef<bool> wanted) {
  return backwardOf(*this, builder, wanted, {[&] {
    Value sine = SinOp::create(builder, getLoc(), getInput());
    return scaled(builder, getLoc(), times(builder, getLoc(), cotangents[0], sine), -1);
  }});
}

SmallVector<Value> ErfOp::backward(OpBuilder &builder, ArrayRef<Value> cotangents, ArrayRef<bool> wanted) {
  return backwardOf(*this, builder, wanted, {[&] {
    Value square = times(builder, getLoc(), getInput(), getInput());
    Value bell = ExpOp::create(builder, getLoc(), scaled(builder, getLoc(), square, -1));
    return scaled(builder, getLoc(), times(builder, getLoc(), cotangents[0], bell),
                  2 * std::numbers::inv_sqrtpi);
  }});
}

SmallVector<Value> SigmoidOp::backward(OpBuilder &builder, ArrayRef<Value> cotangents,
                                       ArrayRef<bool> wanted) {
  return backwardOf(*this, builder, wanted, {[&] {
    Value square = times(builder, getLoc(), getResult(), getResult());
    Value slope = SubOp::create(builder, getLoc(), getResult(), square);
    return times(builder, getLoc(), cotangents[0], slope);
  }});
}

SmallVector<Value> SoftplusOp::backward(OpBuilder &builder, ArrayRef<Value> cotangents,
                                        ArrayRef<bool> wanted) {
  return backwardOf(*this, builder, wanted, {[&] {
    return times(builder, getLoc(), cotangents[0], SigmoidOp::create(builder, getLoc(), getInput()));
  }});
}

SmallVector<Value> PowerOp::backward(OpBuilder &builder, ArrayRef<Value> cotangents, ArrayRef<bool> wanted) {
  return backwardOf(*this, builder, wanted, {[&] {
    double exponent = getExponent().convertToDouble();
    Value lower = PowerOp::create(builder, getLoc(), getInput(), APFloat(exponent - 1));
    return scaled(builder, getLoc(), times(builder, getLoc(), cotangents[0], lower), exponent);
  }});
}

SmallVector<Value> FloorOp::backward(OpBuilder &, ArrayRef<Value>, ArrayRef<bool>) { return {Value()}; }
SmallVector<Value> RoundOp::backward(OpBuilder &, ArrayRef<Value>, ArrayRef<bool>) { return {Value()}; }

} // namespace plumb::nn

using namespace plumb::nn;

#define GET_OP_CLASSES
#include "plumb/Dialect/NN/NNMathOps.cpp.inc"
