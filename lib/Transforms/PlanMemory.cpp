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

/// Bytes of the arena by use.
struct Usage {
  int64_t gradients = 0, parameters = 0, optimizer = 0, inputs = 0, outputs = 0, activations = 0,
          temporaries = 0;
  std::string largest; ///< Where most temporary memory is in use.
};

/// Plans the arena of one coordinate.
class ArenaPlanner {
public:
  ArenaPlanner(const Pipeline &pipeline, int64_t coordinate,
               llvm::StringMap<SmallVector<int64_t>> &symbolOffsets)
      : pipeline(pipeline), coordinate(coordinate), symbolOffsets(symbolOffsets), symbols(pipeline.module) {
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
  void placeSlots(StageMemory &stage);
  void placeTemporaries(StageMemory &stage);
  void placeTemporaries(StageMemory &stage, ArrayRef<Operation *> ops, int64_t first, Packing &packing);
  void annotate(StageMemory &stage);
  int64_t offsetOf(StringRef symbol) { return symbolOffsets[symbol][coordinate]; }

  const Pipeline &pipeline;
  int64_t coordinate;
  llvm::StringMap<SmallVector<int64_t>> &symbolOffsets;
  SymbolTable symbols;
  SmallVector<StageMemory, 0> stages;
  llvm::StringMap<Type> types;       ///< Local types of the parameters and states that some stage here uses.
  std::map<int64_t, int64_t> inputs; ///< Offsets by number.
  int64_t regionSize = 0;            ///< Of the region for temporaries, which begins at `end`.
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
  }
  return end - begin;
}

void ArenaPlanner::placeInputs() {
  for (StageMemory &stage : stages)
    for (auto input : stage.stage.getBody().front().getOps<InputOp>()) {
      auto [place, isNew] = inputs.try_emplace(static_cast<int64_t>(input.getIndex()), end);
      int64_t copies = isCutByMicrobatch(getLayout(input.getResult())) ? pipeline.microbatches : 1;
      if (isNew)
        take(copies * alignUp(getByteSize(input.getResult().getType())));
    }
}

/// Places what lives from part to part: one buffer per step, or one per slot. All buffers of a class lie
/// together in each of its slots.
void ArenaPlanner::placeSlots(StageMemory &memory) {
  SmallVector<int64_t> sizes(memory.classes.size());
  for (auto [number, buffer] : llvm::enumerate(memory.buffers.all())) {
    int64_t slotClass = memory.classOf(buffer);
    if (slotClass >= 0 && !buffer.hasOwnMemory()) {
      memory.classes[slotClass].stride = alignUp(buffer.bytes);
    } else if (slotClass >= 0) {
      memory.offsets[number] = sizes[slotClass];
      sizes[slotClass] += alignUp(buffer.bytes);
    } else if (buffer.hasOwnMemory() && !buffer.isTemporary()) {
      memory.offsets[number] = take(buffer.bytes);
    }
  }
  SmallVector<int64_t> begins;
  for (auto [slots, size] : llvm::zip(memory.classes, sizes)) {
    begins.push_back(take(size * slots.count()));
    if (size)
      slots.stride = size;
  }
  for (auto [number, buffer] : llvm::enumerate(memory.buffers.all()))
    if (int64_t slotClass = memory.classOf(buffer); slotClass >= 0 && buffer.hasOwnMemory())
      memory.offsets[number] += begins[slotClass];
  for (Operation &op : memory.stage.getBody().front())
    if (auto store = dyn_cast<StoreOp>(op))
      if (int64_t slotClass = readEntry(store, kSlotAttr); slotClass >= 0)
        memory.classes[slotClass].stride = alignUp(getByteSize(store.getValue().getType()));
}

