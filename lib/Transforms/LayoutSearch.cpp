//===- LayoutSearch.cpp - The cheapest layouts of a program ----------------===//

#include "plumb/Transforms/LayoutSearch.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace plumb;

/// Readers of a value that the first decision looks at.
static constexpr int kLookedAtReaders = 4;
/// Each round goes over all ops backwards and forwards; few plans change after the second.
static constexpr int kMostRounds = 4;
static constexpr int kPasses = 2;

LayoutAttr plumb::getArrivingLayout(OpOperand &operand) {
  auto load = operand.get().getDefiningOp<LoadOp>();
  if (load && getPhase(operand.getOwner()) < Phase::Reduce)
    if (auto gathered = load->getAttrOfType<LayoutAttr>(kGatheredAttr))
      return gathered;
  return getLayout(operand.get());
}

/// All ways to run an op. A boundary has one, which the plan states.
static SmallVector<OpLayouts> waysOf(nn::TensorOpInterface op, OpSharding &sharding, LayoutAttr arriving) {
  auto boundary = dyn_cast<BoundaryOp>(op.getOperation());
  if (!boundary)
    return sharding.ways();
  LayoutAttr stated = canonicalized(op->getParentOfType<ModuleOp>(), boundary.getStated(arriving));
  return {{{stated}, {stated}}};
}

static LayoutAttr firstArriving(nn::TensorOpInterface op) {
  return op->getNumOperands() ? getArrivingLayout(op->getOpOperand(0)) : LayoutAttr();
}

LayoutAttr LayoutSearch::replicatedLike(Value value) {
  return LayoutAttr::replicated(FlatSymbolRefAttr::get(findOp<MeshOp>(module)),
                                cast<RankedTensorType>(value.getType()).getRank());
}

LogicalResult LayoutSearch::run(ArrayRef<nn::TensorOpInterface> ops) {
  // A decision for a gain cannot move an op together with its readers. Deciding anew what readers would cost
  // can, and the second time each op knows what the other readers of its operands need, which it may share.
  for (int pass = 0; pass < kPasses; ++pass) {
    bool changed = false;
    for (nn::TensorOpInterface op : ops)
      if (failed(decide(op, /*isFirst=*/true, changed)))
        return failure();
    changed = true;
    for (int round = 0; round < kMostRounds && changed; ++round) {
      changed = false;
      for (nn::TensorOpInterface op : llvm::reverse(ops))
        if (failed(decide(op, /*isFirst=*/false, changed)))
          return failure();
      for (nn::TensorOpInterface op : ops)
        if (failed(decide(op, /*isFirst=*/false, changed)))
          return failure();
    }
  }
  for (nn::TensorOpInterface op : ops) {
    const OpLayouts &way = plans.find(op)->second;
    if (way.expandedFactor >= 0)
      expansions.push_back({op, way.expandedFactor, way.parts});
    op->setAttr(kReadsAttr, ArrayAttr::get(module.getContext(), llvm::to_vector_of<Attribute>(way.operands)));
  }
  if (expansions.empty())
    noteGathers(ops);
  return success();
}

/// Says which dims are gathered since an op cannot work on their shards. The same in every layer is one
/// cause.
void LayoutSearch::noteGathers(ArrayRef<nn::TensorOpInterface> ops) {
  llvm::MapVector<std::pair<Attribute, Attribute>, SmallVector<nn::TensorOpInterface>> causes;
  for (nn::TensorOpInterface op : ops) {
    OpSharding sharding(module, op);
    for (OpOperand &operand : op->getOpOperands())
      if (failed(sharding.addOperand(operand.getOperandNumber(), getArrivingLayout(operand))))
        return;
    for (const std::string &text : sharding.describeGathers())
      causes[{op->getAttr(kSourceAttr), StringAttr::get(module.getContext(), text)}].push_back(op);
  }
  for (auto &[cause, found] : causes) {
    InFlightDiagnostic diagnostic = emitRemark(found.front().getLoc());
    std::string place = describe(found.front());
    diagnostic << place << (place.empty() ? "'" : ": '") << found.front()->getName().getStringRef() << "' "
               << cast<StringAttr>(cause.second).getValue();
    if (found.size() > 1)
      diagnostic << "; so in " << found.size() - 1 << " more operations of this line";
  }
}

//===----------------------------------------------------------------------===//
// Decisions
//===----------------------------------------------------------------------===//

/// The ways of an op, from how its operands arrive and how its readers want its results.
FailureOr<OpSharding> LayoutSearch::shardingOf(nn::TensorOpInterface op, bool isFirst) {
  OpSharding sharding(module, op);
  for (OpOperand &operand : op->getOpOperands())
    if (failed(sharding.addOperand(operand.getOperandNumber(), getArrivingLayout(operand))))
      return failure();
  for (OpResult result : op->getResults()) {
    if (!isFirst) {
      for (const Need &need : needs[result])
        sharding.addResult(result.getResultNumber(), need.layout);
      continue;
    }
    int looked = 0;
    for (OpOperand &use : result.getUses())
      if (isa<nn::TensorOpInterface>(use.getOwner()) && looked++ < kLookedAtReaders)
        if (LayoutAttr wanted = wantedBy(use, replicatedLike(result), nullptr))
          sharding.addResult(result.getResultNumber(), wanted);
  }
  return sharding;
}

