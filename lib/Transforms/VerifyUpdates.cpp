//===- VerifyUpdates.cpp - Parameters are updated from their whole gradients -------===//
//
// A gradient that the backward phases accumulate is *pending* over the axes for which it is partial, and each
// rank of the pipeline has its *share* of it only. Sums over ranks, and what ranks send each other, are
// followed through the update phases; a parameter may be set only from values that are pending over nothing
// and contain the shares of all ranks.
//
//===----------------------------------------------------------------------===//

#include "VerifyPlan.h"
#include "mlir/IR/SymbolTable.h"
#include "plumb/Dialect/CCL/CCL.h"
#include "plumb/Transforms/Utils.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"
#include <deque>
#include <set>

using namespace mlir;
using namespace plumb;
using verification::Plan;

namespace {

struct Pending {
  std::map<StringRef, int64_t> axes; ///< The ranks along the axis that have shares of the value.
  std::set<int64_t> shares;          ///< Coordinates whose share the value contains.
  std::set<int64_t> contributors;    ///< Coordinates that have a share at all.

  void joinAxes(const std::map<StringRef, int64_t> &other) {
    for (auto [axis, ranks] : other)
      axes[axis] = std::max(axes[axis], ranks);
  }
  void join(const Pending &other) {
    joinAxes(other.axes);
    shares.insert(other.shares.begin(), other.shares.end());
    contributors.insert(other.contributors.begin(), other.contributors.end());
  }
};

/// The ops of the update phases of one coordinate, in order, and how many of them were followed.
struct Update {
  SmallVector<Operation *> ops;
  size_t next = 0;
};

class UpdateVerifier {
public:
  explicit UpdateVerifier(const Plan &plan) : plan(plan), symbols(plan.pipeline.module) {}
  LogicalResult verify();

private:
  void readGradients();
  void shareSums();
  void addPartial(LayoutAttr layout, Pending &pending) const;
  LogicalResult follow(Phase phase);
  LogicalResult followUpdates(MutableArrayRef<Update> updates);
  bool isBlocked(Operation *op) const;
  LogicalResult run(Operation &op, int64_t coordinate);
  LogicalResult runCollective(Operation &op);
  LogicalResult reduce(Operation &op, StringRef communicator, Pending &pending);
  LogicalResult requireWhole(StoreOp store, const Pending &pending) const;
  /// With an optimizer, what has a gradient is updated.
  void expectUpdates();
  LogicalResult verifyCopies();

  const Plan &plan;
  SymbolTable symbols;
  /// Of each gradient state, on each coordinate: the sums over ranks made on one are made on all, but each at
  /// its time.
  llvm::StringMap<std::map<int64_t, Pending>> states;
  DenseMap<Value, Pending> values;
  llvm::StringMap<std::deque<Pending>> sent;                    ///< On each channel, not received yet.
  llvm::MapVector<ParameterOp, std::map<int64_t, int>> updates; ///< Number per coordinate.
};

} // namespace

/// What is accumulated in the backward phases decides what is pending, not what a state declares.
void UpdateVerifier::readGradients() {
  for (auto [index, entry] : llvm::enumerate(plan.pipeline.stages)) {
    StageOp stage = entry;
    int64_t coordinate = plan.pipeline.coordinateOf(static_cast<int64_t>(index));
    for (auto store : stage.getBody().front().getOps<StoreOp>()) {
      auto state = symbols.lookup<StateOp>(store.getSymbol());
      if (!state || getPhase(store) >= Phase::Reduce || getPhase(store) == Phase::Begin)
        continue;
      Pending &pending = states[store.getSymbol()][coordinate];
      // Several contributions to one gradient are pending alike; factors of one axis multiply.
      std::map<StringRef, int64_t> axes;
      if (LayoutAttr layout = getLayout(store.getValue()))
        for (PartialAttr partial : layout.getPartial())
          if (partial.getAxis().getName() != kMicrobatchAxis)
            axes.try_emplace(partial.getAxis().getName().getValue(), 1).first->second *=
                getAxisSize(plan.pipeline.module, partial.getAxis());
      pending.joinAxes(axes);
      // What a prologue sums up, every coordinate sums up for itself.
      if (getPhase(store) != Phase::Prologue)
        pending.shares.insert(coordinate);
    }
  }
  for (auto &entry : states) {
    std::set<int64_t> contributors;
    for (auto &[coordinate, pending] : entry.second)
      contributors.insert(pending.shares.begin(), pending.shares.end());
    for (int64_t coordinate = 0; coordinate < plan.pipeline.coordinates; ++coordinate)
      entry.second[coordinate].contributors = contributors;
  }
}

