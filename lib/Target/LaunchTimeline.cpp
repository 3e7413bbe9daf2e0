//===- LaunchTimeline.cpp - When each launch of a step runs ---------------------===//

#include "LaunchTimeline.h"
#include "plumb/Dialect/CCL/CCL.h"
#include "plumb/Transforms/Launches.h"
#include "plumb/Transforms/ScheduleProblem.h"
#include <deque>

using namespace mlir;
using namespace plumb;

namespace {

/// What starts at one time: a launch, or those of all partners of a call.
struct Unit {
  double cost = 0, start = 0;
  int missing = 0;                           ///< Units before it that are not placed yet.
  SmallVector<std::pair<int, bool>, 2> next; ///< Units that come after its start or (true) its end.
};

class Simulator {
public:
  Simulator(const Pipeline &pipeline, const schedule::Schedule &actions)
      : pipeline(pipeline), actions(actions), symbols(pipeline.module) {
    for (StageOp stage : pipeline.stages) {
      buffers.push_back(std::make_unique<Buffers>(stage, symbols));
      slots.push_back(readSlots(stage));
    }
  }

  SmallVector<SmallVector<TimedLaunch, 0>> run();

private:
  void addCoordinate(int64_t coordinate);
  int getUnit(int64_t coordinate, Operation *op);
  double costOf(const Launch &launch) const;
  void order(int first, int second, bool byEnd) {
    if (first < 0 || first == second)
      return;
    units[first].next.push_back({second, byEnd});
    ++units[second].missing;
  }
  void place();

  const Pipeline &pipeline;
  const schedule::Schedule &actions;
  SymbolTable symbols;
  SmallVector<std::unique_ptr<Buffers>> buffers;
  SmallVector<SmallVector<SlotClass>> slots;
  std::deque<Unit> units;
  std::map<std::pair<StringRef, int64_t>, int> shared;          ///< By communicator and number of the call.
  std::map<std::pair<StringRef, int64_t>, int64_t> callsSoFar;  ///< By communicator and coordinate.
  SmallVector<SmallVector<std::pair<Launch, int>, 0>> launches; ///< With their units.
};

} // namespace

static StringRef communicatorOf(Operation *op) {
  auto symbol = op->getAttrOfType<FlatSymbolRefAttr>("communicator");
  return symbol ? symbol.getValue() : StringRef();
}

static double bytesOf(Operation *op) {
  int64_t bytes = 0;
  for (Type type : llvm::concat<const Type>(SmallVector<Type>(op->getOperandTypes()),
                                            SmallVector<Type>(op->getResultTypes())))
    bytes = std::max(bytes, getByteSize(type));
  return static_cast<double>(bytes);
}

double Simulator::costOf(const Launch &launch) const {
  double cost = 0;
  for (Operation *op : launch.ops) {
    auto kernel = dyn_cast<LaunchOp>(op);
    auto flops =
        kernel ? symbols.lookup(kernel.getKernel())->getAttrOfType<IntegerAttr>(kFlopsAttr) : IntegerAttr();
    bool isCall = op->hasAttr(kStreamAttr) && !communicatorOf(op).empty();
    if (kernel)
      cost += flops ? static_cast<double>(flops.getInt()) : 0;
    else
      cost += bytesOf(op) * (isCall ? kOperationsPerByte : 1);
  }
  return cost;
}

/// The calls with one number on a communicator between coordinates are one unit.
int Simulator::getUnit(int64_t coordinate, Operation *op) {
  StringRef name = communicatorOf(op);
  auto communicator = name.empty() ? ccl::CommunicatorOp() : symbols.lookup<ccl::CommunicatorOp>(name);
  int fresh = static_cast<int>(units.size());
  bool isShared = communicator && !communicator.getPipeline().empty() && op->hasAttr(kStreamAttr);
  int unit =
      isShared ? shared.try_emplace({name, callsSoFar[{name, coordinate}]++}, fresh).first->second : fresh;
  if (unit == fresh)
    units.emplace_back();
  return unit;
}

void Simulator::addCoordinate(int64_t coordinate) {
  SmallVector<const Buffers *> own(pipeline.stages.size());
  for (int64_t stage : pipeline.stagesOf(coordinate))
    own[stage] = buffers[stage].get();
  std::map<int64_t, int> tails, recorded;
  int lastCall = -1;
  auto &list = launches.emplace_back();
  for (Launch &launch :
       getLaunches(pipeline, getWholeStep(pipeline, coordinate, actions.rows[coordinate]), own)) {
    int unit = getUnit(coordinate, launch.head());
    units[unit].cost = std::max(units[unit].cost, costOf(launch));
    ArrayRef<SlotClass> classes = slots[launch.step.stage];
    for (const EventRef &event : readEvents(launch.head(), kWaitsAttr))
      if (auto source = recorded.find(event.find(classes, launch.step.microbatch)); source != recorded.end())
        order(source->second, unit, true);
    int &tail = tails.try_emplace(launch.stream(), -1).first->second;
    order(std::exchange(tail, unit), unit, true);
    if (launch.stream() != 0 && !communicatorOf(launch.head()).empty())
      order(std::exchange(lastCall, unit), unit, false);
    for (const EventRef &event : readEvents(launch.head(), kRecordsAttr))
      recorded[event.find(classes, launch.step.microbatch)] = unit;
    list.emplace_back(std::move(launch), unit);
  }
}

void Simulator::place() {
  std::deque<int> ready;
  for (auto [index, unit] : llvm::enumerate(units))
    if (unit.missing == 0)
      ready.push_back(static_cast<int>(index));
  for (; !ready.empty(); ready.pop_front()) {
    const Unit &unit = units[ready.front()];
    for (auto [next, byEnd] : unit.next) {
      units[next].start = std::max(units[next].start, unit.start + (byEnd ? unit.cost : 0));
      if (--units[next].missing == 0)
        ready.push_back(next);
    }
  }
}

SmallVector<SmallVector<TimedLaunch, 0>> Simulator::run() {
  for (int64_t coordinate = 0; coordinate < pipeline.coordinates; ++coordinate)
    addCoordinate(coordinate);
  place();
  SmallVector<SmallVector<TimedLaunch, 0>> result;
  for (const auto &list : launches) {
    auto &timed = result.emplace_back();
    for (const auto &[launch, unit] : list)
      timed.push_back({launch.step, launch.head(), launch.stream(), units[unit].start,
                       units[unit].start + units[unit].cost});
  }
  return result;
}

SmallVector<SmallVector<TimedLaunch, 0>> plumb::simulateLaunches(const Pipeline &pipeline,
                                                                 const schedule::Schedule &actions) {
  return Simulator(pipeline, actions).run();
}
