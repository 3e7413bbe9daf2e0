//===- Events.cpp - Which launches wait for which -----------------------------===//

#include "Events.h"
#include "mlir/IR/Builders.h"
#include "plumb/Dialect/CCL/CCL.h"
#include "plumb/Dialect/NN/NN.h"
#include "plumb/Transforms/PlanAttributes.h"
#include <map>

using namespace mlir;
using namespace plumb;

namespace {

/// An event per slot of a class, or one (class -1), that an op records.
struct Event {
  Operation *recorder;
  int64_t slotClass, slots;
  SmallVector<int64_t, 1> recorded; ///< The last launch by slot, -1 if there was none.
};

/// A launch that another one has to come after, and the slot class of the memory that is the reason.
struct Dependence {
  int64_t launch, slotClass;
};

/// The last launch of a reduction, and how many parts had computed then.
struct Reduction {
  int64_t launch, parts;
};

/// Memory with one content at a time: a slot of a buffer, or a state.
struct Resource {
  int64_t writer = -1;
  SmallVector<int64_t, 2> readers; ///< Since it was written, the last of each stream.
};

class EventPlanner {
public:
  EventPlanner(ArrayRef<Launch> launches, ArrayRef<const Buffers *> buffers,
               ArrayRef<SmallVector<SlotClass>> classes, const StreamNumbers &streams)
      : launches(launches), buffers(buffers), classes(classes), streams(streams), clocks(launches) {}

  int64_t run();

private:
  void access(Value value, bool isWrite);
  void access(StringRef symbol, int64_t microbatch, bool isWrite);
  void access(Resource &resource, int64_t slotClass, bool isWrite);
  int64_t classOf(const Buffer &buffer) const;
  void collect();
  void limitFlight();
  bool isLastOfPart() const;
  void waitForKnown();
  void waitForNew();
  Event &getEvent(const Dependence &dependence);
  void record();
  int64_t annotate();
  int64_t &recordOf(Event &event, const Launch &launch) const {
    return event
        .recorded[EventRef{0, event.slotClass}.find(classes[launch.step.stage], launch.step.microbatch)];
  }

  const Launch &launch() const { return launches[now]; }
  int64_t stage() const { return launch().step.stage; }

  ArrayRef<Launch> launches;
  ArrayRef<const Buffers *> buffers;
  ArrayRef<SmallVector<SlotClass>> classes;
  StreamNumbers streams;
  StreamClocks clocks;
  int64_t now = 0, lastComputed = -1;
  int64_t computedParts = 0;            ///< Parts that have computed so far, that of `lastComputed` included.
  SmallVector<Reduction, 2> reductions; ///< Per microbatch, that the computation has not waited for.
  std::map<std::tuple<int64_t, int64_t, int64_t>, Resource> values; ///< By stage, buffer and slot.
  llvm::StringMap<std::map<int64_t, Resource>> states;              ///< By microbatch, or -1.
  SmallVector<Dependence> dependences;                              ///< Of the launch at hand.
  SmallVector<Event, 0> events;
  std::map<std::pair<Operation *, int64_t>, size_t> eventOf; ///< By recorder and slot class. Never iterated.
  DenseMap<Operation *, SmallVector<size_t, 2>> waits, records;
};

} // namespace

//===----------------------------------------------------------------------===//
// What a launch has to come after
//===----------------------------------------------------------------------===//

void EventPlanner::access(Resource &resource, int64_t slotClass, bool isWrite) {
  auto depend = [&](int64_t other) {
    if (other >= 0 && other != now)
      dependences.push_back({other, slotClass});
  };
  depend(resource.writer);
  if (isWrite) {
    llvm::for_each(resource.readers, depend);
    resource = {now, {}};
    return;
  }
  for (int64_t &reader : resource.readers)
    if (launches[reader].stream() == launch().stream()) {
      reader = now;
      return;
    }
  resource.readers.push_back(now);
}

void EventPlanner::access(StringRef symbol, int64_t microbatch, bool isWrite) {
  access(states[symbol][microbatch], -1, isWrite);
}

int64_t EventPlanner::classOf(const Buffer &buffer) const {
  auto result = cast<OpResult>(buffer.root);
  return readEntry(result.getOwner(), kSlotAttr, result.getResultNumber());
}

void EventPlanner::access(Value value, bool isWrite) {
  const Buffer &buffer = buffers[stage()]->find(value);
  if (buffer.input >= 0)
    return; // Inputs are there before the first launch.
  int64_t slotClass = classOf(buffer), microbatch = launch().step.microbatch;
  if (!buffer.symbol.empty())
    return access(buffer.symbol, slotClass >= 0 ? microbatch : -1, isWrite);
  int64_t slot = slotClass >= 0 && microbatch >= 0 ? classes[stage()][slotClass].table[microbatch] : 0;
  access(values[{stage(), buffers[stage()]->getId(value), slot}], slotClass, isWrite);
}

void EventPlanner::collect() {
  dependences.clear();
  for (Operation *op : launch().ops) {
    for (Value operand : op->getOperands())
      access(operand, false);
    if (auto store = dyn_cast<StoreOp>(op))
      access(store.getSymbol(), readEntry(op, kSlotAttr) >= 0 ? launch().step.microbatch : -1, true);
    for (Value result : op->getResults())
      access(result, true);
  }
  limitFlight();
}

