//===- PlanMemory.cpp - Where everything lies in the arena --------------------===//

#include "ValueRegion.h"
#include "plumb/Dialect/CCL/CCL.h"
#include "plumb/Dialect/NN/NN.h"
#include "plumb/Dialect/Plumb/PipelineAttributes.h"
#include "plumb/Dialect/Plumb/Plumb.h"
#include "plumb/Transforms/Buffers.h"
#include "plumb/Transforms/Passes.h"
#include "plumb/Transforms/Slots.h"
#include "plumb/Transforms/Utils.h"

namespace plumb {
#define GEN_PASS_DEF_PLANMEMORY
#include "plumb/Transforms/Passes.h.inc"
} // namespace plumb

using namespace mlir;
using namespace plumb;

namespace {

/// Bytes of the arena by use.
struct Usage : RegionUsage {
  int64_t gradients = 0, parameters = 0, optimizer = 0, inputs = 0, outputs = 0, staging = 0;
};

/// Plans the arena of one coordinate.
class ArenaPlanner {
public:
  ArenaPlanner(const Pipeline &pipeline, const schedule::Schedule &schedule, int64_t coordinate,
               llvm::StringMap<SmallVector<int64_t>> &symbolOffsets)
      : pipeline(pipeline), coordinate(coordinate), symbolOffsets(symbolOffsets), symbols(pipeline.module),
        steps(getWholeStep(pipeline, coordinate, schedule.rows[coordinate])) {
    for (int64_t stage : pipeline.stagesOf(coordinate))
      stages.emplace_back(pipeline.stages[stage], symbols);
  }

  void plan();

  int64_t end = 0, cleared = 0, staging = 0;
  int64_t values = 0; ///< Bytes of the region for values.
  Usage usage;

private:
  int64_t take(int64_t bytes) {
    int64_t offset = end;
    end += alignUp(bytes);
    return offset;
  }
  void findSymbolTypes();
  template <typename Predicate>
  int64_t placeSymbols(Predicate isWanted);
  void placeInputs();
  void placeStaging();
  void setStrides(StageMemory &memory);
  void placeValues();
  void annotate(StageMemory &memory);
  int64_t offsetOf(StringRef symbol) { return symbolOffsets[symbol][coordinate]; }

  const Pipeline &pipeline;
  int64_t coordinate;
  llvm::StringMap<SmallVector<int64_t>> &symbolOffsets;
  SymbolTable symbols;
  SmallVector<Step> steps;
  SmallVector<StageMemory, 0> stages;
  llvm::StringMap<Type> types;       ///< Local types of the parameters and states that some stage here uses.
  std::map<int64_t, int64_t> inputs; ///< Offsets by number.
};

} // namespace

void ArenaPlanner::findSymbolTypes() {
  for (StageMemory &stage : stages)
    for (Operation &op : stage.stage.getBody().front()) {
      if (auto load = dyn_cast<LoadOp>(op))
        types[load.getSymbol()] = load.getResult().getType();
      else if (auto store = dyn_cast<StoreOp>(op))
        types[store.getSymbol()] = store.getValue().getType();
    }
}

/// Places the parameters and states for which `isWanted(op)` holds, in the order of the module. Returns their
/// bytes.
template <typename Predicate>
int64_t ArenaPlanner::placeSymbols(Predicate isWanted) {
  int64_t begin = end;
  ModuleOp module = pipeline.module;
  for (Operation &op : module.getOps()) {
    if (!isa<ParameterOp, StateOp>(op) || !isWanted(&op))
      continue;
    StringRef name = SymbolTable::getSymbolName(&op).getValue();
    auto type = types.find(name);
    if (type == types.end())
      continue;
    int64_t copies = isCutByMicrobatch(getDeclaredLayout(&op)) ? pipeline.microbatches : 1;
    int64_t bytes = alignUp(getByteSize(type->second));
    symbolOffsets[name][coordinate] = take(copies * bytes);
    auto state = dyn_cast<StateOp>(op);
    usage.parts.emplace_back(copies * bytes, ((state ? state.getKind() : "parameter") + " " + name).str());
  }
  return end - begin;
}

void ArenaPlanner::placeInputs() {
  for (StageMemory &stage : stages)
    for (auto input : stage.stage.getBody().front().getOps<InputOp>()) {
      auto [place, isNew] = inputs.try_emplace(static_cast<int64_t>(input.getIndex()), end);
      int64_t copies = isCutByMicrobatch(getLayout(input.getResult())) ? pipeline.microbatches : 1;
      int64_t bytes = copies * alignUp(getByteSize(input.getResult().getType()));
      if (!isNew)
        continue;
      take(bytes);
      usage.parts.emplace_back(bytes, ("input " + input.getName()).str());
    }
}

