//===- PlanMemory.cpp - Where everything lies in the arena --------------------===//

#include "Packing.h"
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

/// When the steps of a coordinate run.
class StepTimes {
public:
  explicit StepTimes(ArrayRef<Step> steps) {
    for (auto [time, step] : llvm::enumerate(steps))
      times[{step.stage, step.part}][step.microbatch] = static_cast<int64_t>(time);
  }

  /// By microbatch, or under -1; empty if the part never runs.
  const std::map<int64_t, int64_t> &of(int64_t stage, const Part &part) { return times[{stage, part}]; }

private:
  std::map<std::pair<int64_t, Part>, std::map<int64_t, int64_t>> times;
};

struct StageMemory {
  StageMemory(StageOp stage, const SymbolTable &symbols)
      : stage(stage), buffers(stage, symbols), classes(readSlots(stage)), offsets(buffers.all().size(), -1) {}

  /// The slot class of a buffer, -1 if it has none.
  int64_t classOf(const Buffer &buffer) const {
    auto result = cast<OpResult>(buffer.root);
    return readEntry(result.getOwner(), kSlotAttr, result.getResultNumber());
  }

  StageOp stage;
  Buffers buffers;
  SmallVector<SlotClass> classes;
  SmallVector<int64_t> offsets; ///< By buffer.
  DenseMap<Operation *, int64_t> scratch;
};

/// A part of the region for values: what lies in it, with offsets from its start.
struct ValueBlock {
  TimedBlock place;
  SmallVector<int64_t *> offsets;
};

/// Bytes of the arena by use. Values that are not needed at one time share memory, so that the sum may be
/// more than the arena.
struct Usage {
  int64_t gradients = 0, parameters = 0, optimizer = 0, inputs = 0, outputs = 0, activations = 0,
          temporaries = 0;
  std::string largest;                                ///< Where most temporary memory is in use.
  std::vector<std::pair<int64_t, std::string>> parts; ///< What takes how much, in words.
};

/// Plans the arena of one coordinate.
class ArenaPlanner {
public:
  ArenaPlanner(const Pipeline &pipeline, const schedule::Schedule &schedule, int64_t coordinate,
               llvm::StringMap<SmallVector<int64_t>> &symbolOffsets)
      : pipeline(pipeline), coordinate(coordinate), symbolOffsets(symbolOffsets), symbols(pipeline.module),
        times(getWholeStep(pipeline, coordinate, schedule.rows[coordinate])) {
    for (int64_t stage : pipeline.stagesOf(coordinate))
      stages.emplace_back(pipeline.stages[stage], symbols);
  }

  void plan();

  int64_t end = 0, cleared = 0;
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
  void collectValues(StageMemory &memory);
  void setStrides(StageMemory &memory);
  void collectTemporaries(StageMemory &memory);
  void packPhase(StageMemory &memory, ArrayRef<Operation *> ops, int64_t first);
  void placeValues();
  void addTimes(const StageMemory &memory, const Buffer &buffer, TimedBlock &block);
  void annotate(StageMemory &memory);
  int64_t scratchOf(Operation *op) const;
  int64_t offsetOf(StringRef symbol) { return symbolOffsets[symbol][coordinate]; }

