//===- VerifyLayouts.cpp - What is read has the layout that its reader needs -----===//
//
// A layout is what the ranks of a group hold of a value: parts of it, contributions to it, or all the same.
// Only communication changes that. So layouts are followed through the calls of each stage: what a parameter,
// state or input holds, what a message brings, what a collective makes of the layout before it. A launch is a
// contract: it says in which layouts it reads its operands and makes its results. A reduction or gather that
// is missing, doubled or of the wrong group leaves a layout that the next reader does not take.
//
// The axis of the microbatches is summed by accumulating in a state. Shares that pipeline coordinates have of
// a state are the matter of VerifyUpdates.cpp: the pipeline axis is left out here.
//
//===----------------------------------------------------------------------===//

#include "VerifyPlan.h"
#include "plumb/Dialect/CCL/CCL.h"
#include "plumb/Dialect/NN/NN.h"
#include "plumb/Transforms/Buffers.h"
#include "plumb/Transforms/Utils.h"
#include "llvm/ADT/StringMap.h"
#include <deque>
#include <set>

using namespace mlir;
using namespace plumb;
using verification::Plan;

namespace {

/// What has been stored to a state so far.
struct Content {
  LayoutAttr accumulated;              ///< By the parts that run once per microbatch.
  std::map<int64_t, LayoutAttr> whole; ///< By those that run once per step, per coordinate.
  bool isSet = false;
  std::set<int64_t> contributors; ///< The stages that set or add to it once per microbatch.
};

class LayoutVerifier {
public:
  explicit LayoutVerifier(const Plan &plan);
  LogicalResult verify();

private:
  LogicalResult verifyPass(llvm::function_ref<bool(Phase)> isWanted);
  LogicalResult verifyOp(Operation &op, int64_t coordinate);
  LogicalResult verifyLaunch(LaunchOp launch);
  LogicalResult verifyView(Operation &op);
  LogicalResult verifyReceive(ccl::RecvOp recv);
  LogicalResult verifyCollectives(Operation &op);
  LogicalResult verifyCollective(Operation &op, LayoutAttr in, LayoutAttr out);
  LogicalResult verifySum(Operation &op, LayoutAttr &layout);
  LogicalResult verifyLoad(LoadOp load, int64_t coordinate);
  LogicalResult verifyStore(StoreOp store, int64_t coordinate);
  LogicalResult verifyLocalType(Operation &op, StringRef symbol, Type type);
  LogicalResult verifyAccumulation();
  LogicalResult verifyContributors(StateOp state, const std::set<int64_t> &contributors);
  LogicalResult verifyResults();
  LogicalResult verifyInputs();

  /// One form for all layouts that mean the same: axes of one rank are left out, partial axes are sorted.
  LayoutAttr normalize(LayoutAttr layout) const;
  LayoutAttr layoutOf(Value value) const { return normalize(getLayout(value)); }
  /// Whether a parameter or state is read or set as a whole in a phase, not added to: once per step, but for
  /// the sums to which the reduce phases of several coordinates add.
  bool isWholeIn(Phase phase, StringRef symbol) const;
  LayoutAttr without(LayoutAttr layout, ArrayRef<StringRef> axes) const;
  LayoutAttr withSumOver(LayoutAttr layout, ArrayRef<StringRef> axes) const;
  /// What a state holds for who reads it once per step.
  LayoutAttr getPending(const Content &content) const;
  /// The axes that a call works on, the axes of one rank left out.
  SmallVector<StringRef> axesOf(Operation &op) const;
  ArrayAttr axisNamesOf(Operation &op) const;
  ccl::CommunicatorOp communicatorOf(Operation &op) const;

  const Plan &plan;
  ModuleOp module;
  SymbolTable symbols;
  StringRef pipelineAxis;
  llvm::StringMap<Content> states;
  SmallVector<std::pair<LoadOp, int64_t>> accumulators; ///< Loads of sums that are added to, by coordinate.
  /// What is sent once per step and not received yet, by channel and phase.
  std::map<std::pair<StringRef, Phase>, std::deque<ccl::SendOp>> sent;
};

} // namespace

