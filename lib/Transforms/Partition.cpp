//===- Partition.cpp - One block per stage, in local shapes ----------------===//

#include "mlir/IR/IRMapping.h"
#include "plumb/Dialect/CCL/CCL.h"
#include "plumb/Dialect/NN/NN.h"
#include "plumb/Dialect/Plumb/PipelineAttributes.h"
#include "plumb/Transforms/Passes.h"
#include "plumb/Transforms/Utils.h"
#include <map>
#include <set>

using namespace mlir;

namespace plumb {
#define GEN_PASS_DEF_PARTITION
#include "plumb/Transforms/Passes.h.inc"
} // namespace plumb

using namespace plumb;

namespace {

class Partitioner {
public:
  Partitioner(ModuleOp module, ProgramOp program)
      : module(module), program(program), body(*program.getBody().begin()), builder(module.getContext()) {}

  LogicalResult run() {
    makeStages();
    for (Operation &op : body)
      for (int64_t copy = 0; copy < (getPhase(&op) < Phase::Reduce ? copies : 1); ++copy)
        if (failed(place(op, copy * stagesPerCopy)))
          return failure();
    for (StageOp stage : stages)
      sortByPhase(*stage.getBody().begin());
    program.erase();
    return success();
  }

private:
  void makeStages() {
    copies = countCopies(findOp<PipelineOp>(module));
    for (Operation &op : body)
      if (copies == 1 || getPhase(&op) < Phase::Reduce)
        stagesPerCopy = std::max(stagesPerCopy, getStage(&op) + 1);
    int64_t count = copies * stagesPerCopy;
    builder.setInsertionPointAfter(program);
    for (int64_t index = 0; index < count; ++index) {
      auto stage = StageOp::create(builder, program.getLoc(), ("submod_pp_" + Twine(index)).str(), index);
      stage.getBody().emplaceBlock();
      stages.push_back(stage);
    }
    values.resize(count);
  }

  RankedTensorType localType(Value value) {
    return getLocalType(module, cast<RankedTensorType>(value.getType()), getLayout(value));
  }

  /// Builds the local form of one op in its stage, or in a copy of it, and the transfers of its results to
  /// other stages. What is done once per step names its stage, copies included.
  LogicalResult place(Operation &op, int64_t copy) {
    int64_t stage = getStage(&op) + copy;
    builder.setInsertionPointToEnd(&*stages[stage].getBody().begin());
    SmallVector<Value> operands;
    for (Value operand : op.getOperands())
      operands.push_back(values[stage].lookup(operand));
    ProvenanceScope scope(builder, &op, getPhase(&op));
    if (auto accumulate = dyn_cast<AccumulateOp>(op)) {
      Location loc = op.getLoc();
      auto state = LoadOp::create(builder, loc, operands[0].getType(), accumulate.getSymbolAttr());
      auto sum = nn::AddOp::create(builder, loc, state, operands[0]);
      StoreOp::create(builder, loc, accumulate.getSymbolAttr(), sum);
      for (Operation *made : {state.getOperation(), sum.getOperation()})
        setLayouts(made, {getLayout(accumulate.getValue())});
      return success();
    }
    SmallVector<Value> results = localize(op, operands);
    for (auto [result, local] : llvm::zip(op.getResults(), results)) {
      if (local.getType() != localType(result))
        return emitModelError(&op) << "has the local type " << local.getType() << ", its layout says "
                                   << localType(result);
      values[stage].map(result, local);
      if (op.getNumResults() == results.size())
        setLocalLayouts(op, results);
      if (failed(transfer(result, local, copy)))
        return failure();
    }
    return success();
  }

  SmallVector<Value> localize(Operation &op, ArrayRef<Value> operands) {
    SmallVector<Type> types;
    for (Value result : op.getResults())
      types.push_back(localType(result));
    if (auto tensorOp = dyn_cast<nn::TensorOpInterface>(op))
      return tensorOp.localize(builder, operands, types);
    if (auto redistribute = dyn_cast<RedistributeOp>(op))
      return {RedistributeOp::create(builder, op.getLoc(), types[0], operands[0], redistribute.getFrom(),
                                     redistribute.getTo(), TypeAttr::get(op.getResult(0).getType()))};
    IRMapping mapping;
    mapping.map(op.getOperands(), operands);
    Operation *clone = builder.clone(op, mapping);
    for (auto [result, type] : llvm::zip(clone->getResults(), types))
      result.setType(type);
    return llvm::to_vector_of<Value>(clone->getResults());
  }

