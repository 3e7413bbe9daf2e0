//===- VerifyPlan.h - The checks of the pass verify-plan --------*- C++ -*-===//

#ifndef PLUMB_LIB_TRANSFORMS_VERIFYPLAN_H
#define PLUMB_LIB_TRANSFORMS_VERIFYPLAN_H

#include "plumb/Transforms/Slots.h"
#include <map>

namespace plumb::verification {

/// Steps that are looked at: what goes wrong between two of them goes wrong between the first two.
inline constexpr int kSteps = 2;

/// What every check reads: the plan, and nothing that made it.
struct Plan {
  const Pipeline &pipeline;
  llvm::SmallVector<llvm::SmallVector<Step>> steps;      ///< Per coordinate, all parts of one step.
  llvm::SmallVector<llvm::SmallVector<SlotClass>> slots; ///< Per stage.
  llvm::SmallVector<std::map<Part, llvm::SmallVector<mlir::Operation *>>> parts; ///< Per stage, ops in order.

  llvm::ArrayRef<mlir::Operation *> opsOf(const Step &step) const {
    auto ops = parts[step.stage].find(step.part);
    return ops == parts[step.stage].end() ? llvm::ArrayRef<mlir::Operation *>() : ops->second;
  }
};

/// Every op of a stage is a call, and fits the kernel or communicator that it names.
llvm::LogicalResult verifyCalls(const Pipeline &pipeline);
/// The two ends of every channel agree.
llvm::LogicalResult verifyTransfers(const Plan &plan);
/// No NCCL unit waits for itself, and the members of every communicator agree on its collectives.
llvm::LogicalResult verifyOrder(const Plan &plan);
/// Whatever reads memory finds there what was meant for it.
llvm::LogicalResult verifyMemory(const Plan &plan);
/// Whatever reads a value needs the layout that communication has given it; sums are complete where a step
/// ends.
llvm::LogicalResult verifyLayouts(const Plan &plan);
/// Parameters are updated once, on all copies.
llvm::LogicalResult verifyUpdates(const Plan &plan);

} // namespace plumb::verification

#endif // PLUMB_LIB_TRANSFORMS_VERIFYPLAN_H