//===----------------------------------------------------------------------===//
// Layouts
//===----------------------------------------------------------------------===//

LayoutVerifier::LayoutVerifier(const Plan &plan) : plan(plan), module(plan.pipeline.module), symbols(module) {
  if (auto pipeline = findOp<PipelineOp>(module))
    pipelineAxis = pipeline.getAxis();
}

LayoutAttr LayoutVerifier::without(LayoutAttr layout, ArrayRef<StringRef> axes) const {
  auto isKept = [&](AxisRefAttr axis) {
    return axis.getName() != pipelineAxis && getAxisSize(module, axis) > 1 &&
           !(axis.isWhole() && llvm::is_contained(axes, axis.getName().getValue()));
  };
  SmallVector<DimShardingAttr> dims;
  for (DimShardingAttr dim : layout.getDims()) {
    SmallVector<AxisRefAttr> kept = llvm::filter_to_vector(dim.getAxes(), isKept);
    dims.push_back(dim.withAxes(kept));
  }
  SmallVector<PartialAttr> partial =
      llvm::filter_to_vector(layout.getPartial(), [&](PartialAttr entry) { return isKept(entry.getAxis()); });
  llvm::sort(partial, [](PartialAttr a, PartialAttr b) {
    auto key = [](PartialAttr p) {
      return std::tuple(p.getAxis().getName().getValue(), p.getAxis().getPreSize(), p.getAxis().getSize());
    };
    return key(a) < key(b);
  });
  return LayoutAttr::get(layout.getContext(), layout.getMesh(), dims, partial);
}

LayoutAttr LayoutVerifier::normalize(LayoutAttr layout) const {
  return layout ? without(layout, {}) : layout;
}

LayoutAttr LayoutVerifier::withSumOver(LayoutAttr layout, ArrayRef<StringRef> axes) const {
  SmallVector<PartialAttr> partial(layout.getPartial());
  for (StringRef axis : axes)
    partial.push_back(PartialAttr::get(layout.getContext(),
                                       AxisRefAttr::get(StringAttr::get(layout.getContext(), axis)),
                                       StringAttr::get(layout.getContext(), "sum")));
  return normalize(layout.withPartial(partial));
}

/// The layout of one block of a row.
static LayoutAttr dropRow(LayoutAttr layout) {
  return LayoutAttr::get(layout.getContext(), layout.getMesh(), layout.getDims().drop_front(),
                         layout.getPartial());
}

static bool isRow(LayoutAttr layout) {
  return !layout.getDims().empty() && layout.getDims().front().getAxes().empty();
}

static bool areEach(ArrayRef<StringRef> axes, LayoutAttr layout, bool sharded, bool partial) {
  return llvm::all_of(axes, [&](StringRef axis) {
    return layout.isShardedOver(axis) == sharded && layout.isPartialOver(axis) == partial;
  });
}

ccl::CommunicatorOp LayoutVerifier::communicatorOf(Operation &op) const {
  return symbols.lookup<ccl::CommunicatorOp>(op.getAttrOfType<FlatSymbolRefAttr>("communicator").getValue());
}

ArrayAttr LayoutVerifier::axisNamesOf(Operation &op) const {
  auto local = op.getAttrOfType<ArrayAttr>("axes");
  return local ? local : communicatorOf(op).getAxes();
}