  static void setLocalLayouts(Operation &op, ArrayRef<Value> results) {
    if (Operation *local = results[0].getDefiningOp(); local->getNumResults() == results.size())
      local->setAttr(kLayoutsAttr, op.getAttr(kLayoutsAttr));
  }

  /// Sends a value to each other stage that reads it. Sends and receives of an edge both follow the order of
  /// the producers, so that they match first in, first out.
  LogicalResult transfer(Value value, Value local, int64_t copy) {
    Operation *producer = value.getDefiningOp();
    int64_t from = getStage(producer) + copy;
    std::set<int64_t> readers;
    for (Operation *user : value.getUsers())
      if (getStage(user) + copy != from)
        readers.insert(getStage(user) + copy);
    for (int64_t to : readers) {
      Phase phase = getPhase(producer);
      bool isOnce = phase == Phase::Begin || phase >= Phase::Reduce;
      // What a stage makes in the other phases has no place in the order of the microbatches.
      if (phase != Phase::Forward && phase != Phase::BackwardInput &&
          !(isOnce && getPipelineCoordinate(module, from) != getPipelineCoordinate(module, to)))
        return emitModelError(producer)
               << "computes, outside the walk over the microbatches, a value that stage " << to
               << " reads; this is not supported";
      FlatSymbolRefAttr communicator = communicatorFor(from, to, isOnce, producer->getLoc());
      {
        ProvenanceScope scope(builder, producer, getPhase(producer));
        builder.setInsertionPointToEnd(&*stages[from].getBody().begin());
        ccl::SendOp::create(builder, producer->getLoc(), local, builder.getI64IntegerAttr(to), communicator);
      }
      builder.setInsertionPointToEnd(&*stages[to].getBody().begin());
      ProvenanceScope scope(builder, producer,
                            isOnce      ? phase
                            : to > from ? Phase::Forward
                                        : Phase::BackwardInput);
      auto received = ccl::RecvOp::create(builder, producer->getLoc(), local.getType(),
                                          builder.getI64IntegerAttr(from), communicator);
      setStage(received, to);
      setLayouts(received, {getLayout(value)});
      values[to].map(value, received.getResult());
    }
    return success();
  }

  /// The communicator of a directed edge, made at its first use. Stages of one rank hand over in place: their
  /// transfers name the communicator of the rank alone. What is sent once per step has one of its own, since
  /// it goes by another stream.
  FlatSymbolRefAttr communicatorFor(int64_t from, int64_t to, bool isOnce, Location loc) {
    int64_t sender = getPipelineCoordinate(module, from), receiver = getPipelineCoordinate(module, to);
    std::string name =
        (to > from ? "forward_" : "backward_") + std::to_string(from) + "_" + std::to_string(to);
    if (isOnce)
      name = "once_" + std::to_string(sender) + "_" + std::to_string(receiver);
    SmallVector<int64_t> members{sender, receiver};
    if (sender == receiver) {
      name = "alone";
      members.clear();
    }
    if (edges.insert(name).second) {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPoint(program);
      builder.setListener(nullptr);
      ccl::CommunicatorOp::create(builder, loc, name, builder.getStrArrayAttr({}),
                                  builder.getDenseI64ArrayAttr(members));
    }
    return FlatSymbolRefAttr::get(builder.getContext(), name);
  }

  /// Brings the ops of a block into the order of the phases of a step; within a phase nothing changes.
  static void sortByPhase(Block &block) {
    std::map<Phase, SmallVector<Operation *>> phases;
    for (Operation &op : block)
      phases[getPhase(&op)].push_back(&op);
    for (auto &[phase, ops] : phases)
      for (Operation *op : ops) {
        op->moveBefore(&block, block.end());
        op->removeAttr(kStageAttr);
      }
  }

  ModuleOp module;
  ProgramOp program;
  Block &body;
  OpBuilder builder;
  int64_t copies = 1, stagesPerCopy = 0;
  SmallVector<StageOp> stages;
  SmallVector<IRMapping> values; ///< Per stage: global value to local value.
  std::set<std::string> edges;
};

struct PartitionPass : plumb::impl::PartitionBase<PartitionPass> {
  void runOnOperation() override {
    auto program = findOp<ProgramOp>(getOperation());
    if (program && failed(Partitioner(getOperation(), program).run()))
      signalPassFailure();
  }
};

} // namespace
