//===- LayoutPropagation.cpp - Layouts through one op ----------------------===//

#include "plumb/Transforms/LayoutPropagation.h"

using namespace mlir;
using namespace plumb;
using nn::FactorKind;
using nn::ShardingRule;

LayoutPropagation::LayoutPropagation(ModuleOp module, ProgramOp program) : module(module) {
  mesh = FlatSymbolRefAttr::get(findOp<MeshOp>(module));
  // Sums over the copies of a parameter on several pipeline ranks wait, like sums over the batch, for the
  // update.
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
  return PartialAttr::get(context, AxisRefAttr::get(StringAttr::get(context, axis)),
                          StringAttr::get(context, "sum"));
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

/// How one factor is cut: `axes`, outermost first, within each of `blocks` equal blocks of it.
struct Cut {
  Axes axes;
  int64_t blocks = 1;
};

/// The sharding of the factors of one op, found from the layouts of its operands.
class FactorSharding {
public:
  FactorSharding(const LayoutPropagation &propagation, nn::TensorOpInterface op)
      : propagation(propagation), op(op), rule(op.getShardingRule()), cuts(rule.factors.size()) {}

  LogicalResult join(ArrayRef<LayoutAttr> arriving) {
    if (failed(collectCandidates(arriving)))
      return failure();
    chooseAxes();
    dropInexpressible();
    passPartials(arriving);
    return success();
  }

  LayoutAttr operandLayout(unsigned index) const {
    SmallVector<PartialAttr> kept;
    for (const auto &[partial, operands] : passing)
      if (llvm::is_contained(operands, static_cast<int>(index)))
        kept.push_back(partial);
    return layoutOf(rule.operands[index]).withPartial(sorted(kept));
  }

  LayoutAttr resultLayout(unsigned index) const {
    SmallVector<PartialAttr> partial;
    for (auto [factor, cut] : llvm::zip(rule.factors, cuts))
      if (factor.kind == FactorKind::Reduction)
        for (AxisRefAttr axis : cut.axes)
          partial.push_back(propagation.sumOver(axis.getName()));
    for (const auto &[passed, operands] : passing)
      partial.push_back(passed);
    return layoutOf(rule.results[index]).withPartial(sorted(partial));
  }

private:
  struct Candidate {
    int factor;
    Cut cut;
    int64_t elements;
  };

  /// Partial axes are kept by name, so that equal layouts are equal attributes.
  static SmallVector<PartialAttr> sorted(SmallVector<PartialAttr> partial) {
    llvm::sort(partial, [](PartialAttr a, PartialAttr b) {
      return a.getAxis().getName().getValue() < b.getAxis().getName().getValue();
    });
    return partial;
  }

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
        SmallVector<Cut> read(rule.factors.size());
        if (!readDim(sharding, rule.operands[index][dim], read))
          return emitInexpressible(index, dim, sharding);
        for (auto [factor, cut] : llvm::enumerate(read))
          if (!cut.axes.empty() && rule.factors[factor].kind != FactorKind::Replicated)
            candidates.push_back({static_cast<int>(factor), cut, elements});
      }
    }
    return success();
  }

  /// Distributes the axes of a dim over its factors, major first: `blocks` skips the factors in front, its
  /// rest stays with the factor it falls into, and an axis goes to the first factor that still has parts to
  /// give.
  bool readDim(DimShardingAttr sharding, ArrayRef<int> members, SmallVectorImpl<Cut> &read) const {
    if (sharding.getAxes().empty())
      return true;
    size_t member = 0;
    int64_t blocks = sharding.getBlocks();
    while (member < members.size() && blocks > 1 && blocks % rule.factors[members[member]].size == 0)
      blocks /= rule.factors[members[member++]].size;
    if (blocks > 1) {
      if (member == members.size() || rule.factors[members[member]].size % blocks)
        return false;
      read[members[member]].blocks = blocks;
    }
    for (AxisRefAttr axis : sharding.getAxes()) {
      auto left = [&](int factor) {
        return rule.factors[factor].size / (product(read[factor].axes) * read[factor].blocks);
      };
      while (member < members.size() && left(members[member]) == 1)
        ++member;
      if (member == members.size() || left(members[member]) % propagation.axisSize(axis))
        return false;
      read[members[member]].axes.push_back(axis);
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
    llvm::interleave(
        rule.operands[index][dim], diagnostic, [&](int factor) { diagnostic << rule.factors[factor].size; },
        " x ");
    return diagnostic << ", which that does not divide";
  }

  /// Where operands disagree the larger one wins, since redistributing the smaller is cheaper; an axis shards
  /// one factor only. An unsharded operand never wins: taking its part is free.
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
      if (!cuts[candidate.factor].axes.empty() ||
          llvm::any_of(candidate.cut.axes, [&](AxisRefAttr axis) { return used.contains(axis); }))
        continue;
      cuts[candidate.factor] = candidate.cut;
      used.insert(candidate.cut.axes.begin(), candidate.cut.axes.end());
    }
  }

  /// A dim whose outer factor is cut in part can't be cut in an inner one too: unshards such inner factors.
  void dropInexpressible() {
    auto dropIn = [&](const ShardingRule::Tensor &tensor) {
      for (const ShardingRule::Dim &dim : tensor) {
        bool open = false;
        for (int factor : dim) {
          if (open)
            cuts[factor] = Cut();
          open |= !cuts[factor].axes.empty() && product(cuts[factor].axes) != rule.factors[factor].size;
        }
      }
    };
    llvm::for_each(rule.operands, dropIn);
    llvm::for_each(rule.results, dropIn);
  }

  /// A partial sum passes through a set of operands in which the op is jointly linear, if all of them hold
  /// it; other operands that hold it are needed whole.
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
      if (llvm::any_of(cuts, [&](const Cut &cut) { return llvm::is_contained(cut.axes, partial.getAxis()); }))
        continue;
      auto *set = llvm::find_if(rule.linear, [&](ArrayRef<int> operands) {
        return llvm::all_of(operands, [&](int operand) { return llvm::is_contained(holders, operand); });
      });
      if (set != rule.linear.end())
        passing.push_back({partial, SmallVector<int, 2>(*set)});
    }
  }

  LayoutAttr layoutOf(const ShardingRule::Tensor &tensor) const {
    MLIRContext *context = op->getContext();
    SmallVector<DimShardingAttr> dims;
    for (const ShardingRule::Dim &dim : tensor) {
      Axes list;
      int64_t blocks = 1, before = 1;
      for (int factor : dim) {
        if (list.empty() && !cuts[factor].axes.empty())
          blocks = before * cuts[factor].blocks;
        llvm::append_range(list, cuts[factor].axes);
        before *= rule.factors[factor].size;
      }
      dims.push_back(DimShardingAttr::get(context, list, blocks));
    }
    return LayoutAttr::get(context, propagation.replicated(0).getMesh(), dims, {});
  }

  const LayoutPropagation &propagation;
  mutable nn::TensorOpInterface op;
  ShardingRule rule;
  SmallVector<Cut> cuts; ///< Per factor.
  SmallVector<Candidate> candidates;
  SmallVector<std::pair<PartialAttr, SmallVector<int, 2>>>
      passing; ///< With the operands through which each passes.
};

} // namespace

