//===- VerifyAttributes.cpp - The attributes of the plan are well formed -------===//

#include "Packing.h"
#include "VerifyPlan.h"
#include "plumb/Dialect/CCL/CCL.h"
#include "plumb/Dialect/Plumb/PipelineAttributes.h"
#include "plumb/Transforms/Buffers.h"
#include "plumb/Transforms/Utils.h"

using namespace mlir;
using namespace plumb;

namespace {

/// What attributes may refer to.
struct Bounds {
  int64_t streams, events;
};

} // namespace

static LogicalResult verifyEvents(StageOp stage, StringRef name, const Bounds &bounds) {
  auto parts = stage->getAttrOfType<DictionaryAttr>(name);
  if (!parts)
    return stage.emitError("has no attribute ") << name << "; run the pass assign-streams first";
  SmallVector<SlotClass> classes = readSlots(stage);
  for (NamedAttribute part : parts) {
    auto entries = dyn_cast<DenseI64ArrayAttr>(part.getValue());
    bool ok = entries && entries.size() % 2 == 0 && part.getName() != "begin" && part.getName() != "reduce" &&
              part.getName() != "update";
    for (int64_t i = 0; ok && i < entries.size(); i += 2)
      ok = entries[i] >= 0 && entries[i + 1] >= 0 && entries[i + 1] < static_cast<int64_t>(classes.size()) &&
           entries[i] + classes[entries[i + 1]].count() <= bounds.events;
    if (!ok)
      return stage.emitError() << name << " of " << part.getName() << " is " << part.getValue()
                               << ", which must be pairs of a first event below " << bounds.events
                               << " and a slot class below " << classes.size();
  }
  return success();
}

/// What the host loads or saves lies side by side: it finds microbatch m in slot m, in steps of the value's
/// size.
static LogicalResult verifyHostSlots(Operation &op, ArrayRef<SlotClass> classes) {
  int64_t slotClass = readEntry(&op, kSlotAttr);
  if (!isa<InputOp, StoreOp>(op) || slotClass < 0)
    return success();
  Type type = isa<StoreOp>(op) ? cast<StoreOp>(op).getValue().getType() : op.getResult(0).getType();
  if (classes[slotClass].isIdentity() && classes[slotClass].stride == alignUp(getByteSize(type)))
    return success();
  return emitModelError(&op) << "has the slot class " << slotClass
                             << ", but the host finds microbatch m of it " << alignUp(getByteSize(type))
                             << " * m bytes from the first";
}

static LogicalResult verifyOp(Operation &op, bool isTransfer, int64_t arena, const Bounds &bounds) {
  if (isTransfer ? readStream(&op) < 1 || readStream(&op) >= bounds.streams : readStream(&op) != 0)
    return emitModelError(&op) << "is on stream " << readStream(&op)
                               << "; transfers between ranks have a stream of 1 to " << bounds.streams - 1
                               << ", all else is on stream 0";
  int64_t places = isa<StoreOp>(op) ? 1 : op.getNumResults();
  auto offsets = op.getAttrOfType<DenseI64ArrayAttr>(kOffsetAttr);
  if (places && (!offsets || offsets.size() != places))
    return emitModelError(&op) << "needs " << places << " offsets in " << kOffsetAttr
                               << "; run the pass plan-memory first";
  if (op.hasAttr(kSlotAttr) && !getPart(&op).isPerMicrobatch() &&
      llvm::any_of(op.getAttrOfType<DenseI64ArrayAttr>(kSlotAttr).asArrayRef(),
                   [](int64_t slot) { return slot >= 0; }))
    return emitModelError(&op) << "has a slot per microbatch, but runs once per step";
  for (int64_t offset : offsets ? offsets.asArrayRef() : ArrayRef<int64_t>())
    if (offset < 0 || offset > arena)
      return emitModelError(&op) << "lies at offset " << offset << ", outside the arena of " << arena
                                 << " bytes";
  return success();
}

/// Per coordinate a number of bytes from 0 to the entry of `most`.
static LogicalResult verifyBytes(ModuleOp module, StringRef name, ArrayRef<int64_t> most) {
  auto sizes = module->getAttrOfType<DenseI64ArrayAttr>(name);
  auto count = static_cast<int64_t>(most.size());
  if (!sizes || sizes.size() != count)
    return module.emitError() << name << " must hold " << count
                              << " sizes, one per pipeline coordinate; run the pass plan-memory first";
  for (auto [size, limit] : llvm::zip(sizes.asArrayRef(), most))
    if (size < 0 || size > limit)
      return module.emitError() << name << " holds " << size << ", which must be 0 to " << limit << " bytes";
  return success();
}