/// How a reader that is not decided yet wants an operand of the given layout, as far as its other operands
/// tell, and what it costs.
LayoutAttr LayoutSearch::wantedBy(OpOperand &use, LayoutAttr layout, LayoutCost *cost) {
  auto reader = cast<nn::TensorOpInterface>(use.getOwner());
  SmallVector<LayoutAttr> arriving; // Null where nothing is known.
  for (OpOperand &operand : reader->getOpOperands())
    arriving.push_back(operand.get() == use.get() ? layout : getArrivingLayout(operand));
  OpSharding sharding(module, reader);
  ScopedDiagnosticHandler silence(module.getContext(), [](Diagnostic &) { return success(); });
  for (auto [index, known] : llvm::enumerate(arriving))
    if (known && failed(sharding.addOperand(index, known)))
      return {};
  LayoutCost best;
  LayoutAttr wanted;
  for (const OpLayouts &way : waysOf(reader, sharding, arriving.front())) {
    LayoutCost total = costs.work(reader, sharding, way);
    total += brokenStatements(reader, way);
    for (auto [operand, from, to] : llvm::zip(reader->getOperands(), arriving, way.operands))
      if (from)
        total += costs.convert(cast<RankedTensorType>(operand.getType()), from, to);
    if (!wanted || total.isLess(best)) {
      best = total;
      wanted = way.operands[use.getOperandNumber()];
    }
  }
  if (cost)
    *cost = best;
  return wanted;
}

/// What the plan states of a port, and the axes that stay, may cut a dim into more parts than it has rows.
static LogicalResult verifyPort(ModuleOp module, BoundaryOp boundary, LayoutAttr layout) {
  auto type = cast<RankedTensorType>(boundary.getResult().getType());
  for (auto [dim, sharding] : llvm::enumerate(layout.getDims())) {
    int64_t parts = sharding.countBlocks();
    std::string text;
    for (AxisRefAttr axis : sharding.getAxes()) {
      parts *= getAxisSize(module, axis);
      text += (text.empty() ? "" : " x ") + axis.getName().str() + " = " +
              std::to_string(getAxisSize(module, axis));
    }
    bool mayBeUneven =
        sharding.countBlocks() == 1 && parts <= type.getDimSize(dim) &&
        llvm::none_of(sharding.getAxes(), [](AxisRefAttr axis) { return axis.getName() == kMicrobatchAxis; });
    if (cutsEvenly(module, type.getDimSize(dim), sharding) || mayBeUneven)
      continue;
    InFlightDiagnostic diagnostic = emitError(boundary.getLoc());
    diagnostic << "port \"" << boundary.getPort() << "\" of module " << boundary.getOwner() << " has "
               << type.getDimSize(dim) << " elements in dim " << dim << ", which " << text << " (" << parts
               << " parts) does not divide; axes that shard the batch stay at ports";
    diagnostic.attachNote(boundary.getInput().getLoc()) << "the value";
    return diagnostic;
  }
  return success();
}

static size_t countPartial(const OpLayouts &way) {
  size_t count = 0;
  for (LayoutAttr layout : way.results)
    count += layout.getPartial().size();
  return count;
}

/// Takes the cheapest way. Of equal ones that which has fewer sums pending, since it is the simpler; a
/// decision that stands is changed for a gain only.
LogicalResult LayoutSearch::decide(nn::TensorOpInterface op, bool isFirst, bool &changed) {
  FailureOr<OpSharding> sharding = shardingOf(op, isFirst);
  if (failed(sharding))
    return failure();
  SmallVector<OpLayouts> ways = waysOf(op, *sharding, firstArriving(op));
  auto boundary = dyn_cast<BoundaryOp>(op.getOperation());
  if (boundary && failed(verifyPort(module, boundary, ways.front().results.front())))
    return failure();
  if (boundary && !isFirst) {
    // What arrives may have changed, and with it what is kept of it.
    if (ways.front() != plans.find(op)->second) {
      changed = true;
      setPlan(op, ways.front());
    }
    return success();
  }
  const OpLayouts *best = nullptr;
  LayoutCost least;
  if (!isFirst) {
    best = &plans.find(op)->second;
    least = costOf(op, *sharding, *best, isFirst);
  }
  for (const OpLayouts &way : ways) {
    if (best && way == *best)
      continue;
    LayoutCost cost = costOf(op, *sharding, way, isFirst);
    bool isTie = best && !cost.isLess(least) && !least.isLess(cost);
    if (!best || cost.isLess(least) || (isTie && countPartial(way) < countPartial(*best))) {
      best = &way;
      least = cost;
    }
  }
  if (isFirst || best != &plans.find(op)->second) {
    changed = true;
    setPlan(op, OpLayouts(*best));
  }
  return success();
}

