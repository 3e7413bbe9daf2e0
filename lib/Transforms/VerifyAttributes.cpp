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

/// Events of a slot class are of a microbatch; those of a group are at its first op.
static LogicalResult verifyEvents(Operation &op, StringRef name, ArrayRef<SlotClass> classes, bool isFirst,
                                  const Bounds &bounds) {
  if (!op.hasAttr(name))
    return success();
  auto entries = op.getAttrOfType<DenseI64ArrayAttr>(name);
  bool ok = entries && entries.size() % 2 == 0 && isFirst;
  for (int64_t i = 0; ok && i < entries.size(); i += 2) {
    int64_t first = entries[i], slotClass = entries[i + 1];
    ok = first >= 0 && first < bounds.events && slotClass >= -1 &&
         slotClass < static_cast<int64_t>(classes.size());
    if (ok && slotClass >= 0)
      ok = getPart(&op).isPerMicrobatch() && first + classes[slotClass].count() <= bounds.events;
  }
  if (ok)
    return success();
  return emitModelError(&op) << "has " << name << " " << op.getAttr(name)
                             << ", which must be pairs of a first event below " << bounds.events
                             << " and a slot class below " << classes.size()
                             << ", or -1 for one event; a group has them at its first op";
}

/// What the host loads or saves lies side by side: it finds microbatch m in slot m, in steps of the value's
/// size.
static LogicalResult verifyHostSlots(Operation &op, ArrayRef<SlotClass> classes) {
  int64_t slotClass = readEntry(&op, kSlotAttr);
  if (!isa<InputOp, StoreOp>(op) || slotClass < 0)
    return success();
  Type type = isa<StoreOp>(op) ? cast<StoreOp>(op).getValue().getType() : op.getResult(0).getType();
  if (classes[slotClass].isIdentity() && classes[slotClass].places.empty() &&
      classes[slotClass].stride == alignUp(getByteSize(type)))
    return success();
  return emitModelError(&op) << "has the slot class " << slotClass
                             << ", but the host finds microbatch m of it " << alignUp(getByteSize(type))
                             << " * m bytes from the first";
}

static LogicalResult verifyOp(Operation &op, bool isTransfer, int64_t arena, const Bounds &bounds) {
  if (readStream(&op) < (isTransfer ? 1 : 0) || readStream(&op) >= bounds.streams)
    return emitModelError(&op) << "is on stream " << readStream(&op)
                               << "; the streams are 0, that of computation, to " << bounds.streams - 1
                               << ", and transfers between ranks are not on stream 0";
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
      failed(verifyBytes(module, kStagingAttr,
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
    if (failed(verifySlots(stage, pipeline.microbatches)))
      return failure();
    auto index = static_cast<int64_t>(stage.getIndex());
    SmallVector<SlotClass> classes = readSlots(stage);
    int64_t arena = arenas[pipeline.coordinateOf(index)];
    std::map<Part, int64_t> streamOf; // of groups
    for (Operation &op : stage.getBody().front()) {
      Part part = getPart(&op);
      bool isGroup = part.isTransfer() && !pipeline.isHandover(index, part);
      auto [stream, isFirst] = streamOf.try_emplace(part, readStream(&op));
      if (isGroup && stream->second != readStream(&op))
        return emitModelError(&op) << "is on stream " << readStream(&op) << ", another op of "
                                   << part.getName() << " on stream " << stream->second
                                   << "; a group cannot span two streams";
      if (failed(verifyOp(op, isGroup, arena, bounds)) || failed(verifyHostSlots(op, classes)))
        return failure();
      for (StringRef name : {StringRef(kWaitsAttr), StringRef(kRecordsAttr)})
        if (failed(verifyEvents(op, name, classes, isFirst || !isGroup, bounds)))
          return failure();
    }
  }
  return success();
}
