//===- Verification.h - What the checks of the verifier share ---*- C++ -*-===//
//
// The checks run in the order of their declarations; each may rely on those before it.
//
//===----------------------------------------------------------------------===//

#ifndef PLUMB_SCHEDULE_VERIFIER_VERIFICATION_H
#define PLUMB_SCHEDULE_VERIFIER_VERIFICATION_H

#include "plumb/Schedule/EventGraph.h"
#include "plumb/Schedule/Verifier.h"

namespace plumb::schedule {

/// The two ends of one message, as numbers of cells; -1 while missing.
struct Message {
  int send = -1, recv = -1;
};

class Verification {
public:
  Verification(const Problem &problem, const Schedule &schedule, const VerifyOptions &options);

  std::optional<Diagnostic> run();

private:
  using Check = std::optional<Diagnostic>;

  // Completeness.cpp
  Check checkRows();
  Check checkRanges();
  Check checkPlacement();
  Check recordComputations();
  Check checkBackwardForms();
  Check checkNothingMissing();
  Check checkMemory();
  // Order.cpp
  Check checkOrderOnRank();
  Check checkDataflow();
  // Transfers.cpp
  Check checkForm();
  Check recordTransfers();
  Check checkTransferEnds();
  Check checkChannels();
  Check checkDeadlock();
  // Sharding.cpp
  Check checkSharding();
  Check checkShardingOrder(int row);
  Check checkCollectives();

  // Cells are numbered row by row.
  int cellId(int row, int cell) const { return rowBegin[row] + cell; }
  int rowOf(int id) const;
  const Action &actionOf(int id) const;
  int rankOfRow(int row) const { return row % problem.ranks; }
  /// Number of (replica, stage, microbatch).
  size_t indexOf(int replica, int stage, int microbatch) const {
    return (static_cast<size_t>(replica) * problem.stages + stage) * problem.microbatches + microbatch;
  }
  /// The cell that makes the gradient of the stage's input: B or I.
  int gradientCell(size_t index) const { return backward[index] >= 0 ? backward[index] : inputGrad[index]; }
  /// Number of (edge, direction, replica, microbatch); the edge from `from` to `to` must exist.
  size_t messageIndex(int edge, bool isBackward, int replica, int microbatch) const {
    return ((static_cast<size_t>(edge) * 2 + isBackward) * options.replicas + replica) *
               problem.microbatches +
           microbatch;
  }
  int edgeOf(const Action &transfer) const;
  bool crossesRanks(const Edge &edge, int microbatch) const {
    return problem.rankOf(edge.from, microbatch) != problem.rankOf(edge.to, microbatch);
  }

  Diagnostic reject(Violation violation, int id, std::string message) const;
  std::string describe(int id) const;
  std::vector<std::string> describeCycle(const std::vector<int> &cells) const;
  Diagnostic rejectCycle(const std::vector<int> &cells, Violation violation) const;

  /// Calls visit(producer cell, consumer cell, edge or -1, microbatch) for every dependence.
  template <typename Visit>
  void forEachDependence(Visit visit) const;
  template <typename Visit>
  void forEachHalf(int row, Visit visit) const;

  Problem problem; // its placement taken from the list, if none was given
  const Schedule &schedule;
  VerifyOptions options;
  Neighbours neighbours;
  bool lowered = false;
  std::vector<int> rowBegin;
  std::vector<int> forward, backward, inputGrad, weightGrad; // cell per (replica, stage, microbatch), or -1
  std::vector<Message> messages;

  friend class DeadlockGraph;
};

template <typename Visit>
void Verification::forEachHalf(int row, Visit visit) const {
  const std::vector<Action> &actions = schedule.rows[row];
  for (int cell = 0; cell < static_cast<int>(actions.size()); ++cell) {
    if (!actions[cell].isCompute())
      continue;
    visit(cell, actions[cell].first());
    if (actions[cell].kind == ActionKind::Overlap)
      visit(cell, actions[cell].second());
  }
}

template <typename Visit>
void Verification::forEachDependence(Visit visit) const {
  for (int replica = 0; replica < options.replicas; ++replica)
    for (int stage = 0; stage < problem.stages; ++stage)
      for (int m = 0; m < problem.microbatches; ++m) {
        size_t index = indexOf(replica, stage, m);
        int gradient = gradientCell(index);
        for (int edge : neighbours.incoming[stage])
          visit(forward[indexOf(replica, problem.edges[edge].from, m)], forward[index], edge, m);
        if (gradient < 0)
          continue;
        visit(forward[index], gradient, -1, m);
        if (weightGrad[index] >= 0)
          visit(gradient, weightGrad[index], -1, m);
        for (int edge : neighbours.outgoing[stage])
          if (problem.edges[edge].gradient)
            visit(gradientCell(indexOf(replica, problem.edges[edge].to, m)), gradient, edge, m);
      }
}

} // namespace plumb::schedule

#endif // PLUMB_SCHEDULE_VERIFIER_VERIFICATION_H
