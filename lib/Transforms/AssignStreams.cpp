//===- AssignStreams.cpp - Streams, slots and events --------------------------===//

#include "plumb/Dialect/CCL/CCL.h"
#include "plumb/Dialect/NN/NN.h"
#include "plumb/Dialect/Plumb/Plumb.h"
#include "plumb/Transforms/Buffers.h"
#include "plumb/Transforms/Passes.h"
#include "plumb/Transforms/Slots.h"
#include "llvm/ADT/StringSet.h"
#include <map>

namespace plumb {
#define GEN_PASS_DEF_ASSIGNSTREAMS
#include "plumb/Transforms/Passes.h.inc"
} // namespace plumb

using namespace mlir;
using namespace plumb;

namespace {

/// When each part of a stage runs for each microbatch: positions in the steps of its coordinate.
class Timetable {
public:
  Timetable(ArrayRef<Step> steps, int64_t microbatches) {
    for (auto [position, step] : llvm::enumerate(steps)) {
      auto &row = rows.try_emplace({step.stage, step.part}, microbatches, -1).first->second;
      row[step.microbatch] = static_cast<int64_t>(position);
      order[{step.stage, step.part}].push_back(static_cast<int64_t>(position));
    }
  }

  /// -1 if the schedule does not have it; 0 for what runs before the schedule, which starts at 1.
  int64_t find(int64_t stage, const Part &part, int64_t microbatch) const {
    if (part.kind == PartKind::Prologue)
      return 0;
    auto row = rows.find({stage, part});
    return row == rows.end() ? -1 : row->second[microbatch] + 1;
  }

  /// When the part next runs after a time, for any microbatch; the time itself if it never does.
  int64_t findNext(int64_t stage, const Part &part, int64_t time) const {
    auto row = order.find({stage, part});
    if (row == order.end())
      return time;
    auto next = llvm::upper_bound(row->second, time - 1);
    return next == row->second.end() ? time : *next + 1;
  }

private:
  std::map<std::pair<int64_t, Part>, SmallVector<int64_t>> rows, order;
};

/// The buffers of a stage that have one lifetime.
struct Lifetime {
  Part writer;
  SmallVector<Part, 3> parts;
  bool operator==(const Lifetime &) const = default;
};

class StageStreams {
public:
  StageStreams(const Pipeline &pipeline, StageOp stage, const SymbolTable &symbols, const Timetable &times,
               const llvm::StringMap<int64_t> &streams, int64_t &events)
      : pipeline(pipeline), stage(stage), index(static_cast<int64_t>(stage.getIndex())), symbols(symbols),
        times(times), streams(streams), events(events), buffers(stage, symbols) {}

  LogicalResult run();

private:
  LogicalResult assignStreams();
  LogicalResult makeClasses();
  FailureOr<int64_t> getClass(const Buffer &buffer);
  LogicalResult colour(const Buffer &buffer, SlotClass &slots);
  int64_t getIdentityClass(const Buffer &buffer);
  void makeEvents();
  void makeReadyEvents();
  void makeFreeEvents();
  void annotate();
  int64_t streamOf(const Part &part) const;
  int64_t newEvents(int64_t slotClass);

  const Pipeline &pipeline;
  StageOp stage;
  int64_t index;
  const SymbolTable &symbols;
  const Timetable &times;
  const llvm::StringMap<int64_t> &streams;
  int64_t &events;
  Buffers buffers;
  SmallVector<SlotClass> classes;
  SmallVector<Lifetime> lifetimes; ///< Of the first classes.
  std::map<Part, int64_t> partStreams;
  SmallVector<int64_t> classOf; ///< By buffer; -1: it has no slots.
  std::map<Part, SmallVector<int64_t>> waits, records;
};

} // namespace

//===----------------------------------------------------------------------===//
// Streams
//===----------------------------------------------------------------------===//

static FlatSymbolRefAttr getChannel(Operation &op) {
  if (auto send = dyn_cast<ccl::SendOp>(op))
    return send.getCommunicatorAttr();
  if (auto recv = dyn_cast<ccl::RecvOp>(op))
    return recv.getCommunicatorAttr();
  return {};
}

LogicalResult StageStreams::assignStreams() {
  Builder builder(stage.getContext());
  for (Operation &op : stage.getBody().front()) {
    FlatSymbolRefAttr channel = getChannel(op);
    op.removeAttr(kStreamAttr);
    if (!channel || pipeline.isHandover(index, getPart(&op)))
      continue;
    // What is sent once per step goes by the compute stream, as collectives do.
    int64_t stream = getPart(&op).isTransfer() ? streams.lookup(channel.getValue()) : 0;
    op.setAttr(kStreamAttr, builder.getI64IntegerAttr(stream));
    if (!getPart(&op).isTransfer())
      continue;
    auto [it, isNew] = partStreams.try_emplace(getPart(&op), stream);
    if (it->second != stream)
      return emitModelError(&op) << "uses the communicator " << channel << ", another op of "
                                 << getPart(&op).getName()
                                 << " uses a different one; one edge and direction has one communicator";
  }
  return success();
}

