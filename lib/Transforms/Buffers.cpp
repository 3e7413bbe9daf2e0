//===- Buffers.cpp - Which values of a stage share memory --------------------===//

#include "plumb/Transforms/Buffers.h"
#include "Packing.h"
#include "plumb/Dialect/CCL/CCL.h"
#include "plumb/Dialect/NN/NN.h"
#include "llvm/ADT/SmallSet.h"

using namespace mlir;
using namespace plumb;

int64_t plumb::getByteSize(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  int64_t bits = tensor.getElementType().getIntOrFloatBitWidth();
  return tensor.getNumElements() * ((bits + 7) / 8);
}

bool plumb::isCutByMicrobatch(LayoutAttr layout) { return layout && layout.isShardedOver(kMicrobatchAxis); }

int64_t plumb::getStagedBytes(const Pipeline &pipeline, int64_t coordinate) {
  int64_t bytes = 0;
  llvm::SmallSet<uint64_t, 8> seen;
  for (int64_t index : pipeline.stagesOf(coordinate)) {
    StageOp stage = pipeline.stages[index];
    for (auto input : stage.getBody().front().getOps<InputOp>())
      if (!input.getCounts() && seen.insert(input.getIndex()).second)
        bytes += (isCutByMicrobatch(getLayout(input.getResult())) ? pipeline.microbatches : 1) *
                 alignUp(getByteSize(input.getResult().getType()));
  }
  return bytes;
}

LayoutAttr plumb::getDeclaredLayout(Operation *symbol) {
  if (auto parameter = dyn_cast_or_null<ParameterOp>(symbol))
    return parameter.getLayoutAttr();
  if (auto state = dyn_cast_or_null<StateOp>(symbol))
    return state.getLayoutAttr();
  return {};
}

static bool isView(Operation *op) {
  return op && (op->hasTrait<nn::Reinterprets>() || isa<ccl::SliceOp>(op));
}

/// The value whose memory, from its start, is that of `value`.
static Value skipReinterprets(Value value) {
  while (value.getDefiningOp() && value.getDefiningOp()->hasTrait<nn::Reinterprets>())
    value = value.getDefiningOp()->getOperand(0);
  return value;
}

static Value skipViews(Value value) {
  while (isView(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  return value;
}

Buffers::Buffers(StageOp stage, const SymbolTable &symbols) : symbols(&symbols) {
  Block &block = stage.getBody().front();
  readUses(block);
  for (Operation &op : block)
    define(&op);
}

void Buffers::readUses(Block &block) {
  for (auto [index, op] : llvm::enumerate(block)) {
    int64_t position = static_cast<int64_t>(index);
    positions[&op] = position;
    for (Value operand : op.getOperands())
      lastUses[skipViews(operand)] = position;
    if (auto load = dyn_cast<LoadOp>(op))
      accesses[load.getSymbol()].push_back({position, false});
    else if (auto store = dyn_cast<StoreOp>(op))
      accesses[store.getSymbol()].push_back({position, true});
  }
}

int64_t Buffers::lastUseOf(Value value) const {
  auto it = lastUses.find(skipViews(value));
  return it == lastUses.end() ? -1 : it->second;
}

int64_t Buffers::create(Value root) {
  Operation *def = root.getDefiningOp();
  buffers.push_back({root,
                     getByteSize(root.getType()),
                     {},
                     -1,
                     getPart(def),
                     {},
                     positions.lookup(def),
                     positions.lookup(def)});
  return static_cast<int64_t>(buffers.size()) - 1;
}

void Buffers::define(Operation *op) {
  Part part = getPart(op);
  auto touch = [&](Value value) {
    Buffer &buffer = buffers[ids.lookup(value)];
    buffer.last = std::max(buffer.last, positions.lookup(op));
    auto place = llvm::lower_bound(buffer.parts, part);
    if (place == buffer.parts.end() || *place != part)
      buffer.parts.insert(place, part);
  };
  for (Value operand : op->getOperands())
    if (!isView(op))
      touch(operand);
  for (OpResult result : op->getResults()) {
    ids[result] = chooseBuffer(result);
    if (!isView(op))
      touch(result);
  }
  if (auto load = dyn_cast<LoadOp>(op)) {
    int64_t &last = lastReads.try_emplace(load.getSymbol(), -1).first->second;
    last = std::max(last, lastUseOf(load.getResult()));
  }
}

int64_t Buffers::chooseBuffer(OpResult result) {
  Operation *op = result.getOwner();
  if (isView(op))
    return ids.lookup(op->getOperand(0));
  if (auto launch = dyn_cast<LaunchOp>(op))
    if (int64_t operand = launch.getInplace()[result.getResultNumber()]; operand >= 0)
      return ids.lookup(launch.getOperands()[operand]);
  if (Value operand = findDyingOperand(result))
    return ids.lookup(operand);
  int64_t id = create(result);
  if (auto load = dyn_cast<LoadOp>(op))
    buffers[id].symbol = load.getSymbol();
  else if (auto input = dyn_cast<InputOp>(op))
    buffers[id].input = static_cast<int64_t>(input.getIndex());
  else
    buffers[id].symbol = findTarget(result);
  return id;
}

bool Buffers::isSent(Value value) const {
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    return isa<ccl::SendOp>(user) || (isView(user) && isSent(user->getResult(0)));
  });
}

