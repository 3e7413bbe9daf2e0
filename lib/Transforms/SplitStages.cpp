//===- SplitStages.cpp - Cuts the program into pipeline stages -------------===//

#include "PortableOps.h"
#include "plumb/Dialect/CCL/CCL.h"
#include "plumb/Dialect/NN/NN.h"
#include "plumb/Dialect/Plumb/PipelineAttributes.h"
#include "plumb/Dialect/Plumb/PlanOptions.h"
#include "plumb/Transforms/Passes.h"
#include "plumb/Transforms/Utils.h"
#include <map>
#include <set>

using namespace mlir;

namespace plumb {
#define GEN_PASS_DEF_SPLITSTAGES
#include "plumb/Transforms/Passes.h.inc"
} // namespace plumb

using namespace plumb;

llvm::DenseSet<Operation *> plumb::findPortableOps(Block &body) {
  llvm::DenseSet<Operation *> portable;
  for (Operation &op : body)
    if (isa<InputOp, LoadOp>(op) ||
        (isa<nn::TensorOpInterface>(op) && llvm::all_of(op.getOperands(), [&](Value operand) {
           return portable.contains(operand.getDefiningOp()) && !isa<InputOp>(operand.getDefiningOp());
         })))
      portable.insert(&op);
  return portable;
}