int64_t StageStreams::streamOf(const Part &part) const {
  auto it = partStreams.find(part);
  return it == partStreams.end() ? 0 : it->second;
}

//===----------------------------------------------------------------------===//
// Slots
//===----------------------------------------------------------------------===//

/// The slots of a lifetime. A buffer that is sent is kept until its maker has run once more: with a second
/// slot, that need not wait for the send.
LogicalResult StageStreams::colour(const Buffer &buffer, SlotClass &slots) {
  bool isSent = !buffer.writer.isTransfer() &&
                llvm::any_of(buffer.parts, [&](const Part &p) { return p.isSend() && streamOf(p) != 0; });
  SmallVector<std::pair<int64_t, int64_t>> intervals;
  SmallVector<int64_t> microbatches; // those that have an interval
  for (int64_t microbatch = 0; microbatch < pipeline.microbatches; ++microbatch) {
    int64_t begin = times.find(index, buffer.writer, microbatch), end = begin;
    for (const Part &part : buffer.parts) {
      int64_t time = times.find(index, part, microbatch);
      if ((time < 0 || begin < 0) && pipeline.runs(index, microbatch))
        return emitModelError(buffer.root.getDefiningOp())
               << "is used in " << part.getName() << ", but the schedule has no such action for stage "
               << index << ", microbatch " << microbatch;
      end = std::max(end, time);
    }
    // What another copy of the stage runs needs no slot.
    if (begin < 0)
      continue;
    microbatches.push_back(microbatch);
    intervals.push_back({begin, isSent ? times.findNext(index, buffer.writer, end) : end});
  }
  slots.table.assign(pipeline.microbatches, 0);
  for (auto [microbatch, slot] : llvm::zip(microbatches, colourIntervals(intervals)))
    slots.table[microbatch] = slot;
  return success();
}

FailureOr<int64_t> StageStreams::getClass(const Buffer &buffer) {
  Lifetime lifetime{buffer.writer, buffer.parts};
  for (auto [known, number] : llvm::zip(lifetimes, llvm::seq<int64_t>(0, lifetimes.size())))
    if (known == lifetime)
      return number;
  SlotClass slots;
  slots.name = buffer.writer.getName();
  for (const Part &part : buffer.parts)
    if (part != buffer.writer)
      slots.name += "_" + part.getName();
  if (failed(colour(buffer, slots)))
    return failure();
  classes.push_back(std::move(slots));
  lifetimes.push_back(std::move(lifetime));
  return static_cast<int64_t>(classes.size()) - 1;
}

int64_t StageStreams::getIdentityClass(const Buffer &buffer) {
  std::string name = buffer.input >= 0 ? "input_" + std::to_string(buffer.input) : buffer.symbol.str();
  for (auto [number, slots] : llvm::enumerate(classes))
    if (slots.name == name)
      return static_cast<int64_t>(number);
  classes.push_back({name, llvm::to_vector(llvm::seq<int64_t>(0, pipeline.microbatches))});
  return static_cast<int64_t>(classes.size()) - 1;
}

static bool isCut(const Buffer &buffer, const SymbolTable &symbols) {
  return isCutByMicrobatch(buffer.input >= 0 ? getLayout(buffer.root)
                                             : getDeclaredLayout(symbols.lookup(buffer.symbol)));
}

LogicalResult StageStreams::makeClasses() {
  classOf.assign(buffers.all().size(), -1);
  for (auto [number, buffer] : llvm::enumerate(buffers.all())) {
    if (!buffer.hasOwnMemory() || buffer.isTemporary() || buffer.writer.kind == PartKind::Begin)
      continue;
    auto once = llvm::find_if(buffer.parts, [](const Part &part) { return !part.isPerMicrobatch(); });
    if (once != buffer.parts.end())
      return emitModelError(buffer.root.getDefiningOp())
             << "makes one value per microbatch, but " << once->getName()
             << " reads it once per step; sum it in a plumb.state";
    FailureOr<int64_t> slotClass = getClass(buffer);
    if (failed(slotClass))
      return failure();
    classOf[number] = *slotClass;
  }
  for (auto [number, buffer] : llvm::enumerate(buffers.all()))
    if (!buffer.hasOwnMemory() && isCut(buffer, symbols))
      classOf[number] = getIdentityClass(buffer);
  return success();
}

//===----------------------------------------------------------------------===//
// Events
//===----------------------------------------------------------------------===//

int64_t StageStreams::newEvents(int64_t slotClass) {
  int64_t first = events;
  events += classes[slotClass].count();
  return first;
}

/// What another stream has made is waited for once, by the first part that reads any of it.
void StageStreams::makeReadyEvents() {
  struct FirstReader {
    Part part;
    int64_t slotClass;
  };
  std::map<std::pair<Part, int64_t>, FirstReader> readers; // by writer and reading stream
  for (auto [slotClass, lifetime] : llvm::enumerate(lifetimes))
    for (const Part &part : lifetime.parts) {
      int64_t stream = streamOf(part);
      if (stream == streamOf(lifetime.writer))
        continue;
      FirstReader reader{part, static_cast<int64_t>(slotClass)};
      auto [it, isNew] = readers.try_emplace({lifetime.writer, stream}, reader);
      if (!isNew && part < it->second.part)
        it->second = reader;
    }
  for (const auto &[key, reader] : readers) {
    int64_t first = newEvents(reader.slotClass);
    records[key.first].append({first, reader.slotClass});
    waits[reader.part].append({first, reader.slotClass});
  }
}