  const Pipeline &pipeline;
  int64_t coordinate;
  llvm::StringMap<SmallVector<int64_t>> &symbolOffsets;
  SymbolTable symbols;
  StepTimes times;
  SmallVector<StageMemory, 0> stages;
  llvm::StringMap<Type> types;       ///< Local types of the parameters and states that some stage here uses.
  std::map<int64_t, int64_t> inputs; ///< Offsets by number.
  SmallVector<ValueBlock, 0> blocks; ///< Of the region for values.
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

/// Adds when a buffer is in use: for each microbatch from the part that fills it to the last that reads it.
/// What a stream of communication touches may be in use at any time, since its steps are those of no order
/// here.
void ArenaPlanner::addTimes(const StageMemory &memory, const Buffer &buffer, TimedBlock &block) {
  StageOp op = memory.stage;
  auto stage = static_cast<int64_t>(op.getIndex());
  std::map<int64_t, std::pair<int64_t, int64_t>> spans; // by microbatch
  for (const Part &part : buffer.parts) {
    if (part.isTransfer() && !pipeline.isHandover(stage, part))
      spans[-1] = {0, std::numeric_limits<int64_t>::max() - 1};
    for (auto [microbatch, time] : times.of(stage, part)) {
      auto [span, isNew] = spans.try_emplace(microbatch, time, time);
      span->second = {std::min(span->second.first, time), std::max(span->second.second, time)};
    }
  }
  // What is used once per step and for microbatches too is in use from the first to the last of them.
  if (spans.contains(-1))
    for (auto [microbatch, span] : spans)
      spans[-1] = {std::min(spans[-1].first, span.first), std::max(spans[-1].second, span.second)};
  for (auto [microbatch, span] : spans)
    block.times.push_back(span);
  joinTimes(block.times);
}

static std::string describeValue(const StageMemory &memory, const Buffer &buffer, int64_t count) {
  StageOp stage = memory.stage;
  std::string maker = describe(buffer.root.getDefiningOp());
  return (Twine(count) + (count == 1 ? " value" : " values") + " from " + buffer.writer.getName() + " to " +
          buffer.parts.back().getName() + " of " + stage.getSymName() + (maker.empty() ? "" : ", ") + maker)
      .str();
}

/// What lives from part to part: one buffer per step, or one per slot. All buffers of a class lie together in
/// each of its slots.
void ArenaPlanner::collectValues(StageMemory &memory) {
  SmallVector<ValueBlock, 0> slots(memory.classes.size());
  SmallVector<int64_t> sizes(memory.classes.size());
  for (auto [number, buffer] : llvm::enumerate(memory.buffers.all())) {
    if (!buffer.hasOwnMemory() || buffer.isTemporary())
      continue;
    int64_t slotClass = memory.classOf(buffer);
    ValueBlock &block = slotClass >= 0 ? slots[slotClass] : blocks.emplace_back();
    int64_t &size = slotClass >= 0 ? sizes[slotClass] : block.place.bytes;
    memory.offsets[number] = slotClass >= 0 ? size : 0;
    size += alignUp(buffer.bytes);
    block.offsets.push_back(&memory.offsets[number]);
    addTimes(memory, buffer, block.place);
    int64_t count = slotClass >= 0 ? memory.classes[slotClass].count() : 1;
    usage.activations += count * alignUp(buffer.bytes);
    usage.parts.emplace_back(count * alignUp(buffer.bytes), describeValue(memory, buffer, count));
  }
  for (auto [block, slotClass, size] : llvm::zip(slots, memory.classes, sizes)) {
    block.place.bytes = size * slotClass.count();
    if (size)
      slotClass.stride = size;
    blocks.push_back(std::move(block));
  }
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

int64_t ArenaPlanner::scratchOf(Operation *op) const {
  auto launch = dyn_cast<LaunchOp>(op);
  Operation *kernel = launch ? symbols.lookup(launch.getKernel()) : nullptr;
  auto bytes = kernel ? kernel->getAttrOfType<IntegerAttr>(kScratchAttr) : IntegerAttr();
  return bytes ? bytes.getInt() : 0;
}

/// Packs what one phase uses alone, by its first and last use. `first` is the position of the phase in the
/// block.
void ArenaPlanner::packPhase(StageMemory &memory, ArrayRef<Operation *> ops, int64_t first) {
  const auto *own = llvm::find_if(ops, [](Operation *op) { return !getPart(op).isTransfer(); });
  if (own == ops.end())
    return;
  SmallVector<TimedBlock, 0> values;
  SmallVector<int64_t *> offsets;
  auto last = first + static_cast<int64_t>(ops.size());
  for (auto [number, buffer] : llvm::enumerate(memory.buffers.all()))
    if (buffer.isTemporary() && buffer.first >= first && buffer.first < last) {
      values.push_back({alignUp(buffer.bytes), {{buffer.first - first, buffer.last - first}}});
      offsets.push_back(&memory.offsets[number]);
    }
  for (auto [index, op] : llvm::enumerate(ops))
    if (int64_t bytes = scratchOf(op)) {
      auto time = static_cast<int64_t>(index);
      values.push_back({alignUp(bytes), {{time, time}}});
      offsets.push_back(&memory.scratch[op]);
    }
  auto [size, peak, fullest] = packValues(values);
  if (size > usage.temporaries) {
    usage.temporaries = size;
    std::string name = describe(ops[fullest]);
    usage.largest = memory.stage.getSymName().str() + ", " + getPart(ops[fullest]).getName() +
                    (name.empty() ? "" : ", ") + name;
  }
  ValueBlock &block = blocks.emplace_back();
  block.place.bytes = size;
  for (auto [microbatch, time] : times.of(static_cast<int64_t>(memory.stage.getIndex()), getPart(*own)))
    block.place.times.push_back({time, time});
  joinTimes(block.place.times);
  for (auto [value, offset] : llvm::zip(values, offsets))
    *offset = value.offset;
  block.offsets = std::move(offsets);
}

void ArenaPlanner::collectTemporaries(StageMemory &memory) {
  SmallVector<SmallVector<Operation *>> phases;
  for (Operation &op : memory.stage.getBody().front()) {
    // Rehashing would move what blocks point to.
    if (scratchOf(&op))
      memory.scratch[&op] = 0;
    if (phases.empty() || getPhase(phases.back().back()) != getPhase(&op))
      phases.emplace_back();
    phases.back().push_back(&op);
  }
  int64_t position = 0;
  for (ArrayRef<Operation *> ops : phases) {
    packPhase(memory, ops, position);
    position += static_cast<int64_t>(ops.size());
  }
}

/// All values of a coordinate lie in one region, in which those of different times share memory.
void ArenaPlanner::placeValues() {
  SmallVector<TimedBlock, 0> places;
  for (ValueBlock &block : blocks)
    places.push_back(block.place);
  int64_t size = placeBlocks(places);
  for (auto [block, place] : llvm::zip(blocks, places))
    for (int64_t *offset : block.offsets)
      *offset += end + place.offset;
  end += size;
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
  for (StageMemory &stage : stages) {
    collectValues(stage);
    setStrides(stage);
    collectTemporaries(stage);
  }
  placeValues();
  for (StageMemory &stage : stages)
    annotate(stage);
}

static DictionaryAttr toAttribute(Builder &builder, const ArenaPlanner &arena) {
  auto bytes = [&](StringRef name, int64_t value) {
    return builder.getNamedAttr(name, builder.getI64IntegerAttr(value));
  };
  const Usage &usage = arena.usage;
  return builder.getDictionaryAttr(
      {bytes("arena", arena.end), bytes("states", usage.gradients), bytes("parameters", usage.parameters),
       bytes("optimizer", usage.optimizer), bytes("inputs", usage.inputs), bytes("outputs", usage.outputs),
       bytes("activations", usage.activations), bytes("temporaries", usage.temporaries),
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
      << " for gradients and sums, " << usage.inputs + usage.outputs << " for inputs and outputs, "
      << usage.activations << " for activations and " << usage.temporaries
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
    SmallVector<int64_t> arenas, cleared;
    SmallVector<Attribute> memory;
    for (int64_t coordinate = 0; coordinate < pipeline->coordinates; ++coordinate) {
      ArenaPlanner arena(*pipeline, *schedule, coordinate, offsets);
      arena.plan();
      if (failed(verifyLimit(*pipeline, coordinate, arena)))
        return signalPassFailure();
      arenas.push_back(arena.end);
      cleared.push_back(arena.cleared);
      memory.push_back(toAttribute(builder, arena));
    }
    for (Operation &op : module.getOps())
      if (isa<ParameterOp, StateOp>(op))
        op.setAttr(kOffsetsAttr,
                   builder.getDenseI64ArrayAttr(offsets[SymbolTable::getSymbolName(&op).getValue()]));
    module->setAttr(kArenaAttr, builder.getDenseI64ArrayAttr(arenas));
    module->setAttr(kClearedAttr, builder.getDenseI64ArrayAttr(cleared));
    module->setAttr(kMemoryAttr, builder.getArrayAttr(memory));
  }
};
} // namespace
