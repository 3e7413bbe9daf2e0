//===- ImportActivation.cpp - Activations --------------------------------------===//

#include "AtenTargets.h"
#include "ImportSupport.h"

using namespace mlir;

namespace plumb {

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

/// scale · x, and scale · alpha · (exp(rate · x) − 1) below 0. The exponential sees no positive x, which may
/// overflow and spoil the gradient.
static Value exponentialLinear(NodeBuilder &node, Value self, double alpha, double scale, double rate) {
  Value zero = numberAs(node, elementOf(self), 0), one = numberAs(node, elementOf(self), 1);
  Value exponential = apply<nn::ExpOp>(node, scaled(node, clamped(node, self, Value(), zero), rate));
  Value bent = scaled(node, subtract(node, exponential, one), alpha);
  return scaled(node, whereNegative(node, self, bent, self), scale);
}

static void importElu(NodeBuilder &node) {
  node.setResult(exponentialLinear(node, node.tensor("self"), node.number("alpha", 1),
                                   node.number("scale", 1), node.number("input_scale", 1)));
}

/// The constants of Klambauer et al. 2017, "Self-Normalizing Neural Networks".
static void importSelu(NodeBuilder &node) {
  node.setResult(exponentialLinear(node, node.tensor("self"), 1.6732632423543772, 1.0507009873554805, 1));
}

static void importCelu(NodeBuilder &node) {
  double alpha = node.number("alpha", 1);
  if (alpha == 0)
    node.refuse("the argument \"alpha\" must not be 0");
  node.setResult(exponentialLinear(node, node.tensor("self"), alpha, 1, 1 / alpha));
}

/// The slope below 0 is a parameter, one for all or one for each channel.
static void importPrelu(NodeBuilder &node) {
  Value self = node.tensor("self"), weight = node.tensor("weight");
  SmallVector<int64_t> shape(std::max<int64_t>(rankOf(self) - 1, 1), 1);
  shape[0] = typeOf(weight).getNumElements();
  node.setResult(whereNegative(node, self, multiply(node, self, viewAs(node, weight, shape)), self));
}

/// 0 up to `lambd` away from it, and nearer to it by `toZero` outside.
static Value shrunk(NodeBuilder &node, double toZero) {
  Value self = node.tensor("self");
  Type element = elementOf(self);
  double lambda = node.number("lambd", 0.5);
  Value shift = numberAs(node, element, toZero * lambda), low = numberAs(node, element, -lambda);
  Value above = where(node, less(node, numberAs(node, element, lambda), self), subtract(node, self, shift),
                      numberAs(node, element, 0));
  return where(node, less(node, self, low), add(node, self, shift), above);
}

static void importHardshrink(NodeBuilder &node) { node.setResult(shrunk(node, 0)); }
static void importSoftshrink(NodeBuilder &node) { node.setResult(shrunk(node, 1)); }

static void importThreshold(NodeBuilder &node) {
  Value self = node.tensor("self"), limit = numberAs(node, elementOf(self), node.number("threshold"));
  node.setResult(
      where(node, less(node, limit, self), self, numberAs(node, elementOf(self), node.number("value"))));
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

ArrayRef<AtenTarget> activationTargets() {
  static constexpr AtenTarget targets[] = {
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
      {"torch.ops.aten.selu.default", importSelu},
      {"torch.ops.aten.celu.default", importCelu},
      {"torch.ops.aten.prelu.default", importPrelu},
      {"torch.ops.aten.hardshrink.default", importHardshrink},
      {"torch.ops.aten.softshrink.default", importSoftshrink},
      {"torch.ops.aten.threshold.default", importThreshold},
  };
  return targets;
}

} // namespace plumb