/// The inputs of the next step arrive while a step runs.
void ArenaPlanner::placeStaging() {
  usage.staging = getStagedBytes(pipeline, coordinate);
  staging = take(usage.staging);
  if (usage.staging)
    usage.parts.emplace_back(usage.staging, "inputs of the next step");
}

/// The strides of inputs and outputs that are cut by microbatches.
void ArenaPlanner::setStrides(StageMemory &memory) {
  for (const Buffer &buffer : memory.buffers.all())
    if (int64_t slotClass = memory.classOf(buffer); slotClass >= 0 && !buffer.hasOwnMemory())
      memory.classes[slotClass].stride = alignUp(buffer.bytes);
  for (Operation &op : memory.stage.getBody().front())
    if (auto store = dyn_cast<StoreOp>(op))
      if (int64_t slotClass = readEntry(store, kSlotAttr); slotClass >= 0)
        memory.classes[slotClass].stride = alignUp(getByteSize(store.getValue().getType()));
}

void ArenaPlanner::placeValues() {
  SmallVector<const Buffers *> buffers(pipeline.stages.size());
  for (const StageMemory &memory : stages)
    buffers[StageOp(memory.stage).getIndex()] = &memory.buffers;
  SmallVector<Launch, 0> launches = getLaunches(pipeline, steps, buffers);
  ValueRegion region(symbols, pipeline.microbatches, launches, stages);
  int64_t begin = end;
  end = region.place(begin);
  values = end - begin;
  llvm::append_range(region.usage.parts, usage.parts);
  static_cast<RegionUsage &>(usage) = std::move(region.usage);
}

void ArenaPlanner::annotate(StageMemory &memory) {
  Builder builder(memory.stage.getContext());
  writeSlots(memory.stage, memory.classes);
  for (Operation &op : memory.stage.getBody().front()) {
    SmallVector<int64_t> offsets;
    for (Value result : op.getResults()) {
      const Buffer &buffer = memory.buffers.find(result);
      offsets.push_back(buffer.input >= 0        ? inputs[buffer.input]
                        : !buffer.symbol.empty() ? offsetOf(buffer.symbol)
                                                 : memory.offsets[memory.buffers.getId(result)]);
    }
    if (auto store = dyn_cast<StoreOp>(op)) {
      offsets.push_back(offsetOf(store.getSymbol()));
      if (memory.buffers.isCopied(store))
        store->setAttr(kCopyAttr, builder.getUnitAttr());
    }
    if (!offsets.empty())
      op.setAttr(kOffsetAttr, builder.getDenseI64ArrayAttr(offsets));
    if (auto scratch = memory.scratch.find(&op); scratch != memory.scratch.end())
      op.setAttr(kScratchOffsetAttr, builder.getI64IntegerAttr(scratch->second));
  }
}

/// A parameter, or the copy of one that its owner sends.
static bool isParameter(Operation *op) {
  auto state = dyn_cast<StateOp>(op);
  return isa<ParameterOp>(op) || (state && state.getKind() == "copy");
}

static bool isPersistent(Operation *op) {
  auto state = dyn_cast<StateOp>(op);
  return state && state.isPersistent();
}

/// A step begins with these states at zero.
static bool isCleared(Operation *op) {
  auto state = dyn_cast<StateOp>(op);
  return state && !isParameter(op) && !isPersistent(op) && !isCutByMicrobatch(state.getLayoutAttr());
}

void ArenaPlanner::plan() {
  findSymbolTypes();
  usage.gradients = cleared = placeSymbols(isCleared);
  usage.parameters = placeSymbols(isParameter);
  usage.optimizer = placeSymbols(isPersistent);
  usage.outputs =
      placeSymbols([](Operation *op) { return !isParameter(op) && !isPersistent(op) && !isCleared(op); });
  int64_t begin = end;
  placeInputs();
  usage.inputs = end - begin;
  for (StageMemory &stage : stages)
    setStrides(stage);
  placeValues();
  placeStaging();
  for (StageMemory &stage : stages)
    annotate(stage);
}

