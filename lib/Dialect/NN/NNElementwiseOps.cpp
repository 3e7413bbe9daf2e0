//===- NNElementwiseOps.cpp - Elementwise operations ----------------------===//
//
// Each op is its formula (`compute`) and its derivative (`backward`); shapes, sharding rule and loop nest are
// shared.
//
//===----------------------------------------------------------------------===//

#include "Lowering.h"
#include "OpSupport.h"
#include <numbers>

using namespace mlir;

namespace plumb::nn {

//===-- Formulas ----------------------------------------------------------===//

static Scalar compute(AddOp, ArrayRef<Scalar> x) { return x[0] + x[1]; }
static Scalar compute(SubOp, ArrayRef<Scalar> x) { return x[0] - x[1]; }
static Scalar compute(MulOp, ArrayRef<Scalar> x) { return x[0] * x[1]; }
static Scalar compute(DivOp, ArrayRef<Scalar> x) { return x[0] / x[1]; }
static Scalar compute(ScaleOp op, ArrayRef<Scalar> x) { return op.getFactor().convertToDouble() * x[0]; }

static Scalar compute(ReluOp, ArrayRef<Scalar> x) { return maximum(x[0], constant(x[0], 0)); }
static Scalar compute(ReluBackwardOp, ArrayRef<Scalar> x) {
  Scalar zero = constant(x[1], 0);
  return select(isGreater(x[1], zero), x[0], zero);
}

static Scalar compute(TanhOp, ArrayRef<Scalar> x) { return tanh(x[0]); }
static Scalar compute(TanhBackwardOp, ArrayRef<Scalar> x) { return x[0] * (1.0 - x[1] * x[1]); }

/// The two forms of gelu are x * s(x) with a sigmoid-like s: `gate` is s(x), `slope` its derivative.
namespace {
struct Gelu {
  Scalar gate, slope;
};
} // namespace

static Gelu exactGelu(Scalar x) {
  double density = 0.5 * std::numbers::inv_sqrtpi * std::numbers::sqrt2; // of the normal distribution at 0
  return {0.5 * (1.0 + erf((1.0 / std::numbers::sqrt2) * x)), density * exp(-0.5 * (x * x))};
}

static Gelu tanhGelu(Scalar x) {
  double k = std::numbers::sqrt2 * std::numbers::inv_sqrtpi, cubic = 0.044715;
  Scalar square = x * x;
  Scalar t = tanh(k * (x * (1.0 + cubic * square)));
  return {0.5 * (1.0 + t), (0.5 * k) * ((1.0 - t * t) * (1.0 + (3.0 * cubic) * square))};
}

static Gelu geluOf(Scalar x, bool byTanh) { return byTanh ? tanhGelu(x) : exactGelu(x); }

static Scalar compute(GeluOp op, ArrayRef<Scalar> x) { return x[0] * geluOf(x[0], op.getTanh()).gate; }
static Scalar compute(GeluBackwardOp op, ArrayRef<Scalar> x) {
  Gelu gelu = geluOf(x[1], op.getTanh());
  return x[0] * (gelu.gate + x[1] * gelu.slope);
}

//===-- Derivatives -------------------------------------------------------===//

SmallVector<Value> AddOp::backward(OpBuilder &builder, ArrayRef<Value> cotangents, ArrayRef<bool> wanted) {
  auto same = [&] { return cotangents[0]; };
  return backwardOf(*this, builder, wanted, {same, same});
}

SmallVector<Value> SubOp::backward(OpBuilder &builder, ArrayRef<Value> cotangents, ArrayRef<bool> wanted) {
  return backwardOf(*this, builder, wanted,
                    {[&] { return cotangents[0]; },
                     [&] { return ScaleOp::create(builder, getLoc(), cotangents[0], APFloat(-1.0)); }});
}

SmallVector<Value> MulOp::backward(OpBuilder &builder, ArrayRef<Value> cotangents, ArrayRef<bool> wanted) {
  auto times = [&](Value other) { return MulOp::create(builder, getLoc(), cotangents[0], other); };
  return backwardOf(*this, builder, wanted,
                    {[&] { return times(getRhs()); }, [&] { return times(getLhs()); }});
}

SmallVector<Value> DivOp::backward(OpBuilder &builder, ArrayRef<Value> cotangents, ArrayRef<bool> wanted) {
  auto overRhs = [&](Value value) -> Value { return DivOp::create(builder, getLoc(), value, getRhs()); };
  auto ofRhs = [&] {
    Value product = MulOp::create(builder, getLoc(), cotangents[0], getResult());
    return ScaleOp::create(builder, getLoc(), overRhs(product), APFloat(-1.0));
  };
  return backwardOf(*this, builder, wanted, {[&] { return overRhs(cotangents[0]); }, ofRhs});
}

SmallVector<Value> ScaleOp::backward(OpBuilder &builder, ArrayRef<Value> cotangents, ArrayRef<bool> wanted) {
  return backwardOf(*this, builder, wanted,
                    {[&] { return ScaleOp::create(builder, getLoc(), cotangents[0], getFactor()); }});
}

SmallVector<Value> ReluOp::backward(OpBuilder &builder, ArrayRef<Value> cotangents, ArrayRef<bool> wanted) {
  return backwardOf(*this, builder, wanted,
                    {[&] { return ReluBackwardOp::create(builder, getLoc(), cotangents[0], getResult()); }});
}

SmallVector<Value> TanhOp::backward(OpBuilder &builder, ArrayRef<Value> cotangents, ArrayRef<bool> wanted) {
  return backwardOf(*this, builder, wanted,
                    {[&] { return TanhBackwardOp::create(builder, getLoc(), cotangents[0], getResult()); }});
}

SmallVector<Value> GeluOp::backward(OpBuilder &builder, ArrayRef<Value> cotangents, ArrayRef<bool> wanted) {
  return backwardOf(*this, builder, wanted, {[&] {
    return GeluBackwardOp::create(builder, getLoc(), cotangents[0], getInput(), getTanh());
  }});
}

SmallVector<Value> ReluBackwardOp::backward(OpBuilder &, ArrayRef<Value>, ArrayRef<bool>) {
  return refuseBackward(*this, "has no second derivative");
}
SmallVector<Value> TanhBackwardOp::backward(OpBuilder &, ArrayRef<Value>, ArrayRef<bool>) {
  return refuseBackward(*this, "has no second derivative");
}
SmallVector<Value> GeluBackwardOp::backward(OpBuilder &, ArrayRef<Value>, ArrayRef<bool>) {
  return refuseBackward(*this, "has no second derivative");
}

} // namespace plumb::nn

using namespace plumb::nn;

#define GET_OP_CLASSES
#include "plumb/Dialect/NN/NNElementwiseOps.cpp.inc"
