//===- ImportIndex.cpp - Look-ups by index and classification losses --------===//

#include "AtenTargets.h"

#include <cmath>

using namespace mlir;

namespace plumb {

static void importEmbedding(NodeBuilder &node) {
  if (node.integer("padding_idx", -1) >= 0)
    node.refuse("a padding index is not supported: its row would have to be left out of the gradient");
  if (node.boolean("scale_grad_by_freq", false))
    node.refuse("scale_grad_by_freq is not supported");
  node.ignore("sparse"); // Only the representation of the gradient.
  Value table = node.tensor("weight"), indices = node.tensor("indices");
  node.setResult(node.infer<nn::EmbeddingOp>({table, indices})[0]);
}

/// start, start + step, … below end. Numbers with a fraction are refused.
static void importRange(NodeBuilder &node, bool hasStart, bool hasStep) {
  auto whole = [&](StringRef name, std::optional<double> otherwise = std::nullopt) {
    double value = node.number(name, otherwise);
    if (value != std::floor(value) || std::abs(value) > 1e15)
      node.refuse("the argument \"" + name.str() + "\" must be a whole number, found " +
                  std::to_string(value));
    return static_cast<int64_t>(value);
  };
  int64_t start = hasStart ? whole("start") : 0, end = whole("end"), step = hasStep ? whole("step", 1) : 1;
  node.ignore("dtype"); // The recorded result has it.
  if (step == 0)
    node.refuse("the argument \"step\" must not be 0");
  int64_t distance = step > 0 ? end - start : start - end, stride = std::abs(step);
  int64_t count = distance <= 0 ? 0 : (distance - 1) / stride + 1;
  auto type = RankedTensorType::get(count, node.resultType().getElementType());
  node.setResult(node.create<nn::IotaOp>(
      type, {}, {{"start", node.attribute(start)}, {"step", node.attribute(step)}})[0]);
}

static void importArange(NodeBuilder &node) { importRange(node, false, false); }
static void importArangeFrom(NodeBuilder &node) { importRange(node, true, false); }
static void importArangeStep(NodeBuilder &node) { importRange(node, true, true); }

/// A mean is the sum over all rows divided by the count of rows that are not ignored, both global, so that
/// neither changes when the batch is cut.
static void importCrossEntropy(NodeBuilder &node) {
  Value logits = node.tensor("self"), target = node.tensor("target");
  if (node.optionalTensor("weight"))
    node.refuse("class weights are not supported");
  if (node.number("label_smoothing", 0) != 0)
    node.refuse("label smoothing is not supported");
  if (rankOf(logits) != 2)
    node.refuse("logits of rank " + std::to_string(rankOf(logits)) +
                " are not supported; flatten them to (rows, classes)");
  if (isFloat(target))
    node.refuse("targets that are probabilities are not supported, only class indices");
  Attribute ignored = node.attribute(node.integer("ignore_index", -100));
  enum Reduction { None = 0, Mean = 1, Sum = 2 };
  int64_t reduction = node.integer("reduction", Mean);
  if (reduction < None || reduction > Sum)
    node.refuse("the reduction " + std::to_string(reduction) + " is unknown");

  Value losses = node.infer<nn::CrossEntropyOp>({logits, target}, {{"ignore_index", ignored}})[0];
  if (reduction == None)
    return node.setResult(losses);
  Attribute rows = node.attribute(ArrayRef<int64_t>{0});
  Value total = node.infer<nn::SumOp>(losses, {{"dims", rows}})[0];
  if (reduction == Sum)
    return node.setResult(total);
  Value isValid = node.create<nn::IsValidOp>(typeOf(losses), target, {{"ignore_index", ignored}})[0];
  Value count = node.infer<nn::SumOp>(isValid, {{"dims", rows}})[0];
  node.setResult(node.infer<nn::DivOp>({total, count})[0]);
}

ArrayRef<AtenTarget> indexTargets() {
  static constexpr AtenTarget targets[] = {
      {"torch.ops.aten.embedding.default", importEmbedding},
      {"torch.ops.aten.arange.default", importArange},
      {"torch.ops.aten.arange.start", importArangeFrom},
      {"torch.ops.aten.arange.start_step", importArangeStep},
      {"torch.ops.aten.cross_entropy_loss.default", importCrossEntropy},
  };
  return targets;
}

} // namespace plumb
