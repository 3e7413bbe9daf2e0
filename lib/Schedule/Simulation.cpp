#include "plumb/Schedule/Simulation.h"
#include <algorithm>

using namespace plumb::schedule;

namespace {

/// Runs all ranks in turns: a rank goes on until an input is missing, and is woken when that input is made.
class Runner {
public:
  Runner(const Problem &problem, const Schedule &schedule, PairModel pairs)
      : problem(problem), schedule(schedule), pairs(pairs), neighbours(problem),
        count(static_cast<size_t>(problem.stages) * problem.microbatches), finished(2 * count, -1.0),
        firstWaiter(2 * count, -1), nextWaiter(problem.ranks, -1), position(problem.ranks),
        free(problem.ranks, 0.0) {}

  Result<Simulation> run();

private:
  struct Position {
    size_t cell = 0;
    bool secondHalf = false;
  };

  size_t forwardOf(int stage, int microbatch) const {
    return static_cast<size_t>(stage) * problem.microbatches + microbatch;
  }
  size_t gradientOf(int stage, int microbatch) const { return count + forwardOf(stage, microbatch); }

  std::optional<Diagnostic> checkRanges() const;
  Diagnostic stuck() const;
  /// Raises `time` to the arrival of all inputs of `action`; returns the first that has not been made, or -1.
  long long awaitInputs(const Action &action, int rank, double &time) const;
  double duration(const Action &action) const;
  void finish(const Action &action, double time);
  /// Runs the cell at the rank's position, or what is left of it; returns the input it waits for, or -1.
  long long step(int rank);
  void runPair(const Action &action, double ready, Interval &span);
  void measure();

  const Problem &problem;
  const Schedule &schedule;
  PairModel pairs;
  Neighbours neighbours;
  size_t count;
  std::vector<double> finished; // end of F(s,m), then of B or I(s,m); -1 until it has run
  std::vector<int> firstWaiter; // rank that waits for it, linked through nextWaiter
  std::vector<int> nextWaiter;
  std::vector<Position> position;
  std::vector<double> free; // per rank, end of its last computation
  std::vector<int> runnable;
  Simulation result;
};

} // namespace

std::optional<Diagnostic> Runner::checkRanges() const {
  Diagnostic diagnostic;
  if (schedule.rows.size() != static_cast<size_t>(problem.ranks)) {
    diagnostic.violation = Violation::WrongRankCount;
    diagnostic.message =
        std::to_string(schedule.rows.size()) + " rows for " + std::to_string(problem.ranks) + " ranks";
    return diagnostic;
  }
  for (int rank = 0; rank < problem.ranks; ++rank)
    for (size_t cell = 0; cell < schedule.rows[rank].size(); ++cell) {
      const Action &action = schedule.rows[rank][cell];
      if (!action.isCompute())
        continue;
      for (const Action &half : {action.first(), action.second()}) {
        if (half.isIdle())
          continue;
        bool stageFits = half.stage >= 0 && half.stage < problem.stages;
        if (stageFits && half.microbatch >= 0 && half.microbatch < problem.microbatches)
          continue;
        diagnostic.violation = stageFits ? Violation::MicrobatchOutOfRange : Violation::StageOutOfRange;
        diagnostic.rank = rank;
        diagnostic.cell = static_cast<int>(cell);
        diagnostic.action = toString(action);
        diagnostic.message = "the problem has " + std::to_string(problem.stages) + " stages and " +
                             std::to_string(problem.microbatches) + " microbatches";
        return diagnostic;
      }
    }
  return std::nullopt;
}

long long Runner::awaitInputs(const Action &action, int rank, double &time) const {
  auto await = [&](size_t input, double delay) {
    if (finished[input] < 0)
      return false;
    time = std::max(time, finished[input] + delay);
    return true;
  };
  int m = action.microbatch;
  if (action.kind == ActionKind::WeightGrad) {
    size_t input = gradientOf(action.stage, m);
    return await(input, 0) ? -1 : static_cast<long long>(input);
  }
  bool forward = action.kind == ActionKind::Forward;
  if (!forward) {
    size_t input = forwardOf(action.stage, m);
    if (!await(input, 0))
      return static_cast<long long>(input);
  }
  for (int e : forward ? neighbours.incoming[action.stage] : neighbours.outgoing[action.stage]) {
    const Edge &edge = problem.edges[e];
    if (!forward && !edge.gradient)
      continue;
    int source = forward ? edge.from : edge.to;
    size_t input = forward ? forwardOf(source, m) : gradientOf(source, m);
    if (!await(input, problem.rankOf(source, m) == rank ? 0 : edge.cost))
      return static_cast<long long>(input);
  }
  return -1;
}

double Runner::duration(const Action &action) const {
  const StageCost &cost = problem.costs[action.stage];
  switch (action.kind) {
  case ActionKind::Forward:
    return cost.forward;
  case ActionKind::Backward:
    return cost.backward();
  case ActionKind::InputGrad:
    return cost.inputGrad;
  default:
    return cost.weightGrad;
  }
}

