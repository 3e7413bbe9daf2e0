//===- VerifyMemory.cpp - Readers find in memory what was meant for them ---------===//
//
// The steps of each coordinate are run on its arena, with tags instead of data; see MemoryState.h. A value
// has the tag that its maker wrote, for one microbatch; a loaded one that of what the state held when it was
// loaded. Every reader asks for the tag of the value that it names.
//
//===----------------------------------------------------------------------===//

#include "MemoryState.h"
#include "VerifyPlan.h"
#include "mlir/IR/SymbolTable.h"
#include "plumb/Dialect/CCL/CCL.h"
#include "plumb/Dialect/NN/NN.h"
#include "plumb/Transforms/Buffers.h"

using namespace mlir;
using namespace plumb;
using namespace plumb::verification;

namespace {

/// Who wrote something; no op: the host, or the clearing of states.
struct Author {
  Operation *op;
  Step step;
  int round;
};

class CoordinateVerifier {
public:
  CoordinateVerifier(const Plan &plan, const SymbolTable &symbols, int64_t coordinate);
  LogicalResult verify();

private:
  LogicalResult loadParameters();
  LogicalResult loadInputs();
  LogicalResult verifyStaging();
  LogicalResult run(const Step &step);
  LogicalResult runOp(Operation *op);
  LogicalResult runLoad(Operation *op, ByteRange range, int64_t declared);
  LogicalResult runStore(StoreOp store);
  LogicalResult runCall(Operation *op);
  LogicalResult verifyView(Operation *op);
  LogicalResult verifyScratch(LaunchOp launch);

  ByteRange rangeOf(Operation *op, unsigned index, Type type, int64_t microbatch) const;
  ByteRange rangeOf(Value value) const;
  /// Tag of a value in this step, -1 if it has none yet.
  int64_t tagOf(Value value) const;
  int64_t newTag(Operation *op);
  void define(Value value, int64_t tag);
  int64_t declaredOffset(StringRef symbol) const {
    return readEntry(symbols.lookup(symbol), kOffsetsAttr, static_cast<unsigned>(coordinate));
  }
  bool isTied(Operation *op, unsigned operand) const;

  InFlightDiagnostic report(Operation *op);
  LogicalResult report(Operation *op, const Finding &finding, const char *access);
  std::string describeAuthor(int64_t tag) const;

  const Plan &plan;
  const SymbolTable &symbols;
  int64_t coordinate, arena, cleared;
  ByteRange staging; ///< Where the inputs of the next step arrive, at any time of this one.
  int64_t stagingTag = -1;
  MemoryState state;
  SmallVector<Author, 0> authors; ///< By tag.
  DenseMap<std::pair<Value, int64_t>, int64_t> tags;
  std::map<int64_t, int64_t> inputOffsets;
  Step step{};
  int round = 0;
  int64_t stream = 0;
};

} // namespace

/// Whether the host sets it once, before the first step.
static bool isPersistent(Operation *symbol) {
  auto state = dyn_cast<StateOp>(symbol);
  return state ? state.isPersistent() : isa<ParameterOp>(symbol);
}

static bool isView(Operation *op) { return op->hasTrait<nn::Reinterprets>() || isa<ccl::SliceOp>(op); }