/// The sizes by use are a summary for reports.
static LogicalResult verifySummary(ModuleOp module, int64_t coordinates) {
  auto usages = module->getAttrOfType<ArrayAttr>(kMemoryAttr);
  auto isUsage = [](Attribute attribute) {
    auto usage = dyn_cast<DictionaryAttr>(attribute);
    return usage && usage.getAs<StringAttr>("largest") && llvm::all_of(kMemoryUses, [&](StringRef use) {
             return static_cast<bool>(usage.getAs<IntegerAttr>(use));
           });
  };
  if (!usages || static_cast<int64_t>(usages.size()) != coordinates || !llvm::all_of(usages, isUsage))
    return module.emitError() << kMemoryAttr << " must hold the bytes by use of " << coordinates
                              << " pipeline coordinates; run the pass plan-memory first";
  return success();
}

static LogicalResult verifyModule(const Pipeline &pipeline) {
  ModuleOp module = pipeline.module;
  // Offsets in slots are sums of two such numbers.
  int64_t limit = std::numeric_limits<int64_t>::max() / 4;
  if (auto op = findOp<PipelineOp>(module))
    if (auto given = op->getAttrOfType<IntegerAttr>(kMemoryLimitAttr))
      limit = std::min(limit, given.getInt());
  SmallVector<int64_t> most(pipeline.coordinates, limit);
  if (failed(verifyBytes(module, kArenaAttr, most)) ||
      failed(verifyBytes(module, kClearedAttr,
                         module->getAttrOfType<DenseI64ArrayAttr>(kArenaAttr).asArrayRef())) ||
      failed(verifySummary(module, pipeline.coordinates)))
    return failure();
  for (Operation &op : module.getOps())
    if (isa<ParameterOp, StateOp>(op)) {
      auto offsets = op.getAttrOfType<DenseI64ArrayAttr>(kOffsetsAttr);
      if (!offsets || offsets.size() != pipeline.coordinates ||
          llvm::any_of(offsets.asArrayRef(), [](int64_t offset) { return offset < -1; }))
        return op.emitOpError() << "must have " << pipeline.coordinates << " offsets in " << kOffsetsAttr
                                << "; run the pass plan-memory first";
    }
  return success();
}

LogicalResult plumb::verifyPlanAttributes(const Pipeline &pipeline) {
  ModuleOp module = pipeline.module;
  auto streams = module->getAttrOfType<ArrayAttr>(kStreamsAttr);
  auto events = module->getAttrOfType<IntegerAttr>(kEventsAttr);
  if (!streams || !events || streams.empty() ||
      !llvm::all_of(streams, [](Attribute name) { return isa<StringAttr>(name); }) || events.getInt() < 0)
    return module.emitError("streams and events are not assigned; run the pass assign-streams first");
  if (failed(verifyModule(pipeline)) || failed(verification::verifyCalls(pipeline)))
    return failure();
  Bounds bounds{static_cast<int64_t>(streams.size()), events.getInt()};
  auto arenas = module->getAttrOfType<DenseI64ArrayAttr>(kArenaAttr).asArrayRef();
  for (StageOp stage : pipeline.stages) {
    if (failed(verifySlots(stage, pipeline.microbatches)) ||
        failed(verifyEvents(stage, kWaitsAttr, bounds)) || failed(verifyEvents(stage, kRecordsAttr, bounds)))
      return failure();
    auto index = static_cast<int64_t>(stage.getIndex());
    SmallVector<SlotClass> classes = readSlots(stage);
    int64_t arena = arenas[pipeline.coordinateOf(index)];
    std::map<Part, int64_t> streamOf;
    for (Operation &op : stage.getBody().front()) {
      Part part = getPart(&op);
      if (int64_t stream = streamOf.try_emplace(part, readStream(&op)).first->second;
          stream != readStream(&op))
        return emitModelError(&op) << "is on stream " << readStream(&op) << ", another op of "
                                   << part.getName() << " on stream " << stream
                                   << "; a group cannot span two streams";
      if (failed(verifyOp(op, part.isTransfer() && !pipeline.isHandover(index, part), arena, bounds)) ||
          failed(verifyHostSlots(op, classes)))
        return failure();
    }
  }
  return success();
}