LogicalResult UpdateVerifier::reduce(Operation &op, StringRef name, Pending &pending) {
  auto communicator = symbols.lookup<ccl::CommunicatorOp>(name);
  if (auto reduction = op.getAttrOfType<StringAttr>("reduction"); reduction && reduction != "sum")
    return emitModelError(&op) << "completes a gradient by '" << reduction.getValue()
                               << "'; gradients are sums of their shares";
  ModuleOp module = plan.pipeline.module;
  for (const ccl::Axis &axis : ccl::parseAxes(communicator.getAxes())) {
    int64_t size = axis.isWhole() ? findOp<MeshOp>(module).getAxisSize(axis.name) : axis.size;
    auto shares = pending.axes.find(axis.name);
    if (shares == pending.axes.end() || shares->second % size != 0)
      return emitModelError(&op)
             << "sums over the axis \"" << axis.name
             << "\", over which the value is whole already; it would be counted several times";
    shares->second /= size;
    if (shares->second == 1)
      pending.axes.erase(shares);
  }
  std::set<int64_t> members(communicator.getPipeline().begin(), communicator.getPipeline().end());
  if (members.size() < 2)
    return success();
  if (pending.shares.size() > 1 || members != pending.contributors)
    return emitModelError(&op) << "sums over the pipeline coordinates of @" << name
                               << ", which are not those that have a share of the value";
  pending.shares = members;
  return success();
}

LogicalResult UpdateVerifier::requireWhole(StoreOp store, const Pending &pending) const {
  bool isParameter = symbols.lookup<ParameterOp>(store.getSymbol()) != nullptr;
  auto report = [&] {
    return emitModelError(store) << (isParameter ? "updates @" : "completes @") << store.getSymbol()
                                 << " from a " << (isParameter ? "gradient" : "value")
                                 << " that is not summed over ";
  };
  if (!pending.axes.empty())
    return report() << llvm::join(llvm::make_first_range(pending.axes), ", ") << "; reduce it first";
  for (int64_t contributor : pending.contributors)
    if (!pending.shares.contains(contributor))
      return report() << "the copies of the parameter: the share of pipeline coordinate " << contributor
                      << " is missing; reduce it first";
  return success();
}

LogicalResult UpdateVerifier::run(Operation &op, int64_t coordinate) {
  if (auto load = dyn_cast<LoadOp>(op)) {
    auto state = states.find(load.getSymbol());
    if (state != states.end())
      values[load.getResult()] = state->second[coordinate];
    return success();
  }
  if (auto store = dyn_cast<StoreOp>(op)) {
    const Pending &pending = values[store.getValue()];
    if (auto parameter = symbols.lookup<ParameterOp>(store.getSymbol()))
      ++updates[parameter][coordinate];
    else
      states[store.getSymbol()][coordinate] = pending;
    return getPhase(store) == Phase::Update ? requireWhole(store, pending) : success();
  }
  if (isa<ccl::AllReduceOp, ccl::ReduceScatterOp, ccl::AllGatherOp>(op))
    return runCollective(op);
  Pending pending;
  for (Value operand : op.getOperands())
    pending.join(values[operand]);
  if (auto send = dyn_cast<ccl::SendOp>(op))
    sent[send.getCommunicator()].push_back(pending);
  if (auto recv = dyn_cast<ccl::RecvOp>(op)) {
    pending = sent[recv.getCommunicator()].front();
    sent[recv.getCommunicator()].pop_front();
  }
  for (Value result : op.getResults()) {
    values[result] = pending;
    addPartial(isa<LaunchOp>(op) ? getLayout(result) : LayoutAttr(), values[result]);
  }
  return success();
}

/// Each tensor of a bucket by itself.
LogicalResult UpdateVerifier::runCollective(Operation &op) {
  StringRef communicator = op.getAttrOfType<FlatSymbolRefAttr>("communicator").getValue();
  for (auto [operand, result] : llvm::zip(op.getOperands(), op.getResults())) {
    Pending pending = values[operand];
    if (!isa<ccl::AllGatherOp>(op) && failed(reduce(op, communicator, pending)))
      return failure();
    values[result] = pending;
  }
  return success();
}

