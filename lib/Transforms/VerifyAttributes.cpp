//===- VerifyAttributes.cpp - The attributes of the plan are well formed -------===//

#include "VerifyPlan.h"
#include "plumb/Dialect/CCL/CCL.h"

using namespace mlir;
using namespace plumb;

namespace {

/// What attributes may refer to.
struct Bounds {
  int64_t microbatches, coordinates, streams, events;
};

} // namespace

static LogicalResult verifySlots(StageOp stage, const Bounds &bounds) {
  auto classes = stage->getAttrOfType<ArrayAttr>(kSlotsAttr);
  if (!classes)
    return stage.emitError("has no attribute ") << kSlotsAttr << "; run the pass assign-streams first";
  for (Attribute attribute : classes) {
    auto entry = dyn_cast<DictionaryAttr>(attribute);
    auto table = entry ? entry.getAs<DenseI64ArrayAttr>("table") : DenseI64ArrayAttr();
    auto stride = entry ? entry.getAs<IntegerAttr>("stride") : IntegerAttr();
    if (!entry || !entry.getAs<StringAttr>("name") || !table || (stride && stride.getInt() < 0) ||
        table.size() != bounds.microbatches || llvm::any_of(table.asArrayRef(), [&](int64_t slot) {
          return slot < 0 || slot >= bounds.microbatches;
        }))
      return stage.emitError("has a slot class ")
             << attribute << ", which needs a name, a non-negative stride, and a "
             << "table of " << bounds.microbatches << " slots below that number";
  }
  return success();
}

static LogicalResult verifyEvents(StageOp stage, StringRef name, const Bounds &bounds) {
  auto parts = stage->getAttrOfType<DictionaryAttr>(name);
  if (!parts)
    return stage.emitError("has no attribute ") << name << "; run the pass assign-streams first";
  SmallVector<SlotClass> classes = readSlots(stage);
  for (NamedAttribute part : parts) {
    auto entries = dyn_cast<DenseI64ArrayAttr>(part.getValue());
    bool ok = entries && entries.size() % 2 == 0 && part.getName() != "begin" &&
              part.getName() != "reduce" && part.getName() != "update";
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

static LogicalResult verifyOp(Operation &op, size_t classes, bool isTransfer, const Bounds &bounds) {
  int64_t places = isa<StoreOp>(op) ? 1 : op.getNumResults();
  if (isTransfer ? readStream(&op) < 1 || readStream(&op) >= bounds.streams : readStream(&op) != 0)
    return emitModelError(&op) << "is on stream " << readStream(&op)
                               << "; transfers between ranks have a stream of 1 to " << bounds.streams - 1
                               << ", all else is on stream 0";
  auto slots = op.getAttrOfType<DenseI64ArrayAttr>(kSlotAttr);
  if (op.hasAttr(kSlotAttr) &&
      (!slots || slots.size() != places || llvm::any_of(slots.asArrayRef(), [&](int64_t slot) {
        return slot < -1 || slot >= static_cast<int64_t>(classes);
      })))
    return emitModelError(&op) << "has " << kSlotAttr << " " << op.getAttr(kSlotAttr) << ", which must be "
                               << places << " slot classes below " << classes << " (or -1)";
  auto offsets = op.getAttrOfType<DenseI64ArrayAttr>(kOffsetAttr);
  if (places && (!offsets || offsets.size() != places))
    return emitModelError(&op) << "needs " << places << " offsets in " << kOffsetAttr
                               << "; run the pass plan-memory first";
  return success();
}

LogicalResult verification::verifyAttributes(const Pipeline &pipeline) {
  ModuleOp module = pipeline.module;
  auto streams = module->getAttrOfType<ArrayAttr>(kStreamsAttr);
  auto events = module->getAttrOfType<IntegerAttr>(kEventsAttr);
  if (!streams || !events || streams.empty())
    return module.emitError("streams and events are not assigned; run the pass assign-streams first");
  Bounds bounds{pipeline.microbatches, pipeline.coordinates, static_cast<int64_t>(streams.size()),
                events.getInt()};
  for (StringRef name : {kArenaAttr, kClearedAttr}) {
    auto sizes = module->getAttrOfType<DenseI64ArrayAttr>(name);
    if (!sizes || sizes.size() != bounds.coordinates)
      return module.emitError() << name << " must hold " << bounds.coordinates
                                << " sizes, one per pipeline coordinate; run the pass plan-memory first";
  }
  for (Operation &op : module.getOps())
    if (isa<ParameterOp, StateOp>(op)) {
      auto offsets = op.getAttrOfType<DenseI64ArrayAttr>(kOffsetsAttr);
      if (!offsets || offsets.size() != bounds.coordinates)
        return op.emitOpError() << "must have " << bounds.coordinates << " offsets in " << kOffsetsAttr
                                << "; run the pass plan-memory first";
    }
  for (StageOp stage : pipeline.stages) {
    if (failed(verifySlots(stage, bounds)) || failed(verifyEvents(stage, kWaitsAttr, bounds)) ||
        failed(verifyEvents(stage, kRecordsAttr, bounds)))
      return failure();
    size_t classes = readSlots(stage).size();
    int64_t index = static_cast<int64_t>(stage.getIndex());
    for (Operation &op : stage.getBody().front()) {
      Part part = getPart(&op);
      if (failed(verifyOp(op, classes, part.isTransfer() && !pipeline.isHandover(index, part), bounds)))
        return failure();
    }
  }
  return success();
}
