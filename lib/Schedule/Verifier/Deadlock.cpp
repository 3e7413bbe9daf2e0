//===- Deadlock.cpp - The event graph of a whole list ---------------------===//

#include "Verification.h"

namespace plumb::schedule {

/// Units, their starts and finishes, and what waits for what. A unit that no other rank takes part in has one
/// event.
class DeadlockGraph {
public:
  explicit DeadlockGraph(const Verification &list)
      : list(list), start(list.rowBegin.back(), -1), finish(list.rowBegin.back(), -1) {
    graph.reserveEdges(4 * start.size());
    for (int row = 0; row < static_cast<int>(list.schedule.rows.size()); ++row)
      list.options.transfers == Transfers::Streams ? addRowOfStreams(row) : addRowInOrder(row);
    addDependences();
    addMessages();
    addCollectives();
  }

  /// Cells of a shortest wait cycle, or nothing.
  std::vector<int> findCycle() const {
    std::vector<int> cells;
    for (int event : graph.findCycle())
      if (cellOf[event] >= 0 && (cells.empty() || cells.back() != cellOf[event]))
        cells.push_back(cellOf[event]);
    if (cells.size() > 1 && cells.front() == cells.back())
      cells.pop_back();
    return cells;
  }

private:
  int addEvent(int cell) {
    cellOf.push_back(cell);
    return graph.addEvent();
  }
  void addUnit(int id, bool hasPartners) {
    start[id] = addEvent(id);
    finish[id] = hasPartners ? addEvent(id) : start[id];
    if (hasPartners)
      graph.addEdge(start[id], finish[id]);
  }
  bool isCollective(const Action &action) const {
    return list.options.replicas > 1 &&
           (action.kind == ActionKind::Unshard || action.kind == ActionKind::ReduceGrad);
  }

  void addRowInOrder(int row);
  void addRowOfStreams(int row);
  void addDependences();
  void addMessages();
  void addCollectives();