/// What is partial by its layout is pending, but for the walk over microbatches, and the ranks of the
/// pipeline, whose shares states tell.
void UpdateVerifier::addPartial(LayoutAttr layout, Pending &pending) const {
  ModuleOp module = plan.pipeline.module;
  auto pipeline = findOp<PipelineOp>(module);
  std::map<StringRef, int64_t> axes; // Factors of one axis multiply.
  for (PartialAttr partial : layout ? layout.getPartial() : ArrayRef<PartialAttr>())
    if (StringRef axis = partial.getAxis().getName(); axis != kMicrobatchAxis && axis != pipeline.getAxis())
      axes.try_emplace(axis, 1).first->second *= getAxisSize(module, partial.getAxis());
  pending.joinAxes(axes);
}

/// Sums that the reduce phases of several coordinates have added to: each has its share.
void UpdateVerifier::shareSums() {
  ModuleOp module = plan.pipeline.module;
  for (StateOp state : module.getOps<StateOp>()) {
    if (!state.getHolders() || state.getHolders()->empty())
      continue;
    std::map<int64_t, Pending> &shares = states[state.getSymName()];
    Pending all;
    std::set<int64_t> contributors;
    for (auto &[coordinate, pending] : shares)
      all.joinAxes(pending.axes);
    for (int64_t holder : state.getHolders().value_or(ArrayRef<int64_t>()))
      contributors.insert(plan.pipeline.coordinateOf(holder));
    for (int64_t coordinate : contributors)
      shares[coordinate] = {all.axes, {coordinate}, contributors};
  }
}

bool UpdateVerifier::isBlocked(Operation *op) const {
  auto recv = dyn_cast<ccl::RecvOp>(op);
  if (!recv)
    return false;
  auto channel = sent.find(recv.getCommunicator());
  return channel == sent.end() || channel->second.empty();
}

/// Follows each coordinate as far as what it receives was sent, turn by turn.
LogicalResult UpdateVerifier::followUpdates(MutableArrayRef<Update> updates) {
  for (bool progress = true; progress;) {
    progress = false;
    for (auto [coordinate, update] : llvm::enumerate(updates))
      for (; update.next < update.ops.size() && !isBlocked(update.ops[update.next]); ++update.next) {
        progress = true;
        if (failed(run(*update.ops[update.next], static_cast<int64_t>(coordinate))))
          return failure();
      }
  }
  for (Update &update : updates)
    if (update.next < update.ops.size())
      return emitModelError(update.ops[update.next]) << "receives what no update phase sends";
  return success();
}

void UpdateVerifier::expectUpdates() {
  ModuleOp module = plan.pipeline.module;
  if (!findOp<OptimizerOp>(module))
    return;
  for (auto state : module.getOps<StateOp>())
    if (state.getKind() == "gradient")
      if (auto parameter = symbols.lookup<ParameterOp>(state.getOf().value_or("")))
        updates.insert({parameter, {}});
}

/// All copies of a parameter are updated, once.
LogicalResult UpdateVerifier::verifyCopies() {
  for (auto &[parameter, counts] : updates) {
    ParameterOp op = parameter;
    for (int64_t holder : op.getHolders().value_or(ArrayRef<int64_t>()))
      counts.try_emplace(plan.pipeline.coordinateOf(holder), 0);
    for (auto [coordinate, count] : counts)
      if (count != 1)
        return op.emitError("@") << op.getSymName() << " is updated " << count
                                 << " times in a step on pipeline coordinate " << coordinate
                                 << "; each copy must be updated once";
  }
  return success();
}

LogicalResult UpdateVerifier::follow(Phase phase) {
  SmallVector<Update> phases(plan.pipeline.coordinates);
  for (auto [index, entry] : llvm::enumerate(plan.pipeline.stages)) {
    StageOp stage = entry;
    for (Operation &op : stage.getBody().front())
      if (getPhase(&op) == phase)
        phases[plan.pipeline.coordinateOf(static_cast<int64_t>(index))].ops.push_back(&op);
  }
  return followUpdates(phases);
}

LogicalResult UpdateVerifier::verify() {
  for (StageOp stage : plan.pipeline.stages)
    for (auto store : stage.getBody().front().getOps<StoreOp>())
      if (getPhase(store) != Phase::Update && symbols.lookup<ParameterOp>(store.getSymbol()))
        return emitModelError(store) << "sets the parameter @" << store.getSymbol() << " in the phase "
                                     << stringifyPhase(getPhase(store)) << "; only the update may";
  readGradients();
  if (failed(follow(Phase::Reduce)))
    return failure();
  shareSums();
  if (failed(follow(Phase::Update)))
    return failure();
  expectUpdates();
  return verifyCopies();
}

LogicalResult verification::verifyUpdates(const Plan &plan) { return UpdateVerifier(plan).verify(); }
