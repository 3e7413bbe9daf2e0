//===- ValueRegion.cpp - Where the values of a rank lie -----------------------===//

#include "ValueRegion.h"
#include "plumb/Dialect/CCL/CCL.h"
#include "plumb/Dialect/NN/NN.h"
#include "plumb/Transforms/Utils.h"

using namespace mlir;
using namespace plumb;

static SmallVector<SmallVector<SlotClass>> getClasses(ArrayRef<StageMemory> stages) {
  SmallVector<SmallVector<SlotClass>> classes;
  for (const StageMemory &memory : stages) {
    StageOp stage = memory.stage;
    classes.resize(std::max<size_t>(classes.size(), stage.getIndex() + 1));
    classes[stage.getIndex()] = memory.classes;
  }
  return classes;
}

ValueRegion::ValueRegion(const SymbolTable &symbols, int64_t microbatches, ArrayRef<Launch> launches,
                         MutableArrayRef<StageMemory> memories)
    : symbols(symbols), microbatches(microbatches), launches(launches),
      spans(getSpans(launches, getClasses(memories))) {
  for (StageMemory &memory : memories)
    stages[static_cast<int64_t>(memory.stage.getIndex())].memory = &memory;
}

//===----------------------------------------------------------------------===//
// What is used when
//===----------------------------------------------------------------------===//

int64_t ValueRegion::scratchOf(Operation *op) const {
  auto launch = dyn_cast<LaunchOp>(op);
  Operation *kernel = launch ? symbols.lookup(launch.getKernel()) : nullptr;
  auto bytes = kernel ? kernel->getAttrOfType<IntegerAttr>(kScratchAttr) : IntegerAttr();
  return bytes ? bytes.getInt() : 0;
}

void ValueRegion::use(Item &item, int64_t launch, int64_t position) const {
  auto extend = [](Span &span, const Span &other) {
    span = {std::min(span.begin, other.begin), std::max(span.end, other.end)};
  };
  if (item.spans.empty())
    item.spans.assign(microbatches + 1, {kNever, -1});
  extend(item.spans[launches[launch].step.microbatch + 1], spans[launch]);
  extend(item.local, {position, position});
}

void ValueRegion::collectItems() {
  for (auto &[index, stage] : stages) {
    StageMemory &memory = *stage.memory;
    for (auto [buffer, offset] : llvm::zip(memory.buffers.all(), memory.offsets))
      stage.buffers.push_back({alignUp(buffer.bytes), &offset, {}});
    for (Operation &op : memory.stage.getBody().front())
      if (int64_t bytes = scratchOf(&op))
        memory.scratch[&op] = bytes;
    // No more insertions, which would move the offsets.
    for (auto &[op, offset] : memory.scratch)
      stage.scratch.insert({op, Item{alignUp(std::exchange(offset, 0)), &offset, {}}});
  }
  for (auto [index, launch] : llvm::enumerate(launches)) {
    const Step &step = launch.step;
    StageItems &stage = stages[step.stage];
    auto number = static_cast<int64_t>(index);
    PartLaunches &part = parts[{step.stage, step.part}];
    int64_t position = number - part.begins.try_emplace(step.microbatch, number).first->second;
    if (static_cast<size_t>(position) == part.ops.size())
      part.ops.push_back(launch.head());
    part.isElsewhere &= launch.stream() != 0 && launch.stream() == readStream(part.ops.front());
    auto touch = [&](Value value) {
      use(stage.buffers[stage.memory->buffers.getId(value)], number, position);
    };
    for (Operation *op : launch.ops) {
      llvm::for_each(op->getOperands(), touch);
      llvm::for_each(op->getResults(), touch);
      if (auto item = stage.scratch.find(op); item != stage.scratch.end())
        use(item->second, number, position);
    }
  }
}

