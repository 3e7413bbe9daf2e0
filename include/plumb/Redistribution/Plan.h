//===- Plan.h - Steps that turn one layout into another ---------*- C++ -*-===//
//
// A step takes every rank's local tensor of one layout to its local tensor of
// another. Steps are collective over groups: the ranks that agree in every
// digit outside the step's axes, ordered row-major over those axes as listed.
//
//   slice           keep a part of what is held                    no communication
//   mask            a replicated or sharded axis becomes partial: the value once, the neutral element
//   elsewhere all_gather      drop the last axes of any dimensions reduce_scatter  combine over partial axes,
//   and append them to any dimensions all_reduce      combine over partial axes all_to_all      move the last
//   axes of some dimensions to the ends of others permute         whole shards change places, one to one
//   exchange        one grouped send/receive: each rank gets exactly what it lacks
//
//===----------------------------------------------------------------------===//
#ifndef PLUMB_REDISTRIBUTION_PLAN_H
#define PLUMB_REDISTRIBUTION_PLAN_H

#include "plumb/Redistribution/Layout.h"

namespace plumb::redistribution {

enum class StepKind : uint8_t {
  Slice,
  Mask,
  AllGather,
  ReduceScatter,
  AllReduce,
  AllToAll,
  Permute,
  Exchange
};

/// "slice", "mask", "all_gather", …
llvm::StringRef stepKindName(StepKind kind);
inline bool isLocal(StepKind kind) { return kind == StepKind::Slice || kind == StepKind::Mask; }

struct Step {
  StepKind kind = StepKind::Slice;
  /// The axes of the communicator, outermost first; for local steps, the axes that change their role.
  llvm::SmallVector<AxisRef, 4> axes;
  /// The tensor dimensions whose cut changes, ascending.
  llvm::SmallVector<unsigned, 4> dims;
  /// Set for reduce_scatter, all_reduce and mask.
  std::optional<Reduction> reduction;
  /// Both canonical.
  Layout before, after;
  /// The largest local shapes, those of rank 0.
  Index localBefore, localAfter;
  /// The most that any rank sends or receives in this step.
  double bytes = 0;
  /// Under the cost model: seconds, or bytes when there is no topology.
  double cost = 0;
  /// Bytes live on the rank that needs most: source, result and staging buffers.
  int64_t memory = 0;

  int64_t groupSize() const;
};

struct Plan {
  Mesh mesh;
  Index shape;
  int64_t elementBytes = 1;
  Layout from, to;
  std::vector<Step> steps;

  /// The most that any rank sends or receives over all steps.
  double bytes = 0;
  double cost = 0;
  /// What every plan must move through its busiest rank (see Bound.h).
  double boundBytes = 0;
  int64_t peakMemory = 0;
  /// No plan of the searched steps costs less than `provenCost`; equal to `cost` when the search was
  /// exhaustive.
  double provenCost = 0;
  bool optimal = true;

  int64_t globalBytes() const;
  /// What the steps amount to: identity, local, the one kind that communicates, or mixed.
  llvm::StringRef label() const;
};

/// "all_gather{tp} [{tp},{}] -> [{},{}]"
std::string toString(const Mesh &mesh, const Step &step);

} // namespace plumb::redistribution

#endif // PLUMB_REDISTRIBUTION_PLAN_H
