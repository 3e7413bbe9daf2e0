//===- ImportMath.cpp - Functions, comparisons, choices, conversions --------===//

#include "AtenTargets.h"
#include "ImportSupport.h"

#include <cmath>
#include <numbers>

using namespace mlir;

namespace plumb {

//===-- Functions of one number -------------------------------------------===//

template <typename Op>
static Value apply(NodeBuilder &node, Value value) {
  return node.infer<Op>(value)[0];
}

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

static void importTan(NodeBuilder &node) {
  Value self = promoted(node, "self");
  node.setResult(divide(node, apply<nn::SinOp>(node, self), apply<nn::CosOp>(node, self)));
}

static Value less(NodeBuilder &node, Value a, Value b) { return node.infer<nn::LessOp>({a, b})[0]; }

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

/// Whole numbers stay what they are.
template <bool Up>
static void importFloor(NodeBuilder &node) {
  Value self = node.tensor("self");
  if (isFloat(self))
    self = scaled(node, apply<nn::FloorOp>(node, scaled(node, self, Up ? -1 : 1)), Up ? -1 : 1);
  node.setResult(self);
}

static void importRound(NodeBuilder &node) {
  Value self = node.tensor("self");
  node.setResult(isFloat(self) ? apply<nn::RoundOp>(node, self) : self);
}

/// Towards 0.
static void importTrunc(NodeBuilder &node) {
  Value self = node.tensor("self");
  if (!isFloat(self))
    return node.setResult(self);
  Value down = apply<nn::FloorOp>(node, self), zero = numberAs(node, elementOf(self), 0);
  Value up = scaled(node, apply<nn::FloorOp>(node, scaled(node, self, -1)), -1);
  node.setResult(where(node, less(node, self, zero), up, down));
}

//===-- Activations -------------------------------------------------------===//

/// `low` below it, `high` above it; the derivative is 1 between and at both.
static Value clamped(NodeBuilder &node, Value self, Value low, Value high) {
  Value result = self;
  if (high)
    result = where(node, less(node, high, self), high, result);
  return low ? where(node, less(node, self, low), low, result) : result;
}

static Value clamped(NodeBuilder &node, Value self, double low, double high) {
  return clamped(node, self, numberAs(node, elementOf(self), low), numberAs(node, elementOf(self), high));
}

static Value sigmoid(NodeBuilder &node, Value value) { return apply<nn::SigmoidOp>(node, value); }

static void importSilu(NodeBuilder &node) {
  Value self = node.tensor("self");
  node.setResult(multiply(node, self, sigmoid(node, self)));
}

static void importMish(NodeBuilder &node) {
  Value self = node.tensor("self");
  node.setResult(multiply(node, self, apply<nn::TanhOp>(node, apply<nn::SoftplusOp>(node, self))));
}

static void importLogSigmoid(NodeBuilder &node) {
  node.setResult(scaled(node, apply<nn::SoftplusOp>(node, scaled(node, node.tensor("self"), -1)), -1));
}

/// log(1 + exp(beta x)) / beta. Above the threshold PyTorch gives x, which is the same number.
static void importSoftplus(NodeBuilder &node) {
  double beta = node.number("beta", 1);
  if (node.number("threshold", 20) < 20 || !(beta > 0))
    node.refuse("softplus is supported with a threshold of at least 20 and a positive beta");
  Value inner = apply<nn::SoftplusOp>(node, scaled(node, node.tensor("self"), beta));
  node.setResult(scaled(node, inner, 1 / beta));
}

static Value whereNegative(NodeBuilder &node, Value self, Value negative, Value otherwise) {
  return where(node, less(node, self, numberAs(node, elementOf(self), 0)), negative, otherwise);
}

static void importLeakyRelu(NodeBuilder &node) {
  Value self = node.tensor("self");
  node.setResult(whereNegative(node, self, scaled(node, self, node.number("negative_slope", 0.01)), self));
}

/// alpha (exp(x) − 1) below 0. The exponential sees no positive x, which may overflow and spoil the gradient.
static void importElu(NodeBuilder &node) {
  Value self = node.tensor("self"), zero = numberAs(node, elementOf(self), 0);
  double alpha = node.number("alpha", 1);
  if (node.number("scale", 1) != 1 || node.number("input_scale", 1) != 1)
    node.refuse("elu is supported without scales only");
  Value exponential = apply<nn::ExpOp>(node, clamped(node, self, Value(), zero));
  Value bent = subtract(node, exponential, numberAs(node, elementOf(self), 1));
  node.setResult(whereNegative(node, self, scaled(node, bent, alpha), self));
}

static void importRelu6(NodeBuilder &node) { node.setResult(clamped(node, node.tensor("self"), 0, 6)); }

static void importHardtanh(NodeBuilder &node) {
  node.setResult(clamped(node, node.tensor("self"), node.number("min_val", -1), node.number("max_val", 1)));
}

/// clamp(x + 3, 0, 6) / 6.
static Value hardSigmoid(NodeBuilder &node, Value self) {
  Value shifted = add(node, self, numberAs(node, elementOf(self), 3));
  return scaled(node, clamped(node, shifted, 0, 6), 1.0 / 6);
}

static void importHardsigmoid(NodeBuilder &node) { node.setResult(hardSigmoid(node, node.tensor("self"))); }
static void importHardswish(NodeBuilder &node) {
  Value self = node.tensor("self");
  node.setResult(multiply(node, self, hardSigmoid(node, self)));
}

/// The first half of a dimension times the sigmoid of the second.
static void importGlu(NodeBuilder &node) {
  Value self = node.tensor("self");
  int64_t dim = node.dim("dim", rankOf(self), -1), half = shapeOf(self)[dim] / 2;
  if (shapeOf(self)[dim] % 2)
    node.refuse("dimension " + std::to_string(dim) + " cannot be halved");
  Value gate = sliceOf(node, self, dim, half, half);
  node.setResult(multiply(node, sliceOf(node, self, dim, 0, half), sigmoid(node, gate)));
}

static void importClamp(NodeBuilder &node) {
  Value self = promoted(node, "self");
  auto bound = [&](StringRef name) { return node.hasValue(name) ? promotedOrNumber(node, name) : Value(); };
  Value low = bound("min"), high = bound("max");
  node.setResult(clamped(node, self, low, high));
}

static void importClampMin(NodeBuilder &node) {
  Value self = promoted(node, "self");
  node.setResult(clamped(node, self, promotedOrNumber(node, "min"), Value()));
}

static void importClampMax(NodeBuilder &node) {
  Value self = promoted(node, "self");
  node.setResult(clamped(node, self, Value(), promotedOrNumber(node, "max")));
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

//===-- Comparisons and logic ---------------------------------------------===//

/// The type in which two element types are compared: the more general one of both.
static Type commonType(Type a, Type b) {
  auto width = [](Type type) { return type.getIntOrFloatBitWidth() + (isa<FloatType>(type) ? 100 : 0); };
  return width(a) >= width(b) ? a : b;
}

/// The operands of a comparison with a tensor or a number.
static std::pair<Value, Value> comparands(NodeBuilder &node) {
  Value self = node.tensor("self");
  Type element = elementOf(self);
  if (node.isTensor("other")) {
    Value other = node.tensor("other");
    element = commonType(element, elementOf(other));
    return {convertTo(node, self, element), convertTo(node, other, element)};
  }
  double number = node.number("other");
  if (!isFloat(self) && (number != std::floor(number) || element.isInteger(1)))
    element = node.builder().getF32Type();
  return {convertTo(node, self, element), numberAs(node, element, number)};
}

enum class Comparison { Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual };

template <Comparison Kind>
static void importComparison(NodeBuilder &node) {
  auto [self, other] = comparands(node);
  if (elementOf(self).isInteger(1) && Kind != Comparison::Equal && Kind != Comparison::NotEqual) {
    self = convertTo(node, self, node.builder().getI32Type());
    other = convertTo(node, other, node.builder().getI32Type());
  }
  switch (Kind) {
  case Comparison::Equal:
    return node.setResult(node.infer<nn::EqualOp>({self, other})[0]);
  case Comparison::NotEqual:
    return node.setResult(logicalNot(node, node.infer<nn::EqualOp>({self, other})[0]));
  case Comparison::Less:
    return node.setResult(less(node, self, other));
  case Comparison::LessEqual:
    return node.setResult(node.infer<nn::LessEqualOp>({self, other})[0]);
  case Comparison::Greater:
    return node.setResult(less(node, other, self));
  case Comparison::GreaterEqual:
    return node.setResult(node.infer<nn::LessEqualOp>({other, self})[0]);
  }
}

static void importIsnan(NodeBuilder &node) {
  Value self = node.tensor("self");
  node.setResult(logicalNot(node, node.infer<nn::EqualOp>({self, self})[0]));
}

static Value truth(NodeBuilder &node, StringRef name) {
  return convertTo(node, node.tensor(name), node.builder().getI1Type());
}

static void importLogicalNot(NodeBuilder &node) { node.setResult(logicalNot(node, truth(node, "self"))); }

enum class Logic { And, Or, Xor };

template <Logic Kind>
static void importLogic(NodeBuilder &node) {
  Value self = truth(node, "self"), other = truth(node, "other");
  if (Kind == Logic::Xor)
    return node.setResult(logicalNot(node, node.infer<nn::EqualOp>({self, other})[0]));
  node.setResult(Kind == Logic::And ? where(node, self, other, self) : where(node, self, self, other));
}

/// The bitwise operators, which are the logical ones on bools.
template <void (*Import)(NodeBuilder &)>
static void importOnBools(NodeBuilder &node) {
  if (!elementOf(node.tensor("self")).isInteger(1))
    node.refuse("bitwise operators are supported on bools only");
  Import(node);
}

static void importWhere(NodeBuilder &node) {
  Value condition = truth(node, "condition");
  Value self = promotedOrNumber(node, "self"), other = promotedOrNumber(node, "other");
  Value result = where(node, condition, self, other);
  node.setResult(result);
}

static void importMaskedFill(NodeBuilder &node) {
  Value self = promoted(node, "self"), mask = truth(node, "mask");
  node.setResult(where(node, mask, promotedOrNumber(node, "value"), self));
}

//===-- Conversions -------------------------------------------------------===//

/// The recorded result has the type; where it lies and whether it is copied is not the model's meaning.
static void importConversion(NodeBuilder &node) {
  for (StringRef name :
       {"dtype", "device", "layout", "pin_memory", "non_blocking", "copy", "memory_format", "other"})
    node.ignore(name);
  node.setResult(promoted(node, "self"));
}

static void importDetach(NodeBuilder &node) {
  node.setResult(node.create<nn::DetachOp>(typeOf(node.tensor("self")), node.tensor("self"))[0]);
}

static void importIdentity(NodeBuilder &node) { node.setResult(node.tensor("self")); }

/// A check of what is known before: types and sizes stand in the archive.
static void dropAssertion(NodeBuilder &node) {
  for (StringRef name : {"a", "size", "stride", "dtype", "device", "layout"})
    node.ignore(name);
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
      {"torch.ops.aten.floor.default", importFloor<false>},
      {"torch.ops.aten.ceil.default", importFloor<true>},
      {"torch.ops.aten.round.default", importRound},
      {"torch.ops.aten.trunc.default", importTrunc},
      {"torch.ops.aten.silu.default", importSilu},
      {"torch.ops.aten.mish.default", importMish},
      {"torch.ops.aten.log_sigmoid.default", importLogSigmoid},
      {"torch.ops.aten.softplus.default", importSoftplus},
      {"torch.ops.aten.leaky_relu.default", importLeakyRelu},
      {"torch.ops.aten.elu.default", importElu},
      {"torch.ops.aten.relu6.default", importRelu6},
      {"torch.ops.aten.hardtanh.default", importHardtanh},
      {"torch.ops.aten.hardsigmoid.default", importHardsigmoid},
      {"torch.ops.aten.hardswish.default", importHardswish},
      {"torch.ops.aten.glu.default", importGlu},
      {"torch.ops.aten.clamp.default", importClamp},
      {"torch.ops.aten.clamp.Tensor", importClamp},
      {"torch.ops.aten.clamp_min.default", importClampMin},
      {"torch.ops.aten.clamp_max.default", importClampMax},
      {"torch.ops.aten.maximum.default", importExtreme<nn::MaximumOp>},
      {"torch.ops.aten.minimum.default", importExtreme<nn::MinimumOp>},
      {"torch.ops.aten.max.other", importExtreme<nn::MaximumOp>},
      {"torch.ops.aten.min.other", importExtreme<nn::MinimumOp>},
      {"torch.ops.aten.lerp.Scalar", importLerp},
      {"torch.ops.aten.lerp.Tensor", importLerp},
      {"torch.ops.aten.addcmul.default", importAddProduct<false>},
      {"torch.ops.aten.addcdiv.default", importAddProduct<true>},
      {"torch.ops.aten.eq.Scalar", importComparison<Comparison::Equal>},
      {"torch.ops.aten.eq.Tensor", importComparison<Comparison::Equal>},
      {"torch.ops.aten.ne.Scalar", importComparison<Comparison::NotEqual>},
      {"torch.ops.aten.ne.Tensor", importComparison<Comparison::NotEqual>},
      {"torch.ops.aten.lt.Scalar", importComparison<Comparison::Less>},
      {"torch.ops.aten.lt.Tensor", importComparison<Comparison::Less>},
      {"torch.ops.aten.le.Scalar", importComparison<Comparison::LessEqual>},
      {"torch.ops.aten.le.Tensor", importComparison<Comparison::LessEqual>},
      {"torch.ops.aten.gt.Scalar", importComparison<Comparison::Greater>},
      {"torch.ops.aten.gt.Tensor", importComparison<Comparison::Greater>},
      {"torch.ops.aten.ge.Scalar", importComparison<Comparison::GreaterEqual>},
      {"torch.ops.aten.ge.Tensor", importComparison<Comparison::GreaterEqual>},
      {"torch.ops.aten.isnan.default", importIsnan},
      {"torch.ops.aten.logical_not.default", importLogicalNot},
      {"torch.ops.aten.logical_and.default", importLogic<Logic::And>},
      {"torch.ops.aten.logical_or.default", importLogic<Logic::Or>},
      {"torch.ops.aten.logical_xor.default", importLogic<Logic::Xor>},
      {"torch.ops.aten.bitwise_not.default", importOnBools<importLogicalNot>},
      {"torch.ops.aten.bitwise_and.Tensor", importOnBools<importLogic<Logic::And>>},
      {"torch.ops.aten.bitwise_or.Tensor", importOnBools<importLogic<Logic::Or>>},
      {"torch.ops.aten.bitwise_xor.Tensor", importOnBools<importLogic<Logic::Xor>>},
      {"torch.ops.aten.__and__.Tensor", importOnBools<importLogic<Logic::And>>},
      {"torch.ops.aten.__or__.Tensor", importOnBools<importLogic<Logic::Or>>},
      {"torch.ops.aten.where.self", importWhere},
      {"torch.ops.aten.where.ScalarOther", importWhere},
      {"torch.ops.aten.where.ScalarSelf", importWhere},
      {"torch.ops.aten.where.Scalar", importWhere},
      {"torch.ops.aten.masked_fill.Scalar", importMaskedFill},
      {"torch.ops.aten.masked_fill.Tensor", importMaskedFill},
      {"torch.ops.aten.to.dtype", importConversion},
      {"torch.ops.aten.to.dtype_layout", importConversion},
      {"torch.ops.aten.to.device", importConversion},
      {"torch.ops.aten.to.other", importConversion},
      {"torch.ops.aten._to_copy.default", importConversion},
      {"torch.ops.aten.type_as.default", importConversion},
      {"torch.ops.aten.detach.default", importDetach},
      {"torch.ops.aten.alias.default", importIdentity},
      {"torch.ops.aten.lift_fresh_copy.default", importIdentity},
      {"torch.ops.aten._assert_tensor_metadata.default", dropAssertion},
  };
  return targets;
}

} // namespace plumb
