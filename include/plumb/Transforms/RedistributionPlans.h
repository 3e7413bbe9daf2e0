//===- RedistributionPlans.h - Passes ask the redistribution core -*- C++ -*-===//

#ifndef PLUMB_TRANSFORMS_REDISTRIBUTIONPLANS_H
#define PLUMB_TRANSFORMS_REDISTRIBUTIONPLANS_H

#include "mlir/IR/BuiltinOps.h"
#include "plumb/Dialect/Plumb/Plumb.h"
#include "plumb/Redistribution/Planner.h"

namespace plumb {

/// The layouts of a module in the core's terms, and the plans of its redistributions.
class RedistributionPlans {
public:
  explicit RedistributionPlans(mlir::ModuleOp module);

  const redistribution::Mesh &getMesh() const { return mesh; }
  const redistribution::Topology &getTopology() const { return *options.topology; }

  /// `microbatch` is walked in time, and a sum over the pipeline axis is one over copies: neither is the
  /// planner's.
  redistribution::Layout toCore(LayoutAttr layout) const;

  /// The shape of one microbatch of a tensor.
  llvm::SmallVector<int64_t> shapeOf(mlir::RankedTensorType global, LayoutAttr layout) const;

  /// The cheapest plan that programs can execute; an error at `op` if there is none.
  mlir::FailureOr<const redistribution::Plan *> plan(RedistributeOp op);

  /// A plan for the sake of its costs: of collectives alone, which are found soon, and not executed by the
  /// interpreter. What is executed in the end costs no more.
  llvm::Expected<redistribution::Plan> estimate(mlir::RankedTensorType global, LayoutAttr from,
                                                LayoutAttr to) const;

  /// Seconds that a redistribution takes; nothing if there is no plan.
  std::optional<double> cost(mlir::RankedTensorType global, LayoutAttr from, LayoutAttr to) const;

  /// Seconds in which every rank sends a local tensor to its neighbour along an axis.
  double transferCost(mlir::RankedTensorType local, llvm::StringRef axis) const;

private:
  /// Options for plans of collectives alone, and of messages and sums alone, which cope with shards that
  /// differ in size in any way.
  redistribution::PlanOptions collectives() const;
  redistribution::PlanOptions messages() const;

  mutable mlir::ModuleOp module; ///< A handle; asking it its name is not const in MLIR.
  redistribution::Mesh mesh;
  llvm::StringRef pipelineAxis;
  redistribution::PlanOptions options;
  std::string problem; ///< What is wrong with the topology.
  redistribution::PlanCache cache;
};

} // namespace plumb

#endif // PLUMB_TRANSFORMS_REDISTRIBUTIONPLANS_H
