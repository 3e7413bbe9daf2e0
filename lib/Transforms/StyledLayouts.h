//===- StyledLayouts.h - What a style makes of a parameter ------*- C++ -*-===//
#ifndef PLUMB_LIB_TRANSFORMS_STYLEDLAYOUTS_H
#define PLUMB_LIB_TRANSFORMS_STYLEDLAYOUTS_H

#include "ApplySpec.h"
#include <set>

namespace plumb {

/// The mesh axis of a rule's style.
llvm::StringRef getStyleAxis(LayoutRuleOp rule);

/// Says what the rules' styles shard of parameters, which follows from the ops that read them: a dim of a
/// weight whose factor the product sums away is contracted, one whose factor reaches the result is an output
/// feature, and a row of a table is what an index names. So one style serves torch's linear, the transposed
/// weights of Conv1D and embeddings.
class StyledLayouts {
public:
  StyledLayouts(mlir::ModuleOp module, ProgramOp program);

  /// The layout that the rule's style gives a parameter of `moduleName`.
  mlir::FailureOr<LayoutAttr> get(LayoutRuleOp rule, ParameterOp parameter, llvm::StringRef moduleName);

  /// Adds an axis to the sharding of a dim, after checking that dim and sizes admit it. With a `unit` of
  /// elements that stay together, an axis that has more ranks than there are units is split: the units are
  /// sharded over its outer part and repeated over the inner one.
  mlir::LogicalResult shard(LayoutRuleOp rule, ParameterOp parameter, LayoutAttr &layout, int64_t dim,
                            llvm::StringRef axis, llvm::ArrayRef<int64_t> blocks, int64_t unit = 1);

  LayoutAttr replicated(ParameterOp parameter);

private:
  mlir::FailureOr<std::optional<int64_t>> styledDim(LayoutRuleOp rule, ParameterOp parameter,
                                                    llvm::StringRef moduleName);
  ParameterOp findStandIn(ParameterOp parameter, llvm::StringRef moduleName);
  int64_t findUnit(ParameterOp parameter, int64_t dim);
  mlir::LogicalResult shardUnequal(LayoutRuleOp rule, ParameterOp parameter, LayoutAttr &layout, int64_t dim,
                                   llvm::StringRef axis, llvm::ArrayRef<int64_t> blocks, int64_t unit);

  mlir::ModuleOp module;
  MeshOp mesh;
  llvm::StringMap<llvm::SmallVector<LoadOp>> loads;
  /// Sizes that are reported: rule, rows, rows of a unit, parts. Never iterated.
  std::set<std::tuple<const void *, int64_t, int64_t, int64_t>> refused;
};

} // namespace plumb

#endif // PLUMB_LIB_TRANSFORMS_STYLEDLAYOUTS_H