  const Verification &list;
  EventGraph graph;
  std::vector<int> start, finish; // events per cell
  std::vector<int> cellOf;        // per event
};

/// Rank-wide program order: a unit starts after the finish of the one before it.
void DeadlockGraph::addRowInOrder(int row) {
  const std::vector<Action> &actions = list.schedule.rows[row];
  bool waits = list.options.transfers != Transfers::Async;
  int previous = -1, group = -1; // the cell before, and the first of the group that it belongs to
  for (int cell = 0; cell < static_cast<int>(actions.size()); ++cell) {
    const Action &action = actions[cell];
    if (action.isIdle())
      continue;
    int id = list.cellId(row, cell);
    if (!action.isTransfer())
      group = -1;
    if (action.isTransfer() && group >= 0 && list.options.transfers == Transfers::Grouped) {
      start[id] = start[group];
      finish[id] = finish[group];
      continue;
    }
    addUnit(id, isCollective(action) || (action.isTransfer() && waits));
    if (previous >= 0)
      graph.addEdge(finish[previous], start[id]);
    previous = id;
    if (action.isTransfer())
      group = id;
  }
}

/// Computations in order on their stream, calls in order of their launch and on their own streams.
void DeadlockGraph::addRowOfStreams(int row) {
  const std::vector<Action> &actions = list.schedule.rows[row];
  // Last cell per edge, direction and copy of the stages.
  size_t copies = list.problem.placements.size();
  std::vector<int> onStream(2 * list.problem.edges.size() * copies, -1);
  int computed = -1, launched = -1;
  for (int cell = 0; cell < static_cast<int>(actions.size()); ++cell) {
    const Action &action = actions[cell];
    if (action.isIdle())
      continue;
    int id = list.cellId(row, cell);
    bool collective = isCollective(action);
    addUnit(id, collective || action.isTransfer());
    if (collective || action.isTransfer()) {
      if (launched >= 0)
        graph.addEdge(start[launched], start[id]);
      launched = id;
    }
    if (action.isTransfer()) {
      bool isBackward = action.kind == ActionKind::SendBackward || action.kind == ActionKind::RecvBackward;
      int &last =
          onStream[(2 * list.edgeOf(action) + isBackward) * copies + list.problem.copyOf(action.microbatch)];
      if (last >= 0)
        graph.addEdge(finish[last], start[id]);
      last = id;
      continue;
    }
    if (computed >= 0)
      graph.addEdge(finish[computed], start[id]);
    computed = id;
  }
}

void DeadlockGraph::addDependences() {
  list.forEachDependence([&](int producer, int consumer, int edge, int m) {
    if (producer < 0 || consumer < 0)
      return;
    if (!list.lowered || edge < 0 || !list.crossesRanks(list.problem.edges[edge], m))
      graph.addEdge(finish[producer], start[consumer]);
  });
}

void DeadlockGraph::addMessages() {
  bool streams = list.options.transfers == Transfers::Streams;
  bool async = list.options.transfers == Transfers::Async;
  int numEdges = static_cast<int>(list.problem.edges.size());
  if (!list.lowered)
    return;
  for (int edge = 0; edge < numEdges; ++edge)
    for (int direction = 0; direction < 2; ++direction)
      for (int replica = 0; replica < list.options.replicas; ++replica)
        for (int m = 0; m < list.problem.microbatches; ++m) {
          const Message &message = list.messages[list.messageIndex(edge, direction == 1, replica, m)];
          if (message.send < 0)
            continue;
          graph.addEdge(start[message.send], finish[message.recv]);
          if (!async)
            graph.addEdge(start[message.recv], finish[message.send]);
          if (!streams)
            continue;
          // Event waits; program order says the same for the other semantics.
          const Edge &ends = list.problem.edges[edge];
          size_t source = list.indexOf(replica, direction ? ends.to : ends.from, m);
          size_t target = list.indexOf(replica, direction ? ends.from : ends.to, m);
          graph.addEdge(finish[direction ? list.gradientCell(source) : list.forward[source]],
                        start[message.send]);
          graph.addEdge(finish[message.recv],
                        start[direction ? list.gradientCell(target) : list.forward[target]]);
        }
}

/// The k-th collectives of the replicas of a rank are one; `checkCollectives` has compared them.
void DeadlockGraph::addCollectives() {
  if (list.options.replicas < 2)
    return;
  for (int rank = 0; rank < list.problem.ranks; ++rank) {
    std::vector<int> meeting; // one event per collective, between the starts and the finishes
    for (int replica = 0; replica < list.options.replicas; ++replica) {
      int row = replica * list.problem.ranks + rank;
      size_t number = 0;
      for (int cell = 0; cell < static_cast<int>(list.schedule.rows[row].size()); ++cell) {
        if (!isCollective(list.schedule.rows[row][cell]))
          continue;
        if (number == meeting.size())
          meeting.push_back(addEvent(-1));
        int id = list.cellId(row, cell);
        graph.addEdge(start[id], meeting[number]);
        graph.addEdge(meeting[number++], finish[id]);
      }
    }
  }
}

std::optional<Diagnostic> Verification::checkDeadlock() {
  std::vector<int> cycle = DeadlockGraph(*this).findCycle();
  if (cycle.empty())
    return std::nullopt;
  // The order of computations may be wrong by itself, whatever the transfers.
  if (Check error = checkDataflow())
    return error;
  switch (options.transfers) {
  case Transfers::Rendezvous:
    return rejectCycle(cycle, Violation::DeadlockRendezvous);
  case Transfers::Grouped:
    return rejectCycle(cycle, Violation::DeadlockGrouped);
  case Transfers::Async:
    return rejectCycle(cycle, Violation::DeadlockAsync);
  case Transfers::Streams:
    break;
  }
  return rejectCycle(cycle, Violation::DeadlockStreams);
}

} // namespace plumb::schedule
