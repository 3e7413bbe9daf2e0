//===- ApplyStorageRules.cpp - Parameters and their updates in shards ------===//
//
// Fully sharded data parallelism is a layout of storage: the parameter lies in shards of a batch axis and is
// gathered to what it is computed with. Sharding the optimizer's state alone is a layout of the update.
//
//===----------------------------------------------------------------------===//

#include "ApplySpec.h"
#include "plumb/Dialect/Plumb/PlanOptions.h"
#include "plumb/Support/Glob.h"
#include "plumb/Support/Suggest.h"
#include "plumb/Transforms/Utils.h"

using namespace mlir;
using namespace plumb;

/// The layout with dim `dim` also sharded by `axis`, or null where the axis is used, or the dim, cut so far,
/// is not to be shared out: evenly, or else with rows for all ranks in blocks of one size.
static LayoutAttr shardFurther(ModuleOp module, LayoutAttr layout, RankedTensorType type, int64_t dim,
                               StringRef axis, bool evenly) {
  int64_t normalized = dim < 0 ? dim + type.getRank() : dim;
  if (normalized < 0 || normalized >= type.getRank() || layout.isShardedOver(axis))
    return {};
  LayoutAttr result = shardDim(module, layout, normalized, axis, layout.getDims()[normalized].getBlocks());
  if (result == layout)
    return layout;
  int64_t rows = type.getDimSize(normalized);
  DimShardingAttr before = layout.getDims()[normalized], after = result.getDims()[normalized];
  int64_t parts = 1;
  for (AxisRefAttr ref : before.getAxes())
    parts *= getAxisSize(module, ref);
  bool mayBeUneven =
      !evenly && after.countBlocks() == 1 && rows / parts >= getAxisSize(module, after.getAxes().back());
  return mayBeUneven || cutsEvenly(module, rows, after) ? result : LayoutAttr();
}

static LogicalResult store(ModuleOp module, StorageRuleOp rule, const llvm::StringSet<> &batchAxes) {
  StringRef axis = rule.getAxis();
  auto mesh = findOp<MeshOp>(module);
  if (!mesh.findAxis(axis))
    return emitError(rule.getLoc()) << "the mesh has no axis \"" << axis << "\" to store parameters over";
  if (mesh.getAxisSize(axis) > 1 && !batchAxes.contains(axis))
    return emitError(rule.getLoc())
           << "parameters are stored over axes that shard the batch, but no input is "
              "sharded over \""
           << axis << "\"";
  Glob glob(rule.getMatch().str());
  std::vector<std::string> names;
  std::string whole;
  bool matched = false;
  for (ParameterOp parameter : module.getOps<ParameterOp>()) {
    names.push_back(parameter.getSymName().str());
    if (!glob.matches(names.back()))
      continue;
    matched = true;
    auto type = cast<RankedTensorType>(parameter.getType());
    // The first entry that matches holds. Scalars have nothing to cut, nor has one rank a use for it.
    if (parameter.getGather() || type.getRank() == 0 || mesh.getAxisSize(axis) == 1)
      continue;
    LayoutAttr layout = parameter.getLayoutAttr(), stored;
    for (int64_t dim = 0; dim < type.getRank() && !stored; ++dim)
      stored = shardFurther(module, layout, type, dim, axis, /*evenly=*/true);
    if (!stored)
      stored = shardFurther(module, layout, type, 0, axis, /*evenly=*/false);
    if (!stored) {
      whole += (whole.empty() ? "" : ", ") + names.back();
      continue;
    }
    if (stored == layout)
      continue;
    parameter.setLayoutAttr(stored);
    parameter.setGatheredAttr(layout);
    parameter.setGather(rule.getGather());
    if (auto prefetch = rule->getAttrOfType<IntegerAttr>(kPrefetchAttr))
      parameter->setAttr(kPrefetchAttr, prefetch);
  }
  // What is said of all parameters holds for a model that has none.
  if (!matched && rule.getMatch() != "*")
    return emitError(rule.getLoc()) << "pattern \"" << rule.getMatch() << "\" matches none of "
                                    << names.size() << " parameters"
                                    << didYouMean(rule.getMatch().str(), names);
  if (!whole.empty())
    emitRemark(rule.getLoc())
        << "no dim of these parameters, as they are cut already, can be cut further over " << axis << " = "
        << mesh.getAxisSize(axis) << ", they are stored whole: " << whole;
  return success();
}

LogicalResult plumb::applyStorageRules(ModuleOp module, ProgramOp program) {
  // Parameters without a layout are those of a plan that was rejected already.
  if (llvm::any_of(module.getOps<ParameterOp>(),
                   [](ParameterOp parameter) { return !parameter.getLayout(); }))
    return success();
  llvm::StringSet<> batchAxes = getBatchAxes(program);
  for (StorageRuleOp rule : llvm::make_early_inc_range(module.getOps<StorageRuleOp>())) {
    if (failed(store(module, rule, batchAxes)))
      return failure();
    rule.erase();
  }
  auto optimizer = findOp<OptimizerOp>(module);
  if (!optimizer || !optimizer.getState())
    return success();
  for (NamedAttribute entry : optimizer.getStateAttr()) {
    StringRef axis = entry.getName();
    FailureOr<Placement> placement = parsePlacement(optimizer, cast<StringAttr>(entry.getValue()));
    if (failed(placement))
      return failure();
    if (!findOp<MeshOp>(module).findAxis(axis))
      return emitError(optimizer.getLoc())
             << "the mesh has no axis \"" << axis << "\" to shard the state over";
    if (!placement->shardDim)
      continue;
    int64_t dim = *placement->shardDim;
    if (llvm::none_of(module.getOps<ParameterOp>(), [&](ParameterOp parameter) {
          int64_t rank = cast<RankedTensorType>(parameter.getType()).getRank();
          return parameter.getTrainable() && dim < rank && dim >= -rank;
        }))
      return emitError(optimizer.getLoc())
             << "the state cannot be sharded over \"" << axis << "\": no trained parameter has a dim " << dim;
    for (ParameterOp parameter : module.getOps<ParameterOp>()) {
      LayoutAttr layout = parameter.getUpdated() ? *parameter.getUpdated() : parameter.getLayoutAttr();
      LayoutAttr sharded = shardFurther(module, layout, cast<RankedTensorType>(parameter.getType()),
                                        *placement->shardDim, axis, /*evenly=*/false);
      if (sharded && sharded != layout && parameter.getTrainable())
        parameter.setUpdatedAttr(sharded);
    }
  }
  optimizer.removeStateAttr();
  return success();
}
