//===- BuildStep.cpp - Completes the training step -------------------------===//

#include "BufferUpdates.h"
#include "Optimizer.h"
#include "plumb/Dialect/CCL/CCL.h"
#include "plumb/Dialect/NN/NN.h"
#include "plumb/Transforms/Ownership.h"
#include "plumb/Transforms/Passes.h"
#include <set>

using namespace mlir;

namespace plumb {
#define GEN_PASS_DEF_BUILDSTEP
#include "plumb/Transforms/Passes.h.inc"
} // namespace plumb

using namespace plumb;

namespace {

class StepBuilder {
public:
  StepBuilder(ModuleOp module, ProgramOp program)
      : module(module), program(program), body(*program.getBody().begin()), builder(module.getContext()) {
    for (ParameterOp parameter : module.getOps<ParameterOp>())
      parameters[parameter.getSymName()] = parameter;
    for (AccumulateOp accumulate : body.getOps<AccumulateOp>())
      contributors[accumulate.getSymbol()].insert(getPipelineCoordinate(module, getStage(accumulate)));
  }

  void run() {
    for (OutputOp output : llvm::make_early_inc_range(body.getOps<OutputOp>()))
      storeOutput(output);
    bool training = false;
    for (LossOp loss : llvm::make_early_inc_range(body.getOps<LossOp>())) {
      store(loss, "loss", "loss", {}, {});
      training = true;
    }
    // Before parameters change, on which the values of buffers may depend.
    updateBuffers(module, program);
    auto optimizer = findOp<OptimizerOp>(module);
    if (training) {
      SmallVector<Trained> trained = storeGradients();
      if (optimizer)
        OptimizerBuilder(module, program, optimizer).build(trained);
    }
  }

private:
  void storeOutput(OutputOp output) {
    store(output, ("output." + Twine(output.getIndex())).str(), "output", output.getIndexAttr(),
          output.getNameAttr());
  }

  /// Replaces the op that names a result by a store into a new state.
  void store(Operation *op, StringRef name, StringRef kind, IntegerAttr index, StringAttr label) {
    Value value = op->getOperand(0);
    builder.setInsertionPoint(program);
    StateOp::create(builder, op->getLoc(), name, kind, value.getType(), StringAttr(), index, label,
                    LayoutAttr());
    builder.setInsertionPoint(op);
    ProvenanceScope scope(builder, value.getDefiningOp(), Phase::Forward);
    StoreOp::create(builder, op->getLoc(), FlatSymbolRefAttr::get(builder.getContext(), name), value);
    op->erase();
  }

  /// Stores each gradient whole, in the parameter's own layout, on each rank that holds the parameter.
  SmallVector<Trained> storeGradients() {
    builder.setInsertionPointToEnd(&body);
    SmallVector<Trained> trained;
    for (StateOp state : module.getOps<StateOp>())
      if (state.getKind() == "gradient")
        trained.push_back(storeGradient(parameters.lookup(*state.getOf()), state));
    return trained;
  }

  Trained storeGradient(ParameterOp parameter, StateOp state) {
    auto symbol = FlatSymbolRefAttr::get(state);
    Trained trained{parameter, state, {}};
    for (int64_t holder : parameter.getHoldersAttr().asArrayRef()) {
      int64_t coordinate = getPipelineCoordinate(module, holder);
      std::set<int64_t> sources{coordinate};
      if (parameter.getHolders()->size() == 1)
        sources = contributors[state.getSymName()];
      // Ranks that exchange something do so in one order; see getFirstStage.
      bool isAlone = parameter.getHolders()->size() == 1 && sources == std::set{coordinate};
      int64_t stage = isAlone ? holder : getFirstStage(module, coordinate);
      Value gradient = loadGradient(parameter, symbol, stage, sources);
      setStage(parameter, stage); // the origin from which the op below takes its stage
      ProvenanceScope scope(builder, parameter, Phase::Reduce);
      StoreOp::create(builder, parameter.getLoc(), symbol, gradient);
      trained.stages.push_back(stage);
    }
    parameter->removeAttr(kStageAttr);
    return trained;
  }

  /// What was accumulated on the given coordinates, summed in `stage`: that of its own rank first, then what
  /// readers of a transmitted parameter return, in ascending order.
  Value loadGradient(ParameterOp parameter, FlatSymbolRefAttr gradient, int64_t stage,
                     const std::set<int64_t> &sources) {
    int64_t here = getPipelineCoordinate(module, stage);
    SmallVector<int64_t> order(sources.begin(), sources.end());
    std::stable_partition(order.begin(), order.end(), [&](int64_t source) { return source == here; });
    Value sum;
    for (int64_t source : order) {
      setStage(parameter, source == here ? stage : getFirstStage(module, source));
      ProvenanceScope scope(builder, parameter, Phase::Reduce);
      Value share = LoadOp::create(builder, parameter.getLoc(), parameter.getType(), gradient);
      setStage(parameter, stage);
      sum = sum ? nn::AddOp::create(builder, parameter.getLoc(), sum, share).getResult() : share;
    }
    return sum;
  }

  ModuleOp module;
  ProgramOp program;
  Block &body;
  OpBuilder builder;
  llvm::StringMap<ParameterOp> parameters;
  llvm::StringMap<std::set<int64_t>> contributors; ///< Per state, the coordinates that accumulate in it.
};

struct BuildStepPass : plumb::impl::BuildStepBase<BuildStepPass> {
  void runOnOperation() override {
    auto program = findOp<ProgramOp>(getOperation());
    if (program)
      StepBuilder(getOperation(), program).run();
  }
};

} // namespace
