//===- ScheduleProblem.h - The scheduling problem of a module ---*- C++ -*-===//

#ifndef PLUMB_TRANSFORMS_SCHEDULEPROBLEM_H
#define PLUMB_TRANSFORMS_SCHEDULEPROBLEM_H

#include "plumb/Schedule/Simulation.h"
#include "plumb/Transforms/Steps.h"

namespace plumb {

/// The problem of one copy of the stages. Edges are the pairs of stages that ops send between.
///
/// Costs are those of the plan, or else the operations of the kernels that a phase launches, and
/// `kOperationsPerByte` operations for each byte that is transferred. Activations are the bytes that live
/// from the forward on to a backward, or from there to the weight gradients; what is left of the plan's
/// memory limit besides parameters, states and inputs is theirs.
///
/// Reports a send that no schedule has an action for, costs of another number of stages, and a limit that the
/// rest exceeds already.
mlir::FailureOr<schedule::Problem> getScheduleProblem(const Pipeline &pipeline);

/// The actions of a solution with the stages of the module, where each copy of a stage has a number of its
/// own.
schedule::Schedule toStages(const Pipeline &pipeline, schedule::Schedule actions);

/// The reverse; an error at the `plumb.schedule` if an action runs a microbatch of another copy.
mlir::FailureOr<schedule::Schedule> toSolution(const Pipeline &pipeline, schedule::Schedule actions);

/// The schedule of a module, run under the cost model.
struct Timeline {
  schedule::Problem problem;
  schedule::Schedule solution;
  schedule::Simulation simulation;
};

/// Needs the module's action lists; an error where they or the problem are wrong, or the lists cannot run.
mlir::FailureOr<Timeline> simulatePlan(const Pipeline &pipeline);

/// About what a GPU computes in the time in which its network moves one byte.
inline constexpr double kOperationsPerByte = 100;

} // namespace plumb

#endif // PLUMB_TRANSFORMS_SCHEDULEPROBLEM_H