StoreOp Buffers::findStore(Value value) const {
  for (Operation *user : value.getUsers()) {
    if (auto store = dyn_cast<StoreOp>(user))
      return store;
    if (user->hasTrait<nn::Reinterprets>())
      if (StoreOp store = findStore(user->getResult(0)))
        return store;
  }
  return {};
}

Value Buffers::findDyingOperand(OpResult result) const {
  Operation *op = result.getOwner();
  if (!isa<ccl::AllReduceOp, ccl::KeepFirstOp>(op))
    return {};
  Value operand = skipReinterprets(op->getOperand(result.getResultNumber()));
  Operation *def = operand.getDefiningOp();
  if (isa<InputOp, ccl::SliceOp>(def) || getPhase(def) != getPhase(op) ||
      lastUseOf(operand) != positions.lookup(op) || isSent(operand))
    return {};
  const Buffer &buffer = find(operand);
  if (buffer.input >= 0)
    return {};
  // A state may be overwritten only by what is stored to it anyway, before anything else looks at it.
  if (!buffer.symbol.empty()) {
    StoreOp store = findStore(result);
    if (!store || store.getSymbol() != buffer.symbol || getPhase(store) != getPhase(op) ||
        lastReads.lookup(buffer.symbol) > positions.lookup(op))
      return {};
    for (const Access &access : accesses.find(buffer.symbol)->second)
      if (access.position > positions.lookup(op) && access.position < positions.lookup(store))
        return {};
  }
  return operand;
}

StringRef Buffers::findTarget(OpResult result) const {
  Operation *op = result.getOwner();
  StoreOp store = findStore(result);
  // Another stream must not write to what this one may still read.
  bool isElsewhere = isa<ccl::RecvOp>(op) && getPart(op).isTransfer();
  if (!store || isElsewhere || isSent(result) || getPhase(store) != getPhase(op))
    return {};
  StringRef symbol = store.getSymbol();
  int64_t made = positions.lookup(op), stored = positions.lookup(store);
  // Nothing reads the old value from here on, and nothing writes the state before the store does.
  auto read = lastReads.find(symbol);
  if (read != lastReads.end() && read->second >= made)
    return {};
  int64_t nextStore = std::numeric_limits<int64_t>::max(), stores = 0, loads = 0;
  for (const Access &access : accesses.find(symbol)->second) {
    if (access.position > made && access.position < stored)
      return {};
    ++(access.isStore ? stores : loads);
    if (access.isStore && access.position > stored)
      nextStore = std::min(nextStore, access.position);
  }
  if (lastUseOf(result) >= nextStore)
    return {};
  // Where the next microbatch overwrites the state, later phases need the value elsewhere.
  if (isCutByMicrobatch(getDeclaredLayout(symbols->lookup(symbol))))
    return stores == 1 && loads == 0 ? symbol : StringRef();
  bool escapes = llvm::any_of(
      result.getUsers(), [&](Operation *user) { return isView(user) || getPhase(user) != getPhase(op); });
  return escapes && getPart(op).isPerMicrobatch() ? StringRef() : symbol;
}
