//===- ImportLogic.cpp - Comparisons, choices, conversions ---------------------===//

#include "AtenTargets.h"
#include "ImportSupport.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace plumb {

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

static void importIsinf(NodeBuilder &node) {
  Value self = node.tensor("self");
  Value infinity = numberAs(node, elementOf(self), std::numeric_limits<double>::infinity());
  Value magnitude = node.infer<nn::MaximumOp>({self, scaled(node, self, -1)})[0];
  node.setResult(node.infer<nn::EqualOp>({magnitude, infinity})[0]);
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

ArrayRef<AtenTarget> logicTargets() {
  static constexpr AtenTarget targets[] = {
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
      {"torch.ops.aten.isinf.default", importIsinf},
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
      {"torch.ops.aten.__xor__.Tensor", importOnBools<importLogic<Logic::Xor>>},
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
      {"torch.ops.aten.detach_.default", importDetach},
      {"torch.ops.aten.alias.default", importIdentity},
      {"torch.ops.aten.lift_fresh_copy.default", importIdentity},
      {"torch.ops.aten._assert_tensor_metadata.default", dropAssertion},
  };
  return targets;
}

} // namespace plumb
