//===- AssignStreams.cpp - Streams, slots and events --------------------------===//

#include "Events.h"
#include "Streams.h"
#include "plumb/Dialect/CCL/CCL.h"
#include "plumb/Dialect/NN/NN.h"
#include "plumb/Dialect/Plumb/Plumb.h"
#include "plumb/Transforms/Buffers.h"
#include "plumb/Transforms/Passes.h"
#include "plumb/Transforms/Slots.h"
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
    return row == rows.end() || row->second[microbatch] < 0 ? -1 : row->second[microbatch] + 1;
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

class StageSlots {
public:
  StageSlots(const Pipeline &pipeline, StageOp stage, const SymbolTable &symbols, const Timetable &times)
      : pipeline(pipeline), stage(stage), index(static_cast<int64_t>(stage.getIndex())), symbols(symbols),
        times(times), buffers(stage, symbols) {}

  LogicalResult run();
  const Buffers &getBuffers() const { return buffers; }

private:
  LogicalResult makeClasses();
  FailureOr<int64_t> getClass(const Buffer &buffer);
  LogicalResult colour(const Buffer &buffer, SlotClass &slots);
  int64_t getIdentityClass(const Buffer &buffer);
  void annotate();

  const Pipeline &pipeline;
  StageOp stage;
  int64_t index;
  const SymbolTable &symbols;
  const Timetable &times;
  Buffers buffers;
  SmallVector<SlotClass> classes;
  SmallVector<Lifetime> lifetimes; ///< Of the first classes.
  SmallVector<int64_t> classOf;    ///< By buffer; -1: it has no slots.
};

} // namespace

//===----------------------------------------------------------------------===//
// Slots
//===----------------------------------------------------------------------===//

/// The slots of a lifetime. A buffer that is sent is kept until its maker has run once more: with a second
/// slot, that need not wait for the send.
LogicalResult StageSlots::colour(const Buffer &buffer, SlotClass &slots) {
  bool isSent = !buffer.writer.isTransfer() && llvm::any_of(buffer.parts, [&](const Part &p) {
    return p.isSend() && !pipeline.isHandover(index, p);
  });
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

FailureOr<int64_t> StageSlots::getClass(const Buffer &buffer) {
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

int64_t StageSlots::getIdentityClass(const Buffer &buffer) {
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

LogicalResult StageSlots::makeClasses() {
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
// Result
//===----------------------------------------------------------------------===//

void StageSlots::annotate() {
  Builder builder(stage.getContext());
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

LogicalResult StageSlots::run() {
  if (failed(makeClasses()))
    return failure();
  annotate();
  return success();
}

/// Joins the streams of each coordinate. Ranks of different coordinates number their events alike.
static int64_t joinStreams(const Pipeline &pipeline, const schedule::Schedule &schedule,
                           ArrayRef<std::unique_ptr<StageSlots>> stages, const StreamNumbers &streams) {
  int64_t events = 0;
  for (auto [coordinate, row] : llvm::enumerate(schedule.rows)) {
    SmallVector<const Buffers *> buffers(stages.size());
    SmallVector<SmallVector<SlotClass>> classes(stages.size());
    for (int64_t stage : pipeline.stagesOf(static_cast<int64_t>(coordinate))) {
      buffers[stage] = &stages[stage]->getBuffers();
      classes[stage] = readSlots(pipeline.stages[stage]);
    }
    auto launches =
        getLaunches(pipeline, getWholeStep(pipeline, static_cast<int64_t>(coordinate), row), buffers);
    events = std::max(events, assignEvents(launches, buffers, classes, streams));
  }
  return events;
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
    FailureOr<SmallVector<std::string>> names = assignStreams(*pipeline);
    if (failed(names))
      return signalPassFailure();
    SmallVector<Timetable, 0> times;
    for (const auto &row : schedule->rows)
      times.emplace_back(getSteps(*pipeline, row), pipeline->microbatches);
    SymbolTable symbols(getOperation());
    SmallVector<std::unique_ptr<StageSlots>> stages;
    for (auto [index, stage] : llvm::enumerate(pipeline->stages)) {
      const Timetable &table = times[pipeline->coordinateOf(static_cast<int64_t>(index))];
      stages.push_back(std::make_unique<StageSlots>(*pipeline, stage, symbols, table));
      if (failed(stages.back()->run()))
        return signalPassFailure();
    }
    int64_t events = joinStreams(*pipeline, *schedule, stages, StreamNumbers(*names));
    Builder builder(&getContext());
    getOperation()->setAttr(kStreamsAttr,
                            builder.getStrArrayAttr(SmallVector<StringRef>(names->begin(), names->end())));
    getOperation()->setAttr(kEventsAttr, builder.getI64IntegerAttr(events));
  }
};
} // namespace
