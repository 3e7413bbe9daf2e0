//===- PropagateLayouts.cpp - A layout for every value ---------------------===//

#include "plumb/Dialect/CCL/CCL.h"
#include "plumb/Transforms/LayoutSearch.h"
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
      : module(module), program(program), mesh(FlatSymbolRefAttr::get(findOp<MeshOp>(module))) {
    for (ParameterOp parameter : module.getOps<ParameterOp>())
      symbols[parameter.getSymName()] = parameter;
    for (StateOp state : module.getOps<StateOp>())
      symbols[state.getSymName()] = state;
  }

  /// What a step computes comes first: the layouts of gradients and outputs follow from it, and those of the
  /// update from them.
  LogicalResult run() {
    auto endCost = [&](OpOperand &use, LayoutAttr layout) { return costOfEnd(use, layout); };
    for (Operation &op : *program.getBody().begin())
      if (auto redistribute = dyn_cast<RedistributeOp>(op))
        setLayouts(redistribute, {redistribute.getTo()});
      else if (auto load = dyn_cast<LoadOp>(op);
               load && getPhase(load) < Phase::Reduce && failed(loaded(load)))
        return failure();
    while (true) {
      LayoutSearch search(module, endCost);
      costs = &search.getCosts();
      if (failed(search.run(collect(isRepeated))))
        return failure();
      if (search.getExpansions().empty())
        break;
      for (const LayoutSearch::Expansion &expansion : search.getExpansions())
        expand(expansion);
      for (nn::TensorOpInterface op : collect(isRepeated))
        op->removeAttr(kLayoutsAttr);
    }
    if (failed(followStates(isRepeated)))
      return failure();
    for (Phase last : {Phase::Reduce, Phase::Update}) {
      auto isLast = [last](Phase phase) { return phase == last; };
      if (failed(followStates(isLast, /*loads=*/true)))
        return failure();
      LayoutSearch search(module, endCost);
      costs = &search.getCosts();
      if (failed(search.run(collect(isLast))))
        return failure();
      declareSums(isLast);
    }
    warnOfIdleAxes();
    return success();
  }

