//===- VerifyOrder.cpp - No NCCL unit waits for itself ---------------------------===//
//
// One graph over all pipeline coordinates. A *unit* is an NCCL call, or a group of them; it has a start and a
// finish:
//
//   * its start comes after what its stream did before, after the events its stream waits for, and after the
//   start of
//     the unit that was launched before it on the device;
//   * its finish comes after the start of every partner's unit.
//
// All ranks of a coordinate run the same code, so a cycle among ranks would be one among coordinates. Kernels
// end by themselves and need no events of their own.
//
//===----------------------------------------------------------------------===//

#include "VerifyPlan.h"
#include "plumb/Dialect/CCL/CCL.h"
#include "plumb/Schedule/EventGraph.h"
#include "plumb/Transforms/Utils.h"

using namespace mlir;
using namespace plumb;
using verification::Plan;

namespace {

struct Unit {
  int64_t coordinate;
  int round; ///< Which of the consecutive steps.
  Step step;
  Operation *op; ///< The first, if it is a group.
  int start, finish;
};

class OrderVerifier {
public:
  explicit OrderVerifier(const Plan &plan) : plan(plan), symbols(plan.pipeline.module) {}
  LogicalResult verify();

private:
  void addCoordinate(int64_t coordinate);
  void addStep(int64_t coordinate, int round, const Step &step);
  void addWaits(const Step &step, Operation *op);
  void addRecords(const Step &step, Operation *op);
  void addUnit(int64_t coordinate, int round, const Step &step, Operation *op, int64_t stream);
  LogicalResult joinPartners();
  LogicalResult joinCollectives(StringRef name, ArrayRef<SmallVector<int>> members);
  LogicalResult joinEnds(const Unit &send, const Unit &receive);
  LogicalResult reportCycle(ArrayRef<int> cycle);
  int addEvent(int unit) {
    unitOf.push_back(unit);
    return graph.addEvent();
  }

  const Plan &plan;
  SymbolTable symbols;
  schedule::EventGraph graph;
  SmallVector<Unit, 0> units;
  SmallVector<int> unitOf; ///< By event; -1: a wait.
  /// Of the coordinate at hand: the last event of each stream, what each event has recorded, the last unit's
  /// start.
  std::map<int64_t, int> tails, recorded;
  int lastStart = -1;
  /// Units by communicator and coordinate: collectives, sends, receives.
  std::map<StringRef, std::map<int64_t, SmallVector<int>>> collectives, sends, receives;
};

} // namespace

static FlatSymbolRefAttr getCommunicator(Operation *op) {
  return op->getAttrOfType<FlatSymbolRefAttr>("communicator");
}

static bool isCall(Operation *op) {
  return isa<ccl::AllReduceOp, ccl::AllGatherOp, ccl::ReduceScatterOp, ccl::AllToAllOp, ccl::ExchangeOp,
             ccl::SendOp, ccl::RecvOp>(op);
}

void OrderVerifier::addUnit(int64_t coordinate, int round, const Step &step, Operation *op, int64_t stream) {
  int unit = static_cast<int>(units.size());
  int start = addEvent(unit), finish = addEvent(unit);
  graph.addEdge(start, finish);
  auto [tail, isFirst] = tails.try_emplace(stream, finish);
  if (!isFirst)
    graph.addEdge(tail->second, start);
  tail->second = finish;
  if (lastStart >= 0)
    graph.addEdge(lastStart, start);
  lastStart = start;
  units.push_back({coordinate, round, step, op, start, finish});
  auto &byCoordinate = isa<ccl::SendOp>(op) ? sends : isa<ccl::RecvOp>(op) ? receives : collectives;
  byCoordinate[getCommunicator(op).getValue()][coordinate].push_back(unit);
}

void OrderVerifier::addWaits(const Step &step, Operation *op) {
  for (const EventRef &event : readEvents(op, kWaitsAttr))
    if (auto source = recorded.find(event.find(plan.slots[step.stage], step.microbatch));
        source != recorded.end()) {
      int wait = addEvent(-1);
      graph.addEdge(source->second, wait);
      auto [tail, isFirst] = tails.try_emplace(readStream(op), wait);
      if (!isFirst)
        graph.addEdge(tail->second, wait);
      tail->second = wait;
    }
}

