//===- PlanBoundaries.cpp - Redistributions where layouts disagree ---------===//

#include "mlir/IR/IRMapping.h"
#include "plumb/Dialect/CCL/CCL.h"
#include "plumb/Transforms/LayoutPropagation.h"
#include "plumb/Transforms/Passes.h"

using namespace mlir;

namespace plumb {
#define GEN_PASS_DEF_PLANBOUNDARIES
#include "plumb/Transforms/Passes.h.inc"
} // namespace plumb

using namespace plumb;

namespace {

class BoundaryPlanner {
public:
  BoundaryPlanner(ModuleOp module, ProgramOp program)
      : module(module), program(program), body(*program.getBody().begin()), propagation(module, program),
        builder(module.getContext()) {
    for (ParameterOp parameter : module.getOps<ParameterOp>())
      symbols[parameter.getSymName()] = parameter;
    for (StateOp state : module.getOps<StateOp>())
      symbols[state.getSymName()] = state;
    for (AccumulateOp accumulate : body.getOps<AccumulateOp>())
      accumulations[accumulate.getSymbol()].push_back(accumulate);
  }

  LogicalResult run() {
    for (Operation &op : llvm::make_early_inc_range(body)) {
      LogicalResult done =
          llvm::TypeSwitch<Operation *, LogicalResult>(&op)
              .Case<nn::TensorOpInterface>([&](auto tensorOp) { return compute(tensorOp); })
              .Case<AccumulateOp>([&](AccumulateOp accumulate) { return accumulated(accumulate); })
              .Case<StoreOp>([&](StoreOp store) { return stored(store); })
              .Default([](Operation *) { return success(); });
      if (failed(done))
        return failure();
    }
    eraseDeadCode();
    return success();
  }

private:
  LogicalResult compute(nn::TensorOpInterface op) {
    SmallVector<LayoutAttr> arriving;
    for (Value operand : op->getOperands())
      arriving.push_back(getLayout(operand));
    FailureOr<OpLayouts> layouts = propagation.plan(op, arriving);
    if (failed(layouts))
      return failure();
    for (auto [index, needed] : llvm::enumerate(layouts->operands))
      if (failed(require(op->getOpOperand(index), needed)))
        return failure();
    for (OpResult result : op->getResults())
      settle(result);
    return success();
  }

  /// Completes sums over model axes where they arise.
  void settle(OpResult result) {
    LayoutAttr layout = getLayout(result), settled = propagation.settled(layout);
    if (layout == settled)
      return;
    Operation *op = result.getOwner();
    builder.setInsertionPointAfter(op);
    ProvenanceScope scope(builder, op, getPhase(op));
    auto redistribute =
        RedistributeOp::create(builder, op->getLoc(), result.getType(), result, layout, settled, TypeAttr());
    setLayouts(redistribute, {settled});
    result.replaceAllUsesExcept(redistribute, redistribute);
  }

  /// What is accumulated keeps its pending sums; `microbatch` is one of them, or the value would count M
  /// times.
  LogicalResult accumulated(AccumulateOp accumulate) {
    LayoutAttr layout = getLayout(accumulate.getValue());
    if (getMicrobatches(module) > 1 && !layout.isPartialOver(kMicrobatchAxis))
      return emitModelError(accumulate)
             << "accumulates into " << accumulate.getSymbol()
             << " a value that does not depend on the batch, which is not supported with "
             << getMicrobatches(module) << " microbatches";
    auto [entry, inserted] = accumulatedLayouts.try_emplace(accumulate.getSymbol(), layout);
    return inserted ? success() : require(accumulate->getOpOperand(0), entry->second);
  }

  LogicalResult stored(StoreOp store) {
    Operation *symbol = symbols.lookup(store.getSymbol());
    if (auto parameter = dyn_cast<ParameterOp>(symbol))
      return require(store->getOpOperand(0), parameter.getLayoutAttr());
    auto state = cast<StateOp>(symbol);
    LayoutAttr arriving = getLayout(store.getValue());
    if (auto parameter = dyn_cast_or_null<ParameterOp>(symbols.lookup(state.getOf().value_or("")))) {
      if (arriving.getDims() != parameter.getLayoutAttr().getDims())
        accumulateApart(state, store.getValue());
      state.setLayoutAttr(parameter.getLayoutAttr());
      return require(store->getOpOperand(0), parameter.getLayoutAttr());
    }
    if (arriving.getPartial().empty() || getPhase(store) == Phase::Update)
      return require(store->getOpOperand(0), arriving.withPartial({}));
    return sumOverStep(store, state, arriving);
  }