private:
  using PhaseTest = llvm::function_ref<bool(Phase)>;

  /// What runs for each microbatch, or before them.
  static bool isRepeated(Phase phase) { return phase < Phase::Reduce; }

  SmallVector<nn::TensorOpInterface> collect(PhaseTest isWanted) {
    SmallVector<nn::TensorOpInterface> ops;
    for (auto op : program.getBody().getOps<nn::TensorOpInterface>())
      if (isWanted(getPhase(op)))
        ops.push_back(op);
    return ops;
  }

  /// The layouts of states, in program order, as the ops of these phases use them.
  LogicalResult followStates(PhaseTest isWanted, bool loads = false) {
    for (Operation &op : *program.getBody().begin()) {
      if (!isWanted(getPhase(&op)))
        continue;
      if (auto store = dyn_cast<StoreOp>(op))
        stored(store);
      if (auto load = dyn_cast<LoadOp>(op); load && loads && failed(loaded(load)))
        return failure();
    }
    if (!loads)
      declareSums(isWanted);
    return success();
  }

  /// What is accumulated in these phases, whose layouts are known.
  void declareSums(PhaseTest isWanted) {
    for (auto accumulate : program.getBody().getOps<AccumulateOp>())
      if (isWanted(getPhase(accumulate)))
        accumulated(accumulate);
    declareReads(isWanted);
  }

  void expand(const LayoutSearch::Expansion &expansion) {
    nn::TensorOpInterface op = expansion.op;
    OpBuilder builder(op);
    ProvenanceScope scope(builder, op, getPhase(op));
    op->replaceAllUsesWith(op.expand(builder, expansion.factor, expansion.parts));
    op->erase();
  }

  ParameterOp parameterOf(StateOp state) {
    return state ? dyn_cast_or_null<ParameterOp>(symbols.lookup(state.getOf().value_or(""))) : ParameterOp();
  }

  /// What is accumulated is redistributed once per step; an output per microbatch, unless it is a sum over
  /// them.
  LayoutCost costOfEnd(OpOperand &use, LayoutAttr layout) {
    auto type = cast<RankedTensorType>(use.get().getType());
    double perStep = 1.0 / static_cast<double>(getMicrobatches(module));
    LayoutAttr rest = withoutAxes(layout, [](StringRef axis) { return axis == kMicrobatchAxis; });
    if (auto accumulate = dyn_cast<AccumulateOp>(use.getOwner())) {
      ParameterOp parameter = parameterOf(dyn_cast_or_null<StateOp>(symbols.lookup(accumulate.getSymbol())));
      LayoutAttr whole = parameter ? getUpdateLayout(parameter) : rest.withPartial({});
      LayoutCost cost = costs->convert(type, rest, whole);
      // What is added in each microbatch must be a part of a sum over them.
      if (isRepeated(getPhase(accumulate)) && getMicrobatches(module) > 1 &&
          !layout.isPartialOver(kMicrobatchAxis))
        ++cost.violations;
      return {cost.violations, cost.seconds * perStep};
    }
    if (isa<StoreOp>(use.getOwner())) {
      LayoutCost cost = costs->convert(type, rest, rest.withPartial({}));
      return {cost.violations, cost.seconds * (layout.isPartialOver(kMicrobatchAxis) ? perStep : 1)};
    }
    return {};
  }

  LayoutAttr layoutOf(ParameterOp parameter) {
    if (LayoutAttr layout = parameter.getLayoutAttr())
      return canonicalized(module, layout);
    return LayoutAttr::replicated(mesh, cast<RankedTensorType>(parameter.getType()).getRank());
  }

  LayoutAttr getUpdateLayout(ParameterOp parameter) {
    return parameter.getUpdated() ? *parameter.getUpdated() : layoutOf(parameter);
  }

  LogicalResult loaded(LoadOp load) {
    Operation *symbol = symbols.lookup(load.getSymbol());
    auto parameter = dyn_cast_or_null<ParameterOp>(symbol);
    if (auto state = dyn_cast_or_null<StateOp>(symbol); state && state.getKind() == "copy")
      parameter = parameterOf(state);
    if (parameter) {
      setLayouts(load, {layoutOf(parameter)});
      if (parameter.getGathered())
        load->setAttr(kGatheredAttr, *parameter.getGathered());
      return success();
    }
    if (auto whole = wholeStates.find({load.getSymbol(), getStage(load)}); whole != wholeStates.end()) {
      setLayouts(load, {whole->second});
      return success();
    }
    auto state = cast<StateOp>(symbol);
    parameter = parameterOf(state);
    if (state.isPersistent() && !state.getLayoutAttr())
      state.setLayoutAttr(replicated(load.getResult()));
    if (state.getKind() == "moment")
      state.setLayoutAttr(getUpdateLayout(parameter));
    auto found = accumulatedLayouts.find(load.getSymbol());
    if (found == accumulatedLayouts.end() && state.getLayoutAttr()) {
      setLayouts(load, {state.getLayoutAttr()});
      return success();
    }
    if (found == accumulatedLayouts.end())
      return load.emitOpError("reads ") << load.getSymbolAttr() << " before anything was accumulated in it";
    LayoutAttr layout = found->second;
    // Every holder has the contributions of the stages of its own rank: a sum over those ranks.
    if (getHolders(state, parameter).size() > 1)
      layout = joined(layout, findOp<PipelineOp>(module).getAxis());
    setLayouts(load, {layout});
    return success();
  }

  LayoutAttr replicated(Value value) {
    return LayoutAttr::replicated(mesh, cast<RankedTensorType>(value.getType()).getRank());
  }

  /// The layout, also partial over `axis`.
  LayoutAttr joined(LayoutAttr layout, StringRef axis) {
    MLIRContext *context = module.getContext();
    SmallVector<PartialAttr> partial(layout.getPartial());
    partial.push_back(PartialAttr::get(context, AxisRefAttr::get(StringAttr::get(context, axis)),
                                       StringAttr::get(context, "sum")));
    return canonicalized(module, layout.withPartial(partial));
  }

  /// The first contribution decides the shards of a state, all of them its pending sums; `microbatch` is
  /// summed by accumulating.
  void accumulated(AccumulateOp accumulate) {
    LayoutAttr layout =
        withoutAxes(getLayout(accumulate.getValue()), [](StringRef axis) { return axis == kMicrobatchAxis; });
    // Gradients of a parameter that is gathered for each pass are reduced after each pass.
    StateOp state = cast<StateOp>(symbols.lookup(accumulate.getSymbol()));
    ParameterOp parameter = parameterOf(state);
    if (parameter && parameter.getGather().value_or("step") != "step")
      layout = getUpdateLayout(parameter);
    auto [entry, isFirst] = accumulatedLayouts.try_emplace(accumulate.getSymbol(), layout);
    if (isFirst)
      state.setLayoutAttr(layout.withPartial({}));
    for (PartialAttr partial : layout.getPartial())
      if (!entry->second.isPartialOver(partial.getAxis().getName()) &&
          !entry->second.isShardedOver(partial.getAxis().getName()))
        entry->second = joined(entry->second, partial.getAxis().getName());
  }

  /// Ranks of an axis that shards nothing all compute the same.
  void warnOfIdleAxes() {
    auto meshOp = findOp<MeshOp>(module);
    auto pipeline = findOp<PipelineOp>(module);
    for (auto [axis, size] : llvm::zip(meshOp.getAxes().getAsValueRange<StringAttr>(), meshOp.getSizes())) {
      StringRef name = axis;
      auto shards = [&](Operation &op) {
        return llvm::any_of(op.getResults(), [&](Value result) {
          LayoutAttr layout = getLayout(result);
          return layout && layout.isShardedOver(name);
        });
      };
      if (size > 1 && !(pipeline && pipeline.getAxis() == name) &&
          llvm::none_of(*program.getBody().begin(), shards))
        emitWarning(meshOp.getLoc()) << "the axis \"" << name << "\" of " << size
                                     << " ranks shards nothing: all of them compute the same";
    }
  }

  /// Every contribution arrives as its state has it.
  void declareReads(PhaseTest isWanted) {
    for (auto accumulate : program.getBody().getOps<AccumulateOp>()) {
      if (!isWanted(getPhase(accumulate)))
        continue;
      LayoutAttr layout = accumulatedLayouts.lookup(accumulate.getSymbol());
      if (getLayout(accumulate.getValue()).isPartialOver(kMicrobatchAxis))
        layout = joined(layout, kMicrobatchAxis);
      accumulate->setAttr(kReadsAttr, ArrayAttr::get(module.getContext(), {Attribute(layout)}));
    }
  }

  /// A microbatch has the rows that the shards of inputs say, the same ones in all inputs. Of a value that
  /// has been gathered over an axis of these only the layout of the inputs says which they are.
  LayoutAttr walkedAsInputs(LayoutAttr layout) {
    ArrayRef<AxisRefAttr> walked = getWalkedAxes(layout), wanted;
    for (auto input : program.getBody().getOps<InputOp>())
      if (wanted.empty() && !input.getCounts())
        wanted = getWalkedAxes(getLayout(input.getResult()));
    if (walked.empty() || walked == wanted)
      return layout;
    SmallVector<DimShardingAttr> dims;
    for (DimShardingAttr dim : layout.getDims())
      dims.push_back(dim.getAxes().take_front(walked.size()) == walked ? dim.withAxes(wanted) : dim);
    return LayoutAttr::get(layout.getContext(), layout.getMesh(), dims, layout.getPartial());
  }

  void stored(StoreOp store) {
    auto state = dyn_cast<StateOp>(symbols.lookup(store.getSymbol()));
    if (!state)
      return;
    ParameterOp parameter = state.getKind() == "copy" ? ParameterOp() : parameterOf(state);
    if (parameter) // A gradient is stored whole.
      wholeStates[{state.getSymName(), getStage(store)}] = getUpdateLayout(parameter);
    else if (!state.getLayoutAttr() && getLayout(store.getValue()))
      state.setLayoutAttr(walkedAsInputs(getLayout(store.getValue()).withPartial({})));
    else if (!state.getLayoutAttr() && getPhase(store) == Phase::Update) // A number of the optimizer.
      state.setLayoutAttr(replicated(store.getValue()));
    // What is stored in the update is whole.
    if (!parameter && getPhase(store) == Phase::Update)
      wholeStates[{state.getSymName(), getStage(store)}] = state.getLayoutAttr();
  }

  ModuleOp module;
  ProgramOp program;
  FlatSymbolRefAttr mesh;
  LayoutCosts *costs = nullptr;
  llvm::StringMap<Operation *> symbols;
  llvm::StringMap<LayoutAttr> accumulatedLayouts;
  llvm::DenseMap<std::pair<StringRef, int64_t>, LayoutAttr> wholeStates; ///< By state and stage, once stored.
};

struct PropagateLayoutsPass : plumb::impl::PropagateLayoutsBase<PropagateLayoutsPass> {
  void runOnOperation() override {
    auto program = findOp<ProgramOp>(getOperation());
    if (program && failed(Propagator(getOperation(), program).run()))
      signalPassFailure();
  }
};

} // namespace
