//===- DualPipe.cpp - DualPipe and DualPipe-V -----------------------------===//
//
// Both have the same rows (deepseek-ai/DualPipe). In DualPipe-V rank r of R holds the stages r and 2R-1-r.
// DualPipe runs half of the microbatches from each end of 2R ranks; rank r and its mirror image 2R-1-r hold
// the same two stages.
//
//===----------------------------------------------------------------------===//

#include "Generators.h"
#include "Rows.h"

using namespace plumb::schedule;

/// The row of position `r` in a V of `R` ranks; `down` and `up` are its chunks before and after the turn. W
/// is split off where it fills a bubble: while the pipeline fills, and in the second half of the drain.
static void appendDualPipeRow(std::vector<Action> &row, int r, int R, int microbatches, Chunk down,
                              Chunk up) {
  int remaining = R - r - 1; // ranks between this one and the turn
  for (int i = 0; i < 2 * remaining; ++i)
    down.forward(row);
  for (int i = 0; i < r + 1; ++i) {
    down.forward(row);
    up.forward(row);
  }
  for (int i = 0; i < remaining; ++i) {
    up.inputGrad(row);
    up.weightGrad(row);
    up.forward(row);
  }
  for (int i = 0; i < microbatches - 2 * R + r + 1; ++i) {
    // The very first pair at the turn would make the ranks before it wait for its backward half.
    if (i == 0 && remaining == 0) {
      down.forward(row);
      up.backward(row);
    } else {
      down.overlap(up, row);
    }
    up.overlap(down, row);
  }
  for (int i = 0; i < remaining; ++i) {
    up.backward(row);
    up.overlap(down, row);
  }
  std::vector<Chunk *> pending; // weight gradients, oldest first
  for (int i = 0; i < 2 * (r + 1); ++i) {
    Chunk &chunk = i % 2 == 0 ? up : down;
    if (i < r + 1) {
      chunk.backward(row);
      continue;
    }
    chunk.inputGrad(row);
    pending.push_back(&chunk);
  }
  for (size_t i = 0; i < pending.size(); ++i) {
    pending[i]->weightGrad(row);
    if (static_cast<int>(i) < remaining) {
      down.inputGrad(row);
      pending.push_back(&down);
    }
  }
}

Schedule plumb::schedule::generateDualPipeV(const Problem &problem) {
  Schedule schedule;
  schedule.rows.resize(problem.ranks);
  int M = problem.microbatches;
  for (int rank = 0; rank < problem.ranks; ++rank)
    appendDualPipeRow(schedule.rows[rank], rank, problem.ranks, M, Chunk(rank, 0, M),
                      Chunk(problem.stages - 1 - rank, 0, M));
  return schedule;
}

Schedule plumb::schedule::generateDualPipe(const Problem &problem) {
  Schedule schedule;
  schedule.rows.resize(problem.ranks);
  int M = problem.microbatches, half = M / 2;
  for (int rank = 0; rank < problem.ranks; ++rank) {
    int mirror = problem.ranks - 1 - rank;
    // Microbatches below M/2 enter at rank 0, the others at the last rank.
    bool nearFirst = rank < mirror;
    Chunk own(std::min(rank, mirror), nearFirst ? 0 : half, nearFirst ? half : M);
    Chunk other(std::max(rank, mirror), nearFirst ? half : 0, nearFirst ? M : half);
    appendDualPipeRow(schedule.rows[rank], std::min(rank, mirror), problem.ranks / 2, half, own, other);
  }
  return schedule;
}
