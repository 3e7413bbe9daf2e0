//===- LayoutPropagation.cpp - Layouts through one op ----------------------===//

#include "plumb/Transforms/LayoutPropagation.h"

using namespace mlir;
using namespace plumb;
using nn::FactorKind;
using nn::ShardingRule;

LayoutPropagation::LayoutPropagation(ModuleOp module, ProgramOp program) : module(module) {
  mesh = FlatSymbolRefAttr::get(findOp<MeshOp>(module));
  // Sums over the copies of a parameter on several pipeline ranks wait, like sums over the batch, for the update.
  batchAxes.insert(kMicrobatchAxis);
  if (auto pipeline = findOp<PipelineOp>(module))
    batchAxes.insert(pipeline.getAxis());
  for (InputOp input : program.getBody().getOps<InputOp>())
    if (LayoutAttr layout = getLayout(input.getResult()))
      for (DimShardingAttr dim : layout.getDims())
        for (AxisRefAttr axis : dim.getAxes())
          batchAxes.insert(axis.getName());
}

LayoutAttr LayoutPropagation::replicated(int64_t rank) const { return LayoutAttr::replicated(mesh, rank); }

PartialAttr LayoutPropagation::sumOver(StringRef axis) const {
  MLIRContext *context = module.getContext();
  return PartialAttr::get(context, AxisRefAttr::get(StringAttr::get(context, axis)), StringAttr::get(context, "sum"));
}

LayoutAttr LayoutPropagation::settled(LayoutAttr layout) const {
  SmallVector<PartialAttr> pending;
  for (PartialAttr partial : layout.getPartial())
    if (isBatchAxis(partial.getAxis().getName()))
      pending.push_back(partial);
  return layout.withPartial(pending);
}

namespace {

using Axes = SmallVector<AxisRefAttr, 2>;

/// The sharding of the factors of one op, found from the layouts of its operands.
class FactorSharding {
public:
  FactorSharding(const LayoutPropagation &propagation, nn::TensorOpInterface op)
      : propagation(propagation), op(op), rule(op.getShardingRule()), axes(rule.factors.size()) {}

  LogicalResult join(ArrayRef<LayoutAttr> arriving) {
    if (failed(collectCandidates(arriving)))
      return failure();
    chooseAxes();
    dropInexpressible();
    passPartials(arriving);
    return success();
  }

  LayoutAttr operandLayout(unsigned index, LayoutAttr arriving) const {
    SmallVector<PartialAttr> kept;
    for (PartialAttr partial : arriving.getPartial())
      if (llvm::is_contained(passing, partial))
        kept.push_back(partial);
    return layoutOf(rule.operands[index]).withPartial(kept);
  }

  LayoutAttr resultLayout(unsigned index) const {
    SmallVector<PartialAttr> partial;
    for (auto [factor, factorAxes] : llvm::zip(rule.factors, axes))
      if (factor.kind == FactorKind::Reduction)
        for (AxisRefAttr axis : factorAxes)
          partial.push_back(propagation.sumOver(axis.getName()));
    llvm::append_range(partial, passing);
    llvm::sort(partial, [](PartialAttr a, PartialAttr b) {
      return a.getAxis().getName().getValue() < b.getAxis().getName().getValue();
    });
    return layoutOf(rule.results[index]).withPartial(partial);
  }

private:
  struct Candidate {
    int factor;
    Axes axes;
    int64_t elements;
  };

  int64_t product(ArrayRef<AxisRefAttr> list) const {
    int64_t result = 1;
    for (AxisRefAttr axis : list)
      result *= propagation.axisSize(axis);
    return result;
  }

  /// Reads the layout of each operand dim as a sharding of the dim's factors.
  LogicalResult collectCandidates(ArrayRef<LayoutAttr> arriving) {
    for (auto [index, layout] : llvm::enumerate(arriving)) {
      int64_t elements = cast<RankedTensorType>(op->getOperand(index).getType()).getNumElements();
      for (auto [dim, sharding] : llvm::enumerate(layout.getDims())) {
        SmallVector<Axes> read(rule.factors.size());
        if (!readDim(sharding, rule.operands[index][dim], read))
          return emitInexpressible(index, dim, sharding);
        for (auto [factor, list] : llvm::enumerate(read))
          if (!list.empty() && rule.factors[factor].kind != FactorKind::Replicated)
            candidates.push_back({static_cast<int>(factor), list, elements});
      }
    }
    return success();
  }

  /// Distributes the axes of a dim over its factors, major first: `blocks` skips the factors in front, and an axis
  /// goes to the first factor that still has parts to give.
  bool readDim(DimShardingAttr sharding, ArrayRef<int> members, SmallVectorImpl<Axes> &read) const {
    size_t member = 0;
    int64_t skipped = 1;
    while (member < members.size() && skipped < sharding.getBlocks())
      skipped *= rule.factors[members[member++]].size;
    if (skipped != sharding.getBlocks() && !sharding.getAxes().empty())
      return false;
    for (AxisRefAttr axis : sharding.getAxes()) {
      auto left = [&](int factor) { return rule.factors[factor].size / product(read[factor]); };
      while (member < members.size() && left(members[member]) == 1)
        ++member;
      if (member == members.size() || left(members[member]) % propagation.axisSize(axis))
        return false;
      read[members[member]].push_back(axis);
    }
    return true;
  }

