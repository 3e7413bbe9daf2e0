//===- ImportNormalisation.cpp - Layer, group and batch normalisation ---------===//

#include "AtenTargets.h"
#include "ImportSupport.h"

#include <limits>

using namespace mlir;

namespace plumb {

static void importLayerNorm(NodeBuilder &node) {
  Value input = node.tensor("input"), weight = node.optionalTensor("weight"),
        bias = node.optionalTensor("bias");
  SmallVector<int64_t> shape = node.integers("normalized_shape");
  double eps = node.number("eps", 1e-5);
  node.ignore("cudnn_enable");
  if (shape.empty() || shapeOf(input).size() < shape.size() ||
      shapeOf(input).take_back(shape.size()) != ArrayRef<int64_t>(shape))
    node.refuse("\"normalized_shape\" is not the shape of the input's last dimensions");
  Value result =
      node.infer<nn::NormalizeOp>(input, {{"count", node.attribute(static_cast<int64_t>(shape.size()))},
                                          {"eps", node.attribute(eps)}})[0];
  if (weight)
    result = node.infer<nn::MulOp>({result, weight})[0];
  if (bias)
    result = node.infer<nn::AddOp>({result, bias})[0];
  node.setResult(result);
}

static Value normalized(NodeBuilder &node, Value input, int64_t count, double eps, bool uncentered) {
  return node.infer<nn::NormalizeOp>(input, {{"count", node.attribute(count)},
                                             {"eps", node.attribute(eps)},
                                             {"uncentered", node.flag(uncentered)}})[0];
}

static double smallestStep(NodeBuilder &node, Type element) {
  if (element.isF64())
    return std::numeric_limits<double>::epsilon();
  if (element.isF32())
    return std::numeric_limits<float>::epsilon();
  return element.isF16() ? 1.0 / 1024 : 1.0 / 128;
}

static void importRmsNorm(NodeBuilder &node) {
  Value input = node.tensor("input"), weight = node.optionalTensor("weight");
  SmallVector<int64_t> shape = node.integers("normalized_shape");
  if (shape.empty() || shapeOf(input).size() < shape.size() ||
      shapeOf(input).take_back(shape.size()) != ArrayRef<int64_t>(shape))
    node.refuse("\"normalized_shape\" is not the shape of the input's last dimensions");
  double eps = node.optionalNumber("eps").value_or(smallestStep(node, elementOf(input)));
  Value result = normalized(node, input, static_cast<int64_t>(shape.size()), eps, true);
  node.setResult(weight ? multiply(node, result, weight) : result);
}

/// Scales and shifts channels, dim 1.
static Value affine(NodeBuilder &node, Value value, Value weight, Value bias) {
  if (weight)
    value = multiply(node, value, perChannel(node, weight, rankOf(value) - 2));
  return bias ? add(node, value, perChannel(node, bias, rankOf(value) - 2)) : value;
}

/// Each channel of each sample by itself; running statistics are not used.
static void importInstanceNorm(NodeBuilder &node) {
  Value input = node.tensor("input");
  for (StringRef name : {"momentum", "cudnn_enabled"})
    node.ignore(name);
  if (!node.boolean("use_input_stats", true) || node.hasValue("running_mean") || node.hasValue("running_var"))
    node.refuse("instance normalisation with running statistics is not supported");
  if (rankOf(input) < 3)
    node.refuse("instance normalisation needs spatial dimensions");
  int64_t batch = shapeOf(input)[0], channels = shapeOf(input)[1];
  if (batch < 1 || channels < 1)
    node.refuse("there are no channels");
  Value rows = viewAs(node, input, {batch, channels, typeOf(input).getNumElements() / (batch * channels)});
  Value result = viewAs(node, normalized(node, rows, 1, node.number("eps", 1e-5), false), shapeOf(input));
  node.setResult(affine(node, result, node.optionalTensor("weight"), node.optionalTensor("bias")));
}

static void importGroupNorm(NodeBuilder &node) {
  Value input = node.tensor("input");
  node.ignore("cudnn_enabled");
  int64_t groups = node.integer("num_groups"), batch = rankOf(input) < 2 ? 0 : shapeOf(input)[0];
  if (batch < 1 || groups < 1 || shapeOf(input)[1] % groups)
    node.refuse("the channels cannot be cut into " + std::to_string(groups) + " groups");
  Value rows = viewAs(node, input, {batch, groups, typeOf(input).getNumElements() / (batch * groups)});
  Value result = viewAs(node, normalized(node, rows, 1, node.number("eps", 1e-5), false), shapeOf(input));
  node.setResult(affine(node, result, node.optionalTensor("weight"), node.optionalTensor("bias")));
}

/// By the statistics of the batch, which running ones, if there are any, move towards.
static ResultRange normalizedByBatch(NodeBuilder &node, Value input, ValueRange running) {
  if (rankOf(input) < 2 || !isFloat(input))
    node.refuse("batch normalisation needs channels, dim 1");
  if (typeOf(input).getNumElements() <= shapeOf(input)[1])
    node.refuse("in training batch normalisation needs more than one value per channel");
  for (Value statistic : running)
    if (elementOf(statistic) != elementOf(input))
      node.refuse("running statistics of another type than the input are not supported in training");
  SmallVector<Type> types{input.getType()};
  llvm::append_range(types, running.getTypes());
  SmallVector<Value> operands{input};
  llvm::append_range(operands, running);
  return node.create<BatchNormOp>(
      types, operands,
      {{"momentum", node.attribute(node.number("momentum"))}, {"eps", node.attribute(node.number("eps"))}});
}

/// In training, as functions have it: the result, what was saved for a backward, new running statistics.
static void importFunctionalBatchNorm(NodeBuilder &node, ValueRange running) {
  Value input = node.tensor("input");
  if (!node.boolean("training"))
    node.refuse("batch normalisation that moves no statistics is expected to be \"batch_norm\"");
  ResultRange results = normalizedByBatch(node, input, running);
  SmallVector<int64_t> dims{0};
  for (int64_t dim = 2; dim < rankOf(input); ++dim)
    dims.push_back(dim);
  Value mean = meanOver(node, input, dims, true), distance = subtract(node, input, mean);
  Value variance = meanOver(node, multiply(node, distance, distance), dims, false);
  Value wide = add(node, variance, numberAs(node, elementOf(variance), node.number("eps")));
  SmallVector<Value> all{affine(node, results[0], node.optionalTensor("weight"), node.optionalTensor("bias")),
                         viewAs(node, mean, shapeOf(variance)), power(node, wide, -0.5)};
  llvm::append_range(all, results.drop_front());
  node.setResults(all);
}

static void importRunningBatchNorm(NodeBuilder &node) {
  importFunctionalBatchNorm(node, {node.tensor("running_mean"), node.tensor("running_var")});
}
static void importStatelessBatchNorm(NodeBuilder &node) { importFunctionalBatchNorm(node, {}); }

/// With running statistics: (x − mean) / sqrt(variance + eps), scaled and shifted.
static void importBatchNorm(NodeBuilder &node) {
  Value input = node.tensor("input"), mean = node.optionalTensor("running_mean"),
        variance = node.optionalTensor("running_var");
  node.ignore("momentum");
  node.ignore("cudnn_enabled");
  if (node.boolean("training") || !mean || !variance) {
    Value result = normalizedByBatch(node, input, {})[0];
    node.setResult(affine(node, result, node.optionalTensor("weight"), node.optionalTensor("bias")));
    return;
  }
  if (rankOf(input) < 2)
    node.refuse("batch normalisation needs channels, dim 1");
  int64_t spatialDims = rankOf(input) - 2;
  Value wide = add(node, variance, numberAs(node, elementOf(variance), node.number("eps")));
  Value distance = subtract(node, input, perChannel(node, mean, spatialDims));
  Value result = multiply(node, distance, perChannel(node, power(node, wide, -0.5), spatialDims));
  node.setResult(affine(node, result, node.optionalTensor("weight"), node.optionalTensor("bias")));
}

ArrayRef<AtenTarget> normalisationTargets() {
  static constexpr AtenTarget targets[] = {
      {"torch.ops.aten.layer_norm.default", importLayerNorm},
      {"torch.ops.aten.rms_norm.default", importRmsNorm},
      {"torch.ops.aten.group_norm.default", importGroupNorm},
      {"torch.ops.aten.instance_norm.default", importInstanceNorm},
      {"torch.ops.aten.batch_norm.default", importBatchNorm},
      {"torch.ops.aten._native_batch_norm_legit_functional.default", importRunningBatchNorm},
      {"torch.ops.aten._native_batch_norm_legit.no_stats", importStatelessBatchNorm},
  };
  return targets;
}

} // namespace plumb
