//===- Recompute.cpp - Activations of chosen modules computed again --------===//

#include "mlir/IR/IRMapping.h"
#include "plumb/Dialect/CCL/CCL.h"
#include "plumb/Dialect/NN/NN.h"
#include "plumb/Schedule/Generators.h"
#include "plumb/Transforms/Passes.h"
#include "plumb/Transforms/Utils.h"

using namespace mlir;

namespace plumb {
#define GEN_PASS_DEF_RECOMPUTE
#include "plumb/Transforms/Passes.h.inc"
} // namespace plumb

using namespace plumb;

static StringAttr getModule(Operation *op) { return op->getAttrOfType<StringAttr>(kRecomputeAttr); }

static bool isBackward(Operation *op) {
  return getPhase(op) == Phase::BackwardInput || getPhase(op) == Phase::BackwardWeight;
}

/// Whether backwards run as one, their two halves one after the other. A list that the user gives may split
/// them.
static bool runsBackwardWhole(ModuleOp module) {
  auto pipeline = findOp<PipelineOp>(module);
  auto kind = pipeline ? schedule::parseKind(pipeline.getSchedule().str()) : schedule::Kind::GPipe;
  return kind && !schedule::splitsBackward(*kind);
}

namespace {

class Recomputer {
public:
  Recomputer(ModuleOp module, ProgramOp program)
      : module(module), body(*program.getBody().begin()), builder(module.getContext()) {}

  void run() {
    if (runsBackwardWhole(module))
      joinWeightGradients();
    // The ops of one module's backward in one stage, in the order in which backwards begin.
    llvm::MapVector<std::pair<Attribute, int64_t>, SmallVector<Operation *>> backwards;
    for (Operation &op : body)
      if (isBackward(&op) && getModule(&op))
        backwards[{getModule(&op), getStage(&op)}].push_back(&op);
    for (auto &[key, ops] : backwards)
      recompute(ops);
  }

private:
  /// Takes the gradients of parameters with those of activations, where that changes no order of sums.
  void joinWeightGradients() {
    llvm::StringMap<int> sums;
    for (AccumulateOp accumulate : body.getOps<AccumulateOp>())
      ++sums[accumulate.getSymbol()];
    for (Operation &op : body) {
      if (getPhase(&op) != Phase::BackwardWeight || !getModule(&op))
        continue;
      auto accumulate = dyn_cast<AccumulateOp>(op);
      bool isReady = llvm::all_of(op.getOperands(), [](Value operand) {
        return getPhase(operand.getDefiningOp()) <= Phase::BackwardInput;
      });
      if (isReady && (!accumulate || sums[accumulate.getSymbol()] == 1))
        setPhase(&op, Phase::BackwardInput);
    }
  }

  /// Whether the value is computed again for the backward `of` a module: it is one of the module's own, and
  /// no other backward keeps it.
  bool isRecomputed(Value value, Operation *of) {
    Operation *op = value.getDefiningOp();
    return isa<nn::TensorOpInterface>(op) && getPhase(op) == Phase::Forward &&
           getModule(op) == getModule(of) && getStage(op) == getStage(of) &&
           llvm::none_of(value.getUsers(), [&](Operation *user) {
             return isBackward(user) && (getModule(user) != getModule(of) || getStage(user) != getStage(of));
           });
  }

  void recompute(ArrayRef<Operation *> ops) {
    llvm::DenseSet<Operation *> needed;
    SmallVector<Value> worklist;
    for (Operation *op : ops)
      llvm::append_range(worklist, op->getOperands());
    while (!worklist.empty()) {
      Value value = worklist.pop_back_val();
      if (isRecomputed(value, ops.front()) && needed.insert(value.getDefiningOp()).second)
        llvm::append_range(worklist, value.getDefiningOp()->getOperands());
    }
    IRMapping mapping;
    SmallVector<Operation *> clones;
    builder.setInsertionPoint(ops.front());
    for (Operation &op : body)
      if (needed.contains(&op))
        clones.push_back(builder.clone(op, mapping));
    for (Operation *op : ops)
      for (OpOperand &operand : op->getOpOperands())
        operand.set(mapping.lookupOrDefault(operand.get()));
    // Computed again when the first reader needs it.
    for (Operation *clone : llvm::reverse(clones)) {
      Phase phase = Phase::BackwardWeight;
      for (Operation *user : clone->getUsers())
        phase = std::min(phase, getPhase(user));
      setPhase(clone, phase);
    }
  }

  ModuleOp module;
  Block &body;
  OpBuilder builder;
};

struct RecomputePass : plumb::impl::RecomputeBase<RecomputePass> {
  void runOnOperation() override {
    if (auto program = findOp<ProgramOp>(getOperation()))
      Recomputer(getOperation(), program).run();
  }
};

} // namespace
