//===- ApplySpec.h - The parts of apply-spec --------------------*- C++ -*-===//
#ifndef PLUMB_LIB_TRANSFORMS_APPLYSPEC_H
#define PLUMB_LIB_TRANSFORMS_APPLYSPEC_H

#include "mlir/IR/BuiltinOps.h"
#include "plumb/Dialect/Plumb/Plumb.h"

namespace plumb {

/// A placement of the plan language on one axis.
struct Placement {
  std::optional<int64_t> shardDim; ///< As written, possibly negative; nothing: replicated.
  int64_t blocks = 1;
};

/// Parses `replicate`, `shard(N)` or `shard(N, blocks=B)`; the error is given to `op`'s location.
mlir::FailureOr<Placement> parsePlacement(mlir::Operation *op, llvm::StringRef text);

/// Adds `axis` (a whole one) to the sharding of a dim, innermost, within `blocks` equal blocks. Axes of size
/// 1 shard nothing and are left out.
LayoutAttr shardDim(mlir::ModuleOp module, LayoutAttr layout, int64_t dim, llvm::StringRef axis,
                    int64_t blocks = 1);

/// Makes those parameters one that the plan declares to be.
mlir::LogicalResult applyAliasRules(mlir::ModuleOp module, ProgramOp program);

/// Gives all values the sizes that they have for the batch of the plan.
mlir::LogicalResult applyBatchRule(mlir::ModuleOp module, ProgramOp program);

/// Turns split rules and a split policy into markers.
mlir::LogicalResult applySplitRules(mlir::ModuleOp module, ProgramOp program);

/// Turns the layout rules into layouts of parameters; every parameter has one afterwards.
mlir::LogicalResult applyLayoutRules(mlir::ModuleOp module, ProgramOp program);

/// Adds the input with the labels that the loss is computed from, if the loss rule asks for one.
mlir::LogicalResult addLossTarget(mlir::ModuleOp module, ProgramOp program);

/// Gives every input its layout: batch axes and microbatches over dim 0 unless a rule says otherwise.
mlir::LogicalResult applyInputRules(mlir::ModuleOp module, ProgramOp program);

/// Marks the loss, building the reduction that the rule asks for.
mlir::LogicalResult applyLossRule(mlir::ModuleOp module, ProgramOp program);

} // namespace plumb

#endif // PLUMB_LIB_TRANSFORMS_APPLYSPEC_H
