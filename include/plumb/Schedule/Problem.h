//===- Problem.h - The pipeline scheduling problem --------------*- C++ -*-===//
//
// A *problem* has `stages` stages 0..S-1 that live on `ranks` ranks, and `microbatches` microbatches 0..M-1.
//
// Components. For every stage s and microbatch m there is a forward F(s,m) and, in training, a backward that
// is either whole, B(s,m), or split into an input gradient I(s,m) and a weight gradient W(s,m).
//
// Dependences. With (s,t) ranging over `edges`, s < t:
//   F(t,m) after F(s,m);   B or I (s,m) after F(s,m), and after B or I (t,m) where the edge carries a
//   gradient; W(s,m) after I(s,m).
//
// Properties. `costs`: duration of F, I and W per stage and microbatch in any unit of time; B takes I + W.
// `Edge::cost`: time of one transfer over that edge when its ends live on different ranks, else 0.
// `activations`: the change of a rank's memory when F starts, and when I and W end, in any unit; B makes the
// changes of I and W.
//
// Input constraint (`check`): sizes agree, stages and ranks are in range, every rank holds a stage, edges
// lead to later stages and are unique, costs are finite and not negative, one activation fits the limit.
//
// Solution constraint (`verify` in Verifier.h): a Schedule that runs every component exactly once, on its
// rank, in an order that the dependences allow.
//
//===----------------------------------------------------------------------===//

#ifndef PLUMB_SCHEDULE_PROBLEM_H
#define PLUMB_SCHEDULE_PROBLEM_H

#include "plumb/Schedule/Diagnostic.h"
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace plumb::schedule {

/// Durations of one stage and microbatch.
struct StageCost {
  double forward = 1, inputGrad = 1, weightGrad = 1;
  double backward() const { return inputGrad + weightGrad; }
  double total() const { return forward + backward(); }
};

/// Change of memory at the start of F and at the ends of I and W.
struct ActivationChange {
  double forward = 1, inputGrad = 0, weightGrad = -1;
};

/// Values of stage `from` that stage `to` reads.
struct Edge {
  int from = 0, to = 0;
  double cost = 0;
  /// False if none of the values is differentiable (integers, masks): nothing comes back.
  bool gradient = true;
};

/// How stages are dealt out to ranks: `Loop` is s mod pp; `V` goes forth and back, s mod 2pp folded at pp.
enum class Placement { Loop, V };

/// Most pairs of a stage and a microbatch of a problem.
inline constexpr int64_t kMostCells = 1 << 24;

struct Problem {
  int ranks = 1;
  int stages = 1;
  int microbatches = 1;
  bool training = true;
  /// placements[copy][stage] = rank. One copy, unless stages are replicated (DualPipe): then copy c of C runs
  /// the microbatches [c·M/C, (c+1)·M/C) and the gradients of the copies are summed. Empty only for `verify`:
  /// the placement is taken from the list.
  std::vector<std::vector<int>> placements;
  std::vector<StageCost> costs;              // per stage
  std::vector<ActivationChange> activations; // per stage
  std::vector<Edge> edges;
  /// Largest memory of a rank.
  double memoryLimit = std::numeric_limits<double>::infinity();

  /// A chain of `stages` stages with unit costs, placed as said.
  static Problem chain(int ranks, int stages, int microbatches, Placement placement = Placement::Loop);
  static std::vector<int> place(int ranks, int stages, Placement placement);

  void setCosts(StageCost cost, double transfer);
  void setActivations(ActivationChange change);

  int rankOf(int stage, int microbatch) const { return placements[copyOf(microbatch)][stage]; }
  int copyOf(int microbatch) const {
    return static_cast<int>(static_cast<long long>(microbatch) * static_cast<long long>(placements.size()) /
                            microbatches);
  }
  /// Stages of `rank` that run `microbatch`, in ascending order.
  std::vector<int> stagesOf(int rank, int copy = 0) const;
  /// Most stages that one rank holds (in one copy).
  int stagesPerRank() const;

  /// The input constraint; empty if it holds. A list can be verified even if it leaves ranks idle.
  std::optional<Diagnostic> check(bool allowIdleRanks = false) const;
};

/// The edges of a problem by their ends.
struct Neighbours {
  explicit Neighbours(const Problem &problem);
  /// Edges that end in a stage / begin in a stage, as indices into `Problem::edges`, ascending by the other
  /// end.
  std::vector<std::vector<int>> incoming, outgoing;
};

} // namespace plumb::schedule

#endif // PLUMB_SCHEDULE_PROBLEM_H
