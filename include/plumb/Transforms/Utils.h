//===- Utils.h - What several passes need -----------------------*- C++ -*-===//
#ifndef PLUMB_TRANSFORMS_UTILS_H
#define PLUMB_TRANSFORMS_UTILS_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "plumb/Dialect/Plumb/Plumb.h"

namespace plumb {

/// The one op of its kind at module level, or null.
template <typename OpT>
OpT findOp(mlir::ModuleOp module) {
  auto ops = module.getOps<OpT>();
  return ops.empty() ? OpT() : *ops.begin();
}

/// Number of ranks along the pipeline axis; 1 without one.
int64_t getPipelineSize(mlir::ModuleOp module);

/// The pipeline coordinate on which a stage lives.
int64_t getPipelineCoordinate(mlir::ModuleOp module, int64_t stage);

/// Number of microbatches of a step.
int64_t getMicrobatches(mlir::ModuleOp module);

/// Size of a mesh axis, of a factor of one, or of `microbatch`.
int64_t getAxisSize(mlir::ModuleOp module, AxisRefAttr axis);

/// Of the dim that a step walks in microbatches, the axes that say which rows each microbatch has: those in
/// front of `microbatch`, and it. Empty if the step does not walk over the tensor.
llvm::ArrayRef<AxisRefAttr> getWalkedAxes(LayoutAttr layout);

/// A layout as plans state it, such as `{"dp": "shard(0)", "tp": "partial(sum)"}`.
std::string toPlanText(LayoutAttr layout);

/// Whether all shards of a dim of `size` elements are equal.
bool cutsEvenly(mlir::ModuleOp module, int64_t size, DimShardingAttr dim);

/// The type of one rank's shard (of one microbatch) of a tensor. Where sizes do not divide, it is that of the
/// largest shard: the others are padded at the end, with what nobody may read (`propagate-layouts` lets only
/// the last axis of a dim that is no product of others cut it so, and `plan-boundaries` masks what is
/// summed).
mlir::RankedTensorType getLocalType(mlir::ModuleOp module, mlir::RankedTensorType global, LayoutAttr layout);

/// The state that holds the number of finished steps, made at its first use.
StateOp getStepCounter(mlir::ModuleOp module, ProgramOp program);

/// The stages that have a share of a state, one per pipeline coordinate: its own, or those of the parameter
/// that it is of, which may be null.
llvm::ArrayRef<int64_t> getHolders(StateOp state, ParameterOp of);

/// While it lives, gives ops inserted by `builder` the provenance of another op: module, source and stage,
/// and the given phase.
class ProvenanceScope : public mlir::OpBuilder::Listener {
public:
  ProvenanceScope(mlir::OpBuilder &builder, mlir::Operation *origin, Phase phase);
  ~ProvenanceScope() override;
  void setOrigin(mlir::Operation *newOrigin) { origin = newOrigin; }
  void notifyOperationInserted(mlir::Operation *op, mlir::OpBuilder::InsertPoint) override;

private:
  mlir::OpBuilder &builder;
  mlir::OpBuilder::Listener *previous;
  mlir::Operation *origin;
  Phase phase;
};

/// Whether a module path lies in the subtree of `module`, whatever the number of the call ("h.0@1" is in
/// "h").
bool isInModule(llvm::StringRef path, llvm::StringRef module);

} // namespace plumb

#endif // PLUMB_TRANSFORMS_UTILS_H