static Value skipViews(Value value) {
  while (isView(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  return value;
}

static int64_t entryOf(ModuleOp module, StringRef attribute, int64_t index) {
  return module->getAttrOfType<DenseI64ArrayAttr>(attribute)[index];
}

CoordinateVerifier::CoordinateVerifier(const Plan &plan, const SymbolTable &symbols, int64_t coordinate)
    : plan(plan), symbols(symbols), coordinate(coordinate),
      arena(entryOf(plan.pipeline.module, kArenaAttr, coordinate)),
      cleared(entryOf(plan.pipeline.module, kClearedAttr, coordinate)),
      staging{entryOf(plan.pipeline.module, kStagingAttr, coordinate),
              getStagedBytes(plan.pipeline, coordinate)},
      state(arena, static_cast<int64_t>(
                       ModuleOp(plan.pipeline.module)->getAttrOfType<ArrayAttr>(kStreamsAttr).size())) {}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

ByteRange CoordinateVerifier::rangeOf(Operation *op, unsigned index, Type type, int64_t microbatch) const {
  ByteRange range{readEntry(op, kOffsetAttr, index), getByteSize(type)};
  if (int64_t slotClass = readEntry(op, kSlotAttr, index); slotClass >= 0 && microbatch >= 0) {
    const SlotClass &slots = plan.slots[cast<StageOp>(op->getParentOp()).getIndex()][slotClass];
    range.offset += slots.placeOf(microbatch);
  }
  return range;
}

ByteRange CoordinateVerifier::rangeOf(Value value) const {
  auto result = cast<OpResult>(skipViews(value));
  return rangeOf(result.getOwner(), result.getResultNumber(), result.getType(), step.microbatch);
}

static std::pair<Value, int64_t> keyOf(Value value, int64_t microbatch) {
  Value root = skipViews(value);
  return {root, getPart(root.getDefiningOp()).isPerMicrobatch() ? microbatch : -1};
}

int64_t CoordinateVerifier::tagOf(Value value) const {
  auto it = tags.find(keyOf(value, step.microbatch));
  return it == tags.end() ? -1 : it->second;
}

void CoordinateVerifier::define(Value value, int64_t tag) { tags[keyOf(value, step.microbatch)] = tag; }

int64_t CoordinateVerifier::newTag(Operation *op) {
  authors.push_back({op, step, round});
  return static_cast<int64_t>(authors.size()) - 1;
}

//===----------------------------------------------------------------------===//
// Reports
//===----------------------------------------------------------------------===//

std::string CoordinateVerifier::describeAuthor(int64_t tag) const {
  if (tag < 0 || tag >= static_cast<int64_t>(authors.size()))
    return "something else";
  const Author &author = authors[tag];
  if (!author.op)
    return "the start of step " + std::to_string(author.round + 1);
  std::string place = plumb::describe(author.op),
              text = "'" + author.op->getName().getStringRef().str() + "'";
  if (!place.empty())
    text += " of " + place;
  return text + " (step " + std::to_string(author.round + 1) + ", " + plumb::describe(author.step) + ")";
}

InFlightDiagnostic CoordinateVerifier::report(Operation *op) {
  InFlightDiagnostic diagnostic = emitModelError(op);
  diagnostic << "(step " << round + 1 << ", " << plumb::describe(step) << ") ";
  return diagnostic;
}

LogicalResult CoordinateVerifier::report(Operation *op, const Finding &finding, const char *access) {
  switch (finding.conflict) {
  case Conflict::None:
    return success();
  case Conflict::OutOfArena:
    return report(op) << access << " memory outside the arena of " << arena << " bytes";
  case Conflict::Unwritten:
    return report(op) << access << " memory that nothing has written";
  case Conflict::Overwritten:
    return report(op) << access << " memory that " << describeAuthor(finding.tag) << " has overwritten";
  case Conflict::Race:
    return report(op) << access << " memory of " << describeAuthor(finding.tag)
                      << " that another stream may still be using; an event wait is missing";
  }
  llvm_unreachable("all conflicts are listed");
}

//===----------------------------------------------------------------------===//
// The host
//===----------------------------------------------------------------------===//

LogicalResult CoordinateVerifier::loadParameters() {
  llvm::MapVector<StringRef, std::pair<Operation *, ByteRange>> loads;
  for (int64_t stage : plan.pipeline.stagesOf(coordinate)) {
    StageOp op = plan.pipeline.stages[stage];
    for (auto load : op.getBody().front().getOps<LoadOp>())
      if (isPersistent(symbols.lookup(load.getSymbol())))
        loads.insert({load.getSymbol(), {load, rangeOf(load, 0, load.getResult().getType(), -1)}});
  }
  int64_t first = static_cast<int64_t>(authors.size());
  for (auto &[symbol, load] : loads)
    state.initialize(load.second, newTag(nullptr));
  stagingTag = newTag(nullptr);
  state.initialize(staging, stagingTag);
  for (auto [index, load] : llvm::enumerate(loads))
    if (Finding finding = state.holds(load.second.second, first + static_cast<int64_t>(index)))
      return emitError(load.second.first->getLoc())
             << (isa<ParameterOp>(symbols.lookup(load.first)) ? "parameter @" : "state @") << load.first
             << (finding.conflict == Conflict::OutOfArena
                     ? " leaves the arena of "
                     : " shares memory with another one in the arena of ")
             << arena << " bytes";
  return success();
}

/// The device is idle when inputs are loaded.
LogicalResult CoordinateVerifier::loadInputs() {
  for (int64_t stage : plan.pipeline.stagesOf(coordinate)) {
    StageOp op = plan.pipeline.stages[stage];
    for (auto input : op.getBody().front().getOps<InputOp>()) {
      int64_t offset = readEntry(input, kOffsetAttr);
      if (inputOffsets.try_emplace(static_cast<int64_t>(input.getIndex()), offset).first->second != offset)
        return emitModelError(input) << "lies elsewhere than in another stage of pipeline coordinate "
                                     << coordinate;
      for (int64_t microbatch = 0; microbatch < plan.pipeline.microbatches; ++microbatch)
        state.initialize(rangeOf(input, 0, input.getResult().getType(), microbatch), newTag(nullptr));
    }
  }
  return success();
}

/// Nothing but the host has written where the inputs of the next step arrive.
LogicalResult CoordinateVerifier::verifyStaging() {
  Finding finding = staging.bytes ? state.holds(staging, stagingTag) : Finding();
  if (!finding)
    return success();
  InFlightDiagnostic diagnostic = emitError(StageOp(plan.pipeline.stages[coordinate]).getLoc());
  diagnostic << "the inputs of the next step, " << staging.bytes << " bytes at offset " << staging.offset
             << ", ";
  if (finding.conflict == Conflict::OutOfArena)
    return diagnostic << "leave the arena of " << arena << " bytes";
  return diagnostic << "share memory with " << describeAuthor(finding.tag);
}

//===----------------------------------------------------------------------===//
// The device
//===----------------------------------------------------------------------===//

LogicalResult CoordinateVerifier::runLoad(Operation *op, ByteRange range, int64_t declared) {
  if (readEntry(op, kOffsetAttr) != declared)
    return report(op) << "is at offset " << readEntry(op, kOffsetAttr) << ", what it loads at " << declared;
  Finding finding = state.findTag(range);
  define(op->getResult(0), finding.tag);
  return report(op, finding, "loads");
}

LogicalResult CoordinateVerifier::runStore(StoreOp store) {
  ByteRange from = rangeOf(store.getValue());
  ByteRange to = rangeOf(store, 0, store.getValue().getType(), step.microbatch);
  int64_t declared = declaredOffset(store.getSymbol());
  if (readEntry(store, kOffsetAttr) != declared)
    return report(store) << "is at offset " << readEntry(store, kOffsetAttr) << ", the state at " << declared;
  if (store->hasAttr(kCopyAttr)) {
    if (failed(report(store, state.read(stream, from, tagOf(store.getValue())), "reads")))
      return failure();
    return report(store, state.write(stream, to, newTag(store)), "overwrites");
  }
  if (!(from == to))
    return report(store) << "copies nothing, but its value lies at offset " << from.offset
                         << " and the state at " << to.offset;
  return report(store, state.holds(from, tagOf(store.getValue())), "reads");
}

LogicalResult CoordinateVerifier::verifyView(Operation *op) {
  auto operand = cast<OpResult>(op->getOperand(0));
  Operation *def = operand.getOwner();
  if (readEntry(op, kOffsetAttr) == readEntry(def, kOffsetAttr, operand.getResultNumber()) &&
      readEntry(op, kSlotAttr) == readEntry(def, kSlotAttr, operand.getResultNumber()))
    return success();
  return report(op) << "is a view, but does not lie where its operand does";
}

bool CoordinateVerifier::isTied(Operation *op, unsigned operand) const {
  if (auto launch = dyn_cast<LaunchOp>(op))
    return llvm::is_contained(launch.getInplace(), static_cast<int64_t>(operand));
  return isa<ccl::AllReduceOp, ccl::KeepFirstOp>(op) &&
         rangeOf(op->getOperand(operand)) == rangeOf(op->getResult(operand));
}

LogicalResult CoordinateVerifier::verifyScratch(LaunchOp launch) {
  Operation *kernel = symbols.lookup(launch.getKernel());
  auto bytes = kernel->getAttrOfType<IntegerAttr>(kScratchAttr);
  if (!bytes || bytes.getInt() == 0)
    return success();
  auto offset = launch->getAttrOfType<IntegerAttr>(kScratchOffsetAttr);
  if (!offset)
    return report(launch) << "has no scratch; its kernel needs " << bytes.getInt() << " bytes";
  return report(launch, state.write(stream, {offset.getInt(), bytes.getInt()}, newTag(launch)), "overwrites");
}

/// Reads all operands, then writes all results. Afterwards all of them must be there, but for what is
/// overwritten in place: the arguments of a call never overlap.
LogicalResult CoordinateVerifier::runCall(Operation *op) {
  for (Value operand : op->getOperands())
    if (failed(report(op, state.read(stream, rangeOf(operand), tagOf(operand)), "reads")))
      return failure();
  auto launch = dyn_cast<LaunchOp>(op);
  if (launch && failed(verifyScratch(launch)))
    return failure();
  SmallVector<int64_t> before = llvm::map_to_vector(op->getOperands(), [&](Value v) { return tagOf(v); });
  for (OpResult result : op->getResults()) {
    if (launch)
      if (int64_t operand = launch.getInplace()[result.getResultNumber()];
          operand >= 0 && !(rangeOf(launch.getOperands()[operand]) == rangeOf(result)))
        return report(op) << "result " << result.getResultNumber() << " does not lie where operand "
                          << operand << " does, which it is to overwrite";
    int64_t tag = newTag(op);
    if (failed(report(op, state.write(stream, rangeOf(result), tag), "overwrites")))
      return failure();
    define(result, tag);
  }
  for (auto [index, operand] : llvm::enumerate(op->getOperands()))
    if (!isTied(op, static_cast<unsigned>(index)))
      if (failed(report(op, state.holds(rangeOf(operand), before[index]), "still reads")))
        return failure();
  for (Value result : op->getResults())
    if (failed(report(op, state.holds(rangeOf(result), tagOf(result)), "makes a result in")))
      return failure();
  return success();
}

LogicalResult CoordinateVerifier::runOp(Operation *op) {
  if (isView(op))
    return verifyView(op);
  if (auto load = dyn_cast<LoadOp>(op))
    return runLoad(op, rangeOf(load.getResult()), declaredOffset(load.getSymbol()));
  if (auto input = dyn_cast<InputOp>(op))
    return runLoad(op, rangeOf(input.getResult()), inputOffsets[static_cast<int64_t>(input.getIndex())]);
  LogicalResult result = isa<StoreOp>(op) ? runStore(cast<StoreOp>(op)) : runCall(op);
  state.advance(stream);
  return result;
}

LogicalResult CoordinateVerifier::run(const Step &next) {
  step = next;
  ArrayRef<SlotClass> slots = plan.slots[step.stage];
  ArrayRef<Operation *> ops = plan.opsOf(step);
  bool isGroup = step.part.isTransfer() && !plan.pipeline.isHandover(step.stage, step.part);
  for (size_t begin = 0, size = isGroup ? ops.size() : 1; begin < ops.size(); begin += size) {
    stream = readStream(ops[begin]);
    for (const EventRef &event : readEvents(ops[begin], kWaitsAttr))
      state.wait(stream, event.find(slots, step.microbatch));
    for (Operation *op : ops.slice(begin, size))
      if (failed(runOp(op)))
        return failure();
    for (const EventRef &event : readEvents(ops[begin], kRecordsAttr))
      state.record(stream, event.find(slots, step.microbatch));
  }
  return success();
}

LogicalResult CoordinateVerifier::verify() {
  if (failed(loadParameters()))
    return failure();
  for (round = 0; round < kSteps; ++round) {
    tags.clear();
    state.synchronize();
    if (failed(loadInputs()))
      return failure();
    stream = 0;
    int64_t tag = newTag(nullptr);
    if (state.write(0, {0, cleared}, tag))
      return emitError(StageOp(plan.pipeline.stages[coordinate]).getLoc())
             << "coordinate " << coordinate << " clears " << cleared
             << " bytes at the start of a step, but its arena is smaller";
    state.advance(0);
    for (const Step &next : plan.steps[coordinate])
      if (failed(run(next)))
        return failure();
    if (failed(verifyStaging()))
      return failure();
  }
  return success();
}

LogicalResult verification::verifyMemory(const Plan &plan) {
  SymbolTable symbols(plan.pipeline.module);
  for (int64_t coordinate = 0; coordinate < plan.pipeline.coordinates; ++coordinate)
    if (failed(CoordinateVerifier(plan, symbols, coordinate).verify()))
      return failure();
  return success();
}
