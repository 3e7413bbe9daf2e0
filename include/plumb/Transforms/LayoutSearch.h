//===- LayoutSearch.h - The cheapest layouts of a program -------*- C++ -*-===//
//
// Chooses for each op of a program one of the ways to run it (see OpSharding.h), so that what the
// redistributions between them and the work cost together is small. Ops are first decided in program order,
// with a look at their readers; then single decisions are changed, backwards and forwards, as long as that
// saves something. What the plan states is never traded for time.
//
//===----------------------------------------------------------------------===//
#ifndef PLUMB_TRANSFORMS_LAYOUTSEARCH_H
#define PLUMB_TRANSFORMS_LAYOUTSEARCH_H

#include "plumb/Transforms/LayoutCosts.h"

namespace plumb {

/// On an op, after `propagate-layouts`: the layouts in which it reads its operands.
inline constexpr llvm::StringLiteral kReadsAttr = "plumb.reads";

/// On a load, after `propagate-layouts`: the layout to which a parameter is gathered before it is computed
/// with, where that is not the layout in which it is stored.
inline constexpr llvm::StringLiteral kGatheredAttr = "plumb.gathered";

/// On a redistribution: the port of a module, "h.0.mlp input.0", that asks for it.
inline constexpr llvm::StringLiteral kPortAttr = "plumb.port";

/// On a module, after `plan-boundaries`: its ports that the plan states, each {port, from, to, label, steps,
/// bytes}.
inline constexpr llvm::StringLiteral kPortsAttr = "plumb.ports";

/// The layout in which an operand arrives at its reader: that of the value, and for a parameter that is
/// stored in shards of batch axes that to which it is gathered, except for its update.
LayoutAttr getArrivingLayout(mlir::OpOperand &operand);

class LayoutSearch {
public:
  /// `endCost` says what a use by an op that is not a tensor operation costs.
  using EndCost = llvm::function_ref<LayoutCost(mlir::OpOperand &use, LayoutAttr layout)>;

  LayoutSearch(mlir::ModuleOp module, EndCost endCost) : module(module), costs(module), endCost(endCost) {}

  /// Decides the given ops, in program order, whose other operands have layouts already. Sets the layouts of
  /// results and `plumb.reads`.
  mlir::LogicalResult run(llvm::ArrayRef<nn::TensorOpInterface> ops);

  LayoutCosts &getCosts() { return costs; }

  /// Ops that the decisions want taken apart (see TensorOpInterface::expand); the search must then start
  /// anew.
  struct Expansion {
    nn::TensorOpInterface op;
    int factor;
    int64_t parts;
  };
  llvm::ArrayRef<Expansion> getExpansions() const LLVM_LIFETIME_BOUND { return expansions; }

private:
  struct Need {
    LayoutAttr layout;
    int64_t stage;
    int64_t count;
  };

  mlir::FailureOr<OpSharding> shardingOf(nn::TensorOpInterface op, bool withReaders);
  mlir::LogicalResult decide(nn::TensorOpInterface op, bool isFirst, bool &changed);
  LayoutCost costOf(nn::TensorOpInterface op, const OpSharding &sharding, const OpLayouts &way, bool isFirst);
  LayoutCost readCost(mlir::Value value, LayoutAttr layout, mlir::Operation *reader, const OpLayouts *way);
  LayoutCost estimateReaders(mlir::OpResult result, LayoutAttr layout);
  LayoutCost brokenStatements(nn::TensorOpInterface op, const OpLayouts &way);
  LayoutAttr wantedBy(mlir::OpOperand &use, LayoutAttr layout, LayoutCost *cost);
  void setPlan(nn::TensorOpInterface op, const OpLayouts &way);
  void count(nn::TensorOpInterface op, const OpLayouts &way, int64_t change);
  void noteGathers(llvm::ArrayRef<nn::TensorOpInterface> ops);
  LayoutAttr replicatedLike(mlir::Value value);

  mlir::ModuleOp module;
  LayoutCosts costs;
  EndCost endCost;
  llvm::SmallVector<Expansion> expansions;
  llvm::DenseMap<mlir::Operation *, OpLayouts> plans;
  llvm::DenseMap<mlir::Value, llvm::SmallVector<Need, 2>> needs;
};

} // namespace plumb

#endif // PLUMB_TRANSFORMS_LAYOUTSEARCH_H