namespace {

struct SplitStagesPass : plumb::impl::SplitStagesBase<SplitStagesPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto program = findOp<ProgramOp>(module);
    auto pipeline = findOp<PipelineOp>(module);
    if (!program || !pipeline) {
      emitError(module.getLoc()) << "split-stages needs a 'plumb.program' and a 'plumb.pipeline'";
      return signalPassFailure();
    }
    Block &body = *program.getBody().begin();
    eraseDeadCode(body);
    // Copies share the work of training; there is nothing to share without a backward or on one rank.
    if (getPipelineSize(module) == 1 || body.getOps<LossOp>().empty())
      pipeline->removeAttr(kCopiesAttr);
    if (getPipelineSize(module) == 1)
      return useOneStage(body, pipeline);
    llvm::DenseSet<Operation *> portable = findPortableOps(body);
    int64_t stages = cutAtMarkers(body, portable);
    if (failed(checkStageCount(pipeline, stages)) || failed(checkPlacement(pipeline, stages)))
      return signalPassFailure();
    placePortableOps(body, portable);
    auto stated = pipeline->getAttrOfType<StringAttr>(kSkipConnectionsAttr);
    StringRef route = stated ? stated.getValue() : "auto";
    if (route != "auto" && route != "forward" && route != "direct") {
      emitError(pipeline.getLoc()) << "skip connections cannot go \"" << route
                                   << "\"; there are auto, forward and direct";
      return signalPassFailure();
    }
    if (route != "direct")
      for (Operation &op : llvm::make_early_inc_range(body))
        if (isa<nn::TensorOpInterface>(op) && !portable.contains(&op))
          for (Value result : op.getResults())
            routeSkipConnection(result, route == "forward");
  }

  static void eraseDeadCode(Block &body) {
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(body)))
      if (op.use_empty() && (isa<LoadOp>(op) || isa<nn::TensorOpInterface>(op)))
        op.erase();
  }

  void useOneStage(Block &body, PipelineOp pipeline) {
    bool ignored = false;
    for (PipeSplitOp marker : llvm::make_early_inc_range(body.getOps<PipeSplitOp>())) {
      marker.erase();
      ignored = true;
    }
    if (ignored)
      emitRemark(pipeline.getLoc()) << "the pipeline axis \"" << pipeline.getAxis()
                                    << "\" has one rank: split points are ignored";
    for (Operation &op : body)
      setStage(&op, 0);
    pipeline.setStagesPerRank(1);
  }

  /// Numbers the stages of computing ops and erases the markers, with a warning for those that delimit
  /// nothing. Returns the number of stages.
  static int64_t cutAtMarkers(Block &body, const llvm::DenseSet<Operation *> &portable) {
    int64_t stage = 0;
    Operation *pending = nullptr; // a marker that still waits for an op behind it
    bool computed = false;        // whether the present stage has an op of its own
    SmallVector<PipeSplitOp> markers;
    for (Operation &op : body) {
      if (auto marker = dyn_cast<PipeSplitOp>(op)) {
        markers.push_back(marker);
        if (pending)
          emitWarning(marker.getLoc())
              << describe(marker) << ": this marker repeats the one before it and is dropped";
        else if (!computed)
          emitWarning(marker.getLoc())
              << describe(marker) << ": this marker stands before everything and is dropped";
        else
          pending = &op;
        continue;
      }
      if (isa<nn::TensorOpInterface>(op) && !portable.contains(&op)) {
        stage += pending ? 1 : 0;
        pending = nullptr;
        computed = true;
      }
      setStage(&op, stage);
    }
    if (pending)
      emitWarning(pending->getLoc()) << describe(pending)
                                     << ": this marker stands after everything and is dropped";
    // What only names a value belongs where the value is made.
    for (Operation &op : body)
      if (isa<OutputOp, LossOp, StoreOp>(op))
        setStage(&op, getStage(op.getOperand(0).getDefiningOp()));
    for (PipeSplitOp marker : markers)
      marker.erase();
    return stage + 1;
  }

  LogicalResult checkStageCount(PipelineOp pipeline, int64_t stages) {
    int64_t ranks = getPipelineSize(getOperation());
    if (pipeline->hasAttr(kRanksAttr))
      return success(); // A list says all about it.
    int64_t perRank = pipeline.getStagesPerRank() ? static_cast<int64_t>(*pipeline.getStagesPerRank())
                                                  : (stages + ranks - 1) / ranks;
    if (stages < ranks || stages > ranks * perRank)
      return emitError(pipeline.getLoc())
             << "the model has " << stages << " stages, the pipeline axis \"" << pipeline.getAxis()
             << "\" has " << ranks << " ranks of " << perRank << " stages each; "
             << (stages < ranks ? "add split points" : "raise \"stages_per_rank\"") << " or change the axis";
    pipeline.setStagesPerRank(perRank);
    return success();
  }

  LogicalResult checkPlacement(PipelineOp pipeline, int64_t stages) {
    int64_t ranks = getPipelineSize(getOperation());
    if (countCopies(pipeline) > 1 && (stages != ranks || ranks % 2 != 0))
      return emitError(pipeline.getLoc())
             << "the schedule \"" << pipeline.getSchedule()
             << "\" needs one stage per rank and an even number of "
             << "ranks, where stage s lives on the ranks s and " << ranks - 1 << " - s; there are " << stages
             << " stages on " << ranks << " ranks";
    auto list = pipeline->getAttrOfType<DenseI64ArrayAttr>(kRanksAttr);
    if (!list)
      return success();
    if (list.size() != stages)
      return emitError(pipeline.getLoc())
             << "the placement lists the ranks of " << list.size() << " stages, the model has " << stages;
    for (int64_t rank = 0; rank < ranks; ++rank)
      if (!llvm::is_contained(list.asArrayRef(), rank))
        return emitError(pipeline.getLoc()) << "the placement leaves rank " << rank << " of the axis \""
                                            << pipeline.getAxis() << "\" without a stage";
    return success();
  }

  /// Inputs, parameter loads and what is computed from loads and constants alone stand in every stage that
  /// reads them, so that they are never sent. Readers come first in the walk: a clone makes its operands'
  /// readers known.
  static void placePortableOps(Block &body, const llvm::DenseSet<Operation *> &portable) {
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(body))) {
      if (!portable.contains(&op) || op.use_empty())
        continue;
      std::set<int64_t> stages;
      for (Operation *user : op.getUsers())
        stages.insert(getStage(user));
      setStage(&op, *stages.begin());
      OpBuilder builder(op.getContext());
      builder.setInsertionPointAfter(&op);
      for (int64_t stage : llvm::drop_begin(stages)) {
        Operation *clone = builder.clone(op);
        setStage(clone, stage);
        op.replaceUsesWithIf(clone, [&](OpOperand &use) { return getStage(use.getOwner()) == stage; });
      }
    }
  }

  /// Lets the stages that read a value take it from each other; `through` names all stages between, else only
  /// those that read it.
  void routeSkipConnection(Value value, bool through) {
    int64_t maker = getStage(value.getDefiningOp());
    std::map<int64_t, SmallVector<OpOperand *>> uses; // by reading stage
    for (OpOperand &use : value.getUses())
      if (getStage(use.getOwner()) != maker)
        uses[getStage(use.getOwner())].push_back(&use);
    if (through && !uses.empty())
      for (int64_t stage = maker + 1, last = uses.rbegin()->first; stage < last; ++stage)
        uses.try_emplace(stage);
    if (uses.size() < 2)
      return;
    SmallVector<std::pair<int64_t, Value>> sources{{maker, value}}; // where a stage has the value
    for (auto &[stage, operands] : uses) {
      Value source = chooseSource(sources, stage, through);
      for (OpOperand *use : operands)
        use->set(source);
      if (stage != uses.rbegin()->first)
        sources.push_back({stage, handOn(source, stage)});
    }
    for (auto [stage, source] : llvm::reverse(sources))
      if (source.use_empty())
        source.getDefiningOp()->erase();
  }

  /// One that lives on the same rank, or else the last one.
  Value chooseSource(ArrayRef<std::pair<int64_t, Value>> sources, int64_t stage, bool through) {
    int64_t here = getPipelineCoordinate(getOperation(), stage);
    if (!through)
      for (auto [source, value] : llvm::reverse(sources))
        if (getPipelineCoordinate(getOperation(), source) == here)
          return value;
    return sources.back().second;
  }

  /// The value as a stage hands it on: a view of what it received.
  static Value handOn(Value source, int64_t stage) {
    OpBuilder builder(source.getContext());
    builder.setInsertionPointAfter(source.getDefiningOp());
    ProvenanceScope scope(builder, source.getDefiningOp(), Phase::Forward);
    auto view = nn::ViewOp::create(builder, source.getLoc(), source.getType(), source);
    setStage(view, stage);
    return view;
  }
};

} // namespace
