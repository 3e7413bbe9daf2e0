//===- LayoutPropagation.h - Layouts through one op -------------*- C++ -*-===//
//
// What `propagate-layouts` and `plan-boundaries` must agree on: given the layouts in which an op's operands
// arrive, the layouts in which it reads them and those of its results.
//
//===----------------------------------------------------------------------===//
#ifndef PLUMB_TRANSFORMS_LAYOUTPROPAGATION_H
#define PLUMB_TRANSFORMS_LAYOUTPROPAGATION_H

#include "plumb/Dialect/NN/NN.h"
#include "plumb/Transforms/Utils.h"
#include "llvm/ADT/StringSet.h"

namespace plumb {

/// The layouts that one op works with.
struct OpLayouts {
  llvm::SmallVector<LayoutAttr> operands; ///< As it reads them.
  llvm::SmallVector<LayoutAttr> results;
};

class LayoutPropagation {
public:
  LayoutPropagation(mlir::ModuleOp module, ProgramOp program);

  /// The layouts of `op` when its operands arrive in `arriving`. A sharding that the op's dims cannot express
  /// (three heads over two ranks) is an error at the op, with the numbers.
  mlir::FailureOr<OpLayouts> plan(nn::TensorOpInterface op, llvm::ArrayRef<LayoutAttr> arriving) const;

  /// Whether the result of `op`, which has layout `from`, could as well be made in layout `to`: they differ
  /// only in dims whose factors no operand has, as in a fill or a broadcast.
  bool isFree(nn::TensorOpInterface op, LayoutAttr from, LayoutAttr to) const;

  /// The layout in which readers see a value: sums over model axes are completed where they arise, those over
  /// batch axes wait for the reader that needs them whole.
  LayoutAttr settled(LayoutAttr layout) const;

  /// Whether sums over an axis may wait: `microbatch`, every axis that shards an input, and the pipeline
  /// axis.
  bool isBatchAxis(llvm::StringRef axis) const { return batchAxes.contains(axis); }

  /// Size of an axis, `microbatch` included.
  int64_t axisSize(AxisRefAttr axis) const { return getAxisSize(module, axis); }

  LayoutAttr replicated(int64_t rank) const;
  PartialAttr sumOver(llvm::StringRef axis) const;

private:
  mutable mlir::ModuleOp module; ///< A handle; asking it its name is not const in MLIR.
  mlir::FlatSymbolRefAttr mesh;
  llvm::StringSet<> batchAxes;
};

} // namespace plumb

#endif // PLUMB_TRANSFORMS_LAYOUTPROPAGATION_H