FailureOr<OpLayouts> LayoutPropagation::plan(nn::TensorOpInterface op, ArrayRef<LayoutAttr> arriving) const {
  FactorSharding sharding(*this, op);
  if (failed(sharding.join(arriving)))
    return failure();
  OpLayouts layouts;
  for (unsigned index = 0; index < arriving.size(); ++index)
    layouts.operands.push_back(sharding.operandLayout(index));
  for (unsigned index = 0; index < op->getNumResults(); ++index)
    layouts.results.push_back(sharding.resultLayout(index));
  return layouts;
}

bool LayoutPropagation::isFree(nn::TensorOpInterface op, LayoutAttr from, LayoutAttr to) const {
  if (op->getNumResults() != 1 || from.getPartial() != to.getPartial())
    return false;
  ShardingRule rule = op.getShardingRule();
  auto isRead = [&](int factor) {
    return llvm::any_of(rule.operands, [&](const ShardingRule::Tensor &tensor) {
      return llvm::any_of(tensor,
                          [&](const ShardingRule::Dim &dim) { return llvm::is_contained(dim, factor); });
    });
  };
  for (auto [dim, factors] : llvm::enumerate(rule.results[0]))
    if (from.getDims()[dim] != to.getDims()[dim])
      for (int factor : factors)
        if (rule.factors[factor].kind == FactorKind::Replicated || isRead(factor))
          return false;
  return true;
}