void OrderVerifier::addRecords(const Step &step, Operation *op) {
  for (const EventRef &event : readEvents(op, kRecordsAttr))
    if (auto tail = tails.find(readStream(op)); tail != tails.end())
      recorded[event.find(plan.slots[step.stage], step.microbatch)] = tail->second;
}

void OrderVerifier::addStep(int64_t coordinate, int round, const Step &step) {
  ArrayRef<Operation *> ops = plan.opsOf(step);
  if (ops.empty())
    return;
  bool isGroup = step.part.isTransfer() && !plan.pipeline.isHandover(step.stage, step.part);
  for (Operation *op : isGroup ? ops.take_front() : ops) {
    addWaits(step, op);
    if (isGroup || (isCall(op) && !step.part.isTransfer()))
      addUnit(coordinate, round, step, op, readStream(op));
    addRecords(step, op);
  }
}

void OrderVerifier::addCoordinate(int64_t coordinate) {
  tails.clear();
  recorded.clear();
  lastStart = -1;
  for (int round = 0; round < verification::kSteps; ++round)
    for (const Step &step : plan.steps[coordinate])
      addStep(coordinate, round, step);
}

/// The k-th collective of each member is one exchange.
LogicalResult OrderVerifier::joinCollectives(StringRef name, ArrayRef<SmallVector<int>> members) {
  for (size_t k = 0; k < members[0].size(); ++k)
    for (ArrayRef<int> other : members.drop_front()) {
      Unit &one = units[members[0][k]];
      if (k >= other.size())
        return emitModelError(one.op)
               << "on @" << name << ", " << describe(one.step) << ", has no partner: another "
               << "pipeline coordinate makes only " << other.size() << " calls on it";
      Unit &two = units[other[k]];
      if (one.op->getName() != two.op->getName() || one.op->getOperandTypes() != two.op->getOperandTypes()) {
        InFlightDiagnostic diagnostic = emitModelError(one.op);
        diagnostic << "on @" << name << ", " << describe(one.step) << ", meets '" << two.op->getName()
                   << "' of " << two.op->getOperand(0).getType() << ", " << describe(two.step)
                   << "; the members of a communicator must make the same calls in the same order";
        diagnostic.attachNote(two.op->getLoc()) << "the other call";
        return diagnostic;
      }
      graph.addEdge(one.start, two.finish);
      graph.addEdge(two.start, one.finish);
    }
  return success();
}

/// What is sent is what is received. That of the schedule's transfers is verified by part, where the other
/// end is known.
LogicalResult OrderVerifier::joinEnds(const Unit &send, const Unit &receive) {
  auto one = cast<ccl::SendOp>(send.op);
  auto two = cast<ccl::RecvOp>(receive.op);
  if (send.step.part.isTransfer() == receive.step.part.isTransfer() &&
      (send.step.part.isTransfer() || one.getValue().getType() == two.getResult().getType()))
    return success();
  InFlightDiagnostic diagnostic = emitModelError(one);
  diagnostic << "(" << describe(send.step) << ") sends " << one.getValue().getType() << " on @"
             << getCommunicator(one).getValue() << ", where " << describe(receive.step) << " receives "
             << two.getResult().getType();
  diagnostic.attachNote(two.getLoc()) << "the other end";
  return diagnostic;
}

