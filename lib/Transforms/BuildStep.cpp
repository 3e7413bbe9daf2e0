//===- BuildStep.cpp - Completes the training step -------------------------===//

#include "plumb/Dialect/CCL/CCL.h"
#include "plumb/Dialect/NN/NN.h"
#include "plumb/Transforms/Passes.h"
#include "plumb/Transforms/Utils.h"

using namespace mlir;

namespace plumb {
#define GEN_PASS_DEF_BUILDSTEP
#include "plumb/Transforms/Passes.h.inc"
} // namespace plumb

using namespace plumb;

namespace {

struct BuildStepPass : plumb::impl::BuildStepBase<BuildStepPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto program = findOp<ProgramOp>(module);
    if (!program)
      return;
    OpBuilder builder(module.getContext());
    Block &body = *program.getBody().begin();
    for (OutputOp output : llvm::make_early_inc_range(body.getOps<OutputOp>()))
      storeOutput(builder, program, output);
    bool training = false;
    for (LossOp loss : llvm::make_early_inc_range(body.getOps<LossOp>())) {
      store(builder, program, loss, "loss", "loss", {}, {});
      training = true;
    }
    auto optimizer = findOp<OptimizerOp>(module);
    if (training && failed(updateParameters(builder, module, body, optimizer)))
      return signalPassFailure();
    if (optimizer)
      optimizer.erase();
  }

  static void storeOutput(OpBuilder &builder, ProgramOp program, OutputOp output) {
    store(builder, program, output, ("output." + Twine(output.getIndex())).str(), "output",
          output.getIndexAttr(), output.getNameAttr());
  }

  /// Replaces the op that names a result by a store into a new state.
  static void store(OpBuilder &builder, ProgramOp program, Operation *op, StringRef name, StringRef kind,
                    IntegerAttr index, StringAttr label) {
    Value value = op->getOperand(0);
    builder.setInsertionPoint(program);
    StateOp::create(builder, op->getLoc(), name, kind, value.getType(), StringAttr(), index, label,
                    LayoutAttr());
    builder.setInsertionPoint(op);
    ProvenanceScope scope(builder, value.getDefiningOp(), Phase::Forward);
    StoreOp::create(builder, op->getLoc(), FlatSymbolRefAttr::get(builder.getContext(), name), value);
    op->erase();
  }

  /// In each stage that holds a parameter: its whole gradient, kept for who asks for it, and, with an
  /// optimizer, its new value.
  static LogicalResult updateParameters(OpBuilder &builder, ModuleOp module, Block &body,
                                        OptimizerOp optimizer) {
    if (optimizer && optimizer.getKind() != "sgd")
      return emitError(optimizer.getLoc()) << "the optimizer \"" << optimizer.getKind()
                                           << "\" is not supported by this version; use \"sgd\"";
    builder.setInsertionPointToEnd(&body);
    llvm::StringMap<ParameterOp> parameters;
    for (ParameterOp parameter : module.getOps<ParameterOp>())
      parameters[parameter.getSymName()] = parameter;
    for (StateOp state : module.getOps<StateOp>()) {
      if (state.getKind() != "gradient")
        continue;
      ParameterOp parameter = parameters.lookup(*state.getOf());
      for (int64_t stage : parameter.getHoldersAttr().asArrayRef()) {
        setStage(parameter, stage); // the origin from which the ops below take their stage
        ProvenanceScope scope(builder, parameter, Phase::Update);
        Location loc = parameter.getLoc();
        auto symbol = FlatSymbolRefAttr::get(parameter), gradientSymbol = FlatSymbolRefAttr::get(state);
        // Stored and read again: what is read is whole, in the parameter's own layout.
        Value gradient = LoadOp::create(builder, loc, parameter.getType(), gradientSymbol);
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
    return success();
  }
};

} // namespace