  /// An output that is a sum over the batch: contributions are accumulated, and completed in the update.
  LogicalResult sumOverStep(StoreOp store, StateOp state, LayoutAttr arriving) {
    builder.setInsertionPoint(store);
    ProvenanceScope forward(builder, store, getPhase(store));
    auto accumulate = AccumulateOp::create(builder, store.getLoc(), store.getSymbolAttr(), store.getValue());
    if (failed(accumulated(accumulate)))
      return failure();
    builder.setInsertionPointToEnd(&body);
    ProvenanceScope update(builder, store, Phase::Update);
    auto load = LoadOp::create(builder, store.getLoc(), store.getValue().getType(), store.getSymbolAttr());
    setLayouts(load, {withoutMicrobatch(arriving)});
    auto last = StoreOp::create(builder, store.getLoc(), store.getSymbolAttr(), load);
    state.setLayoutAttr(arriving.withPartial({}));
    store.erase();
    return require(last->getOpOperand(0), arriving.withPartial({}));
  }

  /// A gradient that is accumulated in other shards than its parameter's needs a state of its own for that,
  /// since the local shapes differ: what accumulates, and the loads that the stored value is the sum of, are
  /// moved to it.
  void accumulateApart(StateOp state, Value stored) {
    std::string name = "sum." + state.getOf()->str();
    auto symbol = FlatSymbolRefAttr::get(builder.getContext(), name);
    if (!symbols.contains(name)) {
      builder.setInsertionPoint(state);
      symbols[name] =
          StateOp::create(builder, state.getLoc(), name, "accumulator", state.getType(), state.getOfAttr(),
                          IntegerAttr(), StringAttr(), getLayout(stored).withPartial({}));
      for (AccumulateOp accumulate : accumulations[state.getSymName()])
        accumulate.setSymbolAttr(symbol);
    }
    SmallVector<Value> worklist{stored};
    while (!worklist.empty()) {
      Operation *op = worklist.pop_back_val().getDefiningOp();
      if (auto load = dyn_cast<LoadOp>(op))
        load.setSymbolAttr(symbol);
      else
        llvm::append_range(worklist, op->getOperands());
    }
  }

  LayoutAttr withoutMicrobatch(LayoutAttr layout) {
    SmallVector<PartialAttr> partial;
    for (PartialAttr entry : layout.getPartial())
      if (entry.getAxis().getName() != kMicrobatchAxis)
        partial.push_back(entry);
    return layout.withPartial(partial);
  }

  /// Makes an operand arrive in the layout that its reader needs.
  LogicalResult require(OpOperand &operand, LayoutAttr needed) {
    FailureOr<Value> value = convert(operand.get(), needed, operand.getOwner());
    if (failed(value))
      return failure();
    operand.set(*value);
    return success();
  }

  FailureOr<Value> convert(Value value, LayoutAttr needed, Operation *reader) {
    LayoutAttr layout = getLayout(value);
    if (layout == needed)
      return value;
    auto key = std::make_tuple(value, needed, getStage(reader));
    if (Value known = converted.lookup(key))
      return known;
    FailureOr<Value> result = build(value, needed, reader);
    if (succeeded(result))
      converted[key] = *result;
    return result;
  }

  FailureOr<Value> build(Value value, LayoutAttr needed, Operation *reader) {
    LayoutAttr layout = getLayout(value);
    if (layout.isPartialOver(kMicrobatchAxis) && !needed.isPartialOver(kMicrobatchAxis)) {
      FailureOr<Value> hoisted = hoistToPrologue(value, reader);
      return failed(hoisted) ? hoisted : convert(*hoisted, needed, reader);
    }
    if (Value made = remake(value, needed))
      return made;
    if (needed.isShardedOver(kMicrobatchAxis) != layout.isShardedOver(kMicrobatchAxis))
      return emitModelError(reader) << "needs one microbatch of a value that is not walked in microbatches ("
                                    << describe(value.getDefiningOp()) << "), or the reverse";
    builder.setInsertionPoint(reader);
    Operation *producer = value.getDefiningOp();
    Phase phase = getPhase(producer) == Phase::Begin ? Phase::Begin : getPhase(reader);
    ProvenanceScope scope(builder, reader, phase);
    auto redistribute =
        RedistributeOp::create(builder, reader->getLoc(), value.getType(), value, layout, needed, TypeAttr());
    setLayouts(redistribute, {needed});
    return redistribute.getResult();
  }

