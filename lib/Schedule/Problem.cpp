#include "plumb/Schedule/Problem.h"
#include <algorithm>
#include <cmath>

using namespace plumb::schedule;

std::vector<int> Problem::place(int ranks, int stages, Placement placement) {
  std::vector<int> rankOf(std::max(stages, 0));
  for (int stage = 0; stage < stages; ++stage) {
    int step = placement == Placement::Loop ? stage % ranks : stage % (2 * ranks);
    rankOf[stage] = step < ranks ? step : 2 * ranks - 1 - step;
  }
  return rankOf;
}

static Diagnostic bad(std::string message) {
  Diagnostic diagnostic;
  diagnostic.message = std::move(message);
  return diagnostic;
}

static std::optional<Diagnostic> checkSizes(const Problem &problem, bool allowIdleRanks) {
  if (problem.ranks < 1 || problem.stages < 1 || problem.microbatches < 1)
    return bad("a pipeline needs at least one rank, stage and microbatch; got " +
               std::to_string(problem.ranks) + ", " + std::to_string(problem.stages) + " and " +
               std::to_string(problem.microbatches));
  if (problem.stages < problem.ranks && !allowIdleRanks)
    return bad(std::to_string(problem.stages) + " stages cannot occupy " + std::to_string(problem.ranks) +
               " ranks; use fewer ranks or split further");
  if (problem.ranks > kMostCells || int64_t(problem.stages) * problem.microbatches > kMostCells)
    return bad(std::to_string(problem.stages) + " stages with " + std::to_string(problem.microbatches) +
               " microbatches on " + std::to_string(problem.ranks) + " ranks are too large to schedule");
  return std::nullopt;
}

Problem Problem::chain(int ranks, int stages, int microbatches, Placement placement) {
  Problem problem;
  problem.ranks = ranks;
  problem.stages = stages;
  problem.microbatches = microbatches;
  if (checkSizes(problem, /*allowIdleRanks=*/true))
    return problem; // for `check` to report
  problem.placements = {place(ranks, stages, placement)};
  problem.costs.resize(stages);
  problem.activations.resize(stages);
  for (int stage = 0; stage + 1 < stages; ++stage)
    problem.edges.push_back({stage, stage + 1});
  return problem;
}

void Problem::setCosts(StageCost cost, double transfer) {
  costs.assign(std::max(stages, 0), cost);
  for (Edge &edge : edges)
    edge.cost = transfer;
}

void Problem::setActivations(ActivationChange change) { activations.assign(std::max(stages, 0), change); }

std::vector<int> Problem::stagesOf(int rank, int copy) const {
  std::vector<int> held;
  for (int stage = 0; stage < stages; ++stage)
    if (placements[copy][stage] == rank)
      held.push_back(stage);
  return held;
}

int Problem::stagesPerRank() const {
  std::vector<int> count(ranks, 0);
  for (int rank : placements.front())
    ++count[rank];
  return *std::max_element(count.begin(), count.end());
}

static std::optional<Diagnostic> checkPlacement(const Problem &problem, bool allowIdleRanks) {
  std::vector<bool> used(problem.ranks, false);
  for (const std::vector<int> &placement : problem.placements) {
    if (placement.size() != static_cast<size_t>(problem.stages))
      return bad("the placement lists " + std::to_string(placement.size()) + " stages, the problem has " +
                 std::to_string(problem.stages));
    for (int stage = 0; stage < problem.stages; ++stage) {
      int rank = placement[stage];
      if (rank < 0 || rank >= problem.ranks)
        return bad("stage " + std::to_string(stage) + " is placed on rank " + std::to_string(rank) +
                   ", but there are ranks 0 to " + std::to_string(problem.ranks - 1) + " only");
      used[rank] = true;
    }
  }
  for (int rank = 0; rank < problem.ranks; ++rank)
    if (!used[rank] && !allowIdleRanks)
      return bad("rank " + std::to_string(rank) + " holds no stage: " + std::to_string(problem.stages) +
                 " stages on " + std::to_string(problem.ranks) + " ranks; use fewer ranks or split further");
  if (problem.microbatches % static_cast<int>(problem.placements.size()) != 0)
    return bad(std::to_string(problem.microbatches) + " microbatches cannot be shared out evenly to " +
               std::to_string(problem.placements.size()) + " copies of the pipeline");
  return std::nullopt;
}

