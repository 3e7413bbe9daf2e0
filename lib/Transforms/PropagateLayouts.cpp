//===- PropagateLayouts.cpp - A layout for every value ---------------------===//

#include "plumb/Dialect/CCL/CCL.h"
#include "plumb/Transforms/LayoutPropagation.h"
#include "plumb/Transforms/Passes.h"

using namespace mlir;

namespace plumb {
#define GEN_PASS_DEF_PROPAGATELAYOUTS
#include "plumb/Transforms/Passes.h.inc"
} // namespace plumb

using namespace plumb;

namespace {

class Propagator {
public:
  Propagator(ModuleOp module, ProgramOp program)
      : module(module), program(program), propagation(module, program) {
    for (ParameterOp parameter : module.getOps<ParameterOp>())
      symbols[parameter.getSymName()] = parameter;
    for (StateOp state : module.getOps<StateOp>())
      symbols[state.getSymName()] = state;
  }

  LogicalResult run() {
    for (Operation &op : *program.getBody().begin()) {
      LogicalResult done =
          llvm::TypeSwitch<Operation *, LogicalResult>(&op)
              .Case<nn::TensorOpInterface>([&](auto tensorOp) { return compute(tensorOp); })
              .Case<LoadOp>([&](LoadOp load) { return loaded(load); })
              .Case<AccumulateOp>([&](AccumulateOp accumulate) { return accumulated(accumulate); })
              .Case<StoreOp>([&](StoreOp store) { return stored(store); })
              .Default([](Operation *) { return success(); });
      if (failed(done))
        return failure();
    }
    return success();
  }

private:
  LogicalResult compute(nn::TensorOpInterface op) {
    SmallVector<LayoutAttr> arriving;
    for (Value operand : op->getOperands())
      arriving.push_back(propagation.settled(getLayout(operand)));
    FailureOr<OpLayouts> layouts = propagation.plan(op, arriving);
    if (failed(layouts))
      return failure();
    setLayouts(op, layouts->results);
    return followReaders(op);
  }

  /// What may be made in any layout is made in that which its readers want, as far as their other operands
  /// tell: the cotangent of a sum is cut like the value that was summed.
  LogicalResult followReaders(nn::TensorOpInterface op) {
    if (op->getNumResults() != 1)
      return success();
    LayoutAttr layout = getLayout(op->getResult(0));
    for (OpOperand &use : op->getUses()) {
      auto reader = dyn_cast<nn::TensorOpInterface>(use.getOwner());
      if (!reader)
        continue;
      SmallVector<LayoutAttr> arriving;
      for (Value operand : reader->getOperands()) {
        LayoutAttr known = getLayout(operand);
        arriving.push_back(known ? propagation.settled(known) : propagation.replicated(rankOf(operand)));
      }
      FailureOr<OpLayouts> layouts = propagation.plan(reader, arriving);
      if (failed(layouts))
        return failure();
      LayoutAttr wanted = layouts->operands[use.getOperandNumber()];
      if (wanted != layout && propagation.isFree(op, layout, wanted)) {
        setLayouts(op, {wanted});
        break;
      }
    }
    return success();
  }

  LogicalResult loaded(LoadOp load) {
    Operation *symbol = symbols.lookup(load.getSymbol());
    if (auto parameter = dyn_cast_or_null<ParameterOp>(symbol)) {
      setLayouts(load, {parameter.getLayoutAttr() ? parameter.getLayoutAttr()
                                                  : propagation.replicated(rankOf(load.getResult()))});
      return success();
    }
    if (auto state = dyn_cast_or_null<StateOp>(symbol); state && state.getKind() == "copy") {
      setLayouts(load, {cast<ParameterOp>(symbols.lookup(*state.getOf())).getLayoutAttr()});
      return success();
    }
    if (auto whole = wholeGradients.find({load.getSymbol(), getStage(load)}); whole != wholeGradients.end()) {
      setLayouts(load, {whole->second});
      return success();
    }
    auto found = accumulatedLayouts.find(load.getSymbol());
    if (found == accumulatedLayouts.end())
      return load.emitOpError("reads ") << load.getSymbolAttr() << " before anything was accumulated in it";
    LayoutAttr layout = found->second;
    // Every copy of a parameter holds the contribution of the stages of its own rank: a sum over those ranks.
    auto parameter =
        dyn_cast_or_null<ParameterOp>(symbols.lookup(cast<StateOp>(symbol).getOf().value_or("")));
    if (parameter && parameter.getHolders() && parameter.getHolders()->size() > 1) {
      SmallVector<PartialAttr> partial(layout.getPartial());
      partial.push_back(propagation.sumOver(findOp<PipelineOp>(module).getAxis()));
      layout = layout.withPartial(partial);
    }
    setLayouts(load, {layout});
    return success();
  }

  /// The first contribution decides the layout of a state; `microbatch` is summed by accumulating.
  LogicalResult accumulated(AccumulateOp accumulate) {
    LayoutAttr layout = propagation.settled(getLayout(accumulate.getValue()));
    SmallVector<PartialAttr> partial;
    for (PartialAttr entry : layout.getPartial())
      if (entry.getAxis().getName() != kMicrobatchAxis)
        partial.push_back(entry);
    layout = layout.withPartial(partial);
    if (accumulatedLayouts.try_emplace(accumulate.getSymbol(), layout).second)
      cast<StateOp>(symbols.lookup(accumulate.getSymbol())).setLayoutAttr(layout.withPartial({}));
    return success();
  }

  LogicalResult stored(StoreOp store) {
    auto state = dyn_cast<StateOp>(symbols.lookup(store.getSymbol()));
    if (!state)
      return success();
    if (!state.getLayoutAttr())
      state.setLayoutAttr(getLayout(store.getValue()).withPartial({}));
    // A gradient is stored whole.
    if (auto parameter = dyn_cast_or_null<ParameterOp>(symbols.lookup(state.getOf().value_or(""))))
      wholeGradients[{state.getSymName(), getStage(store)}] = parameter.getLayoutAttr();
    return success();
  }

  static int64_t rankOf(Value value) { return cast<RankedTensorType>(value.getType()).getRank(); }

  ModuleOp module;
  ProgramOp program;
  LayoutPropagation propagation;
  llvm::StringMap<Operation *> symbols;
  llvm::StringMap<LayoutAttr> accumulatedLayouts;
  llvm::DenseMap<std::pair<StringRef, int64_t>, LayoutAttr>
      wholeGradients; ///< By state and stage, once stored.
};

struct PropagateLayoutsPass : plumb::impl::PropagateLayoutsBase<PropagateLayoutsPass> {
  void runOnOperation() override {
    auto program = findOp<ProgramOp>(getOperation());
    if (program && failed(Propagator(getOperation(), program).run()))
      signalPassFailure();
  }
};

} // namespace