static DictionaryAttr toAttribute(Builder &builder, const ArenaPlanner &arena) {
  auto bytes = [&](StringRef name, int64_t value) {
    return builder.getNamedAttr(name, builder.getI64IntegerAttr(value));
  };
  const Usage &usage = arena.usage;
  return builder.getDictionaryAttr(
      {bytes("arena", arena.end), bytes("live", arena.end - arena.values + usage.live),
       bytes("states", usage.gradients), bytes("parameters", usage.parameters),
       bytes("optimizer", usage.optimizer), bytes("inputs", usage.inputs), bytes("outputs", usage.outputs),
       bytes("staging", usage.staging), bytes("activations", usage.activations),
       bytes("temporaries", usage.temporaries),
       builder.getNamedAttr("largest", builder.getStringAttr(usage.largest))});
}

/// How many of the largest buffers are named when memory is short.
static constexpr size_t kMostBlamed = 5;

static LogicalResult verifyLimit(const Pipeline &pipeline, int64_t coordinate, ArenaPlanner &arena) {
  ModuleOp module = pipeline.module;
  auto op = findOp<PipelineOp>(module);
  auto limit = op ? op->getAttrOfType<IntegerAttr>(kMemoryLimitAttr) : IntegerAttr();
  if (!limit || arena.end <= limit.getInt())
    return success();
  Usage &usage = arena.usage;
  InFlightDiagnostic diagnostic =
      op.emitError("a rank may use ")
      << limit.getInt() << " bytes, but a rank of pipeline coordinate " << coordinate << " needs "
      << arena.end << ": " << usage.parameters << " for parameters, " << usage.gradients
      << " for gradients and sums, " << usage.inputs + usage.staging + usage.outputs
      << " for inputs and outputs, " << usage.activations << " for activations and " << usage.temporaries
      << " for what one phase uses (most in " << usage.largest
      << "); choose a schedule that keeps fewer microbatches, compute activations "
         "again (\"recompute\"), or shard more";
  llvm::sort(usage.parts, [](const auto &a, const auto &b) {
    return std::pair(-a.first, a.second) < std::pair(-b.first, b.second);
  });
  for (const auto &[bytes, text] : ArrayRef(usage.parts).take_front(kMostBlamed))
    diagnostic.attachNote() << bytes << " bytes: " << text;
  return diagnostic;
}

namespace {
class PlanMemoryPass : public plumb::impl::PlanMemoryBase<PlanMemoryPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    FailureOr<Pipeline> pipeline = Pipeline::read(module);
    if (failed(pipeline))
      return signalPassFailure();
    if (pipeline->stages.empty())
      return;
    if (!module->hasAttr(kStreamsAttr)) {
      module.emitError("streams and slots are not assigned; run the pass assign-streams first");
      return signalPassFailure();
    }
    for (StageOp stage : pipeline->stages)
      if (failed(verifySlots(stage, pipeline->microbatches)))
        return signalPassFailure();
    FailureOr<schedule::Schedule> schedule = readSchedule(*pipeline);
    if (failed(schedule))
      return signalPassFailure();
    llvm::StringMap<SmallVector<int64_t>> offsets;
    for (Operation &op : module.getOps())
      if (isa<ParameterOp, StateOp>(op))
        offsets[SymbolTable::getSymbolName(&op).getValue()].assign(pipeline->coordinates, -1);
    Builder builder(&getContext());
    SmallVector<int64_t> arenas, cleared, staging;
    SmallVector<Attribute> memory;
    for (int64_t coordinate = 0; coordinate < pipeline->coordinates; ++coordinate) {
      ArenaPlanner arena(*pipeline, *schedule, coordinate, offsets);
      arena.plan();
      if (failed(verifyLimit(*pipeline, coordinate, arena)))
        return signalPassFailure();
      arenas.push_back(arena.end);
      cleared.push_back(arena.cleared);
      staging.push_back(arena.staging);
      memory.push_back(toAttribute(builder, arena));
    }
    for (Operation &op : module.getOps())
      if (isa<ParameterOp, StateOp>(op))
        op.setAttr(kOffsetsAttr,
                   builder.getDenseI64ArrayAttr(offsets[SymbolTable::getSymbolName(&op).getValue()]));
    module->setAttr(kArenaAttr, builder.getDenseI64ArrayAttr(arenas));
    module->setAttr(kClearedAttr, builder.getDenseI64ArrayAttr(cleared));
    module->setAttr(kStagingAttr, builder.getDenseI64ArrayAttr(staging));
    module->setAttr(kMemoryAttr, builder.getArrayAttr(memory));
  }
};
} // namespace
