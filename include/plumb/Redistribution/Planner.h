//===- Planner.h - The cheapest way from one layout to another --*- C++ -*-===//
//
// A* over layouts of the refined mesh, whose axes are split into their prime
// factors. The result is a cheapest sequence of steps under the cost model;
// among equals the one of fewest steps, then of the simplest kinds.
//
//===----------------------------------------------------------------------===//
#ifndef PLUMB_REDISTRIBUTION_PLANNER_H
#define PLUMB_REDISTRIBUTION_PLANNER_H

#include "plumb/Redistribution/Plan.h"
#include "plumb/Redistribution/Topology.h"
#include <map>

namespace plumb::redistribution {

struct PlanOptions {
  /// Absent: the cost is bytes alone.
  std::optional<Topology> topology;
  /// Whether a step may be an exchange.
  bool exchange = true;
  /// Whether a step may lead over a layout whose shards differ in size, where neither source nor target does.
  bool uneven = true;
  /// Kinds of steps that a plan may not use.
  std::vector<StepKind> excluded;
  /// Axes of the mesh that no step may use, since ranks along them do not hold copies of the tensor.
  std::vector<unsigned> foreign;
  /// No step may need more bytes on a rank.
  std::optional<int64_t> memoryLimit;
  /// Moves the search may look at before it settles for the best plan known and the gap it has proven.
  int64_t maxMoves = 100'000;

  bool operator==(const PlanOptions &) const = default;
};

/// Fails when a layout is invalid for the mesh and shape, when the sizes overflow, or when no plan exists
/// within the options (a memory limit below what source and result need; an average that would have to be
/// taken apart).
llvm::Expected<Plan> planRedistribution(const Mesh &mesh, llvm::ArrayRef<int64_t> shape, int64_t elementBytes,
                                        const Layout &from, const Layout &to,
                                        const PlanOptions &options = {});

/// Fails on a tensor whose bytes, on all ranks, cannot be counted, or that has too many dims.
llvm::Error checkSizes(const Mesh &mesh, llvm::ArrayRef<int64_t> shape, int64_t elementBytes);

/// A plan that does not do what it says. Nothing that a user writes leads here: the planner is wrong.
class WrongPlan : public llvm::ErrorInfo<WrongPlan> {
public:
  static char ID;
  /// `question` is what to ask `plumbc` to see it again.
  WrongPlan(std::string question, std::string finding)
      : question(std::move(question)), finding(std::move(finding)) {}

  std::string question, finding;

  void log(llvm::raw_ostream &os) const override;
  std::error_code convertToErrorCode() const override;
};

/// Plans by everything they depend on: repeated layers are planned once. No plan leaves the cache that the
/// interpreter has not executed.
class PlanCache {
public:
  /// As `planRedistribution`, or fails with `WrongPlan`. The plan lives as long as the cache. Failures are
  /// not kept.
  llvm::Expected<const Plan *> get(const Mesh &mesh, llvm::ArrayRef<int64_t> shape, int64_t elementBytes,
                                   const Layout &from, const Layout &to, const PlanOptions &options = {});
  size_t size() const { return plans.size(); }

private:
  std::map<std::string, Plan> plans;
};

/// A plan that was not chosen.
struct Alternative {
  /// "without all_to_all", "through the replicated tensor", …
  std::string description;
  /// Absent if that way does not lead to the target.
  std::optional<Plan> plan;
};

/// What else could have been done: the best plans without each kind of step that `plan` uses, by one
/// exchange, and through the replicated tensor.
std::vector<Alternative> alternativesTo(const Plan &plan, const PlanOptions &options);

} // namespace plumb::redistribution

#endif // PLUMB_REDISTRIBUTION_PLANNER_H