SmallVector<StringRef> LayoutVerifier::axesOf(Operation &op) const {
  auto mesh = findOp<MeshOp>(module);
  SmallVector<StringRef> axes;
  for (const ccl::Axis &axis : ccl::parseAxes(axisNamesOf(op)))
    if (mesh.getAxisSize(axis.name) > 1)
      axes.push_back(axis.name);
  return axes;
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

LogicalResult LayoutVerifier::verifyLaunch(LaunchOp launch) {
  auto needed = launch->getAttrOfType<ArrayAttr>(kOperandLayoutsAttr);
  if (needed && needed.size() != launch.getOperands().size())
    return emitModelError(launch) << "has " << launch.getOperands().size() << " operands and "
                                  << needed.size() << " entries in " << kOperandLayoutsAttr;
  for (auto [index, operand] : llvm::enumerate(launch.getOperands())) {
    auto need = needed ? normalize(dyn_cast<LayoutAttr>(needed[index])) : LayoutAttr();
    if (need == layoutOf(operand))
      continue;
    InFlightDiagnostic diagnostic = emitModelError(launch);
    diagnostic << "reads operand " << index << " in the layout ";
    if (LayoutAttr layout = layoutOf(operand))
      diagnostic << layout;
    else
      diagnostic << "that nothing states";
    if (need)
      diagnostic << ", but needs " << need << "; a reduction or gather is missing, or of the wrong group";
    else
      diagnostic << ", but does not say what it needs";
    diagnostic.attachNote(operand.getLoc()) << "the operand";
    return diagnostic;
  }
  return success();
}

/// The axes that shard a value, wherever they do: of each axis the ranges of its digits, as the ranks before
/// a range and up to its end. Factors that follow each other are one range.
static std::set<std::tuple<StringRef, int64_t, int64_t>> getShardingAxes(ModuleOp module, LayoutAttr layout) {
  std::set<std::tuple<StringRef, int64_t, int64_t>> axes, joined;
  for (DimShardingAttr dim : layout.getDims())
    for (AxisRefAttr axis : dim.getAxes()) {
      int64_t before = axis.isWhole() ? 1 : axis.getPreSize();
      axes.insert({axis.getName().getValue(), before, before * getAxisSize(module, axis)});
    }
  for (auto [name, begin, end] : axes) {
    auto last = joined.empty() ? joined.end() : std::prev(joined.end());
    if (last != joined.end() && std::get<0>(*last) == name && std::get<2>(*last) == begin) {
      begin = std::get<1>(*last);
      joined.erase(last);
    }
    joined.insert({name, begin, end});
  }
  return joined;
}

/// A view moves axes between dims, nothing else.
LogicalResult LayoutVerifier::verifyView(Operation &op) {
  LayoutAttr from = layoutOf(op.getOperand(0)), to = layoutOf(op.getResult(0));
  if (!from || !to || from == to ||
      (from.getPartial() == to.getPartial() && getShardingAxes(module, from) == getShardingAxes(module, to)))
    return success();
  return emitModelError(&op) << "is a view of " << from << ", but says that it is " << to;
}

LogicalResult LayoutVerifier::verifyReceive(ccl::RecvOp recv) {
  Part part = getPart(recv);
  ccl::SendOp send;
  if (part.isTransfer()) {
    auto stage = static_cast<int64_t>(cast<StageOp>(recv->getParentOp()).getIndex());
    ArrayRef<Operation *> mine = plan.parts[stage].find(part)->second;
    ArrayRef<Operation *> theirs = plan.parts[part.peer].find(getCounterpart(part, stage))->second;
    send = cast<ccl::SendOp>(theirs[std::distance(mine.begin(), llvm::find(mine, recv.getOperation()))]);
  } else {
    std::deque<ccl::SendOp> &channel = sent[{recv.getCommunicator(), getPhase(recv)}];
    if (channel.empty())
      return emitModelError(recv) << "receives what nothing sends on @" << recv.getCommunicator();
    send = channel.front();
    channel.pop_front();
  }
  if (layoutOf(send.getValue()) == layoutOf(recv.getResult()))
    return success();
  InFlightDiagnostic diagnostic = emitModelError(recv);
  diagnostic << "takes what arrives for " << layoutOf(recv.getResult()) << ", but it is "
             << layoutOf(send.getValue());
  diagnostic.attachNote(send.getLoc()) << "the send";
  return diagnostic;
}

/// Takes the axes of a sum out of the layout of its operand.
LogicalResult LayoutVerifier::verifySum(Operation &op, LayoutAttr &layout) {
  SmallVector<StringRef> axes = axesOf(op);
  for (StringRef axis : axes)
    if (!layout.isPartialOver(axis))
      return emitModelError(&op) << "sums over the axis \"" << axis << "\", over which the value is "
                                 << (layout.isShardedOver(axis)
                                         ? "cut: its ranks hold different parts"
                                         : "whole already; it would be counted several "
                                           "times");
  layout = without(layout, axes);
  return success();
}

/// Sums and moves over whole axes. What works on factors of axes, or between the steps of a redistribution
/// that takes several, states no layouts; its ends do.
static bool isCovered(Operation &op) {
  auto reduction = op.getAttrOfType<StringAttr>("reduction");
  return isa<ccl::AllReduceOp, ccl::ReduceScatterOp, ccl::AllGatherOp, ccl::AllToAllOp, ccl::SliceOp,
             ccl::KeepFirstOp>(op) &&
         (!reduction || reduction.getValue() == "sum");
}

/// Each tensor of a bucket by itself.
LogicalResult LayoutVerifier::verifyCollectives(Operation &op) {
  for (auto [input, output] : llvm::zip(op.getOperands(), op.getResults()))
    if (failed(verifyCollective(op, layoutOf(input), layoutOf(output))))
      return failure();
  return success();
}

LogicalResult LayoutVerifier::verifyCollective(Operation &op, LayoutAttr in, LayoutAttr out) {
  if (!in || !out || !isCovered(op) ||
      !llvm::all_of(ccl::parseAxes(axisNamesOf(op)), [](const ccl::Axis &axis) { return axis.isWhole(); }))
    return success();
  SmallVector<StringRef> axes = axesOf(op);
  auto verify = [&](bool fits) -> LogicalResult {
    if (fits)
      return success();
    return emitModelError(&op) << "over " << llvm::join(axes, ", ") << " does not make " << out << " of "
                               << in << "; it is of the wrong group, or there is one too many or too few";
  };
  if (isa<ccl::AllReduceOp, ccl::ReduceScatterOp>(op)) {
    if (failed(verifySum(op, in)))
      return failure();
    if (isa<ccl::AllReduceOp>(op))
      return verify(in == out);
    return verify(isRow(in) && dropRow(in) == without(out, axes) && areEach(axes, out, true, false));
  }
  if (isa<ccl::AllGatherOp>(op))
    return verify(areEach(axes, in, true, false) && isRow(out) && dropRow(out) == without(in, axes));
  if (isa<ccl::AllToAllOp>(op))
    return verify(isRow(in) && isRow(out) && areEach(axes, in, true, false) &&
                  areEach(axes, out, true, false) && without(in, axes) == without(out, axes));
  if (isa<ccl::SliceOp>(op))
    return verify(areEach(axes, in, false, false) && isRow(in) && areEach(axes, out, true, false) &&
                  dropRow(in) == without(out, axes));
  return verify(areEach(axes, in, false, false) && withSumOver(in, axes) == out);
}

//===----------------------------------------------------------------------===//
// Parameters and states
//===----------------------------------------------------------------------===//

LayoutAttr LayoutVerifier::getPending(const Content &content) const {
  if (!content.accumulated)
    return {};
  LayoutAttr layout = content.accumulated;
  SmallVector<PartialAttr> partial = llvm::filter_to_vector(
      layout.getPartial(), [](PartialAttr entry) { return entry.getAxis().getName() != kMicrobatchAxis; });
  layout = layout.withPartial(partial);
  return layout;
}

bool LayoutVerifier::isWholeIn(Phase phase, StringRef symbol) const {
  if (phase != Phase::Reduce)
    return phase == Phase::Begin || phase == Phase::Update;
  auto state = symbols.lookup<StateOp>(symbol);
  return !state || !state.getHolders();
}

LogicalResult LayoutVerifier::verifyLocalType(Operation &op, StringRef symbol, Type type) {
  Operation *target = symbols.lookup(symbol);
  LayoutAttr layout = getDeclaredLayout(target);
  if (!layout)
    return success();
  Type global =
      isa<ParameterOp>(target) ? cast<ParameterOp>(target).getType() : cast<StateOp>(target).getType();
  Type local = getLocalType(module, cast<RankedTensorType>(global), layout);
  if (local == type)
    return success();
  return emitModelError(&op) << "uses @" << symbol << " as " << type << "; a rank's part of " << global
                             << " in " << layout << " is " << local;
}

LogicalResult LayoutVerifier::verifyLoad(LoadOp load, int64_t coordinate) {
  if (failed(verifyLocalType(*load, load.getSymbol(), load.getResult().getType())))
    return failure();
  auto verify = [&](LayoutAttr held) -> LogicalResult {
    if (held == layoutOf(load.getResult()))
      return success();
    return emitModelError(load) << "takes @" << load.getSymbol() << " for " << layoutOf(load.getResult())
                                << ", but it holds " << held;
  };
  if (auto parameter = symbols.lookup<ParameterOp>(load.getSymbol()))
    return verify(normalize(parameter.getLayoutAttr()));
  Content &content = states[load.getSymbol()];
  auto state = symbols.lookup<StateOp>(load.getSymbol());
  bool isPersistent = state && state.isPersistent();
  if (!isPersistent && !isWholeIn(getPhase(load), load.getSymbol())) {
    accumulators.push_back({load, coordinate});
    return success();
  }
  if (auto whole = content.whole.find(coordinate); whole != content.whole.end())
    return verify(whole->second);
  return verify(isPersistent ? normalize(state.getLayoutAttr()) : getPending(content));
}

LogicalResult LayoutVerifier::verifyStore(StoreOp store, int64_t coordinate) {
  LayoutAttr layout = layoutOf(store.getValue());
  if (failed(verifyLocalType(*store, store.getSymbol(), store.getValue().getType())))
    return failure();
  Operation *target = symbols.lookup(store.getSymbol());
  LayoutAttr declared = normalize(getDeclaredLayout(target));
  if (declared && layout && layout.getDims() != declared.getDims())
    return emitModelError(store) << "sets @" << store.getSymbol() << ", whose layout is " << declared
                                 << ", to " << layout;
  bool once = isWholeIn(getPhase(store), store.getSymbol());
  if (layout && !layout.getPartial().empty() && (once || isa<ParameterOp>(target)))
    return emitModelError(store) << (isa<ParameterOp>(target) ? "updates @" : "completes @")
                                 << store.getSymbol() << " from a value that is not summed over "
                                 << llvm::join(llvm::map_range(layout.getPartial(),
                                                               [](PartialAttr entry) {
                                                                 return entry.getAxis().getName().getValue();
                                                               }),
                                               ", ")
                                 << "; reduce it first";
  if (isa<ParameterOp>(target))
    return success();
  Content &content = states[store.getSymbol()];
  content.isSet = true;
  if (once) {
    content.whole[coordinate] = layout;
    return success();
  }
  content.contributors.insert(static_cast<int64_t>(store->getParentOfType<StageOp>().getIndex()));
  if (!content.accumulated)
    content.accumulated = layout;
  if (content.accumulated == layout)
    return success();
  return emitModelError(store) << "adds " << layout << " to @" << store.getSymbol()
                               << ", in which others add " << content.accumulated;
}

/// A sum begins with what is stored in the end; what was stored once, before the walk, is there all the time.
LogicalResult LayoutVerifier::verifyAccumulation() {
  for (auto [load, coordinate] : accumulators) {
    const Content &content = states[load.getSymbol()];
    auto whole = content.whole.find(coordinate);
    LayoutAttr held =
        content.accumulated || whole == content.whole.end() ? content.accumulated : whole->second;
    if (held != layoutOf(load.getResult()))
      return emitModelError(load) << "takes @" << load.getSymbol() << " for " << layoutOf(load.getResult())
                                  << ", but it holds " << held;
  }
  accumulators.clear();
  return success();
}

/// Where copies of a stage share the microbatches out, each of them contributes to what any of them does.
LogicalResult LayoutVerifier::verifyContributors(StateOp state, const std::set<int64_t> &contributors) {
  int64_t stages = plan.pipeline.stagesPerCopy(), copies = plan.pipeline.copies;
  for (int64_t stage : contributors)
    for (int64_t copy = 0; copy < copies; ++copy)
      if (int64_t other = stage % stages + copy * stages; !contributors.contains(other))
        return state.emitError("@") << state.getSymName() << " is set by stage " << stage
                                    << ", but not by its copy " << other << ", which runs other microbatches";
  return success();
}

/// Microbatches have the same rows in all inputs: they are cut within the shards of the same axes. All else
/// is made of these.
LogicalResult LayoutVerifier::verifyInputs() {
  InputOp first;
  for (StageOp stage : plan.pipeline.stages)
    for (auto input : stage.getBody().front().getOps<InputOp>()) {
      LayoutAttr layout = layoutOf(input.getResult());
      if (!layout || input.getCounts() || getWalkedAxes(layout).empty())
        continue;
      if (!first)
        first = input;
      LayoutAttr other = layoutOf(first.getResult());
      if (getWalkedAxes(layout) == getWalkedAxes(other))
        continue;
      InFlightDiagnostic diagnostic = emitModelError(input);
      diagnostic << "is " << layout << ", and input \"" << first.getName() << "\" is " << other
                 << ": their microbatches have different rows";
      diagnostic.attachNote(first.getLoc()) << "the other input";
      return diagnostic;
    }
  return success();
}

/// What a step leaves for who asks for it is whole.
LogicalResult LayoutVerifier::verifyResults() {
  for (auto state : module.getOps<StateOp>()) {
    const Content &content = states[state.getSymName()];
    LayoutAttr pending = getPending(content);
    if (!llvm::is_contained({"gradient", "loss", "output"}, state.getKind()))
      continue;
    if (!content.isSet)
      return state.emitError("@") << state.getSymName() << ", a result of the step, is set by no stage";
    if (failed(verifyContributors(state, content.contributors)))
      return failure();
    if (!pending || pending.getPartial().empty())
      continue;
    // Where a share is handed over, only the one that takes it completes the sum.
    if (content.whole.empty())
      return state.emitError("@") << state.getSymName() << " is left as " << pending
                                  << "; its sum is never completed";
  }
  return success();
}

//===----------------------------------------------------------------------===//
// The whole plan
//===----------------------------------------------------------------------===//

LogicalResult LayoutVerifier::verifyOp(Operation &op, int64_t coordinate) {
  if (auto load = dyn_cast<LoadOp>(op))
    return verifyLoad(load, coordinate);
  if (auto store = dyn_cast<StoreOp>(op))
    return verifyStore(store, coordinate);
  if (auto recv = dyn_cast<ccl::RecvOp>(op))
    return verifyReceive(recv);
  if (auto launch = dyn_cast<LaunchOp>(op))
    return verifyLaunch(launch);
  if (op.hasTrait<nn::Reinterprets>())
    return verifyView(op);
  return isa<InputOp, ccl::SendOp>(op) ? success() : verifyCollectives(op);
}

LogicalResult LayoutVerifier::verifyPass(llvm::function_ref<bool(Phase)> isWanted) {
  for (auto [index, entry] : llvm::enumerate(plan.pipeline.stages)) {
    StageOp stage = entry;
    for (Operation &op : stage.getBody().front())
      if (isWanted(getPhase(&op)) &&
          failed(verifyOp(op, plan.pipeline.coordinateOf(static_cast<int64_t>(index)))))
        return failure();
  }
  return success();
}

LogicalResult LayoutVerifier::verify() {
  if (failed(verifyInputs()))
    return failure();
  for (StageOp stage : plan.pipeline.stages)
    for (auto send : stage.getBody().front().getOps<ccl::SendOp>())
      if (!getPart(send).isTransfer())
        sent[{send.getCommunicator(), getPhase(send)}].push_back(send);
  auto is = [](Phase wanted) { return [wanted](Phase phase) { return phase == wanted; }; };
  auto isWalked = [](Phase phase) {
    return phase == Phase::Forward || phase == Phase::BackwardInput || phase == Phase::BackwardWeight;
  };
  return success(succeeded(verifyPass(is(Phase::Prologue))) && succeeded(verifyPass(is(Phase::Begin))) &&
                 succeeded(verifyPass(isWalked)) && succeeded(verifyAccumulation()) &&
                 succeeded(verifyPass(is(Phase::Reduce))) && succeeded(verifyAccumulation()) &&
                 succeeded(verifyPass(is(Phase::Update))) && succeeded(verifyResults()));
}

LogicalResult verification::verifyLayouts(const Plan &plan) { return LayoutVerifier(plan).verify(); }
