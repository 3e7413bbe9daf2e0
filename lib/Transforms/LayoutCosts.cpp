//===- LayoutCosts.cpp - What a layout costs in seconds --------------------===//

#include "plumb/Transforms/LayoutCosts.h"

using namespace mlir;
using namespace plumb;

/// Of a call of any kind: at sizes where it decides, how many calls there are is what matters.
static constexpr double kSecondsPerCall = 6.6e-6;
/// Violations of what cannot be done at all.
static constexpr int64_t kImpossible = 1'000'000;

static int64_t elementBytes(RankedTensorType type) { return std::max(1u, type.getElementTypeBitWidth() / 8); }

LayoutCosts::LayoutCosts(ModuleOp module) : module(module), plans(module) {}

/// How a layout stands to `microbatch`: the dim that it shards, -1 where it is partial, -2 where neither.
static int64_t microbatchRole(LayoutAttr layout) {
  for (auto [dim, sharding] : llvm::enumerate(layout.getDims()))
    for (AxisRefAttr axis : sharding.getAxes())
      if (axis.getName() == kMicrobatchAxis)
        return static_cast<int64_t>(dim);
  return layout.isPartialOver(kMicrobatchAxis) ? -1 : -2;
}

/// Between microbatches only sums may be exchanged, and those only before the first forward.
static int64_t microbatchViolations(int64_t from, int64_t to) {
  if (from == to)
    return 0;
  return from == -1 && to == -2 ? 1 : 100;
}

LayoutCost LayoutCosts::convert(RankedTensorType type, LayoutAttr from, LayoutAttr to) {
  if (from == to)
    return {};
  Conversion conversion = find(type, from, to);
  return {conversion.violations,
          conversion.seconds + static_cast<double>(conversion.calls) * kSecondsPerCall};
}

LayoutCost LayoutCosts::convertInBucket(RankedTensorType type, LayoutAttr from, LayoutAttr to) {
  if (from == to)
    return {};
  Conversion conversion = find(type, from, to);
  return {conversion.violations, conversion.seconds};
}

LayoutCosts::Conversion LayoutCosts::find(RankedTensorType type, LayoutAttr from, LayoutAttr to) {
  auto entry = known.find({type, from, to});
  if (entry != known.end())
    return entry->second;
  Conversion conversion = evaluate(type, from, to);
  conversion.violations += microbatchViolations(microbatchRole(from), microbatchRole(to));
  return known[{type, from, to}] = conversion;
}

bool LayoutCosts::isLocal(RankedTensorType type, LayoutAttr from, LayoutAttr to) {
  llvm::Expected<redistribution::Plan> found = plans.estimate(type, from, to);
  if (!found) {
    llvm::consumeError(found.takeError());
    return false;
  }
  return llvm::all_of(found->steps,
                      [](const redistribution::Step &step) { return redistribution::isLocal(step.kind); });
}

std::tuple<std::string, std::string, int64_t> LayoutCosts::describe(RankedTensorType type, LayoutAttr from,
                                                                    LayoutAttr to) {
  llvm::Expected<redistribution::Plan> found = plans.estimate(type, from, to);
  if (!found) {
    llvm::consumeError(found.takeError());
    return {"impossible", "", 0};
  }
  std::string steps;
  for (const redistribution::Step &step : found->steps)
    steps += (steps.empty() ? "" : ", ") + redistribution::toString(plans.getMesh(), step);
  return {found->label().str(), steps, static_cast<int64_t>(found->bytes)};
}

LayoutCosts::Conversion LayoutCosts::evaluate(RankedTensorType type, LayoutAttr from, LayoutAttr to) {
  Conversion result;
  llvm::Expected<redistribution::Plan> plan = plans.estimate(type, from, to);
  if (!plan) {
    llvm::consumeError(plan.takeError());
    result.violations = kImpossible;
    return result;
  }
  for (const redistribution::Step &step : plan->steps) {
    double elements = 1;
    for (int64_t size : step.localAfter)
      elements *= static_cast<double>(size);
    // A sharded tensor as a part of a sum would have to be padded with zeros.
    if (step.kind == redistribution::StepKind::Mask && step.localBefore != step.localAfter)
      result.violations = kImpossible;
    result.calls += !redistribution::isLocal(step.kind);
    result.seconds += step.bytes / plans.getTopology().slowest(plans.getMesh(), step.axes).bandwidth +
                      elements * static_cast<double>(elementBytes(type)) / kBytesPerSecond;
  }
  return result;
}

LayoutCost LayoutCosts::work(nn::TensorOpInterface op, const OpSharding &sharding, const OpLayouts &way) {
  double bytes = 0;
  auto add = [&](Value value, LayoutAttr layout) {
    auto type = cast<RankedTensorType>(value.getType());
    RankedTensorType local = getLocalType(module, type, layout);
    bytes += static_cast<double>(local.getNumElements()) * type.getElementTypeBitWidth() / 8;
  };
  for (auto [operand, layout] : llvm::zip(op->getOperands(), way.operands))
    add(operand, layout);
  for (auto [result, layout] : llvm::zip(op->getResults(), way.results))
    add(result, layout);
  return {0, bytes / kBytesPerSecond + 2 * sharding.localPoints(way) / kOperationsPerSecond};
}
