//===- KernelGroups.cpp - Which tensor ops share a kernel ------------------===//

#include "KernelGroups.h"

using namespace mlir;
using namespace plumb;

/// Longest chain of constant ops that is copied into each of its readers.
static constexpr int kLongestConstantChain = 4;

static bool isView(Operation *op) { return op && op->hasTrait<nn::Reinterprets>(); }

static int64_t countElements(Value value) { return cast<RankedTensorType>(value.getType()).getNumElements(); }

Value plumb::skipViews(Value value) {
  while (isView(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  return value;
}

bool plumb::isElementwise(nn::TensorOpInterface op) {
  if (op->getNumResults() != 1 || isView(op))
    return false;
  nn::ShardingRule rule = op.getShardingRule();
  if (llvm::any_of(rule.factors, [](const nn::Factor &f) { return f.kind != nn::FactorKind::Parallel; }))
    return false;
  const nn::ShardingRule::Tensor &result = rule.results[0];
  if (llvm::any_of(result, [](const nn::ShardingRule::Dim &dim) { return dim.size() > 1; }))
    return false;
  return llvm::all_of(rule.operands, [&](const nn::ShardingRule::Tensor &operand) {
    if (operand.size() > result.size())
      return false;
    auto aligned = ArrayRef(result).take_back(operand.size());
    return llvm::all_of(llvm::zip(operand, aligned), [](auto dims) {
      const auto &[from, to] = dims;
      return from.empty() || from == to;
    });
  });
}

KernelGroups::KernelGroups(StageOp stage) {
  for (auto [position, op] : llvm::enumerate(stage.getBody().front()))
    add(&op, static_cast<int64_t>(position));
}

int KernelGroups::find(Operation *op) const {
  auto it = groupOf.find(op);
  return it == groupOf.end() ? -1 : it->second;
}

void KernelGroups::add(Operation *op, int64_t position) {
  if (isView(op)) {
    auto operand = op->getOperand(0).getDefiningOp();
    positions[op] = operand ? positions.lookup(operand) : -1;
    if (auto it = constants.find(operand); it != constants.end() && it->second < kLongestConstantChain)
      constants[op] = it->second + 1;
  } else if (auto tensorOp = dyn_cast<nn::TensorOpInterface>(op)) {
    addTensorOp(tensorOp, position);
  } else if (auto load = dyn_cast<LoadOp>(op)) {
    StateAccess &state = states[load.getSymbol()];
    state.loads.push_back(load);
    positions[op] = state.lastStore;
  } else if (auto store = dyn_cast<StoreOp>(op)) {
    StateAccess &state = states[store.getSymbol()];
    loads[store] = std::move(state.loads);
    state = {position, {}};
    positions[op] = position;
  } else {
    positions[op] = isa<InputOp>(op) ? -1 : position;
  }
}

bool KernelGroups::isConstant(nn::TensorOpInterface op) const {
  if (op->getNumOperands() == 0)
    return true;
  return isElementwise(op) && llvm::all_of(op->getOperands(), [&](Value operand) {
           auto it = constants.find(operand.getDefiningOp());
           return it != constants.end() && it->second < kLongestConstantChain;
         });
}

int KernelGroups::findGroupToJoin(nn::TensorOpInterface op) const {
  if (!isElementwise(op))
    return -1;
  int64_t latest = -1;
  for (Value operand : op->getOperands())
    if (Operation *def = skipViews(operand).getDefiningOp();
        def && !constants.contains(operand.getDefiningOp()))
      latest = std::max(latest, positions.lookup(def));
  for (Value operand : op->getOperands()) {
    int group = find(skipViews(operand).getDefiningOp());
    if (group >= 0 && groups[group].position == latest && groups[group].phase == getPhase(op) &&
        countElements(operand) == countElements(op->getResult(0)))
      return group;
  }
  return -1;
}

void KernelGroups::addTensorOp(nn::TensorOpInterface op, int64_t position) {
  if (isConstant(op)) {
    int depth = 0;
    for (Value operand : op->getOperands())
      depth = std::max(depth, constants.lookup(operand.getDefiningOp()));
    constants[op] = depth + 1;
    // A kernel of its own only where something reads it that is no kernel.
    if (llvm::all_of(op->getUsers(),
                     [](Operation *user) { return isa<nn::TensorOpInterface>(user) && !isView(user); })) {
      positions[op] = position;
      return;
    }
  }
  int group = constants.contains(op) ? -1 : findGroupToJoin(op);
  if (group < 0) {
    group = static_cast<int>(groups.size());
    groups.push_back({position, getPhase(op), {}});
  }
  groups[group].ops.push_back(op);
  groupOf[op] = group;
  positions[op] = groups[group].position;
}

bool KernelGroups::isInternal(Operation *op, int group) const {
  if (!op || find(op) == group)
    return op != nullptr;
  if (constants.contains(op))
    return true;
  return isView(op) && find(skipViews(op->getResult(0)).getDefiningOp()) == group;
}

/// Whether an op of the phase, or of a later one, reads a value or a view of it.
static bool isReadIn(Value value, Phase phase) {
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    return isView(user) ? isReadIn(user->getResult(0), phase) : getPhase(user) >= phase;
  });
}

StoreOp KernelGroups::findInPlaceStore(Value value, int group, LoadOp &load) const {
  Operation *def = value.getDefiningOp();
  auto tensorOp = dyn_cast<nn::TensorOpInterface>(def);
  if (!tensorOp || !isElementwise(tensorOp))
    return {};
  for (Operation *user : value.getUsers()) {
    auto store = dyn_cast<StoreOp>(user);
    if (!store || getPhase(store) != groups[group].phase)
      continue;
    // The kernel overwrites the state earlier than the store did, so nothing else may read it in this phase;
    // and it reads each element of the state just before it writes it, so that in the kernel too only
    // elementwise ops may read the loaded value.
    load = {};
    bool others = false;
    for (LoadOp candidate : loads.find(store)->second) {
      Value loaded = candidate.getResult();
      auto isInStep = [&](Operation *reader) {
        auto op = dyn_cast<nn::TensorOpInterface>(reader);
        return op && find(reader) == group && isElementwise(op);
      };
      if (llvm::is_contained(loaded.getUsers(), def) && llvm::all_of(loaded.getUsers(), isInStep) &&
          loaded.getType() == value.getType() && !load)
        load = candidate;
      else
        others |= isReadIn(loaded, groups[group].phase);
    }
    if (load && !others && getPhase(load) == getPhase(store))
      return store;
  }
  return {};
}