void Runner::finish(const Action &action, double time) {
  if (action.kind == ActionKind::WeightGrad)
    return;
  size_t made = action.kind == ActionKind::Forward ? forwardOf(action.stage, action.microbatch)
                                                   : gradientOf(action.stage, action.microbatch);
  finished[made] = time;
  for (int rank = firstWaiter[made]; rank >= 0; rank = nextWaiter[rank])
    runnable.push_back(rank);
  firstWaiter[made] = -1;
}

void Runner::runPair(const Action &action, double ready, Interval &span) {
  span.start = ready;
  span.end = ready + duration(action.first()) + duration(action.second());
  finish(action.first(), span.end);
  finish(action.second(), span.end);
}

long long Runner::step(int rank) {
  Position &at = position[rank];
  const Action &action = schedule.rows[rank][at.cell];
  Interval &span = result.spans[rank][at.cell];
  if (!action.isCompute()) {
    ++at.cell;
    return -1;
  }
  bool pair = action.kind == ActionKind::Overlap;
  double ready = free[rank];
  Action half = at.secondHalf ? action.second() : action.first();
  if (long long missing = awaitInputs(half, rank, ready); missing >= 0)
    return missing;
  if (pair && pairs == PairModel::Atomic) {
    if (long long missing = awaitInputs(action.second(), rank, ready); missing >= 0)
      return missing;
    runPair(action, ready, span);
  } else {
    if (!at.secondHalf)
      span.start = ready;
    span.end = ready + duration(half);
    finish(half, span.end);
  }
  free[rank] = span.end;
  if (!at.secondHalf)
    result.order.emplace_back(rank, static_cast<int>(at.cell));
  at.secondHalf = pair && pairs == PairModel::Sequential && !at.secondHalf;
  at.cell += !at.secondHalf;
  return -1;
}

Diagnostic Runner::stuck() const {
  Diagnostic diagnostic;
  diagnostic.violation = Violation::CrossRankWaitCycle;
  for (int rank = 0; rank < problem.ranks; ++rank) {
    if (position[rank].cell >= schedule.rows[rank].size())
      continue;
    std::string action = toString(schedule.rows[rank][position[rank].cell]);
    if (diagnostic.rank < 0) {
      diagnostic.rank = rank;
      diagnostic.cell = static_cast<int>(position[rank].cell);
      diagnostic.action = action;
      diagnostic.message = "the schedule cannot run to its end: an input of this action is never made";
    }
    diagnostic.witness.push_back("rank " + std::to_string(rank) + " waits at " + action);
  }
  return diagnostic;
}

void Runner::measure() {
  result.busy.assign(problem.ranks, 0);
  result.peakActivations.assign(problem.ranks, 0);
  double busy = 0;
  for (int rank = 0; rank < problem.ranks; ++rank) {
    double live = 0, first = -1, last = 0;
    double &peak = result.peakActivations[rank];
    for (size_t cell = 0; cell < schedule.rows[rank].size(); ++cell) {
      const Action &action = schedule.rows[rank][cell];
      if (!action.isCompute())
        continue;
      for (const Action &half : {action.first(), action.second()}) {
        if (half.isIdle())
          continue;
        const ActivationChange &change = problem.activations[half.stage];
        result.busy[rank] += duration(half);
        if (half.kind == ActionKind::Forward)
          live += change.forward;
        if (half.kind == ActionKind::InputGrad || half.kind == ActionKind::Backward)
          peak = std::max(peak, live += change.inputGrad);
        if (half.kind == ActionKind::WeightGrad || half.kind == ActionKind::Backward)
          live += change.weightGrad;
        peak = std::max(peak, live);
      }
      const Interval &span = result.spans[rank][cell];
      first = first < 0 ? span.start : first;
      last = std::max(last, span.end);
    }
    busy += result.busy[rank];
    result.makespan = std::max(result.makespan, last);
    result.maxSpan = std::max(result.maxSpan, last - std::max(first, 0.0));
  }
  busy /= problem.ranks;
  result.bubble = result.makespan > 0 ? 1 - busy / result.makespan : 0;
  result.bubbleSpan = result.maxSpan > 0 ? 1 - busy / result.maxSpan : 0;
}

Result<Simulation> Runner::run() {
  if (std::optional<Diagnostic> error = checkRanges())
    return *error;
  result.spans.resize(problem.ranks);
  for (int rank = problem.ranks - 1; rank >= 0; --rank) {
    result.spans[rank].resize(schedule.rows[rank].size());
    runnable.push_back(rank);
  }
  while (!runnable.empty()) {
    int rank = runnable.back();
    runnable.pop_back();
    while (position[rank].cell < schedule.rows[rank].size()) {
      long long missing = step(rank);
      if (missing < 0)
        continue;
      nextWaiter[rank] = firstWaiter[missing];
      firstWaiter[missing] = rank;
      break;
    }
  }
  for (int rank = 0; rank < problem.ranks; ++rank)
    if (position[rank].cell < schedule.rows[rank].size())
      return stuck();
  measure();
  return std::move(result);
}

Result<Simulation> plumb::schedule::simulate(const Problem &problem, const Schedule &schedule,
                                             PairModel pairs) {
  return Runner(problem, schedule, pairs).run();
}
