//===- Order.cpp - The order of computations against the dataflow ---------===//

#include "Verification.h"
#include <algorithm>

using namespace plumb::schedule;

namespace {

/// reaches(s, t): values of stage s reach stage t.
class Reachability {
public:
  explicit Reachability(const Problem &problem)
      : stages(problem.stages), table(static_cast<size_t>(stages) * stages, false) {
    Neighbours neighbours(problem);
    for (int from = stages - 1; from >= 0; --from) {
      set(from, from);
      for (int edge : neighbours.outgoing[from])
        for (int to = problem.edges[edge].to; to < stages; ++to)
          if (reaches(problem.edges[edge].to, to))
            set(from, to);
    }
  }

  bool reaches(int from, int to) const { return table[static_cast<size_t>(from) * stages + to]; }
  /// Whether the backward of `backward` depends on the forward of `forward`, for one microbatch.
  bool feedsBackward(int forward, int backward) const {
    for (int stage = std::max(forward, backward); stage < stages; ++stage)
      if (reaches(forward, stage) && reaches(backward, stage))
        return true;
    return false;
  }
  /// Whether `consumer` depends on `producer`, directly or through other stages; both of one microbatch.
  bool depends(const Action &producer, const Action &consumer) const {
    bool fromForward = producer.kind == ActionKind::Forward;
    if (consumer.kind == ActionKind::Forward)
      return fromForward && producer.stage != consumer.stage && reaches(producer.stage, consumer.stage);
    if (fromForward)
      return feedsBackward(producer.stage, consumer.stage);
    if (producer.kind == ActionKind::WeightGrad)
      return false;
    if (producer.stage == consumer.stage)
      return consumer.kind == ActionKind::WeightGrad && producer.kind == ActionKind::InputGrad;
    return reaches(consumer.stage, producer.stage);
  }

private:
  void set(int from, int to) { table[static_cast<size_t>(from) * stages + to] = true; }
  int stages;
  std::vector<bool> table;
};

} // namespace

std::optional<Diagnostic> Verification::checkOrderOnRank() {
  for (int row = 0; row < static_cast<int>(schedule.rows.size()); ++row)
    for (int cell = 0; cell < static_cast<int>(schedule.rows[row].size()); ++cell) {
      const Action &action = schedule.rows[row][cell];
      if (action.kind == ActionKind::Overlap && action.microbatch == action.overlappedMicrobatch &&
          Reachability(problem).feedsBackward(action.stage, action.peer))
        return reject(Violation::OverlapDependent, cellId(row, cell),
                      toString(action.second()) + " needs " + toString(action.first()) +
                          ", so the two cannot overlap");
    }
  for (size_t index = 0; index < forward.size(); ++index) {
    int gradient = gradientCell(index);
    if (gradient < 0)
      continue;
    if (gradient <= forward[index]) {
      Diagnostic diagnostic =
          reject(Violation::BackwardBeforeForward, gradient, "the backward stands before its forward");
      diagnostic.witness = {describe(gradient), describe(forward[index])};
      return diagnostic;
    }
    if (weightGrad[index] >= 0 && weightGrad[index] < gradient) {
      Diagnostic diagnostic = reject(Violation::WeightBeforeInputGrad, weightGrad[index],
                                     "the weight gradient stands before its input gradient");
      diagnostic.witness = {describe(weightGrad[index]), describe(gradient)};
      return diagnostic;
    }
  }
  return std::nullopt;
}

/// The computations alone, transfers taken as instantaneous: each rank in row order, each dependence.
std::optional<Diagnostic> Verification::checkDataflow() {
  EventGraph graph;
  int cells = rowBegin.back();
  for (int id = 0; id < cells; ++id)
    graph.addEvent();
  for (int row = 0; row < static_cast<int>(schedule.rows.size()); ++row) {
    int previous = -1;
    for (int id = rowBegin[row]; id < rowBegin[row + 1]; ++id) {
      if (!schedule.rows[row][id - rowBegin[row]].isCompute())
        continue;
      if (previous >= 0)
        graph.addEdge(previous, id);
      previous = id;
    }
  }
  forEachDependence([&](int producer, int consumer, int, int) { graph.addEdge(producer, consumer); });
  std::vector<int> cycle = graph.findCycle();
  if (cycle.empty())
    return std::nullopt;

  // A rank that runs a consumer before its own producer of the same microbatch is at fault alone.
  Reachability reachability(problem);
  for (int row = 0; row < static_cast<int>(schedule.rows.size()); ++row) {
    std::vector<std::vector<std::pair<int, Action>>> seen(problem.microbatches);
    Check error;
    forEachHalf(row, [&](int cell, const Action &half) {
      for (const auto &[earlier, consumer] : seen[half.microbatch])
        if (!error && reachability.depends(half, consumer)) {
          error = reject(Violation::DependencyInversion, cellId(row, earlier),
                         toString(consumer) + " needs " + toString(half) +
                             ", which its own rank runs only later");
          error->witness = describeCycle(cycle);
        }
      seen[half.microbatch].emplace_back(cell, half);
    });
    if (error)
      return error;
  }
  return rejectCycle(cycle, Violation::CrossRankWaitCycle);
}

std::vector<std::string> Verification::describeCycle(const std::vector<int> &cells) const {
  std::vector<std::string> lines;
  for (size_t i = 0; i < cells.size(); ++i)
    lines.push_back(describe(cells[(i + 1) % cells.size()]) + " waits for " + describe(cells[i]));
  std::reverse(lines.begin(), lines.end());
  return lines;
}

/// Points at the cell of the lowest rank that waits for another rank.
Diagnostic Verification::rejectCycle(const std::vector<int> &cells, Violation violation) const {
  int at = cells.front(), row = std::numeric_limits<int>::max();
  for (size_t i = 0; i < cells.size(); ++i) {
    int waiting = cells[(i + 1) % cells.size()];
    if (rowOf(waiting) < row && rowOf(waiting) != rowOf(cells[i])) {
      row = rowOf(waiting);
      at = waiting;
    }
  }
  Diagnostic diagnostic = reject(violation, at,
                                 violation == Violation::CrossRankWaitCycle
                                     ? "the ranks wait for each other in a circle"
                                     : "the ranks wait for each other's transfers in a circle");
  diagnostic.witness = describeCycle(cells);
  return diagnostic;
}
