//===- BuildStep.cpp - Completes the training step -------------------------===//

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

  LogicalResult run() {
    for (OutputOp output : llvm::make_early_inc_range(body.getOps<OutputOp>()))
      storeOutput(output);
    bool training = false;
    for (LossOp loss : llvm::make_early_inc_range(body.getOps<LossOp>())) {
      store(loss, "loss", "loss", {}, {});
      training = true;
    }
    auto optimizer = findOp<OptimizerOp>(module);
    if (training && failed(updateParameters(optimizer)))
      return failure();
    if (optimizer)
      optimizer.erase();
    return success();
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

  LogicalResult updateParameters(OptimizerOp optimizer) {
    if (optimizer && optimizer.getKind() != "sgd")
      return emitError(optimizer.getLoc()) << "the optimizer \"" << optimizer.getKind()
                                           << "\" is not supported by this version; use \"sgd\"";
    builder.setInsertionPointToEnd(&body);
    for (StateOp state : module.getOps<StateOp>())
      if (state.getKind() == "gradient")
        updateParameter(parameters.lookup(*state.getOf()), state, optimizer);
    return success();
  }

  /// On each rank that holds a parameter: its whole gradient, kept for who asks for it, and, with an
  /// optimizer, its new value.
  void updateParameter(ParameterOp parameter, StateOp state, OptimizerOp optimizer) {
    Location loc = parameter.getLoc();
    auto symbol = FlatSymbolRefAttr::get(parameter), gradientSymbol = FlatSymbolRefAttr::get(state);
    for (int64_t holder : parameter.getHoldersAttr().asArrayRef()) {
      int64_t coordinate = getPipelineCoordinate(module, holder);
      std::set<int64_t> sources{coordinate};
      if (parameter.getHolders()->size() == 1)
        sources = contributors[state.getSymName()];
      // Ranks that exchange something do so in one order; see getFirstStage.
      bool isAlone = parameter.getHolders()->size() == 1 && sources == std::set{coordinate};
      int64_t stage = isAlone ? holder : getFirstStage(module, coordinate);
      Value gradient = loadGradient(parameter, gradientSymbol, stage, sources);
      setStage(parameter, stage); // the origin from which the ops below take their stage
      ProvenanceScope scope(builder, parameter, Phase::Update);
      // Stored and read again: what is read is whole, in the parameter's own layout.
      StoreOp::create(builder, loc, gradientSymbol, gradient);
      if (!optimizer)
        continue;
      gradient = LoadOp::create(builder, loc, parameter.getType(), gradientSymbol);
      Value value = LoadOp::create(builder, loc, parameter.getType(), symbol);
      value = nn::SgdOp::create(builder, loc, value, gradient, optimizer.getRateAttr());
      StoreOp::create(builder, loc, symbol, value);
    }
    parameter->removeAttr(kStageAttr);
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
      ProvenanceScope scope(builder, parameter, Phase::Update);
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
    if (program && failed(StepBuilder(getOperation(), program).run()))
      signalPassFailure();
  }
};

} // namespace