  /// A result dim whose factor no operand has (a fill, a broadcast) can be made in any layout at once.
  Value remake(Value value, LayoutAttr needed) {
    auto op = dyn_cast<nn::TensorOpInterface>(value.getDefiningOp());
    if (!op || !propagation.isFree(op, getLayout(value), needed))
      return {};
    builder.setInsertionPointAfter(op);
    Operation *clone = builder.clone(*op.getOperation());
    setLayouts(clone, {needed});
    return clone->getResult(0);
  }

  /// Computes a sum over all microbatches before the first forward: legal for what depends on batch inputs
  /// alone.
  FailureOr<Value> hoistToPrologue(Value value, Operation *reader) {
    llvm::SetVector<Operation *> slice;
    SmallVector<Value> worklist{value};
    while (!worklist.empty()) {
      Operation *op = worklist.pop_back_val().getDefiningOp();
      if (!isa<InputOp, nn::TensorOpInterface, RedistributeOp>(op)) {
        InFlightDiagnostic diagnostic = emitModelError(reader)
                                        << "needs a sum over the microbatches in the middle of a step";
        diagnostic.attachNote(value.getLoc())
            << describe(value.getDefiningOp()) << ": the sum, which depends on " << describe(op)
            << " and so cannot be taken before the first forward";
        return diagnostic;
      }
      if (slice.insert(op))
        llvm::append_range(worklist, op->getOperands());
    }
    builder.setInsertionPoint(reader);
    IRMapping mapping;
    // All of it in the stage that needs the sum: in the prologue nothing goes from stage to stage.
    for (Operation &op : body)
      if (slice.contains(&op)) {
        Operation *clone = builder.clone(op, mapping);
        setPhase(clone, Phase::Prologue);
        setStage(clone, getStage(value.getDefiningOp()));
      }

    std::string name = "stat." + std::to_string(statistics++);
    auto symbol = FlatSymbolRefAttr::get(builder.getContext(), name);
    LayoutAttr layout = withoutMicrobatch(getLayout(value));
    {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPoint(program);
      StateOp::create(builder, value.getLoc(), name, "statistic", value.getType(), StringAttr(),
                      IntegerAttr(), StringAttr(), layout.withPartial({}));
    }
    ProvenanceScope prologue(builder, value.getDefiningOp(), Phase::Prologue);
    AccumulateOp::create(builder, value.getLoc(), symbol, mapping.lookup(value));
    ProvenanceScope begin(builder, value.getDefiningOp(), Phase::Begin);
    auto load = LoadOp::create(builder, value.getLoc(), value.getType(), symbol);
    setLayouts(load, {layout});
    return load.getResult();
  }

  void eraseDeadCode() {
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(body)))
      if (op.use_empty() && isa<LoadOp, InputOp, nn::TensorOpInterface, RedistributeOp>(op))
        op.erase();
  }

  ModuleOp module;
  ProgramOp program;
  Block &body;
  LayoutPropagation propagation;
  OpBuilder builder;
  llvm::StringMap<Operation *> symbols;
  llvm::StringMap<LayoutAttr> accumulatedLayouts;
  llvm::StringMap<SmallVector<AccumulateOp, 2>> accumulations; ///< Per state.
  llvm::DenseMap<std::tuple<Value, LayoutAttr, int64_t>, Value> converted;
  int64_t statistics = 0;
};

struct PlanBoundariesPass : plumb::impl::PlanBoundariesBase<PlanBoundariesPass> {
  void runOnOperation() override {
    auto program = findOp<ProgramOp>(getOperation());
    if (program && failed(BoundaryPlanner(getOperation(), program).run()))
      signalPassFailure();
  }
};

} // namespace