void LayoutSearch::setPlan(nn::TensorOpInterface op, const OpLayouts &way) {
  if (auto old = plans.find(op); old != plans.end())
    count(op, old->second, -1);
  count(op, way, 1);
  setLayouts(op, way.results);
  plans[op] = way;
}

void LayoutSearch::count(nn::TensorOpInterface op, const OpLayouts &way, int64_t change) {
  for (auto [operand, layout] : llvm::zip(op->getOperands(), way.operands)) {
    auto &list = needs[operand];
    auto *found = llvm::find_if(
        list, [&](const Need &need) { return need.layout == layout && need.stage == getStage(op); });
    if (found == list.end()) {
      list.push_back({layout, getStage(op), 0});
      found = &list.back();
    }
    found->count += change;
    if (found->count == 0)
      list.erase(found);
  }
}

//===----------------------------------------------------------------------===//
// Costs
//===----------------------------------------------------------------------===//

LayoutCost LayoutSearch::costOf(nn::TensorOpInterface op, const OpSharding &sharding, const OpLayouts &way,
                                bool isFirst) {
  LayoutCost total = costs.work(op, sharding, way);
  total += brokenStatements(op, way);
  llvm::SmallPtrSet<Value, 4> seen;
  for (OpOperand &operand : op->getOpOperands())
    if (seen.insert(operand.get()).second)
      total += readCost(operand.get(), getArrivingLayout(operand), op, &way);
  for (auto [result, layout] : llvm::zip(op->getResults(), way.results))
    total += isFirst ? estimateReaders(result, layout) : readCost(result, layout, nullptr, nullptr);
  return total;
}

/// What it costs to give a value of the given layout to all its readers, where `reader` runs in `way`.
/// Readers of one stage that need the same layout share it, and a copy in one layout may be made from another
/// copy.
LayoutCost LayoutSearch::readCost(Value value, LayoutAttr layout, Operation *reader, const OpLayouts *way) {
  auto type = cast<RankedTensorType>(value.getType());
  auto producer = dyn_cast_or_null<nn::TensorOpInterface>(value.getDefiningOp());
  SmallVector<std::pair<LayoutAttr, int64_t>, 4> wanted;
  auto want = [&](LayoutAttr need, int64_t stage) {
    if (!llvm::is_contained(wanted, std::make_pair(need, stage)))
      wanted.push_back({need, stage});
  };
  auto own = reader ? plans.find(reader) : plans.end();
  for (const Need &need : needs[value]) {
    // The needs of `reader` as it stands do not count.
    int64_t others = need.count;
    if (own != plans.end() && need.stage == getStage(reader))
      for (auto [operand, old] : llvm::zip(reader->getOperands(), own->second.operands))
        others -= operand == value && old == need.layout;
    if (others > 0)
      want(need.layout, need.stage);
  }
  if (reader)
    for (auto [operand, need] : llvm::zip(reader->getOperands(), way->operands))
      if (operand == value)
        want(need, getStage(reader));

  LayoutCost total;
  for (size_t index = 0; index < wanted.size(); ++index) {
    auto [need, stage] = wanted[index];
    if (producer && need != layout && OpSharding(module, producer).isFree(layout, need))
      continue;
    LayoutCost least = costs.convert(type, layout, need);
    for (size_t earlier = 0; earlier < index; ++earlier)
      if (wanted[earlier].second == stage) {
        LayoutCost cost = costs.convert(type, wanted[earlier].first, need);
        if (cost.isLess(least))
          least = cost;
      }
    total += least;
  }
  if (!reader)
    for (OpOperand &use : value.getUses())
      if (!isa<nn::TensorOpInterface>(use.getOwner()))
        total += endCost(use, layout);
  return total;
}

/// The same for readers that are not decided yet: what each would cost with this operand.
LayoutCost LayoutSearch::estimateReaders(OpResult result, LayoutAttr layout) {
  LayoutCost total;
  int looked = 0;
  for (OpOperand &use : result.getUses()) {
    if (!isa<nn::TensorOpInterface>(use.getOwner())) {
      total += endCost(use, layout);
    } else if (looked++ < kLookedAtReaders) {
      LayoutCost cost;
      if (wantedBy(use, layout, &cost))
        total += cost;
      else
        ++total.violations;
    }
  }
  return total;
}

/// A parameter is computed with as the plan lays it out.
LayoutCost LayoutSearch::brokenStatements(nn::TensorOpInterface op, const OpLayouts &way) {
  LayoutCost cost;
  if (getPhase(op) >= Phase::Reduce)
    return cost;
  for (auto [operand, layout] : llvm::zip(op->getOpOperands(), way.operands))
    if (operand.get().getDefiningOp<LoadOp>() && getArrivingLayout(operand))
      cost.violations += getArrivingLayout(operand).getDims() != layout.getDims();
  return cost;
}
