#include "plumb/Schedule/Communication.h"
#include "plumb/Schedule/Simulation.h"
#include <algorithm>

using namespace plumb::schedule;

namespace {

/// A computing cell starts or ends. Sorted, all events are one order that respects every dependence: times
/// first, then the position in a topological order, which decides where durations are zero.
struct Event {
  double time;
  int order;
  bool isEnd;
  bool operator<(const Event &other) const {
    if (time != other.time)
      return time < other.time;
    return order != other.order ? order < other.order : isEnd < other.isEnd;
  }
};

class Placer {
public:
  Placer(const Problem &problem, const Schedule &compute)
      : problem(problem), compute(compute), neighbours(problem), copied(problem.ranks, 0) {
    lowered.rows.resize(problem.ranks);
  }

  Schedule place(const Simulation &simulation);

private:
  void copyUpTo(int rank, size_t end) {
    const std::vector<Action> &row = compute.rows[rank];
    std::vector<Action> &out = lowered.rows[rank];
    out.insert(out.end(), row.begin() + copied[rank], row.begin() + end);
    copied[rank] = end;
  }
  /// Lists the transfers of what `action` made, at both ends.
  void transferResults(const Action &action, int rank);

  const Problem &problem;
  const Schedule &compute;
  Neighbours neighbours;
  std::vector<size_t> copied; // per rank: cells of the compute list that are listed already
  Schedule lowered;
};

} // namespace

void Placer::transferResults(const Action &action, int rank) {
  int stage = action.stage, microbatch = action.microbatch;
  auto transfer = [&](ActionKind send, ActionKind recv, int peer) {
    int peerRank = problem.rankOf(peer, microbatch);
    if (peerRank == rank)
      return;
    lowered.rows[rank].push_back(Action::transfer(send, stage, microbatch, peer));
    lowered.rows[peerRank].push_back(Action::transfer(recv, peer, microbatch, stage));
  };
  if (action.kind == ActionKind::Forward)
    for (int edge : neighbours.outgoing[stage])
      transfer(ActionKind::SendForward, ActionKind::RecvForward, problem.edges[edge].to);
  if (action.kind == ActionKind::Backward || action.kind == ActionKind::InputGrad)
    for (int edge : neighbours.incoming[stage])
      if (problem.edges[edge].gradient)
        transfer(ActionKind::SendBackward, ActionKind::RecvBackward, problem.edges[edge].from);
}

Schedule Placer::place(const Simulation &simulation) {
  std::vector<Event> events;
  events.reserve(2 * simulation.order.size());
  for (size_t i = 0; i < simulation.order.size(); ++i) {
    auto [rank, cell] = simulation.order[i];
    const Interval &span = simulation.spans[rank][cell];
    events.push_back({span.start, static_cast<int>(i), false});
    events.push_back({span.end, static_cast<int>(i), true});
  }
  std::sort(events.begin(), events.end());
  for (const Event &event : events) {
    auto [rank, cell] = simulation.order[event.order];
    if (!event.isEnd) {
      copyUpTo(rank, cell + 1);
      continue;
    }
    const Action &action = compute.rows[rank][cell];
    transferResults(action.first(), rank);
    transferResults(action.second(), rank);
  }
  for (int rank = 0; rank < problem.ranks; ++rank)
    copyUpTo(rank, compute.rows[rank].size());
  return std::move(lowered);
}

Result<Schedule> plumb::schedule::placeCommunication(const Problem &problem, const Schedule &compute) {
  if (compute.hasTransfers()) {
    Diagnostic diagnostic;
    diagnostic.violation = Violation::CommInComputeList;
    diagnostic.message = "the list holds transfers already; they are placed in lists of computations only";
    return diagnostic;
  }
  // A cell is one unit of the list, so a pair is taken to start when all its inputs are there.
  Result<Simulation> simulation = simulate(problem, compute, PairModel::Atomic);
  if (!simulation)
    return simulation.diagnostic();
  return Placer(problem, compute).place(*simulation);
}
