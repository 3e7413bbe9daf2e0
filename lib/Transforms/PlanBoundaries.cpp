//===- PlanBoundaries.cpp - Redistributions where layouts disagree ---------===//

#include "WireLayouts.h"
#include "mlir/IR/IRMapping.h"
#include "plumb/Dialect/CCL/CCL.h"
#include "plumb/Dialect/Plumb/PipelineAttributes.h"
#include "plumb/Transforms/LayoutSearch.h"
#include "plumb/Transforms/Ownership.h"
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
      : module(module), program(program), body(*program.getBody().begin()), costs(module),
        builder(module.getContext()), stageCopies(countCopies(findOp<PipelineOp>(module))) {
    for (Operation &op : body)
      if (getPhase(&op) < Phase::Reduce)
        stages = std::max(stages, getStage(&op) + 1);
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
              .Case<BoundaryOp>([&](BoundaryOp boundary) { return cross(boundary); })
              .Case<nn::TensorOpInterface>([&](auto tensorOp) { return compute(tensorOp); })
              .Case<RedistributeOp>([&](RedistributeOp redistribute) {
                return require(redistribute->getOpOperand(0), redistribute.getFrom());
              })
              .Case<AccumulateOp>([&](AccumulateOp accumulate) { return accumulated(accumulate); })
              .Case<StoreOp>([&](StoreOp store) { return stored(store); })
              .Default([](Operation *) { return success(); });
      if (failed(done))
        return failure();
    }
    chooseWireLayouts(module, program);
    eraseDeadCode();
    return success();
  }

