//===- RedistributionPlans.cpp - Passes ask the redistribution core ----------===//

#include "plumb/Transforms/RedistributionPlans.h"
#include "DigitStep.h"
#include "ExchangeTables.h"
#include "plumb/Redistribution/LayoutText.h"
#include "plumb/Transforms/Utils.h"

using namespace mlir;
using namespace plumb;
using redistribution::StepKind;

RedistributionPlans::RedistributionPlans(ModuleOp module) : module(module) {
  if (auto pipeline = findOp<PipelineOp>(module))
    pipelineAxis = pipeline.getAxis();
  auto meshOp = findOp<MeshOp>(module);
  for (auto [name, size] : llvm::zip(meshOp.getAxes().getAsValueRange<StringAttr>(), meshOp.getSizes()))
    mesh.axes.push_back({name.str(), size});
  // With latencies: several small steps may move fewer bytes than one call and yet take longer.
  options.topology = redistribution::Topology();
  if (auto text = meshOp->getAttrOfType<StringAttr>(redistribution::topologyAttribute)) {
    if (auto topology = redistribution::parseTopology(mesh, text))
      options.topology = *topology;
    else
      problem = llvm::toString(topology.takeError());
  }
  // Stages hold other tensors: ranks along the pipeline cannot help with one.
  if (auto index = mesh.find(pipelineAxis))
    options.foreign.push_back(*index);
  // A stage has one local shape per tensor.
  options.uneven = false;
  // A compilation asks many questions; where meshes have many axes the best plan found so far will do.
  options.maxMoves = 20'000;
}

redistribution::Layout RedistributionPlans::toCore(LayoutAttr layout) const {
  redistribution::Layout result;
  auto convert = [&](AxisRefAttr axis) {
    unsigned index = *mesh.find(axis.getName().getValue());
    return axis.isWhole() ? redistribution::wholeAxis(mesh, index)
                          : redistribution::AxisRef{index, axis.getPreSize(), axis.getSize()};
  };
  for (DimShardingAttr dim : layout.getDims()) {
    redistribution::DimSharding sharding;
    if (dim.hasUnequalBlocks())
      sharding.blockSizes = dim.getBlocks();
    else
      sharding.blocks = dim.countBlocks();
    for (AxisRefAttr axis : dim.getAxes())
      if (axis.getName() != kMicrobatchAxis)
        sharding.axes.push_back(convert(axis));
    result.dims.push_back(sharding);
  }
  for (PartialAttr partial : layout.getPartial())
    if (partial.getAxis().getName() != kMicrobatchAxis && partial.getAxis().getName() != pipelineAxis)
      result.partial.push_back(
          {convert(partial.getAxis()), redistribution::reductionFromName(partial.getReduction().getValue())
                                           .value_or(redistribution::Reduction::Sum)});
  return result;
}

SmallVector<int64_t> RedistributionPlans::shapeOf(RankedTensorType global, LayoutAttr layout) const {
  SmallVector<int64_t> shape(global.getShape());
  for (auto [size, dim] : llvm::zip(shape, layout.getDims()))
    for (AxisRefAttr axis : dim.getAxes())
      if (axis.getName() == kMicrobatchAxis)
        size /= getMicrobatches(module);
  return shape;
}

/// Whether a program can hold the step: the tables of a step that differs from rank to rank must be of
/// bounded size, and collectives move padded shards as they are.
static bool isExecutable(const redistribution::Plan &plan, const redistribution::Step &step) {
  DigitStep digits(step);
  if (digits.isByMessages(plan.shape))
    return exchangeTables(plan.mesh, plan.shape, step).has_value();
  return step.dims.empty() || digits.isPaddedAtEnd(plan.shape);
}

static bool isExecutable(const redistribution::Plan &plan) {
  return llvm::all_of(plan.steps, [&](const redistribution::Step &step) { return isExecutable(plan, step); });
}

