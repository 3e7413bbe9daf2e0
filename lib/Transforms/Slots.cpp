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
    if (slots.stride)
      entry.append("stride", builder.getI64IntegerAttr(slots.stride));
    entries.push_back(entry.getDictionary(stage.getContext()));
  }
  stage->setAttr(kSlotsAttr, builder.getArrayAttr(entries));
}

SmallVector<EventRef> plumb::readEvents(StageOp stage, StringRef attribute, const Part &part) {
  SmallVector<EventRef> events;
  if (auto parts = stage->getAttrOfType<DictionaryAttr>(attribute))
    if (auto entry = parts.getAs<DenseI64ArrayAttr>(part.getName()))
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
