//===- WireLayouts.cpp - How values travel between stages ---------------------===//
//
// All stages have one mesh but for the pipeline axis, so a rank sends to the one rank of the other stage that
// has its coordinates. A value that is replicated over an axis would cross once per rank of it. Cut over that
// axis it crosses once, and the other stage gathers it over its own links. The planner's costs decide.
//
//===----------------------------------------------------------------------===//

#include "WireLayouts.h"
#include "plumb/Transforms/RedistributionPlans.h"
#include "plumb/Transforms/Utils.h"

using namespace mlir;
using namespace plumb;

namespace {

class WireLayouts {
public:
  WireLayouts(ModuleOp module, ProgramOp program)
      : module(module), body(*program.getBody().begin()), plans(module), builder(module.getContext()),
        pipelineAxis(findOp<PipelineOp>(module).getAxis()) {}

  void run() {
    for (Operation &op : llvm::make_early_inc_range(body))
      for (OpResult result : op.getResults())
        if (auto type = dyn_cast<RankedTensorType>(result.getType()); type && getLayout(result))
          place(result);
  }

private:
  /// The uses of a value in one other stage.
  struct Crossing {
    SmallVector<OpOperand *> uses; ///< In program order.
    LayoutAttr needed;             ///< What all of them turn it into at once, or its own layout.
  };

  void place(OpResult value) {
    std::map<int64_t, Crossing> crossings;
    bool isUsedHere = false;
    int64_t here = getStage(value.getOwner());
    for (OpOperand &use : value.getUses())
      if (int64_t stage = getStage(use.getOwner()); stage != here)
        crossings[stage].uses.push_back(&use);
      else
        isUsedHere = true;
    // Where only others read a sum, it need not be taken here.
    Value source = value;
    auto producer = dyn_cast<RedistributeOp>(value.getOwner());
    if (producer && !isUsedHere)
      source = producer.getInput();
    for (auto &[stage, crossing] : crossings) {
      llvm::sort(crossing.uses,
                 [](OpOperand *a, OpOperand *b) { return a->getOwner()->isBeforeInBlock(b->getOwner()); });
      crossing.needed = commonTarget(value, crossing);
      if (LayoutAttr wire = choose(source, value, crossing))
        send(source, value, wire, stage, crossing);
    }
  }

  static LayoutAttr commonTarget(Value value, const Crossing &crossing) {
    LayoutAttr target;
    for (OpOperand *use : crossing.uses) {
      auto redistribute = dyn_cast<RedistributeOp>(use->getOwner());
      if (!redistribute || (target && redistribute.getTo() != target))
        return getLayout(value);
      target = redistribute.getTo();
    }
    return target;
  }

  /// The cheapest layout to send the value in; nothing if that is its own.
  LayoutAttr choose(Value source, Value value, const Crossing &crossing) {
    auto type = cast<RankedTensorType>(value.getType());
    LayoutAttr own = getLayout(value), best;
    std::optional<double> least = costThrough(type, getLayout(source), own, crossing.needed);
    if (!least)
      return {};
    SmallVector<LayoutAttr> wires = candidates(type, own);
    // A sum that the others complete may as well be completed here.
    if (LayoutAttr summed = own.withPartial(crossing.needed.getPartial()); summed != own) {
      wires.push_back(summed);
      llvm::append_range(wires, candidates(type, summed));
    }
    for (LayoutAttr wire : wires) {
      std::optional<double> cost = costThrough(type, getLayout(source), wire, crossing.needed);
      if (cost && *cost < *least) {
        least = cost;
        best = wire;
      }
    }
    return best;
  }

  std::optional<double> costThrough(RankedTensorType type, LayoutAttr from, LayoutAttr wire, LayoutAttr to) {
    std::optional<double> before = plans.cost(type, from, wire), after = plans.cost(type, wire, to);
    if (!before || !after)
      return std::nullopt;
    return *before + *after + plans.transferCost(getLocalType(module, type, wire), pipelineAxis);
  }

  /// The layout, cut further over the axes over which it is replicated: over all of them, over each.
  SmallVector<LayoutAttr> candidates(RankedTensorType type, LayoutAttr layout) {
    auto mesh = findOp<MeshOp>(module);
    SmallVector<AxisRefAttr> free;
    for (StringAttr name : mesh.getAxes().getAsRange<StringAttr>())
      if (name != pipelineAxis && mesh.getAxisSize(name) > 1 && !layout.isShardedOver(name) &&
          !layout.isPartialOver(name))
        free.push_back(AxisRefAttr::get(name));
    SmallVector<SmallVector<AxisRefAttr>> choices;
    if (free.size() > 1)
      choices.push_back(free);
    for (AxisRefAttr axis : free)
      choices.push_back({axis});
    SmallVector<LayoutAttr> result;
    RankedTensorType local = getLocalType(module, type, layout);
    for (ArrayRef<AxisRefAttr> axes : choices)
      for (auto [d, dim] : llvm::enumerate(layout.getDims())) {
        int64_t parts = dim.countBlocks();
        for (AxisRefAttr axis : axes)
          parts *= getAxisSize(module, axis);
        if (dim.hasUnequalBlocks() || local.getDimSize(d) == 0 || local.getDimSize(d) % parts != 0 ||
            !cutsEvenly(module, type.getDimSize(d), dim))
          continue;
        SmallVector<DimShardingAttr> dims(layout.getDims());
        SmallVector<AxisRefAttr> cut(dim.getAxes());
        llvm::append_range(cut, axes);
        dims[d] = DimShardingAttr::get(module.getContext(), cut, dim.getBlocks());
        result.push_back(LayoutAttr::get(module.getContext(), layout.getMesh(), dims, layout.getPartial()));
      }
    return result;
  }

  void send(Value source, OpResult value, LayoutAttr wire, int64_t stage, const Crossing &crossing) {
    Operation *producer = value.getOwner();
    Value sent;
    {
      builder.setInsertionPointAfter(producer);
      ProvenanceScope scope(builder, producer, getPhase(producer));
      sent = redistribute(producer->getLoc(), source, getLayout(source), wire);
    }
    Operation *first = crossing.uses.front()->getOwner();
    builder.setInsertionPoint(first);
    ProvenanceScope scope(builder, first, stage > getStage(producer) ? Phase::Forward : Phase::BackwardInput);
    Value received = redistribute(first->getLoc(), sent, wire, crossing.needed);
    setStage(received.getDefiningOp(), stage);
    for (OpOperand *use : crossing.uses) {
      if (crossing.needed == getLayout(value)) {
        use->set(received);
        continue;
      }
      // The reader's own redistribution is done with; it is dead code now.
      use->getOwner()->getResult(0).replaceAllUsesWith(received);
    }
  }

  Value redistribute(Location loc, Value value, LayoutAttr from, LayoutAttr to) {
    auto op = RedistributeOp::create(builder, loc, value.getType(), value, from, to, TypeAttr());
    setLayouts(op, {to});
    return op.getResult();
  }

  ModuleOp module;
  Block &body;
  RedistributionPlans plans;
  OpBuilder builder;
  StringRef pipelineAxis;
};

} // namespace

void plumb::chooseWireLayouts(ModuleOp module, ProgramOp program) {
  if (getPipelineSize(module) > 1 && findOp<MeshOp>(module)->hasAttr(redistribution::topologyAttribute))
    WireLayouts(module, program).run();
}