/// Places what one phase uses alone, by its first and last use. `first` is the position of the phase in the
/// block.
void ArenaPlanner::placeTemporaries(StageMemory &memory, ArrayRef<Operation *> ops, int64_t first,
                                    Packing &packing) {
  SmallVector<SmallVector<int64_t, 2>> begins(ops.size()), ends(ops.size());
  for (auto [number, buffer] : llvm::enumerate(memory.buffers.all()))
    if (buffer.isTemporary() && buffer.first >= first &&
        buffer.first < first + static_cast<int64_t>(ops.size())) {
      begins[buffer.first - first].push_back(static_cast<int64_t>(number));
      ends[buffer.last - first].push_back(static_cast<int64_t>(number));
    }
  ArrayRef<Buffer> buffers = memory.buffers.all();
  for (auto [index, op] : llvm::enumerate(ops)) {
    for (int64_t number : begins[index])
      memory.offsets[number] = end + packing.allocate(buffers[number].bytes);
    int64_t scratch = 0;
    if (auto launch = dyn_cast<LaunchOp>(op))
      if (Operation *kernel = symbols.lookup(launch.getKernel()))
        if (auto bytes = kernel->getAttrOfType<IntegerAttr>(kScratchAttr))
          scratch = bytes.getInt();
    int64_t scratchOffset = packing.allocate(scratch);
    if (scratch)
      memory.scratch[op] = end + scratchOffset;
    if (packing.live() > usage.temporaries) {
      usage.temporaries = packing.live();
      std::string place = describe(op);
      usage.largest = memory.stage.getSymName().str() + ", " + getPart(op).getName() +
                      (place.empty() ? "" : ", ") + place;
    }
    packing.release(scratchOffset, scratch);
    for (int64_t number : ends[index])
      packing.release(memory.offsets[number] - end, buffers[number].bytes);
  }
}

/// All phases of a coordinate run one after the other on the compute stream, so that they share one region.
void ArenaPlanner::placeTemporaries(StageMemory &memory) {
  SmallVector<SmallVector<Operation *>> phases;
  for (Operation &op : memory.stage.getBody().front()) {
    if (phases.empty() || getPhase(phases.back().back()) != getPhase(&op))
      phases.emplace_back();
    phases.back().push_back(&op);
  }
  int64_t position = 0;
  for (ArrayRef<Operation *> ops : phases) {
    Packing packing;
    placeTemporaries(memory, ops, position, packing);
    regionSize = std::max(regionSize, packing.size());
    position += static_cast<int64_t>(ops.size());
  }
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
  begin = end;
  for (StageMemory &stage : stages)
    placeSlots(stage);
  usage.activations = end - begin;
  for (StageMemory &stage : stages)
    placeTemporaries(stage);
  usage.temporaries = regionSize;
  end += regionSize;
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

static LogicalResult verifyLimit(const Pipeline &pipeline, int64_t coordinate, int64_t bytes,
                                 const Usage &usage) {
  ModuleOp module = pipeline.module;
  auto op = findOp<PipelineOp>(module);
  auto limit = op ? op->getAttrOfType<IntegerAttr>(kMemoryLimitAttr) : IntegerAttr();
  if (!limit || bytes <= limit.getInt())
    return success();
  return op.emitError("a rank may use ")
         << limit.getInt() << " bytes, but a rank of pipeline coordinate " << coordinate << " needs " << bytes
         << ": " << usage.parameters << " for parameters, " << usage.gradients << " for gradients and sums, "
         << usage.inputs + usage.outputs << " for inputs and outputs, " << usage.activations
         << " for activations and " << usage.temporaries << " for what one phase uses (most in "
         << usage.largest << "); choose a schedule that keeps fewer microbatches, or shard more";
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
    llvm::StringMap<SmallVector<int64_t>> offsets;
    for (Operation &op : module.getOps())
      if (isa<ParameterOp, StateOp>(op))
        offsets[SymbolTable::getSymbolName(&op).getValue()].assign(pipeline->coordinates, -1);
    Builder builder(&getContext());
    SmallVector<int64_t> arenas, cleared;
    SmallVector<Attribute> memory;
    for (int64_t coordinate = 0; coordinate < pipeline->coordinates; ++coordinate) {
      ArenaPlanner arena(*pipeline, coordinate, offsets);
      arena.plan();
      if (failed(verifyLimit(*pipeline, coordinate, arena.end, arena.usage)))
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