/// The first axis of `layout` that neither the mesh nor time has.
static AxisRefAttr findUnknownAxis(const redistribution::Mesh &mesh, LayoutAttr layout) {
  auto isKnown = [&](AxisRefAttr axis) {
    return axis.getName() == kMicrobatchAxis || mesh.find(axis.getName().getValue());
  };
  for (DimShardingAttr dim : layout.getDims())
    for (AxisRefAttr axis : dim.getAxes())
      if (!isKnown(axis))
        return axis;
  for (PartialAttr partial : layout.getPartial())
    if (!isKnown(partial.getAxis()))
      return partial.getAxis();
  return {};
}

static int64_t bytesOf(RankedTensorType type) { return (type.getElementTypeBitWidth() + 7) / 8; }

redistribution::PlanOptions RedistributionPlans::collectives() const {
  redistribution::PlanOptions result = options;
  result.exchange = false;
  result.excluded.push_back(StepKind::Permute);
  return result;
}

redistribution::PlanOptions RedistributionPlans::messages() const {
  redistribution::PlanOptions result = options;
  llvm::append_range(result.excluded,
                     ArrayRef{StepKind::AllGather, StepKind::ReduceScatter, StepKind::AllToAll});
  return result;
}

FailureOr<const redistribution::Plan *> RedistributionPlans::plan(RedistributeOp op) {
  if (!problem.empty())
    return emitError(findOp<MeshOp>(module).getLoc()) << problem;
  for (LayoutAttr layout : {op.getFrom(), op.getTo()})
    if (AxisRefAttr axis = findUnknownAxis(mesh, layout))
      return emitModelError(op) << "names the axis " << axis.getName() << ", which is not on the mesh "
                                << redistribution::toString(mesh);
  auto global = cast<RankedTensorType>(op.getGlobal().value_or(op.getInput().getType()));
  SmallVector<int64_t> shape = shapeOf(global, op.getFrom());
  redistribution::Layout from = toCore(op.getFrom()), to = toCore(op.getTo());
  auto ask = [&](const redistribution::PlanOptions &with) {
    return cache.get(mesh, shape, bytesOf(global), from, to, with);
  };
  llvm::Expected<const redistribution::Plan *> plan = ask(options);
  if (plan && !isExecutable(**plan))
    plan = ask(collectives());
  if (plan && !isExecutable(**plan))
    plan = ask(messages());
  if (plan && !isExecutable(**plan))
    return emitModelError(op)
           << "from " << op.getFrom() << " to " << op.getTo() << " moves shards of "
           << redistribution::toString(shape)
           << " that differ in size by several axes of a dim, which takes too large a table "
              "of messages on the mesh "
           << redistribution::toString(mesh) << "; choose sizes that the axes divide";
  if (plan)
    return *plan;
  llvm::Error error = plan.takeError();
  if (error.isA<redistribution::WrongPlan>())
    return emitError(op.getLoc()) << llvm::toString(std::move(error));
  return emitModelError(op) << "from " << op.getFrom() << " to " << op.getTo()
                            << " cannot be planned: " << llvm::toString(std::move(error));
}

llvm::Expected<redistribution::Plan> RedistributionPlans::estimate(RankedTensorType global, LayoutAttr from,
                                                                   LayoutAttr to) const {
  return redistribution::planRedistribution(mesh, shapeOf(global, from), bytesOf(global), toCore(from),
                                            toCore(to), collectives());
}

std::optional<double> RedistributionPlans::cost(RankedTensorType global, LayoutAttr from,
                                                LayoutAttr to) const {
  if (from == to)
    return 0;
  llvm::Expected<redistribution::Plan> plan = estimate(global, from, to);
  if (plan)
    return plan->cost;
  llvm::consumeError(plan.takeError());
  return std::nullopt;
}

double RedistributionPlans::transferCost(RankedTensorType local, StringRef axis) const {
  std::optional<unsigned> index = mesh.find(axis);
  if (!index)
    return 0;
  redistribution::Link link = options.topology->link(mesh, redistribution::wholeAxis(mesh, *index));
  double bytes = static_cast<double>(local.getNumElements() * bytesOf(local));
  return link.latency + link.messageLatency + bytes / link.bandwidth;
}
