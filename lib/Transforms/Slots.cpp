//===- Slots.cpp - Slot classes of a stage, and access to plan attributes ----===//

#include "plumb/Transforms/Slots.h"
#include "mlir/IR/Builders.h"
#include <queue>

using namespace mlir;
using namespace plumb;

int64_t SlotClass::count() const { return table.empty() ? 0 : *llvm::max_element(table) + 1; }

bool SlotClass::isIdentity() const {
  for (auto [microbatch, slot] : llvm::enumerate(table))
    if (slot != static_cast<int64_t>(microbatch))
      return false;
  return true;
}

static bool isSlotClass(Attribute attribute, int64_t microbatches) {
  auto entry = dyn_cast<DictionaryAttr>(attribute);
  auto table = entry ? entry.getAs<DenseI64ArrayAttr>("table") : DenseI64ArrayAttr();
  if (!table || !entry.getAs<StringAttr>("name") || table.size() != microbatches)
    return false;
  // The last slot ends at a number of bytes that can be written down.
  constexpr int64_t most = std::numeric_limits<int64_t>::max() / 4;
  auto stride = entry.getAs<IntegerAttr>("stride");
  if (entry.contains("stride") && (!stride || stride.getInt() < 0 || stride.getInt() > most / microbatches))
    return false;
  if (!llvm::all_of(table.asArrayRef(), [&](int64_t slot) { return slot >= 0 && slot < microbatches; }))
    return false;
  auto places = entry.getAs<DenseI64ArrayAttr>("places");
  return !entry.contains("places") ||
         (places && places.size() == microbatches &&
          llvm::all_of(places.asArrayRef(), [](int64_t place) { return place >= 0 && place <= most; }));
}

LogicalResult plumb::verifySlots(StageOp stage, int64_t microbatches) {
  auto classes = stage->getAttrOfType<ArrayAttr>(kSlotsAttr);
  if (!classes)
    return stage.emitError("has no attribute ") << kSlotsAttr << "; run the pass assign-streams first";
  for (Attribute attribute : classes)
    if (!isSlotClass(attribute, microbatches))
      return stage.emitError("has a slot class ")
             << attribute << ", which needs a name, a non-negative stride, and a table of " << microbatches
             << " slots below that number; if it has places, as many";
  auto count = static_cast<int64_t>(classes.size());
  for (Operation &op : stage.getBody().front()) {
    if (!op.hasAttr(kSlotAttr))
      continue;
    int64_t places = isa<StoreOp>(op) ? 1 : op.getNumResults();
    auto slots = op.getAttrOfType<DenseI64ArrayAttr>(kSlotAttr);
    if (!slots || slots.size() != places ||
        llvm::any_of(slots.asArrayRef(), [&](int64_t slot) { return slot < -1 || slot >= count; }))
      return emitModelError(&op) << "has " << kSlotAttr << " " << op.getAttr(kSlotAttr) << ", which must be "
                                 << places << " slot classes below " << count << " (or -1)";
  }
  return success();
}

SmallVector<SlotClass> plumb::readSlots(StageOp stage) {
  SmallVector<SlotClass> classes;
  if (auto attributes = stage->getAttrOfType<ArrayAttr>(kSlotsAttr))
    for (auto entry : attributes.getAsRange<DictionaryAttr>()) {
      SlotClass &slots = classes.emplace_back();
      slots.name = entry.getAs<StringAttr>("name").str();
      slots.table.assign(entry.getAs<DenseI64ArrayAttr>("table").asArrayRef().begin(),
                         entry.getAs<DenseI64ArrayAttr>("table").asArrayRef().end());
      if (auto stride = entry.getAs<IntegerAttr>("stride"))
        slots.stride = stride.getInt();
      if (auto places = entry.getAs<DenseI64ArrayAttr>("places"))
        slots.places.assign(places.asArrayRef().begin(), places.asArrayRef().end());
    }
  return classes;
}

void plumb::writeSlots(StageOp stage, ArrayRef<SlotClass> classes) {
  Builder builder(stage.getContext());
  SmallVector<Attribute> entries;
  for (const SlotClass &slots : classes) {
    NamedAttrList entry;
    entry.append("name", builder.getStringAttr(slots.name));
    entry.append("table", builder.getDenseI64ArrayAttr(slots.table));
    if (!slots.places.empty())
      entry.append("places", builder.getDenseI64ArrayAttr(slots.places));
    if (slots.stride)
      entry.append("stride", builder.getI64IntegerAttr(slots.stride));
    entries.push_back(entry.getDictionary(stage.getContext()));
  }
  stage->setAttr(kSlotsAttr, builder.getArrayAttr(entries));
}

SmallVector<EventRef> plumb::readEvents(Operation *op, StringRef attribute) {
  SmallVector<EventRef> events;
  if (auto entry = op->getAttrOfType<DenseI64ArrayAttr>(attribute))
    for (int64_t i = 0; i + 1 < entry.size(); i += 2)
      events.push_back({entry[i], entry[i + 1]});
  return events;
}

int64_t plumb::readEntry(Operation *op, StringRef attribute, unsigned index) {
  auto entries = op->getAttrOfType<DenseI64ArrayAttr>(attribute);
  return entries && index < entries.size() ? entries[index] : -1;
}

int64_t plumb::readStream(Operation *op) {
  auto stream = op->getAttrOfType<IntegerAttr>(kStreamAttr);
  return stream ? stream.getInt() : 0;
}

SmallVector<int64_t> plumb::colourIntervals(ArrayRef<std::pair<int64_t, int64_t>> intervals) {
  SmallVector<size_t> order = llvm::to_vector(llvm::seq<size_t>(0, intervals.size()));
  llvm::sort(order, [&](size_t a, size_t b) {
    return std::pair(intervals[a].first, a) < std::pair(intervals[b].first, b);
  });
  using Ascending = std::greater<>;
  std::priority_queue<std::pair<int64_t, int64_t>, std::vector<std::pair<int64_t, int64_t>>, Ascending>
      busy; // end, slot
  std::priority_queue<int64_t, std::vector<int64_t>, Ascending> free;
  SmallVector<int64_t> slots(intervals.size());
  int64_t count = 0;
  for (size_t i : order) {
    for (; !busy.empty() && busy.top().first < intervals[i].first; busy.pop())
      free.push(busy.top().second);
    int64_t slot = count;
    if (free.empty()) {
      ++count;
    } else {
      slot = free.top();
      free.pop();
    }
    slots[i] = slot;
    busy.push({intervals[i].second, slot});
  }
  return slots;
}
