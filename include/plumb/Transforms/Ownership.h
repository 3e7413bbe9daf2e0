//===- Ownership.h - What sharing a parameter costs -------------*- C++ -*-===//
//
// A parameter that stages on several ranks of the pipeline read is either replicated (each rank keeps and
// updates a copy; gradients are summed over all copies) or transmitted (the owner sends the value once per
// step, and gets the gradients of the readers back).
//
//===----------------------------------------------------------------------===//

#ifndef PLUMB_TRANSFORMS_OWNERSHIP_H
#define PLUMB_TRANSFORMS_OWNERSHIP_H

#include "plumb/Transforms/Utils.h"

namespace plumb {

/// In bytes. What is weighed is the sum: a byte that the busiest rank sends in a step against a byte of
/// memory.
struct SharingCost {
  int64_t traffic; ///< What the busiest rank sends in a step.
  int64_t memory;  ///< What all ranks but the owner keep: value, gradient, optimizer state.

  int64_t total() const { return traffic + memory; }
};

struct SharingCosts {
  SharingCost replicate, transmit;

  bool prefersTransmit() const { return transmit.total() < replicate.total(); }
};

/// The costs of a parameter of which each rank of the pipeline holds `bytes`, and that stages on `ranks` of
/// them read. An all-reduce of n ranks sends 2 (n - 1) / n of the bytes.
SharingCosts getSharingCosts(int64_t bytes, int64_t ranks, bool isTrained, int64_t optimizerStates);

/// The same for a parameter with a layout, under the optimizer of the module.
SharingCosts getSharingCosts(mlir::ModuleOp module, ParameterOp parameter, int64_t ranks);

/// The first stage on a pipeline coordinate. What ranks of the pipeline exchange outside of the schedule is
/// done there, in the order of the parameters, so that no two ranks wait for each other.
int64_t getFirstStage(mlir::ModuleOp module, int64_t coordinate);

/// The state in which readers keep the value of a transmitted parameter, or null for any other parameter.
StateOp findCopy(mlir::ModuleOp module, ParameterOp parameter);

} // namespace plumb

#endif // PLUMB_TRANSFORMS_OWNERSHIP_H
