//===- Interleaved.cpp - Several stages per rank in a loop ----------------===//
//
// Rank r holds the stages r, r + p, … A *turn* runs p microbatches through one of them; forwards walk the
// turns upwards in the stages and backwards downwards, a round of p microbatches after the other (Narayanan
// et al. 2021, Megatron-LM). The zero-bubble form warms up half as far and delays W by the rank (Qi et al.
// 2023; torch).
//
//===----------------------------------------------------------------------===//

#include "Generators.h"
#include <algorithm>

using namespace plumb::schedule;

namespace {

class InterleavedRow {
public:
  InterleavedRow(const Problem &problem, int rank, std::vector<Action> &row)
      : ranks(problem.ranks), rank(rank), chunks(problem.stages / problem.ranks),
        total(chunks * problem.microbatches), row(row) {}

  void oneFOneB() {
    int warmup = std::min(total, 2 * (ranks - rank - 1) + (chunks - 1) * ranks);
    for (int turn = 0; turn < warmup + total; ++turn) {
      if (turn < total)
        row.push_back(Action::forward(stageOf(turn, false), microbatchOf(turn)));
      if (turn >= warmup)
        row.push_back(Action::backward(stageOf(turn - warmup, true), microbatchOf(turn - warmup)));
    }
  }

  void zeroBubble() {
    int warmup = std::min(total, (ranks - rank - 1) + (chunks - 1) * ranks);
    for (int turn = 0; turn < warmup + total + rank; ++turn) {
      if (turn < total)
        row.push_back(Action::forward(stageOf(turn, false), microbatchOf(turn)));
      int gradient = turn - warmup, weight = gradient - rank;
      if (gradient >= 0 && gradient < total)
        row.push_back(Action::inputGrad(stageOf(gradient, true), microbatchOf(gradient)));
      if (weight >= 0)
        row.push_back(Action::weightGrad(stageOf(weight, true), microbatchOf(weight)));
    }
  }

private:
  int stageOf(int turn, bool backward) const {
    int chunk = turn / ranks % chunks;
    return (backward ? chunks - 1 - chunk : chunk) * ranks + rank;
  }
  int microbatchOf(int turn) const { return turn / (ranks * chunks) * ranks + turn % ranks; }

  int ranks, rank, chunks, total;
  std::vector<Action> &row;
};

} // namespace

Schedule plumb::schedule::generateInterleavedOneFOneB(const Problem &problem) {
  Schedule schedule;
  schedule.rows.resize(problem.ranks);
  for (int rank = 0; rank < problem.ranks; ++rank)
    InterleavedRow(problem, rank, schedule.rows[rank]).oneFOneB();
  return schedule;
}

Schedule plumb::schedule::interleavedZeroBubblePattern(const Problem &problem) {
  Schedule schedule;
  schedule.rows.resize(problem.ranks);
  for (int rank = 0; rank < problem.ranks; ++rank)
    InterleavedRow(problem, rank, schedule.rows[rank]).zeroBubble();
  return schedule;
}

Schedule plumb::schedule::generateLoopedBFS(const Problem &problem) {
  Schedule schedule;
  schedule.rows.resize(problem.ranks);
  for (int stage = 0; stage < problem.stages; ++stage)
    for (int m = 0; m < problem.microbatches; ++m)
      schedule.rows[stage % problem.ranks].push_back(Action::forward(stage, m));
  for (int stage = problem.stages - 1; stage >= 0; --stage)
    for (int m = problem.microbatches - 1; m >= 0; --m)
      schedule.rows[stage % problem.ranks].push_back(Action::backward(stage, m));
  return schedule;
}