private:
  /// Gives each operand the layout in which `propagate-layouts` said that it is read.
  LogicalResult compute(Operation *op) {
    auto reads = op->getAttrOfType<ArrayAttr>(kReadsAttr);
    if (!reads)
      return success();
    for (auto [operand, needed] : llvm::zip(op->getOpOperands(), reads.getAsRange<LayoutAttr>())) {
      if (failed(require(operand, needed)))
        return failure();
      maskPadding(operand);
    }
    op->removeAttr(kReadsAttr);
    return success();
  }

  /// Shards that differ in size are padded to the largest. Where a reader sums over such a dim, it reads
  /// zeros in place of the padding: a tensor of ones that is sharded in the same way is padded with zeros.
  void maskPadding(OpOperand &operand) {
    auto reader = dyn_cast<nn::TensorOpInterface>(operand.getOwner());
    auto type = cast<RankedTensorType>(operand.get().getType());
    LayoutAttr layout = getLayout(operand.get());
    if (!reader || llvm::all_of(llvm::zip(type.getShape(), layout.getDims()), [&](auto dim) {
          return cutsEvenly(module, std::get<0>(dim), std::get<1>(dim));
        }))
      return;
    nn::ShardingRule rule = reader.getShardingRule();
    for (auto [d, dim] : llvm::enumerate(layout.getDims()))
      if (!cutsEvenly(module, type.getDimSize(d), dim) &&
          llvm::any_of(rule.operands[operand.getOperandNumber()][d],
                       [&](int factor) { return rule.factors[factor].kind == nn::FactorKind::Reduction; }))
        operand.set(masked(operand.get(), d, reader));
  }

  Value masked(Value value, size_t d, Operation *reader) {
    auto type = cast<RankedTensorType>(value.getType());
    LayoutAttr layout = getLayout(value);
    builder.setInsertionPoint(reader);
    ProvenanceScope scope(builder, reader, getPhase(reader));
    auto fill = [&](ArrayRef<int64_t> shape, Type element, double number) {
      Value made = nn::FillOp::create(builder, reader->getLoc(), RankedTensorType::get(shape, element),
                                      builder.getF64FloatAttr(number));
      setLayouts(made.getDefiningOp(), {layoutWith(layout, shape.size(), 0, {})});
      return made;
    };
    SmallVector<int64_t> shape(type.getRank(), 1);
    shape[d] = type.getDimSize(d);
    Value ones = fill(shape, builder.getI1Type(), 1);
    LayoutAttr sharded = layoutWith(layout, shape.size(), d, layout.getDims()[d]);
    auto isInside = RedistributeOp::create(builder, reader->getLoc(), ones.getType(), ones, getLayout(ones),
                                           sharded, TypeAttr());
    setLayouts(isInside, {sharded});
    auto where = nn::WhereOp::create(builder, reader->getLoc(), type, isInside.getResult(), value,
                                     fill({}, type.getElementType(), 0));
    setLayouts(where, {layout});
    return where;
  }

  /// A layout of `rank` dims that shards only dim `d`, as `sharding` says.
  LayoutAttr layoutWith(LayoutAttr like, size_t rank, size_t d, DimShardingAttr sharding) {
    MLIRContext *context = module.getContext();
    SmallVector<DimShardingAttr> dims(rank, DimShardingAttr::get(context, {}, {}));
    if (sharding)
      dims[d] = sharding;
    return LayoutAttr::get(context, like.getMesh(), dims, {});
  }

  /// A boundary becomes the redistribution that it asks for, or nothing.
  LogicalResult cross(BoundaryOp boundary) {
    LayoutAttr arriving = getLayout(boundary.getInput());
    if (failed(checkSource(boundary, arriving)) || failed(compute(boundary)))
      return failure();
    describePort(boundary, arriving, getLayout(boundary.getInput()));
    if (boundary.getInput().getDefiningOp<RedistributeOp>())
      boundary.getInput().getDefiningOp()->setAttr(
          kPortAttr, builder.getStringAttr((boundary.getOwner() + " " + boundary.getPort()).str()));
    boundary.getResult().replaceAllUsesWith(boundary.getInput());
    boundary.erase();
    return success();
  }

  /// Keeps at its module what becomes of a port, for explanations.
  void describePort(BoundaryOp boundary, LayoutAttr from, LayoutAttr to) {
    auto owner = dyn_cast_or_null<ModuleNameOp>(SymbolTable::lookupSymbolIn(module, boundary.getOwner()));
    if (!owner)
      return;
    auto type = cast<RankedTensorType>(boundary.getInput().getType());
    auto [label, steps, bytes] = costs.describe(type, from, to);
    SmallVector<Attribute> ports;
    if (auto known = owner->getAttrOfType<ArrayAttr>(kPortsAttr))
      llvm::append_range(ports, known);
    ports.push_back(builder.getDictionaryAttr(
        {builder.getNamedAttr("port", boundary.getPortAttr()), builder.getNamedAttr("from", from),
         builder.getNamedAttr("to", to), builder.getNamedAttr("label", builder.getStringAttr(label)),
         builder.getNamedAttr("steps", builder.getStringAttr(steps)),
         builder.getNamedAttr("bytes", builder.getI64IntegerAttr(bytes))}));
    owner->setAttr(kPortsAttr, builder.getArrayAttr(ports));
  }

  /// What the plan says of an output is a promise: it must be had without communication. Inputs are
  /// redistributed from what they are.
  LogicalResult checkSource(BoundaryOp boundary, LayoutAttr arriving) {
    if (boundary.arrivesAsStated(arriving))
      return success();
    auto type = cast<RankedTensorType>(boundary.getInput().getType());
    LayoutAttr source = canonicalized(module, boundary.getStated(*boundary.getSource(), arriving));
    bool isInput = boundary.getPort().starts_with("input");
    if (!isInput && costs.isLocal(type, arriving, source))
      return success();
    InFlightDiagnostic diagnostic = isInput ? emitWarning(boundary.getLoc()) : emitError(boundary.getLoc());
    diagnostic << "port \"" << boundary.getPort() << "\" of module " << boundary.getOwner() << " is said to "
               << (isInput ? "arrive" : "be produced") << " as " << source << ", but "
               << (isInput ? "arrives" : "is produced") << " as " << arriving;
    diagnostic.attachNote(boundary.getInput().getLoc())
        << describe(boundary.getInput().getDefiningOp()) << ": made here";
    return isInput ? success() : failure();
  }

  /// What is accumulated keeps its pending sums; `microbatch` is one of them, or the value would count M
  /// times.
  LogicalResult accumulated(AccumulateOp accumulate) {
    if (getPhase(accumulate) < Phase::Reduce && getMicrobatches(module) > 1 &&
        !getLayout(accumulate.getValue()).isPartialOver(kMicrobatchAxis))
      return emitModelError(accumulate)
             << "accumulates into " << accumulate.getSymbol()
             << " a value that does not depend on the batch, which is not supported with "
             << getMicrobatches(module) << " microbatches";
    return compute(accumulate);
  }

  LogicalResult stored(StoreOp store) {
    Operation *symbol = symbols.lookup(store.getSymbol());
    if (auto parameter = dyn_cast<ParameterOp>(symbol))
      return require(store->getOpOperand(0), parameter.getLayoutAttr());
    auto state = cast<StateOp>(symbol);
    LayoutAttr arriving = getLayout(store.getValue());
    if (auto parameter = dyn_cast_or_null<ParameterOp>(symbols.lookup(state.getOf().value_or("")))) {
      bool isCopy = state.getKind() == "copy";
      LayoutAttr updated =
          parameter.getUpdated() && !isCopy ? *parameter.getUpdated() : parameter.getLayoutAttr();
      SmallVector<LoadOp> loads =
          state.getKind() == "gradient" ? loadsOf(store.getValue()) : SmallVector<LoadOp>();
      if (!loads.empty() && getLayout(loads.front().getResult()).getDims() != updated.getDims())
        accumulateApart(state, loads);
      state.setLayoutAttr(updated);
      return require(store->getOpOperand(0), updated);
    }
    if (state.getKind() == "statistic" && arriving.isShardedOver(kMicrobatchAxis))
      return emitModelError(store)
             << "is written to a buffer, which takes a value of the whole batch, but comes in "
             << getMicrobatches(module) << " microbatches; use one, or reduce it";
    if (state.getLayoutAttr() && !getWalkedAxes(arriving).empty())
      return require(store->getOpOperand(0), state.getLayoutAttr());
    if (!arriving.isPartialOver(kMicrobatchAxis) || getPhase(store) == Phase::Update)
      return require(store->getOpOperand(0), arriving.withPartial({}));
    return sumOverStep(store, state, arriving);
  }

  /// An output or statistic that is a sum over the batch: contributions are accumulated, and completed in the
  /// end.
  LogicalResult sumOverStep(StoreOp store, StateOp state, LayoutAttr arriving) {
    builder.setInsertionPoint(store);
    ProvenanceScope forward(builder, store, getPhase(store));
    auto accumulate = AccumulateOp::create(builder, store.getLoc(), store.getSymbolAttr(), store.getValue());
    if (failed(accumulated(accumulate)))
      return failure();
    state.setLayoutAttr(arriving.withPartial({}));
    for (int64_t copy = 0; copy < stageCopies; ++copy) {
      int64_t stage = copy * stages + getStage(store);
      // Ranks that exchange something do so in one order; see getFirstStage.
      if (stageCopies > 1)
        stage = getFirstStage(module, getPipelineCoordinate(module, stage));
      if (failed(completeSum(store, stage, arriving)))
        return failure();
    }
    store.erase();
    return success();
  }

  /// In one stage that has a share of a sum over the step: what it is in the end. Copies of the stage have
  /// the other shares.
  LogicalResult completeSum(StoreOp store, int64_t stage, LayoutAttr arriving) {
    builder.setInsertionPointToEnd(&body);
    // The update reads a statistic, in any stage of the rank.
    bool isRead = cast<StateOp>(symbols.lookup(store.getSymbol())).getKind() == "statistic";
    ProvenanceScope last(builder, store, isRead ? Phase::Reduce : Phase::Update);
    auto load = LoadOp::create(builder, store.getLoc(), store.getValue().getType(), store.getSymbolAttr());
    LayoutAttr layout = withoutMicrobatch(arriving);
    if (stageCopies > 1) {
      SmallVector<PartialAttr> partial(layout.getPartial());
      partial.push_back(PartialAttr::get(builder.getContext(),
                                         AxisRefAttr::get(findOp<PipelineOp>(module).getAxisAttr()),
                                         builder.getStringAttr("sum")));
      layout = layout.withPartial(partial);
    }
    setLayouts(load, {layout});
    auto completed = StoreOp::create(builder, store.getLoc(), store.getSymbolAttr(), load);
    setStage(load, stage);
    setStage(completed, stage);
    return require(completed->getOpOperand(0), arriving.withPartial({}));
  }

  /// A gradient that is accumulated in other shards than its parameter's needs a state of its own for that,
  /// since the local shapes differ: what accumulates, and the loads that the stored value is the sum of, are
  /// moved to it.
  void accumulateApart(StateOp state, MutableArrayRef<LoadOp> loads) {
    std::string name = "sum." + state.getOf()->str();
    auto symbol = FlatSymbolRefAttr::get(builder.getContext(), name);
    if (!symbols.contains(name)) {
      builder.setInsertionPoint(state);
      symbols[name] =
          StateOp::create(builder, state.getLoc(), name, "accumulator", state.getType(), state.getOfAttr(),
                          IntegerAttr(), StringAttr(), getLayout(loads.front().getResult()).withPartial({}));
      for (AccumulateOp accumulate : accumulations[state.getSymName()])
        accumulate.setSymbolAttr(symbol);
    }
    for (LoadOp load : loads)
      load.setSymbolAttr(symbol);
  }

  /// The loads that a gradient is the sum of.
  static SmallVector<LoadOp> loadsOf(Value gradient) {
    SmallVector<LoadOp> loads;
    SmallVector<Value> worklist{gradient};
    while (!worklist.empty()) {
      Operation *op = worklist.pop_back_val().getDefiningOp();
      if (auto load = dyn_cast<LoadOp>(op))
        loads.push_back(load);
      else
        llvm::append_range(worklist, op->getOperands());
    }
    return loads;
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

  /// The value in the needed layout: a copy that the stage has already, or one made from the nearest of them.
  FailureOr<Value> convert(Value value, LayoutAttr needed, Operation *reader) {
    if (getLayout(value) == needed)
      return value;
    std::pair<Value, int64_t> key{value, placeOf(value, reader)};
    SmallVector<Value, 2> &known = copies[key];
    auto type = cast<RankedTensorType>(value.getType());
    Value nearest = value;
    LayoutCost least = costs.convert(type, getLayout(value), needed);
    for (Value copy : known) {
      LayoutCost cost = costs.convert(type, getLayout(copy), needed);
      if (!cost.isLess(least))
        continue;
      nearest = copy;
      least = cost;
    }
    if (nearest != value)
      advance(nearest, getPhase(reader));
    if (getLayout(nearest) == needed)
      return nearest;
    FailureOr<Value> result = build(nearest, needed, reader);
    if (succeeded(result))
      copies[key].push_back(*result);
    return result;
  }

  /// Readers of one place share copies: those of a stage, and of a parameter that is gathered for each pass
  /// those of the pass. The backward of a module that is computed again makes its own, too.
  int64_t placeOf(Value value, Operation *reader) {
    bool isApart = isGatheredPerPass(value) || reader->hasAttr(kRecomputeAttr);
    bool isBackward = isApart && getPhase(reader) > Phase::Forward;
    return 2 * getStage(reader) + isBackward;
  }

  bool isGatheredPerPass(Value value) { return gatherMode(value).value_or("step") != "step"; }

  /// When a parameter is gathered, if it is.
  std::optional<StringRef> gatherMode(Value value) {
    auto load = value.getDefiningOp<LoadOp>();
    if (!load || !load->hasAttr(kGatheredAttr))
      return std::nullopt;
    Operation *symbol = symbols.lookup(load.getSymbol());
    if (auto copy = dyn_cast<StateOp>(symbol))
      symbol = symbols.lookup(*copy.getOf());
    return cast<ParameterOp>(symbol).getGather().value_or("step");
  }

  /// A copy that was made for a reader in a later phase serves one in `phase` too.
  static void advance(Value copy, Phase phase) {
    Operation *op = copy.getDefiningOp();
    if (getPhase(op) <= phase || !isa<RedistributeOp>(op))
      return;
    setPhase(op, phase);
    advance(op->getOperand(0), phase);
  }

  /// The dim along which a value is walked in microbatches.
  static std::optional<int64_t> walkedDim(LayoutAttr layout) {
    for (auto [dim, sharding] : llvm::enumerate(layout.getDims()))
      for (AxisRefAttr axis : sharding.getAxes())
        if (axis.getName() == kMicrobatchAxis)
          return static_cast<int64_t>(dim);
    return std::nullopt;
  }

  /// No rank ever holds more than one microbatch of what a step walks over. Most often an input is taken for
  /// a batch that is none, or has its batch elsewhere.
  LogicalResult refuseWalk(Value value, LayoutAttr needed, Operation *reader) {
    auto along = [](LayoutAttr layout) {
      std::optional<int64_t> dim = walkedDim(layout);
      return dim ? "in microbatches along dim " + std::to_string(*dim) : "whole";
    };
    InFlightDiagnostic diagnostic = emitModelError(reader);
    diagnostic << "needs " << along(needed) << " what " << describe(value.getDefiningOp()) << " makes "
               << along(getLayout(value)) << "; a step has one microbatch at a time";
    llvm::SetVector<Operation *> sources;
    sources.insert(value.getDefiningOp());
    sources.insert(reader);
    for (size_t next = 0; next < sources.size(); ++next)
      for (Value operand : sources[next]->getOperands())
        sources.insert(operand.getDefiningOp());
    for (Operation *source : sources)
      if (auto input = dyn_cast<InputOp>(source))
        if (LayoutAttr layout = getLayout(input.getResult()); walkedDim(layout))
          diagnostic.attachNote(input.getLoc())
              << "the input \"" << input.getName() << "\" of type " << input.getResult().getType()
              << " is cut " << along(layout) << "; if it is no batch, say \"inputs\": {\"" << input.getName()
              << "\": \"replicate\"}";
    return diagnostic;
  }

  FailureOr<Value> build(Value value, LayoutAttr needed, Operation *reader) {
    LayoutAttr layout = getLayout(value);
    if (layout.isPartialOver(kMicrobatchAxis) && !needed.isPartialOver(kMicrobatchAxis)) {
      FailureOr<Value> hoisted = hoistToPrologue(value, reader);
      return failed(hoisted) ? hoisted : convert(*hoisted, needed, reader);
    }
    if (Value made = remake(value, needed))
      return made;
    if (walkedDim(needed) != walkedDim(layout))
      return refuseWalk(value, needed, reader);
    builder.setInsertionPoint(reader);
    Operation *producer = value.getDefiningOp();
    if (gatherMode(value) == "step")
      setPhase(producer, Phase::Begin);
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
    if (!op || !OpSharding(module, op).isFree(getLayout(value), needed))
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
  LayoutCosts costs;
  OpBuilder builder;
  int64_t stageCopies, stages = 0; ///< Of each stage; of each copy.
  llvm::StringMap<Operation *> symbols;
  llvm::StringMap<SmallVector<AccumulateOp, 2>> accumulations;             ///< Per state.
  llvm::DenseMap<std::pair<Value, int64_t>, SmallVector<Value, 2>> copies; ///< By value and stage.
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
