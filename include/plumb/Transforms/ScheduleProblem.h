//===- ScheduleProblem.h - The scheduling problem of a module ---*- C++ -*-===//

#ifndef PLUMB_TRANSFORMS_SCHEDULEPROBLEM_H
#define PLUMB_TRANSFORMS_SCHEDULEPROBLEM_H

#include "plumb/Schedule/Problem.h"
#include "plumb/Transforms/Steps.h"

namespace plumb {

/// Costs are operations of the kernels that a phase launches; a transferred byte costs as much as
/// `kOperationsPerByte` operations. Edges are the pairs of stages that ops send between. Reports a send that
/// no schedule has an action for.
mlir::FailureOr<schedule::Problem> getScheduleProblem(const Pipeline &pipeline);

/// About what a GPU computes in the time in which its network moves one byte.
inline constexpr double kOperationsPerByte = 100;

} // namespace plumb

#endif // PLUMB_TRANSFORMS_SCHEDULEPROBLEM_H