/// Who fills a slot waits for the last reader of it on each other stream.
void StageStreams::makeFreeEvents() {
  for (auto [slotClass, lifetime] : llvm::enumerate(lifetimes)) {
    std::map<int64_t, Part> last;           // by stream
    for (const Part &part : lifetime.parts) // in order
      if (streamOf(part) != streamOf(lifetime.writer))
        last.insert_or_assign(streamOf(part), part);
    for (const auto &[stream, part] : last) {
      int64_t first = newEvents(static_cast<int64_t>(slotClass));
      records[part].append({first, static_cast<int64_t>(slotClass)});
      waits[lifetime.writer].append({first, static_cast<int64_t>(slotClass)});
    }
  }
}

//===----------------------------------------------------------------------===//
// Result
//===----------------------------------------------------------------------===//

static DictionaryAttr toAttribute(Builder &builder, const std::map<Part, SmallVector<int64_t>> &parts) {
  NamedAttrList list;
  for (const auto &[part, entries] : parts)
    list.append(part.getName(), builder.getDenseI64ArrayAttr(entries));
  return list.getDictionary(builder.getContext());
}

void StageStreams::annotate() {
  Builder builder(stage.getContext());
  stage->setAttr(kWaitsAttr, toAttribute(builder, waits));
  stage->setAttr(kRecordsAttr, toAttribute(builder, records));
  auto set = [&](Operation &op, ArrayRef<int64_t> slots) {
    op.removeAttr(kSlotAttr);
    if (llvm::any_of(slots, [](int64_t slot) { return slot >= 0; }))
      op.setAttr(kSlotAttr, builder.getDenseI64ArrayAttr(slots));
  };
  for (Operation &op : stage.getBody().front()) {
    if (auto store = dyn_cast<StoreOp>(op)) {
      Buffer target{{}, 0, store.getSymbol(), -1, {}, {}, 0, 0};
      set(op, isCut(target, symbols) ? getIdentityClass(target) : -1);
    } else if (op.getNumResults()) {
      set(op, llvm::map_to_vector(op.getResults(), [&](Value v) { return classOf[buffers.getId(v)]; }));
    }
  }
  writeSlots(stage, classes);
}

LogicalResult StageStreams::run() {
  if (failed(assignStreams()) || failed(makeClasses()))
    return failure();
  makeReadyEvents();
  makeFreeEvents();
  annotate();
  return success();
}

/// One stream per communicator that stages send on, in the order of the communicators; 0 is the compute
/// stream.
static llvm::StringMap<int64_t> nameStreams(const Pipeline &pipeline, SmallVectorImpl<StringRef> &names) {
  llvm::StringSet<> channels;
  for (auto [index, stage] : llvm::enumerate(pipeline.stages))
    for (Operation &op : stage->getRegion(0).front())
      if (FlatSymbolRefAttr channel = getChannel(op);
          channel && getPart(&op).isTransfer() &&
          !pipeline.isHandover(static_cast<int64_t>(index), getPart(&op)))
        channels.insert(channel.getValue());
  llvm::StringMap<int64_t> streams;
  names.push_back("compute");
  ModuleOp module = pipeline.module;
  for (auto communicator : module.getOps<ccl::CommunicatorOp>())
    if (channels.contains(communicator.getSymName())) {
      streams[communicator.getSymName()] = static_cast<int64_t>(names.size());
      names.push_back(communicator.getSymName());
    }
  return streams;
}

namespace {
class AssignStreamsPass : public plumb::impl::AssignStreamsBase<AssignStreamsPass> {
  void runOnOperation() override {
    FailureOr<Pipeline> pipeline = Pipeline::read(getOperation());
    if (failed(pipeline))
      return signalPassFailure();
    if (pipeline->stages.empty())
      return;
    FailureOr<schedule::Schedule> schedule = readSchedule(*pipeline);
    if (failed(schedule))
      return signalPassFailure();
    SmallVector<StringRef> names;
    llvm::StringMap<int64_t> streams = nameStreams(*pipeline, names);
    SmallVector<Timetable, 0> times;
    for (const auto &row : schedule->rows)
      times.emplace_back(getSteps(*pipeline, row), pipeline->microbatches);
    int64_t events = 0;
    SymbolTable symbols(getOperation());
    for (auto [index, stage] : llvm::enumerate(pipeline->stages))
      if (failed(StageStreams(*pipeline, stage, symbols,
                              times[pipeline->coordinateOf(static_cast<int64_t>(index))], streams, events)
                     .run()))
        return signalPassFailure();
    Builder builder(&getContext());
    getOperation()->setAttr(kStreamsAttr, builder.getStrArrayAttr(names));
    getOperation()->setAttr(kEventsAttr, builder.getI64IntegerAttr(events));
  }
};
} // namespace
