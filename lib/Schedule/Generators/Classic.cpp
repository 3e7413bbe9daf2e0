#include "Generators.h"
#include "ListScheduler.h"
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

/// Interleaved warm-up of Megatron-LM: 2(p-r-1) + (v-1)p forwards, and the one that precedes the first backward.
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

Schedule plumb::schedule::generateOneFOneB(const Problem &problem) {
  if (holdsOneStagePerRank(problem))
    return oneStagePerRank(problem, [](int remaining) { return remaining - 1; });
  ListPolicy policy;
  policy.group = std::min(problem.ranks, problem.microbatches);
  policy.inFlight = interleavedInFlight(problem);
  return listSchedule(problem, policy);
}

Schedule plumb::schedule::generateEagerOneFOneB(const Problem &problem) {
  if (holdsOneStagePerRank(problem))
    return oneStagePerRank(problem, [](int remaining) { return 2 * (remaining - 1); });
  ListPolicy policy;
  policy.group = std::min(problem.ranks, problem.microbatches);
  policy.inFlight = interleavedInFlight(problem);
  for (int &limit : policy.inFlight)
    limit = 2 * limit - 1;
  return listSchedule(problem, policy);
}

Schedule plumb::schedule::generateForwardOnly(const Problem &problem) { return generateGPipe(problem); }
