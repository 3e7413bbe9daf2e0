//===- ImportMath.cpp - Functions of numbers ---------------------------------===//

#include "AtenTargets.h"
#include "ImportSupport.h"

#include <cmath>
#include <numbers>

using namespace mlir;

namespace plumb {

//===-- Functions of one number -------------------------------------------===//

template <typename Op>
static void importFunction(NodeBuilder &node) {
  node.setResult(apply<Op>(node, promoted(node, "self")));
}

/// self to a power that the operator's name says: the exponent times 10 is the template's argument.
template <int TenTimes>
static void importPower(NodeBuilder &node) {
  node.setResult(power(node, promoted(node, "self"), TenTimes / 10.0));
}

static void importPow(NodeBuilder &node) {
  Value self = promoted(node, "self");
  if (!isFloat(self))
    node.refuse("powers of integers are not supported");
  node.setResult(power(node, self, node.number("exponent")));
}

/// base^x = exp(x log base).
static void importPowOfNumber(NodeBuilder &node) {
  double base = node.number("self");
  if (!(base > 0))
    node.refuse("powers of a number that is not positive are not supported");
  node.setResult(apply<nn::ExpOp>(node, scaled(node, promoted(node, "exponent"), std::log(base))));
}

template <int Base>
static void importLogOf(NodeBuilder &node) {
  node.setResult(scaled(node, apply<nn::LogOp>(node, promoted(node, "self")), 1 / std::log(Base)));
}

static void importLog1p(NodeBuilder &node) {
  Value self = promoted(node, "self");
  node.setResult(apply<nn::LogOp>(node, add(node, self, numberAs(node, elementOf(self), 1))));
}

static void importExpm1(NodeBuilder &node) {
  Value self = promoted(node, "self");
  node.setResult(subtract(node, apply<nn::ExpOp>(node, self), numberAs(node, elementOf(self), 1)));
}

static void importExp2(NodeBuilder &node) {
  node.setResult(apply<nn::ExpOp>(node, scaled(node, promoted(node, "self"), std::numbers::ln2)));
}

/// (exp(x) ± exp(−x)) / 2.
template <int Sign>
static void importHyperbolic(NodeBuilder &node) {
  Value self = promoted(node, "self");
  Value up = apply<nn::ExpOp>(node, self), down = apply<nn::ExpOp>(node, scaled(node, self, -1));
  node.setResult(scaled(node, add(node, up, scaled(node, down, Sign)), 0.5));
}

static void importErfc(NodeBuilder &node) {
  Value erf = apply<nn::ErfOp>(node, promoted(node, "self"));
  node.setResult(subtract(node, numberAs(node, elementOf(erf), 1), erf));
}

/// log(x / (1 − x)), with x at least eps away from 0 and 1.
static void importLogit(NodeBuilder &node) {
  Value self = promoted(node, "self"), one = numberAs(node, elementOf(self), 1);
  if (auto eps = node.optionalNumber("eps"))
    self =
        clamped(node, self, numberAs(node, elementOf(self), *eps), numberAs(node, elementOf(self), 1 - *eps));
  node.setResult(apply<nn::LogOp>(node, divide(node, self, subtract(node, one, self))));
}

static void importTan(NodeBuilder &node) {
  Value self = promoted(node, "self");
  node.setResult(divide(node, apply<nn::SinOp>(node, self), apply<nn::CosOp>(node, self)));
}

/// The greater of self and −self; its derivative at 0 is 0.
static void importAbs(NodeBuilder &node) {
  Value self = node.tensor("self");
  node.setResult(node.infer<nn::MaximumOp>({self, scaled(node, self, -1)})[0]);
}

static void importSign(NodeBuilder &node) {
  Value self = node.tensor("self"), zero = numberAs(node, elementOf(self), 0);
  Value one = numberAs(node, elementOf(self), 1), minus = numberAs(node, elementOf(self), -1);
  node.setResult(where(node, less(node, zero, self), one, where(node, less(node, self, zero), minus, zero)));
}

/// The largest whole number that is not greater, or the smallest that is not less.
static Value floorOf(NodeBuilder &node, Value value, bool up = false) {
  return scaled(node, apply<nn::FloorOp>(node, scaled(node, value, up ? -1 : 1)), up ? -1 : 1);
}

/// Towards 0.
static Value truncated(NodeBuilder &node, Value value) {
  Value zero = numberAs(node, elementOf(value), 0);
  return where(node, less(node, value, zero), floorOf(node, value, true), floorOf(node, value));
}

/// Whole numbers stay what they are.
template <Value (*Round)(NodeBuilder &, Value)>
static void importRounding(NodeBuilder &node) {
  Value self = node.tensor("self");
  node.setResult(isFloat(self) ? Round(node, self) : self);
}

static Value roundDown(NodeBuilder &node, Value value) { return floorOf(node, value); }
static Value roundUp(NodeBuilder &node, Value value) { return floorOf(node, value, true); }

static void importFrac(NodeBuilder &node) {
  Value self = node.tensor("self");
  node.setResult(subtract(node, self, truncated(node, self)));
}

//===-- Functions of several numbers ---------------------------------------===//

/// The operands in a type in which quotients are exact: whole numbers become f64.
static std::pair<Value, Value> dividends(NodeBuilder &node) {
  Value self = promoted(node, "self"), other = promotedOrNumber(node, "other");
  if (isFloat(self))
    return {self, other};
  Type exact = node.builder().getF64Type();
  return {convertTo(node, self, exact), convertTo(node, other, exact)};
}

static void setQuotient(NodeBuilder &node, Value quotient) {
  node.setResult(convertTo(node, quotient, node.resultType().getElementType()));
}

static void importDivRounded(NodeBuilder &node) {
  auto [self, other] = dividends(node);
  std::string mode = node.hasValue("rounding_mode") ? node.text("rounding_mode") : "";
  if (!mode.empty() && mode != "floor" && mode != "trunc")
    node.refuse("the rounding mode \"" + mode + "\" is unknown");
  Value quotient = divide(node, self, other);
  setQuotient(node, mode.empty()      ? quotient
                    : mode == "floor" ? floorOf(node, quotient)
                                      : truncated(node, quotient));
}

static void importFloorDivide(NodeBuilder &node) {
  auto [self, other] = dividends(node);
  setQuotient(node, floorOf(node, divide(node, self, other)));
}

/// What division leaves: with the sign of the divisor for `floor`, of the dividend for `trunc`.
template <bool Floors>
static void importRemainder(NodeBuilder &node) {
  auto [self, other] = dividends(node);
  Value quotient = divide(node, self, other);
  quotient = Floors ? floorOf(node, quotient) : truncated(node, quotient);
  setQuotient(node, subtract(node, self, multiply(node, quotient, other)));
}

static void importHypot(NodeBuilder &node) {
  Value self = promoted(node, "self"), other = promoted(node, "other");
  node.setResult(power(node, add(node, multiply(node, self, self), multiply(node, other, other)), 0.5));
}

/// x log y, and 0 where x is 0.
static void importXlogy(NodeBuilder &node) {
  Value self = promotedOrNumber(node, "self"), other = promotedOrNumber(node, "other");
  Value zero = numberAs(node, elementOf(self), 0), one = numberAs(node, elementOf(self), 1);
  Value isZero = node.infer<nn::EqualOp>({self, zero})[0];
  Value log = apply<nn::LogOp>(node, where(node, isZero, one, other));
  node.setResult(where(node, isZero, zero, multiply(node, self, log)));
}

/// log(exp(a) + exp(b)) = a + log(1 + exp(b − a)).
static void importLogAddExp(NodeBuilder &node) {
  Value self = promoted(node, "self"), other = promoted(node, "other");
  node.setResult(add(node, self, apply<nn::SoftplusOp>(node, subtract(node, other, self))));
}

template <typename Op>
static void importExtreme(NodeBuilder &node) {
  Value self = promoted(node, "self"), other = promoted(node, "other");
  node.setResult(node.infer<Op>({self, other})[0]);
}

/// start + weight (end − start).
static void importLerp(NodeBuilder &node) {
  Value self = promoted(node, "self"), end = promoted(node, "end"), weight = promotedOrNumber(node, "weight");
  node.setResult(add(node, self, multiply(node, weight, subtract(node, end, self))));
}

/// self + value · tensor1 · tensor2, or · tensor1 / tensor2.
template <bool Divides>
static void importAddProduct(NodeBuilder &node) {
  Value self = promoted(node, "self"), first = promoted(node, "tensor1"), second = promoted(node, "tensor2");
  Value combined = Divides ? divide(node, first, second) : multiply(node, first, second);
  node.setResult(add(node, self, scaled(node, combined, node.number("value", 1))));
}

ArrayRef<AtenTarget> mathTargets() {
  static constexpr AtenTarget targets[] = {
      {"torch.ops.aten.exp.default", importFunction<nn::ExpOp>},
      {"torch.ops.aten.expm1.default", importExpm1},
      {"torch.ops.aten.log.default", importFunction<nn::LogOp>},
      {"torch.ops.aten.log2.default", importLogOf<2>},
      {"torch.ops.aten.log10.default", importLogOf<10>},
      {"torch.ops.aten.log1p.default", importLog1p},
      {"torch.ops.aten.sin.default", importFunction<nn::SinOp>},
      {"torch.ops.aten.cos.default", importFunction<nn::CosOp>},
      {"torch.ops.aten.tan.default", importTan},
      {"torch.ops.aten.erf.default", importFunction<nn::ErfOp>},
      {"torch.ops.aten.sigmoid.default", importFunction<nn::SigmoidOp>},
      {"torch.ops.aten.sqrt.default", importPower<5>},
      {"torch.ops.aten.rsqrt.default", importPower<-5>},
      {"torch.ops.aten.square.default", importPower<20>},
      {"torch.ops.aten.reciprocal.default", importPower<-10>},
      {"torch.ops.aten.pow.Tensor_Scalar", importPow},
      {"torch.ops.aten.pow.Scalar", importPowOfNumber},
      {"torch.ops.aten.abs.default", importAbs},
      {"torch.ops.aten.sign.default", importSign},
      {"torch.ops.aten.floor.default", importRounding<roundDown>},
      {"torch.ops.aten.ceil.default", importRounding<roundUp>},
      {"torch.ops.aten.round.default", importRounding<apply<nn::RoundOp>>},
      {"torch.ops.aten.trunc.default", importRounding<truncated>},
      {"torch.ops.aten.maximum.default", importExtreme<nn::MaximumOp>},
      {"torch.ops.aten.minimum.default", importExtreme<nn::MinimumOp>},
      {"torch.ops.aten.max.other", importExtreme<nn::MaximumOp>},
      {"torch.ops.aten.min.other", importExtreme<nn::MinimumOp>},
      {"torch.ops.aten.lerp.Scalar", importLerp},
      {"torch.ops.aten.lerp.Tensor", importLerp},
      {"torch.ops.aten.addcmul.default", importAddProduct<false>},
      {"torch.ops.aten.addcdiv.default", importAddProduct<true>},
      {"torch.ops.aten.exp2.default", importExp2},
      {"torch.ops.aten.sinh.default", importHyperbolic<-1>},
      {"torch.ops.aten.cosh.default", importHyperbolic<1>},
      {"torch.ops.aten.erfc.default", importErfc},
      {"torch.ops.aten.logit.default", importLogit},
      {"torch.ops.aten.frac.default", importFrac},
      {"torch.ops.aten.div.Tensor_mode", importDivRounded},
      {"torch.ops.aten.div.Scalar_mode", importDivRounded},
      {"torch.ops.aten.floor_divide.default", importFloorDivide},
      {"torch.ops.aten.floor_divide.Scalar", importFloorDivide},
      {"torch.ops.aten.remainder.Scalar", importRemainder<true>},
      {"torch.ops.aten.remainder.Tensor", importRemainder<true>},
      {"torch.ops.aten.fmod.Scalar", importRemainder<false>},
      {"torch.ops.aten.fmod.Tensor", importRemainder<false>},
      {"torch.ops.aten.hypot.default", importHypot},
      {"torch.ops.aten.logaddexp.default", importLogAddExp},
      {"torch.ops.aten.xlogy.Tensor", importXlogy},
      {"torch.ops.aten.xlogy.Scalar_Self", importXlogy},
      {"torch.ops.aten.xlogy.Scalar_Other", importXlogy},
  };
  return targets;
}

} // namespace plumb
