//===- Simulation.h - Run a schedule under the cost model -------*- C++ -*-===//

#ifndef PLUMB_SCHEDULE_SIMULATION_H
#define PLUMB_SCHEDULE_SIMULATION_H

#include "plumb/Schedule/Problem.h"
#include "plumb/Schedule/Schedule.h"

namespace plumb::schedule {

/// How an OVERLAP_F_B cell runs. `Sequential`: F, then B, each as soon as its own inputs are there. `Atomic`:
/// starts when the inputs of both are there, lasts F + I + W, both results at its end.
enum class PairModel { Sequential, Atomic };

struct Interval {
  double start = 0, end = 0;
};

/// Computations run in row order, each as soon as its rank is free and its inputs have arrived; a transfer
/// adds its cost to the arrival and never keeps a rank busy. Transfers that a list spells out are ignored
/// here.
struct Simulation {
  /// spans[rank][cell]; for a pair from the start of F to the end of B. Empty intervals for cells that do not
  /// compute.
  std::vector<std::vector<Interval>> spans;
  /// The computing cells (rank, cell) in an order that respects all dependences.
  std::vector<std::pair<int, int>> order;
  double makespan = 0;
  /// Idle fraction of the makespan, averaged over the ranks: 1 - mean(busy) / makespan.
  double bubble = 0;
  /// 1 - mean(busy) / maxSpan, where maxSpan is the longest time of a rank from its first start to its last
  /// end: ranks may begin their next step at different times.
  double bubbleSpan = 0;
  double maxSpan = 0;
  std::vector<double> busy;            // per rank
  std::vector<double> peakActivations; // per rank
};

/// Needs `problem.check()` to hold. Fails (CrossRankWaitCycle, or Missing…) only if the list cannot run to
/// its end.
Result<Simulation> simulate(const Problem &problem, const Schedule &schedule,
                            PairModel pairs = PairModel::Sequential);

} // namespace plumb::schedule

#endif // PLUMB_SCHEDULE_SIMULATION_H
