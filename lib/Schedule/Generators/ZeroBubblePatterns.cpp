//===- ZeroBubblePatterns.cpp - Regular zero-bubble schedules -------------===//

#include "Generators.h"
#include "Rows.h"

using namespace plumb::schedule;

/// F × warmup, then F, I and a W that lags behind by `lag` microbatches.
static void appendHandmadeRow(std::vector<Action> &row, int stage, int microbatches, int warmup, int lag) {
  Chunk chunk(stage, 0, microbatches);
  for (int i = 0; i < warmup; ++i)
    chunk.forward(row);
  for (int i = 0; i < microbatches; ++i) {
    chunk.forward(row);
    chunk.inputGrad(row);
    if (i >= lag)
      chunk.weightGrad(row);
  }
  for (int i = 0; i < std::min(lag, microbatches); ++i)
    chunk.weightGrad(row);
}

/// Qi et al. 2023, figures 2 and 3. H1 keeps p activations on every rank, H2 2p - 1.
Schedule plumb::schedule::zeroBubbleH1Pattern(const Problem &problem) {
  Schedule schedule;
  schedule.rows.resize(problem.ranks);
  for (int stage = 0; stage < problem.stages; ++stage)
    appendHandmadeRow(schedule.rows[problem.placements[0][stage]], stage, problem.microbatches,
                      problem.stages - stage - 1, stage);
  return schedule;
}

Schedule plumb::schedule::zeroBubbleH2Pattern(const Problem &problem) {
  Schedule schedule;
  schedule.rows.resize(problem.ranks);
  for (int stage = 0; stage < problem.stages; ++stage)
    appendHandmadeRow(schedule.rows[problem.placements[0][stage]], stage, problem.microbatches,
                      2 * (problem.stages - stage - 1), 2 * stage);
  return schedule;
}

/// Qi et al. 2024: rank r of p holds the stages r and 2p-1-r; at most 2p activations.
Schedule plumb::schedule::zeroBubbleVPattern(const Problem &problem) {
  Schedule schedule;
  schedule.rows.resize(problem.ranks);
  for (int rank = 0; rank < problem.ranks; ++rank) {
    std::vector<Action> &row = schedule.rows[rank];
    int remaining = problem.ranks - rank;
    Chunk down(rank, 0, problem.microbatches), up(problem.stages - 1 - rank, 0, problem.microbatches);
    for (int i = 0; i < 2 * remaining - 1; ++i)
      down.forward(row);
    for (int i = 0; i < rank; ++i) {
      up.forward(row);
      down.forward(row);
    }
    for (int i = 0; i < remaining; ++i) {
      up.forward(row);
      up.inputGrad(row);
      up.weightGrad(row);
    }
    int steady = std::max(problem.microbatches, 2 * problem.ranks - 1) - problem.ranks;
    for (int i = 0; i < steady; ++i) {
      down.forward(row);
      down.inputGrad(row);
      down.weightGrad(row);
      up.forward(row);
      up.inputGrad(row);
      up.weightGrad(row);
    }
    for (int i = 0; i < rank; ++i) {
      down.inputGrad(row);
      up.inputGrad(row);
    }
    for (int i = 0; i < remaining; ++i) {
      down.inputGrad(row);
      down.weightGrad(row);
    }
    for (int i = 0; i < rank; ++i)
      up.weightGrad(row);
    for (int i = 0; i < rank; ++i)
      down.weightGrad(row);
  }
  return schedule;
}

/// Starts of one microbatch's four actions on a rank, in a frame where all take one unit.
struct BuildingBlock {
  int downForward, upForward, upGradient, downGradient;
};

/// Qi et al. 2024: one building block per rank, repeated every six units. The two slots of a period that it
/// leaves free are for weight gradients; here each follows its input gradient.
static Schedule repeatBlocks(const Problem &problem, BuildingBlock (*blockOf)(int rank, int ranks)) {
  constexpr int period = 6;
  Schedule schedule;
  for (int rank = 0; rank < problem.ranks; ++rank) {
    BuildingBlock block = blockOf(rank, problem.ranks);
    int down = rank, up = problem.stages - 1 - rank;
    std::vector<std::pair<int, Action>> timed;
    for (int m = 0; m < problem.microbatches; ++m) {
      timed.emplace_back(period * m + block.downForward, Action::forward(down, m));
      timed.emplace_back(period * m + block.upForward, Action::forward(up, m));
      timed.emplace_back(period * m + block.upGradient, Action::inputGrad(up, m));
      timed.emplace_back(period * m + block.downGradient, Action::inputGrad(down, m));
    }
    std::sort(timed.begin(), timed.end(), [](const auto &a, const auto &b) { return a.first < b.first; });
    std::vector<Action> &row = schedule.rows.emplace_back();
    for (const auto &[time, action] : timed) {
      row.push_back(action);
      if (action.kind == ActionKind::InputGrad)
        row.push_back(Action::weightGrad(action.stage, action.microbatch));
    }
  }
  return schedule;
}

Schedule plumb::schedule::vHalfPattern(const Problem &problem) {
  return repeatBlocks(problem, [](int r, int p) -> BuildingBlock {
    int delta = p % 2 == 0 ? 3 : 0;
    return {2 * r, 3 * p - r - 2, 3 * p + delta + 2 * r - 1, 6 * p + delta - r - 2};
  });
}

Schedule plumb::schedule::vMinPattern(const Problem &problem) {
  return repeatBlocks(problem, [](int r, int p) -> BuildingBlock {
    int delta = p % 3 == 0 ? 2 : 0;
    return {r, 2 * p - r - 1, 2 * p + delta + r, 4 * p + delta - r - 1};
  });
}
