//===- ApplySpec.h - The parts of apply-spec --------------------*- C++ -*-===//
#ifndef PLUMB_LIB_TRANSFORMS_APPLYSPEC_H
#define PLUMB_LIB_TRANSFORMS_APPLYSPEC_H

#include "mlir/IR/BuiltinOps.h"
#include "plumb/Dialect/Plumb/Plumb.h"
#include "llvm/ADT/StringSet.h"

namespace plumb {

/// A placement of the plan language on one axis.
struct Placement {
  std::optional<int64_t> shardDim;   ///< As written, possibly negative; nothing: replicated.
  llvm::SmallVector<int64_t> blocks; ///< As DimShardingAttr has them.
};

/// Parses `replicate`, `shard(N)`, `shard(N, blocks=B)` or `shard(N, blocks=[B, C])`; the error is given to
/// `op`'s location.
mlir::FailureOr<Placement> parsePlacement(mlir::Operation *op, llvm::StringRef text);

/// Adds `axis` (a whole one) to the sharding of a dim, innermost, within each of `blocks`. Axes of size 1
/// shard nothing and are left out.
LayoutAttr shardDim(mlir::ModuleOp module, LayoutAttr layout, int64_t dim, llvm::StringRef axis,
                    llvm::ArrayRef<int64_t> blocks = {});

/// What is too large of the results of an op, for a message that begins with the op; empty if nothing is.
std::string describeTooLarge(mlir::Operation *op);

/// Makes those parameters one that the plan declares to be.
mlir::LogicalResult applyAliasRules(mlir::ModuleOp module, ProgramOp program);

/// Gives all values the sizes that they have for the batch of the plan.
mlir::LogicalResult applyBatchRule(mlir::ModuleOp module, ProgramOp program);

/// Rewrites attention so that keys and values walk around the ranks of the axis that the plan names.
mlir::LogicalResult applyAttentionRule(mlir::ModuleOp module, ProgramOp program);

/// An input whose element `i` is the number `i`, cut as `cut` says; made at its first use.
mlir::Value getNumbers(ProgramOp program, llvm::StringRef name, int64_t count, DimShardingAttr cut);

/// Takes batch normalisation in training apart: statistics of the whole batch, or of what the plan says.
/// Inputs must have their layouts already.
mlir::LogicalResult applyBatchNormRule(mlir::ModuleOp module, ProgramOp program);

/// Takes dropout apart: random numbers of the plan's seed for each element of the whole batch. Inputs must
/// have their layouts already.
mlir::LogicalResult applySeedRule(mlir::ModuleOp module, ProgramOp program);

/// Turns split rules and a split policy into markers.
mlir::LogicalResult applySplitRules(mlir::ModuleOp module, ProgramOp program);

/// Adds the input with the labels that the loss is computed from, if the loss rule asks for one.
mlir::LogicalResult addLossTarget(mlir::ModuleOp module, ProgramOp program);

/// Whether some name of the parameter is that of the module and, if given, `name` behind it; otherwise one
/// component more. The model itself has the empty name.
bool isParameterOf(ParameterOp parameter, llvm::StringRef module, llvm::StringRef name = "");

/// Axes that shard a batch: those that shard an input.
llvm::StringSet<> getBatchAxes(ProgramOp program);

/// Replaces rules that name a template by the rules that it stands for.
mlir::LogicalResult expandTemplates(mlir::ModuleOp module);

/// Turns the layout rules into layouts of parameters and boundaries; every parameter has a layout afterwards.
/// Inputs must have their layouts already.
mlir::LogicalResult applyLayoutRules(mlir::ModuleOp module, ProgramOp program);

/// Warns of biases whose layout, stated by an entry with `params`, is not that of the output features that
/// they are added to. `providerOf` answers which entry lays out a parameter, or null.
void lintBiases(mlir::ModuleOp module, ProgramOp program,
                llvm::function_ref<LayoutRuleOp(ParameterOp)> providerOf);

/// Makes boundaries of what a rule says of the ports of one of its modules, on the given sides.
mlir::LogicalResult applyPorts(mlir::ModuleOp module, ProgramOp program, LayoutRuleOp rule,
                               llvm::StringRef moduleName, bool inputs, bool outputs);

/// Stores parameters in shards of batch axes, and shards their update as the optimizer's state.
mlir::LogicalResult applyStorageRules(mlir::ModuleOp module, ProgramOp program);

/// Marks the ops of modules that are computed again in the backward pass.
mlir::LogicalResult applyRecomputeRules(mlir::ModuleOp module, ProgramOp program);

/// Gives every input its layout: batch axes and microbatches over dim 0 unless a rule says otherwise.
mlir::LogicalResult applyInputRules(mlir::ModuleOp module, ProgramOp program);

/// Marks the loss, building the reduction that the rule asks for.
mlir::LogicalResult applyLossRule(mlir::ModuleOp module, ProgramOp program);

} // namespace plumb

#endif // PLUMB_LIB_TRANSFORMS_APPLYSPEC_H