/// Adds when an item is in use for the microbatches that are wanted. What is used once per step and for
/// microbatches too is in use from the first to the last of them.
void ValueRegion::addTimes(const Item &item, TimedBlock &block,
                           llvm::function_ref<bool(int64_t)> isWanted) const {
  if (item.spans.empty())
    return;
  Span once = item.spans.front();
  for (auto [index, span] : llvm::enumerate(item.spans)) {
    if (span.end < 0 || (index && !isWanted(static_cast<int64_t>(index) - 1)))
      continue;
    once = {std::min(once.begin, span.begin), std::max(once.end, span.end)};
    block.times.push_back({span.begin, span.end});
  }
  if (item.spans.front().end >= 0)
    block.times.push_back({once.begin, once.end});
  joinTimes(block.times);
}

//===----------------------------------------------------------------------===//
// Parts
//===----------------------------------------------------------------------===//

/// When an item is in use, from the start of its part on.
Span ValueRegion::getPosition(const Item &item, const PartLaunches &part) const {
  // One stream that is not that of computation has an order of its own.
  if (part.isElsewhere)
    return {2 * item.local.begin, 2 * item.local.end};
  Span position{kNever, -kNever};
  for (auto [microbatch, begin] : part.begins) {
    const Span &span = item.spans[microbatch + 1];
    position = {std::min(position.begin, span.begin - 2 * begin),
                std::max(position.end, span.end - 2 * begin)};
  }
  return position;
}

/// Packs items by when they are in use from the start of their part on. While any of it is in use, all of it
/// is.
Packed ValueRegion::packTogether(ArrayRef<Item *> items, const PartLaunches &part) {
  SmallVector<TimedBlock, 0> values;
  SmallVector<Span, 0> used(microbatches + 1, {kNever, -1});
  Block &block = blocks.emplace_back();
  for (Item *item : items) {
    Span position = getPosition(*item, part);
    values.push_back({item->bytes, {{position.begin, position.end}}});
    block.offsets.push_back(item->offset);
    for (auto [all, span] : llvm::zip(used, item->spans))
      all = {std::min(all.begin, span.begin), std::max(all.end, span.end)};
  }
  for (const Span &span : used)
    if (span.end >= 0)
      block.place.times.push_back({span.begin, span.end});
  joinTimes(block.place.times);
  Packed packed = packValues(values);
  block.place.bytes = packed.size;
  for (auto [value, offset] : llvm::zip(values, block.offsets))
    *offset = value.offset;
  return packed;
}

/// Packs what one part uses alone, as one block; each value by itself if any is still in use on another
/// stream when the part ends.
void ValueRegion::packPart(StageItems &stage, const Part &part, ArrayRef<Item *> items) {
  StageOp op = stage.memory->stage;
  const PartLaunches &launched = parts[{static_cast<int64_t>(op.getIndex()), part}];
  int64_t end = 2 * static_cast<int64_t>(launched.ops.size()) - 1;
  SmallVector<Item *> inside, late;
  for (Item *item : items) {
    Span position = getPosition(*item, launched);
    (position.begin < -1 || position.end > end ? late : inside).push_back(item);
  }
  // Beside what leaves the part one after the other, the rest would not be in use as a whole.
  if (!late.empty())
    for (Item *item : items)
      addBlock(*item);
  if (!late.empty() || inside.empty())
    return;
  auto [size, peak, fullest] = packTogether(inside, launched);
  if (size <= usage.temporaries)
    return;
  usage.temporaries = size;
  std::string name = describe(launched.ops[std::clamp<int64_t>(fullest, 0, end) / 2]);
  usage.largest = op.getSymName().str() + ", " + part.getName() + (name.empty() ? "" : ", ") + name;
}

void ValueRegion::addBlock(const Item &item) {
  Block &block = blocks.emplace_back();
  block.place.bytes = item.bytes;
  block.offsets.push_back(item.offset);
  *item.offset = 0;
  addTimes(item, block.place);
}

