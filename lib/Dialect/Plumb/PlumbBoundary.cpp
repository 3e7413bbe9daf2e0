//===- PlumbBoundary.cpp - Ports of modules as operations ------------------===//
//
// Up to `plan-boundaries` a boundary is an op like any other, the identity, so that passes which cut, order
// and differentiate a program need not know of it.
//
//===----------------------------------------------------------------------===//

#include "plumb/Dialect/Plumb/Plumb.h"

using namespace mlir;
using namespace plumb;

/// The kept axes of `arriving` dim by dim, then those of `stated`.
static LayoutAttr joinKept(LayoutAttr arriving, LayoutAttr stated, ArrayAttr keep) {
  MLIRContext *context = arriving.getContext();
  auto isKept = [&](AxisRefAttr axis) { return llvm::is_contained(keep, axis.getName()); };
  SmallVector<DimShardingAttr> dims;
  for (auto [from, to] : llvm::zip(arriving.getDims(), stated.getDims())) {
    SmallVector<AxisRefAttr> axes;
    llvm::copy_if(from.getAxes(), std::back_inserter(axes), isKept);
    ArrayRef<int64_t> blocks = axes.empty() ? to.getBlocks() : from.getBlocks();
    llvm::append_range(axes, to.getAxes());
    dims.push_back(DimShardingAttr::get(context, axes, blocks));
  }
  SmallVector<PartialAttr> partial;
  for (PartialAttr entry : arriving.getPartial())
    if (isKept(entry.getAxis()))
      partial.push_back(entry);
  llvm::append_range(partial, stated.getPartial());
  llvm::sort(partial, [](PartialAttr a, PartialAttr b) {
    return a.getAxis().getName().getValue() < b.getAxis().getName().getValue();
  });
  return LayoutAttr::get(context, arriving.getMesh(), dims, partial);
}

LayoutAttr BoundaryOp::getStated(LayoutAttr layout, LayoutAttr arriving) {
  return joinKept(arriving, layout, getKeep());
}

LayoutAttr BoundaryOp::getStated(LayoutAttr arriving) {
  return getTarget() ? getStated(*getTarget(), arriving) : arriving;
}

bool BoundaryOp::arrivesAsStated(LayoutAttr arriving) {
  return !getSource() || getStated(*getSource(), arriving) == arriving;
}

nn::ShardingRule BoundaryOp::getShardingRule() {
  ArrayRef<int64_t> shape = cast<RankedTensorType>(getInput().getType()).getShape();
  nn::ShardingRule rule = nn::ShardingRule::elementwise({shape}, shape);
  rule.linear.push_back({0});
  return rule;
}

SmallVector<Value> BoundaryOp::localize(OpBuilder &, ValueRange operands, TypeRange) { return operands; }

/// Ports bind forward values; the layouts of gradients are free.
SmallVector<Value> BoundaryOp::backward(OpBuilder &, ArrayRef<Value> cotangents, ArrayRef<bool> wanted) {
  return {wanted[0] ? cotangents[0] : Value()};
}

SmallVector<Value> BoundaryOp::expand(OpBuilder &, int, int64_t) {
  llvm_unreachable("no factor of this op can be expanded");
}

SmallVector<Value> BoundaryOp::lower(OpBuilder &, ValueRange operands) { return operands; }