/// Whether the part computes nothing more.
bool EventPlanner::isLastOfPart() const {
  for (const Launch &next : launches.drop_front(static_cast<size_t>(now) + 1)) {
    if (next.step != launch().step)
      return true;
    if (next.stream() == 0)
      return false;
  }
  return true;
}

/// See Events.h: what is gathered too early, or reduced too late, takes memory.
void EventPlanner::limitFlight() {
  int64_t stream = launch().stream();
  const Step &step = launch().step;
  if (stream == streams.gather && lastComputed >= 0)
    dependences.push_back({lastComputed, -1});
  if (stream == streams.reduce && step.part.isPerMicrobatch()) {
    // What only adds what has been reduced belongs to the reduction.
    if (reductions.empty() || isa<ccl::CCLDialect>(launch().head()->getDialect()))
      reductions.push_back({now, computedParts});
    reductions.back().launch = now;
  }
  if (stream != 0)
    return;
  if (lastComputed < 0 || launches[lastComputed].step != step)
    ++computedParts;
  bool isLast = isLastOfPart();
  while (!reductions.empty() &&
         (reductions.size() > 1 || (isLast && reductions.front().parts < computedParts))) {
    dependences.push_back({reductions.front().launch, -1});
    reductions.erase(reductions.begin());
  }
}

//===----------------------------------------------------------------------===//
// Events
//===----------------------------------------------------------------------===//

/// Events of a class are told apart by slots where both ends run per microbatch of one stage. Within one part
/// the last record is always the one that is meant.
Event &EventPlanner::getEvent(const Dependence &dependence) {
  const Launch &other = launches[dependence.launch];
  bool bySlot = dependence.slotClass >= 0 && other.step.stage == stage() &&
                other.step.part != launch().step.part && other.step.microbatch >= 0 &&
                launch().step.microbatch >= 0;
  int64_t slotClass = bySlot ? dependence.slotClass : -1;
  int64_t slots = bySlot ? classes[stage()][slotClass].count() : 1;
  if (slots == 1)
    slotClass = -1;
  auto [known, isNew] = eventOf.try_emplace({other.head(), slotClass}, events.size());
  if (isNew) {
    records[other.head()].push_back(events.size());
    events.push_back({other.head(), slotClass, slots, SmallVector<int64_t, 1>(slots, -1)});
  }
  return events[known->second];
}

void EventPlanner::waitForKnown() {
  auto known = waits.find(launch().head());
  if (known == waits.end())
    return;
  for (size_t number : known->second) {
    int64_t other = recordOf(events[number], launch());
    if (other >= 0)
      clocks.wait(launch().stream(), other);
  }
}

/// The latest first: what it has waited for need not be waited for again.
void EventPlanner::waitForNew() {
  llvm::sort(dependences, [](const Dependence &a, const Dependence &b) {
    return std::pair(a.launch, a.slotClass) > std::pair(b.launch, b.slotClass);
  });
  for (const Dependence &dependence : dependences) {
    if (clocks.isAfter(launch().stream(), dependence.launch))
      continue;
    Event &event = getEvent(dependence);
    int64_t &recorded = recordOf(event, launches[dependence.launch]);
    recorded = std::max(recorded, dependence.launch);
    auto number = static_cast<size_t>(std::distance(events.data(), &event));
    if (auto &list = waits[launch().head()]; !llvm::is_contained(list, number))
      list.push_back(number);
    clocks.wait(launch().stream(), dependence.launch);
  }
}

void EventPlanner::record() {
  auto known = records.find(launch().head());
  if (known == records.end())
    return;
  for (size_t number : known->second)
    recordOf(events[number], launch()) = now;
}

int64_t EventPlanner::annotate() {
  SmallVector<int64_t> first;
  int64_t count = 0;
  for (const Event &event : events) {
    first.push_back(count);
    count += event.slots;
  }
  auto set = [&](Operation *op, StringRef name, const DenseMap<Operation *, SmallVector<size_t, 2>> &lists) {
    op->removeAttr(name);
    auto list = lists.find(op);
    if (list == lists.end())
      return;
    SmallVector<int64_t> entries;
    for (size_t number : list->second)
      entries.append({first[number], events[number].slotClass});
    op->setAttr(name, Builder(op->getContext()).getDenseI64ArrayAttr(entries));
  };
  for (const Launch &launch : launches)
    for (Operation *op : launch.ops) {
      set(op, kWaitsAttr, waits);
      set(op, kRecordsAttr, records);
    }
  return count;
}

int64_t EventPlanner::run() {
  for (auto index : llvm::seq<int64_t>(0, launches.size())) {
    now = index;
    waitForKnown();
    collect();
    waitForNew();
    clocks.advance();
    record();
    if (launch().stream() == 0)
      lastComputed = now;
  }
  return annotate();
}

int64_t plumb::assignEvents(ArrayRef<Launch> launches, ArrayRef<const Buffers *> buffers,
                            ArrayRef<SmallVector<SlotClass>> classes, const StreamNumbers &streams) {
  return EventPlanner(launches, buffers, classes, streams).run();
}