static std::string describeValue(const StageMemory &memory, const Buffer &buffer, int64_t count) {
  StageOp stage = memory.stage;
  std::string maker = describe(buffer.root.getDefiningOp());
  return (Twine(count) + (count == 1 ? " value" : " values") + " from " + buffer.writer.getName() + " to " +
          buffer.parts.back().getName() + " of " + stage.getSymName() + (maker.empty() ? "" : ", ") + maker)
      .str();
}

/// Groups what one part uses alone by part. What has slots waits for the blocks of its class.
void ValueRegion::makeBlocks(StageItems &stage) {
  StageMemory &memory = *stage.memory;
  std::map<Part, SmallVector<Item *>> temporaries;
  for (auto [buffer, item] : llvm::zip(memory.buffers.all(), stage.buffers)) {
    if (!buffer.hasOwnMemory() || item.spans.empty())
      continue;
    if (buffer.isTemporary()) {
      temporaries[buffer.writer].push_back(&item);
      continue;
    }
    if (memory.classOf(buffer) < 0)
      addBlock(item);
    int64_t slotClass = memory.classOf(buffer);
    int64_t count = slotClass >= 0 ? memory.classes[slotClass].count() : 1;
    usage.activations += count * item.bytes;
    usage.parts.emplace_back(count * item.bytes, describeValue(memory, buffer, count));
  }
  for (auto &[op, item] : stage.scratch)
    if (!item.spans.empty())
      temporaries[getPart(op)].push_back(&item);
  for (const auto &[part, items] : temporaries)
    packPart(stage, part, items);
}

//===----------------------------------------------------------------------===//
// Slots
//===----------------------------------------------------------------------===//

/// Blocks of all values of a class together: one per slot, or per microbatch.
void ValueRegion::addClassBlocks(StageItems &stage, bool byMicrobatch, Arrangement &arrangement) const {
  StageMemory &memory = *stage.memory;
  SmallVector<SmallVector<Item *>> values(memory.classes.size());
  for (auto [buffer, item] : llvm::zip(memory.buffers.all(), stage.buffers))
    if (int64_t slotClass = memory.classOf(buffer); slotClass >= 0 && buffer.hasOwnMemory())
      values[slotClass].push_back(&item);
  for (auto [slots, items] : llvm::zip(memory.classes, values)) {
    if (items.empty())
      continue;
    ClassBlocks entry{&slots, arrangement.blocks.size(), {}, {}};
    slots.stride = 0;
    for (Item *item : items) {
      *item->offset = slots.stride;
      slots.stride += item->bytes;
      entry.offsets.push_back(item->offset);
    }
    entry.blockOf = byMicrobatch ? llvm::to_vector(llvm::seq<int64_t>(0, microbatches)) : slots.table;
    for (int64_t block = 0; block <= *llvm::max_element(entry.blockOf); ++block) {
      TimedBlock &place = arrangement.blocks.emplace_back().place;
      place.bytes = slots.stride;
      for (Item *item : items)
        addTimes(*item, place, [&](int64_t microbatch) { return entry.blockOf[microbatch] == block; });
    }
    arrangement.classes.push_back(std::move(entry));
  }
}

/// Where the microbatches of a class have come to lie: slot by slot, or anywhere.
void ValueRegion::placeClass(const ClassBlocks &entry, const Arrangement &arrangement, int64_t begin) {
  SlotClass &slots = *entry.slots;
  auto placeOf = [&](int64_t block) -> const TimedBlock & {
    return arrangement.blocks[entry.first + block].place;
  };
  int64_t first = kNever;
  for (int64_t block : entry.blockOf)
    if (!placeOf(block).times.empty())
      first = std::min(first, placeOf(block).offset);
  if (first == kNever)
    first = 0;
  for (int64_t *offset : entry.offsets)
    *offset += begin + first;
  slots.places.clear();
  bool isRegular = true;
  for (auto [block, slot] : llvm::zip(entry.blockOf, slots.table)) {
    bool isUsed = !placeOf(block).times.empty();
    slots.places.push_back(isUsed ? placeOf(block).offset - first : 0);
    isRegular &= !isUsed || slots.places.back() == slot * slots.stride;
  }
  if (isRegular)
    slots.places.clear();
}

