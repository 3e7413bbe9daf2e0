//===- ImportElementwise.cpp - Arithmetic and activations -------------------===//

#include "AtenTargets.h"

using namespace mlir;

namespace plumb {

static Value scaled(NodeBuilder &node, Value value, double factor) {
  if (factor == 1)
    return value;
  return node.infer<nn::ScaleOp>(value, {{"factor", node.attribute(factor)}})[0];
}

/// The right operand of an arithmetic operator: a tensor, or a number as a tensor of rank 0 that broadcasts.
static Value otherOperand(NodeBuilder &node, Value self) {
  if (node.isTensor("other"))
    return node.tensor("other");
  auto type = RankedTensorType::get({}, typeOf(self).getElementType());
  return node.create<nn::FillOp>(type, {}, {{"value", node.attribute(node.number("other"))}})[0];
}

/// self + alpha · other.
static void importAdd(NodeBuilder &node) {
  Value self = node.tensor("self"), other = otherOperand(node, self);
  node.setResult(node.infer<nn::AddOp>({self, scaled(node, other, node.number("alpha", 1))})[0]);
}

/// self − alpha · other.
static void importSub(NodeBuilder &node) {
  Value self = node.tensor("self"), other = otherOperand(node, self);
  node.setResult(node.infer<nn::SubOp>({self, scaled(node, other, node.number("alpha", 1))})[0]);
}

static void importMul(NodeBuilder &node) {
  Value self = node.tensor("self");
  if (!node.isTensor("other") && isFloat(self))
    return node.setResult(scaled(node, self, node.number("other")));
  node.setResult(node.infer<nn::MulOp>({self, otherOperand(node, self)})[0]);
}

static void importDiv(NodeBuilder &node) {
  Value self = node.tensor("self");
  node.setResult(node.infer<nn::DivOp>({self, otherOperand(node, self)})[0]);
}

static void importNeg(NodeBuilder &node) { node.setResult(scaled(node, node.tensor("self"), -1)); }

template <typename Op>
static void importUnary(NodeBuilder &node) {
  node.setResult(node.infer<Op>(node.tensor("self"))[0]);
}

static void importGelu(NodeBuilder &node) {
  std::string approximate = node.text("approximate", "none");
  if (approximate != "none" && approximate != "tanh")
    node.refuse("the approximation \"" + approximate + "\" is not supported, only \"none\" and \"tanh\"");
  node.setResult(
      node.infer<nn::GeluOp>(node.tensor("self"), {{"tanh", node.flag(approximate == "tanh")}})[0]);
}

static void importDropout(NodeBuilder &node) {
  if (node.boolean("train") && node.number("p") != 0)
    node.refuse("dropout is not supported; export after model.eval() or with p=0");
  node.setResult(node.tensor("input"));
}

ArrayRef<AtenTarget> elementwiseTargets() {
  static constexpr AtenTarget targets[] = {
      {"torch.ops.aten.add.Tensor", importAdd},
      {"torch.ops.aten.sub.Tensor", importSub},
      {"torch.ops.aten.mul.Tensor", importMul},
      {"torch.ops.aten.div.Tensor", importDiv},
      {"torch.ops.aten.neg.default", importNeg},
      {"torch.ops.aten.relu.default", importUnary<nn::ReluOp>},
      {"torch.ops.aten.tanh.default", importUnary<nn::TanhOp>},
      {"torch.ops.aten.gelu.default", importGelu},
      {"torch.ops.aten.dropout.default", importDropout},
  };
  return targets;
}

} // namespace plumb