static std::optional<Diagnostic> checkEdges(const Problem &problem) {
  std::vector<std::pair<int, int>> ends;
  for (const Edge &edge : problem.edges) {
    std::string name = "edge " + std::to_string(edge.from) + " -> " + std::to_string(edge.to);
    if (edge.from < 0 || edge.to >= problem.stages || edge.from >= edge.to)
      return bad(name + ": an edge leads from a stage to a later one, stages are 0 to " +
                 std::to_string(problem.stages - 1));
    if (!std::isfinite(edge.cost) || edge.cost < 0)
      return bad(name + ": the transfer cost must be finite and not negative");
    ends.emplace_back(edge.from, edge.to);
  }
  std::sort(ends.begin(), ends.end());
  auto twice = std::adjacent_find(ends.begin(), ends.end());
  if (twice != ends.end())
    return bad("edge " + std::to_string(twice->first) + " -> " + std::to_string(twice->second) +
               " is listed twice; all values of one pair of stages travel together");
  return std::nullopt;
}

static std::optional<Diagnostic> checkCosts(const Problem &problem) {
  if (problem.costs.size() != static_cast<size_t>(problem.stages) ||
      problem.activations.size() != static_cast<size_t>(problem.stages))
    return bad("costs are given for " + std::to_string(problem.costs.size()) +
               " stages and activations for " + std::to_string(problem.activations.size()) +
               ", the problem has " + std::to_string(problem.stages));
  for (int stage = 0; stage < problem.stages; ++stage) {
    const StageCost &cost = problem.costs[stage];
    for (double value : {cost.forward, cost.inputGrad, cost.weightGrad})
      if (!std::isfinite(value) || value < 0)
        return bad("stage " + std::to_string(stage) + ": costs must be finite and not negative");
    const ActivationChange &change = problem.activations[stage];
    for (double value : {change.forward, change.inputGrad, change.weightGrad})
      if (!std::isfinite(value))
        return bad("stage " + std::to_string(stage) + ": activation memory must be finite");
    double peak = std::max({change.forward, change.forward + change.inputGrad});
    if (peak > problem.memoryLimit) {
      Diagnostic diagnostic =
          bad("stage " + std::to_string(stage) + ": one microbatch needs more memory than the " +
              "limit allows; raise the limit or use smaller microbatches");
      diagnostic.violation = Violation::MemoryLimit;
      return diagnostic;
    }
  }
  return std::nullopt;
}

std::optional<Diagnostic> Problem::check(bool allowIdleRanks) const {
  if (std::optional<Diagnostic> error = checkSizes(*this, allowIdleRanks))
    return error;
  if (placements.empty())
    return bad("no placement of stages on ranks is given");
  if (std::optional<Diagnostic> error = checkPlacement(*this, allowIdleRanks))
    return error;
  if (std::optional<Diagnostic> error = checkEdges(*this))
    return error;
  return checkCosts(*this);
}

Neighbours::Neighbours(const Problem &problem) : incoming(problem.stages), outgoing(problem.stages) {
  for (int edge = 0; edge < static_cast<int>(problem.edges.size()); ++edge) {
    incoming[problem.edges[edge].to].push_back(edge);
    outgoing[problem.edges[edge].from].push_back(edge);
  }
  for (int stage = 0; stage < problem.stages; ++stage) {
    std::sort(incoming[stage].begin(), incoming[stage].end(),
              [&](int a, int b) { return problem.edges[a].from < problem.edges[b].from; });
    std::sort(outgoing[stage].begin(), outgoing[stage].end(),
              [&](int a, int b) { return problem.edges[a].to < problem.edges[b].to; });
  }
}
