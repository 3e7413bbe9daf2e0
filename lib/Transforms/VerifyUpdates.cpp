//===- VerifyUpdates.cpp - Parameters are updated from their whole gradients -------===//
//
// A gradient that the backward phases accumulate is *pending* over the axes for which it is partial, and over
// the copies of its parameter on several pipeline coordinates. Only sums over ranks end that; they are
// followed through the update phases, and a parameter may be set only from values that are pending over
// nothing.
//
//===----------------------------------------------------------------------===//

#include "VerifyPlan.h"
#include "mlir/IR/SymbolTable.h"
#include "plumb/Dialect/CCL/CCL.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"
#include <set>

using namespace mlir;
using namespace plumb;
using verification::Plan;

namespace {

/// Stands for the copies of a parameter among the axes of a mesh.
constexpr StringLiteral kCopies = "the copies of the parameter";

struct Pending {
  std::set<StringRef> axes;
  std::set<int64_t> coordinates; ///< That hold copies.
};

class UpdateVerifier {
public:
  explicit UpdateVerifier(const Plan &plan) : plan(plan), symbols(plan.pipeline.module) {}
  LogicalResult verify();

private:
  void readGradients();
  LogicalResult run(Operation &op, int64_t coordinate);
  LogicalResult reduce(Operation &op, StringRef communicator, Pending &pending);
  LogicalResult update(StoreOp store, ParameterOp parameter, const Pending &pending, int64_t coordinate);
  LogicalResult verifyCopies();

  const Plan &plan;
  SymbolTable symbols;
  /// Of each gradient state, on each coordinate: the sums over ranks made on one are made on all, but each at
  /// its time.
  llvm::StringMap<std::map<int64_t, Pending>> states;
  DenseMap<Value, Pending> values;
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
      if (!state || getPhase(store) == Phase::Update)
        continue;
      Pending &pending = states[store.getSymbol()][coordinate];
      if (LayoutAttr layout = getLayout(store.getValue()))
        for (PartialAttr partial : layout.getPartial())
          if (partial.getAxis().getName() != kMicrobatchAxis)
            pending.axes.insert(partial.getAxis().getName().getValue());
      if (state.getOf())
        pending.coordinates.insert(coordinate);
    }
  }
  for (auto &entry : states) {
    std::set<int64_t> holders;
    for (auto &[coordinate, pending] : entry.second)
      holders.insert(pending.coordinates.begin(), pending.coordinates.end());
    for (auto &[coordinate, pending] : entry.second) {
      pending.coordinates = holders;
      if (holders.size() > 1)
        pending.axes.insert(kCopies);
    }
  }
}

LogicalResult UpdateVerifier::reduce(Operation &op, StringRef name, Pending &pending) {
  auto communicator = symbols.lookup<ccl::CommunicatorOp>(name);
  for (StringRef axis : communicator.getAxes().getAsValueRange<StringAttr>())
    if (!pending.axes.erase(axis))
      return emitModelError(&op)
             << "sums over the axis \"" << axis
             << "\", over which the value is whole already; it would be counted several times";
  std::set<int64_t> members(communicator.getPipeline().begin(), communicator.getPipeline().end());
  if (members.size() > 1) {
    if (!pending.axes.erase(kCopies) || members != pending.coordinates)
      return emitModelError(&op) << "sums over the pipeline coordinates of @" << name
                                 << ", which are not those that have a share of the value";
  }
  return success();
}

LogicalResult UpdateVerifier::update(StoreOp store, ParameterOp parameter, const Pending &pending,
                                     int64_t coordinate) {
  ++updates[parameter][coordinate];
  if (pending.axes.empty())
    return success();
  return emitModelError(store) << "updates @" << store.getSymbol()
                               << " from a gradient that is not summed over "
                               << llvm::join(pending.axes, ", ") << "; reduce it first";
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
      return update(store, parameter, pending, coordinate);
    states[store.getSymbol()][coordinate] = pending;
    return success();
  }
  Pending pending;
  for (Value operand : op.getOperands()) {
    const Pending &other = values[operand];
    pending.axes.insert(other.axes.begin(), other.axes.end());
    pending.coordinates.insert(other.coordinates.begin(), other.coordinates.end());
  }
  if (isa<ccl::AllReduceOp, ccl::ReduceScatterOp>(op) &&
      failed(reduce(op, op.getAttrOfType<FlatSymbolRefAttr>("communicator").getValue(), pending)))
    return failure();
  for (Value result : op.getResults())
    values[result] = pending;
  return success();
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

LogicalResult UpdateVerifier::verify() {
  readGradients();
  for (auto [index, entry] : llvm::enumerate(plan.pipeline.stages)) {
    StageOp stage = entry;
    for (Operation &op : stage.getBody().front()) {
      if (getPhase(&op) == Phase::Update) {
        if (failed(run(op, plan.pipeline.coordinateOf(static_cast<int64_t>(index)))))
          return failure();
      } else if (auto store = dyn_cast<StoreOp>(op);
                 store && symbols.lookup<ParameterOp>(store.getSymbol())) {
        return emitModelError(store) << "sets the parameter @" << store.getSymbol() << " in the phase "
                                     << stringifyPhase(getPhase(store)) << "; only the update may";
      }
    }
  }
  return verifyCopies();
}

LogicalResult verification::verifyUpdates(const Plan &plan) { return UpdateVerifier(plan).verify(); }