  LogicalResult emitInexpressible(unsigned index, unsigned dim, DimShardingAttr sharding) const {
    InFlightDiagnostic diagnostic = emitModelError(op.getOperation());
    diagnostic << "dim " << dim << " of operand " << index << " is sharded by ";
    llvm::interleaveComma(sharding.getAxes(), diagnostic, [&](AxisRefAttr axis) {
      diagnostic << "\"" << axis.getName().getValue() << "\" = " << propagation.axisSize(axis);
    });
    if (sharding.getBlocks() != 1)
      diagnostic << " in " << sharding.getBlocks() << " blocks";
    diagnostic << ", but it is made of ";
    llvm::interleave(rule.operands[index][dim], diagnostic,
                     [&](int factor) { diagnostic << rule.factors[factor].size; }, " x ");
    return diagnostic << ", which that does not divide";
  }

  /// Where operands disagree the larger one wins, since redistributing the smaller is cheaper; an axis shards one
  /// factor only. An unsharded operand never wins: taking its part is free.
  void chooseAxes() {
    SmallVector<const Candidate *> order;
    for (const Candidate &candidate : candidates)
      order.push_back(&candidate);
    llvm::sort(order, [](const Candidate *a, const Candidate *b) {
      return a->elements != b->elements ? a->elements > b->elements : a < b;
    });
    llvm::SmallDenseSet<AxisRefAttr> used;
    for (const Candidate *entry : order) {
      const Candidate &candidate = *entry;
      if (!axes[candidate.factor].empty() ||
          llvm::any_of(candidate.axes, [&](AxisRefAttr axis) { return used.contains(axis); }))
        continue;
      axes[candidate.factor] = candidate.axes;
      used.insert(candidate.axes.begin(), candidate.axes.end());
    }
  }

  /// A dim whose outer factor is cut in part can't be cut in an inner one too: unshards such inner factors.
  void dropInexpressible() {
    auto dropIn = [&](const ShardingRule::Tensor &tensor) {
      for (const ShardingRule::Dim &dim : tensor) {
        bool open = false;
        for (int factor : dim) {
          if (open)
            axes[factor].clear();
          open |= !axes[factor].empty() && product(axes[factor]) != rule.factors[factor].size;
        }
      }
    };
    llvm::for_each(rule.operands, dropIn);
    llvm::for_each(rule.results, dropIn);
  }

  /// A partial sum passes where the op is linear in exactly the operands that hold it.
  void passPartials(ArrayRef<LayoutAttr> arriving) {
    SmallVector<PartialAttr> seen;
    for (LayoutAttr layout : arriving)
      for (PartialAttr partial : layout.getPartial())
        if (!llvm::is_contained(seen, partial))
          seen.push_back(partial);
    for (PartialAttr partial : seen) {
      SmallVector<int, 2> holders;
      for (auto [index, layout] : llvm::enumerate(arriving))
        if (llvm::is_contained(layout.getPartial(), partial))
          holders.push_back(index);
      bool taken = llvm::any_of(axes, [&](const Axes &list) { return llvm::is_contained(list, partial.getAxis()); });
      if (!taken && llvm::is_contained(rule.linear, holders))
        passing.push_back(partial);
    }
  }

  LayoutAttr layoutOf(const ShardingRule::Tensor &tensor) const {
    MLIRContext *context = op->getContext();
    SmallVector<DimShardingAttr> dims;
    for (const ShardingRule::Dim &dim : tensor) {
      Axes list;
      int64_t blocks = 1, before = 1;
      for (int factor : dim) {
        if (list.empty() && !axes[factor].empty())
          blocks = before;
        llvm::append_range(list, axes[factor]);
        before *= rule.factors[factor].size;
      }
      dims.push_back(DimShardingAttr::get(context, list, blocks));
    }
    return LayoutAttr::get(context, propagation.replicated(0).getMesh(), dims, {});
  }

  const LayoutPropagation &propagation;
  mutable nn::TensorOpInterface op;
  ShardingRule rule;
  SmallVector<Axes> axes; ///< Per factor.
  SmallVector<Candidate> candidates;
  SmallVector<PartialAttr> passing;
};

} // namespace

FailureOr<OpLayouts> LayoutPropagation::plan(nn::TensorOpInterface op, ArrayRef<LayoutAttr> arriving) const {
  FactorSharding sharding(*this, op);
  if (failed(sharding.join(arriving)))
    return failure();
  OpLayouts layouts;
  for (auto [index, layout] : llvm::enumerate(arriving))
    layouts.operands.push_back(sharding.operandLayout(index, layout));
  for (unsigned index = 0; index < op->getNumResults(); ++index)
    layouts.results.push_back(sharding.resultLayout(index));
  return layouts;
}