LogicalResult OrderVerifier::joinPartners() {
  for (const auto &[name, byCoordinate] : collectives) {
    auto communicator = symbols.lookup<ccl::CommunicatorOp>(name);
    ArrayRef<int64_t> pipeline = communicator.getPipeline();
    for (const auto &[coordinate, calls] : byCoordinate)
      if (!pipeline.empty() && !llvm::is_contained(pipeline, coordinate))
        return emitModelError(units[calls[0]].op)
               << "runs on pipeline coordinate " << coordinate << ", which is no member of @" << name;
    SmallVector<SmallVector<int>> members;
    for (int64_t coordinate : pipeline) {
      auto calls = byCoordinate.find(coordinate);
      members.push_back(calls == byCoordinate.end() ? SmallVector<int>() : calls->second);
    }
    // Each member stands first once, so that a call too many is found wherever it is.
    for (size_t first = 0; first < members.size(); ++first) {
      if (first && members[first].size() <= members[0].size())
        continue;
      std::swap(members[0], members[first]);
      if (failed(joinCollectives(name, members)))
        return failure();
    }
  }
  for (const auto &[name, byCoordinate] : receives)
    if (!sends.contains(name))
      return emitModelError(units[byCoordinate.begin()->second.front()].op)
             << "waits on @" << name << ", where nothing is sent";
  // A channel joins two coordinates, so it has one sequence of sends and one of receives.
  for (const auto &[name, byCoordinate] : sends) {
    ArrayRef<int> sent = byCoordinate.begin()->second;
    const auto &partners = receives[name];
    ArrayRef<int> received = partners.empty() ? ArrayRef<int>() : ArrayRef<int>(partners.begin()->second);
    if (sent.size() != received.size())
      return emitModelError(units[sent[0]].op) << "is made " << sent.size() << " times on @" << name
                                               << ", but received " << received.size() << " times";
    for (auto [one, two] : llvm::zip(sent, received)) {
      if (failed(joinEnds(units[one], units[two])))
        return failure();
      graph.addEdge(units[one].start, units[two].finish);
      graph.addEdge(units[two].start, units[one].finish);
    }
  }
  return success();
}

LogicalResult OrderVerifier::reportCycle(ArrayRef<int> cycle) {
  SmallVector<const Unit *> witness;
  for (int event : cycle)
    if (int unit = unitOf[event]; unit >= 0 && (witness.empty() || witness.back() != &units[unit]))
      witness.push_back(&units[unit]);
  InFlightDiagnostic diagnostic = emitModelError(witness[0]->op);
  diagnostic << "can never run: " << witness.size() << " calls wait for each other";
  for (const Unit *unit : witness)
    diagnostic.attachNote(unit->op->getLoc())
        << "step " << unit->round + 1 << ", coordinate " << unit->coordinate << ", " << describe(unit->step)
        << ": '" << unit->op->getName() << "' waits for the call before it in this list";
  return diagnostic;
}

LogicalResult OrderVerifier::verify() {
  for (int64_t coordinate = 0; coordinate < plan.pipeline.coordinates; ++coordinate)
    addCoordinate(coordinate);
  if (failed(joinPartners()))
    return failure();
  std::vector<int> cycle = graph.findCycle();
  return cycle.empty() ? success() : reportCycle(cycle);
}

/// All calls on a communicator are on one stream, whatever the stage and the rank.
static LogicalResult verifyCommunicatorStreams(const Pipeline &pipeline) {
  llvm::StringMap<Operation *> first;
  for (auto [index, stage] : llvm::enumerate(pipeline.stages))
    for (Operation &op : stage->getRegion(0).front()) {
      auto communicator = getCommunicator(&op);
      if (!communicator || pipeline.isHandover(static_cast<int64_t>(index), getPart(&op)))
        continue;
      Operation *other = first.try_emplace(communicator.getValue(), &op).first->second;
      if (readStream(other) == readStream(&op))
        continue;
      InFlightDiagnostic diagnostic = emitModelError(&op);
      diagnostic << "is on stream " << readStream(&op) << ", another call on " << communicator
                 << " on stream " << readStream(other) << "; a communicator belongs to one stream";
      diagnostic.attachNote(other->getLoc()) << "the other call";
      return diagnostic;
    }
  return success();
}

LogicalResult verification::verifyOrder(const Plan &plan) {
  return failure(failed(verifyCommunicatorStreams(plan.pipeline)) || failed(OrderVerifier(plan).verify()));
}
