//===- BufferUpdates.cpp - What a step writes to buffers ------------------===//

#include "BufferUpdates.h"
#include "mlir/IR/IRMapping.h"
#include "plumb/Dialect/NN/NN.h"
#include "plumb/Dialect/Plumb/PipelineAttributes.h"
#include "plumb/Transforms/Ownership.h"
#include "plumb/Transforms/Utils.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace plumb;

namespace {

class BufferUpdater {
public:
  BufferUpdater(ModuleOp module, ProgramOp program)
      : module(module), program(program), body(*program.getBody().begin()), builder(module.getContext()),
        copies(countCopies(findOp<PipelineOp>(module))) {}

  void run() {
    SmallVector<StoreOp> writes;
    for (StoreOp store : body.getOps<StoreOp>())
      if (module.lookupSymbol<ParameterOp>(store.getSymbol()))
        writes.push_back(store);
    if (writes.empty())
      return;
    for (StoreOp store : writes)
      written.insert(store.getSymbol());
    followBatch();
    for (StoreOp store : writes) {
      auto buffer = module.lookupSymbol<ParameterOp>(store.getSymbol());
      for (int64_t holder : buffer.getHoldersAttr().asArrayRef())
        update(store, holder);
      Operation *unused = store.getValue().getDefiningOp();
      store.erase();
      eraseUnused(unused);
    }
  }

private:
  /// What depends on the batch, or on parameters, which change, and of that what depends on it by a sum.
  void followBatch() {
    for (Operation &op : body) {
      stages = std::max(stages, getStage(&op) + 1);
      auto load = dyn_cast<LoadOp>(op);
      auto parameter = load ? module.lookupSymbol<ParameterOp>(load.getSymbol()) : ParameterOp();
      bool depends = isa<InputOp>(op) || (load && (!parameter || parameter.getTrainable()));
      bool bySum = false;
      for (Value operand : op.getOperands()) {
        depends |= dependent.contains(operand);
        bySum |= summed.contains(operand);
      }
      bySum |= depends && isSum(&op);
      for (Value result : op.getResults()) {
        if (depends)
          dependent.insert(result);
        if (bySum)
          summed.insert(result);
      }
    }
  }

  static bool isSum(Operation *op) {
    auto tensorOp = dyn_cast<nn::TensorOpInterface>(op);
    return tensorOp && llvm::any_of(tensorOp.getShardingRule().factors, [](const nn::Factor &factor) {
             return factor.kind == nn::FactorKind::Reduction && factor.size > 1;
           });
  }

  /// Erases what only a write has read in the walk over the batch.
  static void eraseUnused(Operation *op) {
    llvm::SetVector<Operation *> worklist;
    worklist.insert(op);
    while (!worklist.empty()) {
      Operation *unused = worklist.pop_back_val();
      if (!unused->use_empty() || !isa<nn::TensorOpInterface, LoadOp>(unused))
        continue;
      for (Value operand : unused->getOperands())
        worklist.insert(operand.getDefiningOp());
      unused->erase();
    }
  }

  void update(StoreOp store, int64_t holder) {
    SmallVector<Value> needed = findNeeded(store);
    int64_t here = getPipelineCoordinate(module, holder);
    // Ranks that exchange something do so in one order; see getFirstStage.
    bool isAlone = llvm::all_of(needed, [&](Value value) {
      return !isKept(value, store) || getPipelineCoordinate(module, findSource(value, here)) == here;
    });
    int64_t place = isAlone ? holder : getFirstStage(module, here);
    builder.setInsertionPointToEnd(&body);
    IRMapping late;
    for (Value value : needed) {
      if (isKept(value, store)) {
        late.map(value, keep(value, place));
      } else if (!late.contains(value)) {
        Operation *clone = builder.clone(*value.getDefiningOp(), late);
        setStage(clone, place);
        setPhase(clone, Phase::Update);
      }
    }
    ProvenanceScope scope(builder, store, Phase::Update);
    setStage(StoreOp::create(builder, store.getLoc(), store.getSymbolAttr(), late.lookup(store.getValue())),
             place);
  }

  /// The values that are kept for a write and those computed from them, in program order.
  SmallVector<Value> findNeeded(StoreOp store) {
    llvm::SetVector<Value> needed;
    needed.insert(store.getValue());
    for (size_t next = 0; next < needed.size(); ++next)
      if (Value value = needed[next]; !isKept(value, store))
        needed.insert_range(value.getDefiningOp()->getOperands());
    SmallVector<Value> order = needed.takeVector();
    llvm::sort(order, [](Value a, Value b) {
      Operation *first = a.getDefiningOp(), *second = b.getDefiningOp();
      return first == second ? cast<OpResult>(a).getResultNumber() < cast<OpResult>(b).getResultNumber()
                             : first->isBeforeInBlock(second);
    });
    return order;
  }

  /// Whether a value is kept in a state for the end of the step instead of being computed again there.
  bool isKept(Value value, StoreOp store) {
    Operation *op = value.getDefiningOp();
    auto load = dyn_cast<LoadOp>(op);
    if (load && written.contains(load.getSymbol()))
      return load.getSymbol() != store.getSymbol(); // That of another buffer may be new by then.
    return dependent.contains(value) && (isSum(op) || !summed.contains(value));
  }

  /// The stage that makes a value, or its copy on the given coordinate.
  int64_t findSource(Value value, int64_t coordinate) {
    int64_t stage = getStage(value.getDefiningOp());
    for (int64_t copy = 0; copy < copies; ++copy)
      if (getPipelineCoordinate(module, copy * stages + stage) == coordinate)
        return copy * stages + stage;
    return stage;
  }

  /// Reads what the state of a value holds at the end, for an op of the stage `place`.
  Value keep(Value value, int64_t place) {
    StateOp &state = kept[value];
    Operation *op = value.getDefiningOp();
    if (!state) {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPoint(program);
      std::string name = "written." + std::to_string(kept.size() - 1);
      state = StateOp::create(builder, value.getLoc(), name, "statistic", value.getType());
      builder.setInsertionPointAfter(op);
      ProvenanceScope scope(builder, op, Phase::Forward);
      StoreOp::create(builder, value.getLoc(), FlatSymbolRefAttr::get(state), value);
    }
    int64_t here = getPipelineCoordinate(module, place);
    int64_t there = getPipelineCoordinate(module, findSource(value, here));
    ProvenanceScope scope(builder, op, Phase::Update);
    auto load = LoadOp::create(builder, value.getLoc(), value.getType(), FlatSymbolRefAttr::get(state));
    setStage(load, there == here ? place : getFirstStage(module, there));
    return load;
  }

  ModuleOp module;
  ProgramOp program;
  Block &body;
  OpBuilder builder;
  int64_t copies, stages = 0; ///< Of each stage; of each copy.
  llvm::DenseSet<Value> dependent, summed;
  llvm::DenseMap<Value, StateOp> kept;
  llvm::StringSet<> written; ///< Buffers.
};

} // namespace

void plumb::updateBuffers(ModuleOp module, ProgramOp program) { BufferUpdater(module, program).run(); }
