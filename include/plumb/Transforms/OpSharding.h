//===- OpSharding.h - The layouts in which one op can run -------*- C++ -*-===//
//
// An op is a nest of loops, its factors (see ShardingRule.h). A *way* of running it cuts some of them over
// mesh axes and lets some partial sums pass; the layouts of all operands and results follow. Which ways there
// are is read from the layouts in which operands arrive and in which readers want the results: nothing is cut
// that nobody cut before.
//
//===----------------------------------------------------------------------===//
#ifndef PLUMB_TRANSFORMS_OPSHARDING_H
#define PLUMB_TRANSFORMS_OPSHARDING_H

#include "plumb/Dialect/NN/NN.h"
#include "plumb/Transforms/Utils.h"
#include "llvm/ADT/SmallSet.h"

namespace plumb {

/// The layouts of a way to run an op.
struct OpLayouts {
  llvm::SmallVector<LayoutAttr> operands; ///< As the op reads them.
  llvm::SmallVector<LayoutAttr> results;
  /// A factor that can be sharded so only when the op is taken apart, and the number of parts; or -1.
  int expandedFactor = -1;
  int64_t parts = 1;
  bool operator==(const OpLayouts &) const = default;
};

/// Whether two references name a common factor of one axis.
bool overlaps(AxisRefAttr a, AxisRefAttr b);

/// The layout with adjacent factors of one axis joined, partial axes in alphabetical order: layouts that
/// place data alike are equal attributes.
LayoutAttr canonicalized(mlir::ModuleOp module, LayoutAttr layout);

/// The layout without what `drop` says of an axis, as shards and as partial sums.
LayoutAttr withoutAxes(LayoutAttr layout, llvm::function_ref<bool(llvm::StringRef)> drop);

class OpSharding {
public:
  OpSharding(mlir::ModuleOp module, nn::TensorOpInterface op);

  /// Takes notice of how an operand arrives. Shards of a dim that is no product of others may differ in size.
  /// A dim whose sharding the factors of the op cannot express, three heads over two ranks, is gathered
  /// first; blocks and microbatches are then an error at the op, with the numbers.
  mlir::LogicalResult addOperand(unsigned index, LayoutAttr arriving);

  /// What is gathered first, and why: a text for each dim.
  llvm::SmallVector<std::string> describeGathers() const;

  /// Takes notice of how a reader wants a result, as far as the op can express it.
  void addResult(unsigned index, LayoutAttr wanted);

  /// All ways to run the op, in a fixed order; never empty.
  llvm::SmallVector<OpLayouts> ways();

  /// Whether result 0, of layout `from`, could as well be made in layout `to`: they differ only in dims whose
  /// factors no operand has, as in a fill or a broadcast.
  bool isFree(LayoutAttr from, LayoutAttr to) const;

  /// Iterations of the loop nest on one rank.
  double localPoints(const OpLayouts &way) const;

private:
  using Axes = llvm::SmallVector<AxisRefAttr, 2>;

  /// How one factor is cut: `axes`, outermost first, within each of `blocks` equal blocks of it, or of blocks
  /// of the given sizes.
  struct Cut {
    Axes axes;
    int64_t blocks = 1;
    llvm::SmallVector<int64_t> sizes = {};
    bool operator==(const Cut &) const = default;
  };
  struct Candidate {
    int factor;
    Cut cut;
    bool operator==(const Candidate &) const = default;
  };
  using Cuts = llvm::SmallVector<Cut>; ///< Per factor.

  /// What a factor is when the op may be taken apart for it.
  nn::FactorKind kindOf(const nn::Factor &factor) const { return factor.expanded.value_or(factor.kind); }
  int64_t product(llvm::ArrayRef<AxisRefAttr> axes) const;
  bool readDim(DimShardingAttr sharding, llvm::ArrayRef<int> members, Cuts &read) const;
  bool readUnequalBlocks(DimShardingAttr sharding, llvm::ArrayRef<int> members, Cuts &read) const;
  std::optional<Cut> cutOfPieces(const Cuts &read) const;
  Cut cutOf(int factor, const Cuts &cuts) const;
  bool isAlone(int factor, llvm::ArrayRef<int> members) const;
  bool isUneven(int factor, const Cut &cut) const;
  bool mayBeUneven(int factor) const;
  bool assign(AxisRefAttr axis, llvm::ArrayRef<int> members, size_t &member, Cuts &read) const;
  std::string describeInexpressible(unsigned index, unsigned dim, DimShardingAttr sharding) const;
  void addCandidates(const Cuts &read);
  void addReducedCandidates();
  void enumerate(size_t next, Cuts &cuts, llvm::SmallVectorImpl<OpLayouts> &ways);
  bool admits(const Cuts &cuts, const Candidate &candidate) const;
  void dropInexpressible(Cuts &cuts) const;
  void addWays(const Cuts &cuts, llvm::SmallVectorImpl<OpLayouts> &ways);
  OpLayouts layoutsOf(const Cuts &cuts, llvm::ArrayRef<PartialAttr> passing,
                      llvm::ArrayRef<const llvm::SmallVector<int, 2> *> through) const;
  LayoutAttr layoutOf(const nn::ShardingRule::Tensor &tensor, const Cuts &cuts,
                      llvm::ArrayRef<PartialAttr> partial) const;

  mutable mlir::ModuleOp module; ///< A handle; asking it its name is not const in MLIR.
  mutable nn::TensorOpInterface op;
  nn::ShardingRule rule;
  llvm::SmallVector<Candidate> candidates;
  llvm::SmallVector<std::pair<PartialAttr, llvm::SmallVector<int, 2>>> partials; ///< With their holders.
  struct Gathered {
    unsigned index, dim;
    DimShardingAttr sharding;
  };
  llvm::SmallVector<Gathered, 0> gathered;
  llvm::SmallSet<int, 4> known; ///< Operands that were added.
};

} // namespace plumb

#endif // PLUMB_TRANSFORMS_OPSHARDING_H