ValueRegion::Arrangement ValueRegion::arrange(bool byMicrobatch) {
  Arrangement arrangement{blocks, {}, 0};
  for (auto &[index, stage] : stages)
    addClassBlocks(stage, byMicrobatch, arrangement);
  SmallVector<TimedBlock, 0> places;
  for (const Block &block : arrangement.blocks)
    places.push_back(block.place);
  arrangement.size = placeBlocks(places);
  for (auto [block, place] : llvm::zip(arrangement.blocks, places))
    block.place.offset = place.offset;
  return arrangement;
}

/// The time of the whole parts in which a span begins and ends.
Span ValueRegion::roundOut(Span span) const {
  auto last = static_cast<int64_t>(launches.size()) - 1;
  auto partOf = [&](int64_t time) -> Span {
    const Step &step = launches[std::clamp<int64_t>(time, 0, 2 * last) / 2].step;
    const PartLaunches &part = parts.at({step.stage, step.part});
    int64_t begin = part.begins.at(step.microbatch);
    return {2 * begin, 2 * (begin + static_cast<int64_t>(part.ops.size()) - 1)};
  };
  return {std::min(span.begin, partOf(span.begin + 1).begin), std::max(span.end, partOf(span.end).end)};
}

/// Each value by itself, whatever it is placed together with. What lives from part to part does so for whole
/// parts.
int64_t ValueRegion::findLargestLiveSet() const {
  std::map<int64_t, int64_t> changes; // of the bytes in use, by time
  auto add = [&](const Item &item, bool isTemporary, llvm::function_ref<bool(int64_t)> isWanted) {
    TimedBlock block{item.bytes, {}};
    addTimes(item, block, isWanted);
    if (!isTemporary)
      for (auto &[first, last] : block.times) {
        Span whole = roundOut({first, last});
        std::tie(first, last) = std::pair(whole.begin, whole.end);
      }
    joinTimes(block.times);
    for (auto [first, last] : block.times) {
      changes[first] += item.bytes;
      changes[last + 1] -= item.bytes;
    }
  };
  auto always = [](int64_t) { return true; };
  for (const auto &[index, stage] : stages) {
    for (auto [buffer, item] : llvm::zip(stage.memory->buffers.all(), stage.buffers)) {
      if (!buffer.hasOwnMemory())
        continue;
      if (stage.memory->classOf(buffer) < 0)
        add(item, buffer.isTemporary(), always);
      else // Each microbatch has its own, whatever its slot.
        for (int64_t own = 0; own < microbatches; ++own)
          add(item, false, [&](int64_t microbatch) { return microbatch == own; });
    }
    for (const auto &[op, item] : stage.scratch)
      add(item, true, always);
  }
  int64_t used = 0, most = 0;
  for (auto [time, change] : changes)
    most = std::max(most, used += change);
  return most;
}

int64_t ValueRegion::place(int64_t begin) {
  collectItems();
  for (auto &[index, stage] : stages)
    makeBlocks(stage);
  usage.live = findLargestLiveSet();
  Arrangement arrangement = arrange(/*byMicrobatch=*/false);
  // Slots are simpler to address, but those of several stages do not always fit together.
  if (arrangement.size - usage.live > usage.live / 50)
    if (Arrangement other = arrange(/*byMicrobatch=*/true); other.size < arrangement.size)
      arrangement = std::move(other);
  for (const Block &block : arrangement.blocks)
    for (int64_t *offset : block.offsets)
      *offset += begin + block.place.offset;
  for (const ClassBlocks &entry : arrangement.classes)
    placeClass(entry, arrangement, begin);
  return begin + arrangement.size;
}
