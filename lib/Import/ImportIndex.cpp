//===- ImportIndex.cpp - Tables and ranges ---------------------------------===//

#include "AtenTargets.h"
#include "ImportSupport.h"

#include <cmath>

using namespace mlir;

namespace plumb {

/// Rows of a table. The padding row takes part in the values, but not in the gradient.
static void importEmbedding(NodeBuilder &node) {
  if (node.boolean("scale_grad_by_freq", false))
    node.refuse("scale_grad_by_freq is not supported");
  node.ignore("sparse"); // Only the representation of the gradient.
  Value table = node.tensor("weight"), indices = node.tensor("indices");
  int64_t padding = node.integer("padding_idx", -1);
  Value rows = node.infer<nn::EmbeddingOp>({table, indices})[0];
  if (padding >= 0) {
    SmallVector<int64_t> shape(shapeOf(indices));
    shape.push_back(1);
    Value number = numberAs(node, elementOf(indices), static_cast<double>(padding));
    Value isPadding = viewAs(node, node.infer<nn::EqualOp>({indices, number})[0], shape);
    rows = where(node, isPadding, node.create<nn::DetachOp>(typeOf(rows), rows)[0], rows);
  }
  node.setResult(rows);
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

ArrayRef<AtenTarget> indexTargets() {
  static constexpr AtenTarget targets[] = {
      {"torch.ops.aten.embedding.default", importEmbedding},
      {"torch.ops.aten.arange.default", importArange},
      {"torch.ops.aten.arange.start", importArangeFrom},
      {"torch.ops.aten.arange.start_step", importArangeStep},
  };
  return targets;
}

} // namespace plumb
