//===- ImportElementwise.cpp - Arithmetic and activations -------------------===//

#include "AtenTargets.h"
#include "ImportSupport.h"

using namespace mlir;

namespace plumb {

/// self + alpha · other.
static void importAdd(NodeBuilder &node) {
  Value self = promoted(node, "self"), other = promotedOrNumber(node, "other");
  node.setResult(add(node, self, scaled(node, other, node.number("alpha", 1))));
}

/// self − alpha · other.
static void importSub(NodeBuilder &node) {
  Value self = promoted(node, "self"), other = promotedOrNumber(node, "other");
  node.setResult(subtract(node, self, scaled(node, other, node.number("alpha", 1))));
}

/// other − alpha · self.
static void importRsub(NodeBuilder &node) {
  Value self = promoted(node, "self"), other = promotedOrNumber(node, "other");
  node.setResult(subtract(node, other, scaled(node, self, node.number("alpha", 1))));
}

static void importMul(NodeBuilder &node) {
  Value self = promoted(node, "self");
  if (!node.isTensor("other"))
    return node.setResult(scaled(node, self, node.number("other")));
  node.setResult(multiply(node, self, promoted(node, "other")));
}

static void importDiv(NodeBuilder &node) {
  Value self = promoted(node, "self");
  node.setResult(divide(node, self, promotedOrNumber(node, "other")));
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
  double probability = node.number("p");
  node.setResult(dropped(node, node.tensor("input"), node.boolean("train") ? probability : 0).value);
}

/// Gives also what is kept.
static void importNativeDropout(NodeBuilder &node) {
  double probability = node.number("p");
  Dropped result = dropped(node, node.tensor("input"), node.boolean("train", true) ? probability : 0);
  auto flags = RankedTensorType::get(shapeOf(result.value), node.builder().getI1Type());
  node.setResults({result.value, result.kept ? result.kept : filled(node, flags, 1)});
}

ArrayRef<AtenTarget> elementwiseTargets() {
  static constexpr AtenTarget targets[] = {
      {"torch.ops.aten.add.Tensor", importAdd},
      {"torch.ops.aten.add.Scalar", importAdd},
      {"torch.ops.aten.sub.Tensor", importSub},
      {"torch.ops.aten.sub.Scalar", importSub},
      {"torch.ops.aten.rsub.Scalar", importRsub},
      {"torch.ops.aten.rsub.Tensor", importRsub},
      {"torch.ops.aten.mul.Tensor", importMul},
      {"torch.ops.aten.mul.Scalar", importMul},
      {"torch.ops.aten.div.Tensor", importDiv},
      {"torch.ops.aten.div.Scalar", importDiv},
      {"torch.ops.aten.neg.default", importNeg},
      {"torch.ops.aten.relu.default", importUnary<nn::ReluOp>},
      {"torch.ops.aten.tanh.default", importUnary<nn::TanhOp>},
      {"torch.ops.aten.gelu.default", importGelu},
      {"torch.ops.aten.dropout.default", importDropout},
      {"torch.ops.aten.native_dropout.default", importNativeDropout},
  };
  return targets;
}

} // namespace plumb
