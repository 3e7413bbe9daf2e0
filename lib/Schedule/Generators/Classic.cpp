#include "Generators.h"
#include "ListScheduler.h"
#include "plumb/Schedule/Simulation.h"
#include <algorithm>

using namespace plumb::schedule;

/// F × warmup, then F and B in turns, then the remaining B, for one stage.
static void alternate(std::vector<Action> &row, int stage, int microbatches, int warmup) {
  warmup = std::min(warmup, microbatches);
  for (int m = 0; m < warmup; ++m)
    row.push_back(Action::forward(stage, m));
  for (int m = 0; m < microbatches; ++m) {
    if (m + warmup < microbatches)
      row.push_back(Action::forward(stage, m + warmup));
    row.push_back(Action::backward(stage, m));
  }
}

static bool holdsOneStagePerRank(const Problem &problem) {
  return problem.stages == problem.ranks && problem.placements.size() == 1;
}

static Schedule oneStagePerRank(const Problem &problem, int (*warmup)(int remaining)) {
  Schedule schedule;
  schedule.rows.resize(problem.ranks);
  for (int stage = 0; stage < problem.stages; ++stage)
    alternate(schedule.rows[problem.placements[0][stage]], stage, problem.microbatches,
              warmup(problem.stages - stage));
  return schedule;
}

/// Interleaved warm-up of Megatron-LM: 2(p-r-1) + (v-1)p forwards, and the one that precedes the first
/// backward.
static std::vector<int> interleavedInFlight(const Problem &problem) {
  std::vector<int> limit(problem.ranks);
  int chunks = problem.stagesPerRank();
  for (int rank = 0; rank < problem.ranks; ++rank)
    limit[rank] = 2 * (problem.ranks - rank - 1) + (chunks - 1) * problem.ranks + 1;
  return limit;
}

Schedule plumb::schedule::generateGPipe(const Problem &problem) {
  ListPolicy policy;
  policy.group = std::min(problem.ranks, problem.microbatches);
  policy.inFlight.assign(problem.ranks, std::numeric_limits<int>::max());
  policy.forwardsFirst = true;
  return listSchedule(problem, policy);
}

/// The fastest of the given schedules that keep within the memory limit, or the first if none does.
static Schedule fastest(const Problem &problem, std::vector<Schedule> schedules) {
  size_t best = 0;
  double least = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < schedules.size(); ++i) {
    Result<Simulation> simulation = simulate(problem, schedules[i]);
    if (!simulation || simulation->makespan >= least)
      continue;
    const std::vector<double> &peaks = simulation->peakActivations;
    if (*std::max_element(peaks.begin(), peaks.end()) > problem.memoryLimit * (1 + 1e-9))
      continue;
    least = simulation->makespan;
    best = i;
  }
  return std::move(schedules[best]);
}

/// Interleaving for any placement and number of microbatches: which of the two is ahead depends on the costs.
static Schedule interleave(const Problem &problem, std::vector<int> inFlight) {
  ListPolicy policy;
  policy.group = std::min(problem.ranks, problem.microbatches);
  policy.inFlight = std::move(inFlight);
  std::vector<Schedule> schedules;
  for (bool backwardFirst : {true, false}) {
    policy.backwardFirst = backwardFirst;
    schedules.push_back(listSchedule(problem, policy));
  }
  bool regular = problem.placements.size() == 1 && problem.microbatches % problem.ranks == 0 &&
                 problem.stages % problem.ranks == 0 &&
                 problem.placements[0] == Problem::place(problem.ranks, problem.stages, Placement::Loop);
  if (regular)
    schedules.push_back(generateInterleavedOneFOneB(problem));
  return fastest(problem, std::move(schedules));
}

Schedule plumb::schedule::generateOneFOneB(const Problem &problem) {
  if (holdsOneStagePerRank(problem))
    return oneStagePerRank(problem, [](int remaining) { return remaining - 1; });
  return interleave(problem, interleavedInFlight(problem));
}

Schedule plumb::schedule::generateEagerOneFOneB(const Problem &problem) {
  if (holdsOneStagePerRank(problem))
    return oneStagePerRank(problem, [](int remaining) { return 2 * (remaining - 1); });
  std::vector<int> inFlight = interleavedInFlight(problem);
  for (int &limit : inFlight)
    limit = 2 * limit - 1;
  return interleave(problem, std::move(inFlight));
}

Schedule plumb::schedule::generateForwardOnly(const Problem &problem) { return generateGPipe(problem); }
