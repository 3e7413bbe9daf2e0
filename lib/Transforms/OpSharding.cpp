//===- OpSharding.cpp - The layouts in which one op can run ----------------===//

#include "plumb/Transforms/OpSharding.h"

using namespace mlir;
using namespace plumb;
using nn::FactorKind;
using nn::ShardingRule;

/// An op has few candidates for its factors; beyond this many, the last ones are not tried.
static constexpr size_t kMostCandidates = 8;

//===----------------------------------------------------------------------===//
// Axes and layouts
//===----------------------------------------------------------------------===//

bool plumb::overlaps(AxisRefAttr a, AxisRefAttr b) {
  if (a.getName() != b.getName())
    return false;
  if (a.isWhole() || b.isWhole())
    return true;
  return std::max(a.getPreSize(), b.getPreSize()) <
         std::min(a.getPreSize() * a.getSize(), b.getPreSize() * b.getSize());
}

/// Appends an axis outermost first; a factor that continues the one before it is joined to it.
static void appendAxis(ModuleOp module, SmallVectorImpl<AxisRefAttr> &axes, AxisRefAttr axis) {
  if (!axes.empty() && !axis.isWhole() && !axes.back().isWhole()) {
    AxisRefAttr outer = axes.back();
    if (outer.getName() == axis.getName() && outer.getPreSize() * outer.getSize() == axis.getPreSize()) {
      axes.pop_back();
      axis = AxisRefAttr::get(axis.getContext(), axis.getName(), outer.getPreSize(),
                              outer.getSize() * axis.getSize());
    }
  }
  if (!axis.isWhole() && axis.getPreSize() == 1 &&
      axis.getSize() == getAxisSize(module, AxisRefAttr::get(axis.getName())))
    axis = AxisRefAttr::get(axis.getName());
  axes.push_back(axis);
}

LayoutAttr plumb::canonicalized(ModuleOp module, LayoutAttr layout) {
  SmallVector<DimShardingAttr> dims;
  for (DimShardingAttr dim : layout.getDims()) {
    SmallVector<AxisRefAttr> axes;
    for (AxisRefAttr axis : dim.getAxes())
      appendAxis(module, axes, axis);
    dims.push_back(dim.withAxes(axes));
  }
  SmallVector<PartialAttr> partial(layout.getPartial());
  llvm::sort(partial, [](PartialAttr a, PartialAttr b) {
    auto key = [](PartialAttr entry) {
      return std::make_pair(entry.getAxis().getName().getValue(), entry.getAxis().getPreSize());
    };
    return key(a) < key(b);
  });
  return LayoutAttr::get(layout.getContext(), layout.getMesh(), dims, partial);
}

LayoutAttr plumb::withoutAxes(LayoutAttr layout, llvm::function_ref<bool(StringRef)> drop) {
  SmallVector<DimShardingAttr> dims;
  for (DimShardingAttr dim : layout.getDims()) {
    SmallVector<AxisRefAttr> axes;
    for (AxisRefAttr axis : dim.getAxes())
      if (!drop(axis.getName().getValue()))
        axes.push_back(axis);
    dims.push_back(dim.withAxes(axes));
  }
  SmallVector<PartialAttr> partial;
  for (PartialAttr entry : layout.getPartial())
    if (!drop(entry.getAxis().getName().getValue()))
      partial.push_back(entry);
  return LayoutAttr::get(layout.getContext(), layout.getMesh(), dims, partial);
}

//===----------------------------------------------------------------------===//
// From layouts to cuts of factors
//===----------------------------------------------------------------------===//

OpSharding::OpSharding(ModuleOp module, nn::TensorOpInterface op)
    : module(module), op(op), rule(op.getShardingRule()) {}

int64_t OpSharding::product(ArrayRef<AxisRefAttr> axes) const {
  int64_t result = 1;
  for (AxisRefAttr axis : axes)
    result *= getAxisSize(module, axis);
  return result;
}

LogicalResult OpSharding::addOperand(unsigned index, LayoutAttr arriving) {
  known.insert(static_cast<int>(index));
  for (auto [dim, sharding] : llvm::enumerate(arriving.getDims())) {
    // One row is no loop: the op reads it whole, whichever rank has it.
    if (rule.operands[index][dim].empty())
      continue;
    Cuts read(rule.factors.size());
    if (readDim(sharding, rule.operands[index][dim], read)) {
      addCandidates(read);
      continue;
    }
    // No way keeps it then.
    bool canGather =
        !sharding.hasUnequalBlocks() && sharding.countBlocks() == 1 &&
        llvm::none_of(sharding.getAxes(), [](AxisRefAttr axis) { return axis.getName() == kMicrobatchAxis; });
    if (!canGather)
      return emitModelError(op.getOperation()) << describeInexpressible(index, dim, sharding);
    gathered.push_back({index, static_cast<unsigned>(dim), sharding});
  }
  for (PartialAttr partial : arriving.getPartial()) {
    auto *known = llvm::find_if(partials, [&](const auto &entry) { return entry.first == partial; });
    if (known == partials.end()) {
      partials.push_back({partial, {}});
      known = &partials.back();
    }
    known->second.push_back(static_cast<int>(index));
  }
  return success();
}

void OpSharding::addResult(unsigned index, LayoutAttr wanted) {
  for (auto [dim, sharding] : llvm::enumerate(wanted.getDims())) {
    Cuts read(rule.factors.size());
    if (readDim(sharding, rule.results[index][dim], read))
      addCandidates(read);
  }
}

/// Distributes the axes of a dim over its factors, major first: `blocks` skips the factors in front, its rest
/// stays with the factor it falls into.
bool OpSharding::readDim(DimShardingAttr sharding, ArrayRef<int> members, Cuts &read) const {
  if (sharding.getAxes().empty())
    return true;
  if (sharding.hasUnequalBlocks())
    return readUnequalBlocks(sharding, members, read);
  size_t member = 0;
  int64_t blocks = sharding.countBlocks();
  while (member < members.size() && blocks > 1 && blocks % rule.factors[members[member]].size == 0)
    blocks /= rule.factors[members[member++]].size;
  if (blocks > 1) {
    if (member == members.size() || rule.factors[members[member]].size % blocks)
      return false;
    read[members[member]].blocks = blocks;
  }
  for (AxisRefAttr axis : sharding.getAxes()) {
    Cuts before = read;
    size_t at = member;
    if (assign(axis, members, member, read))
      continue;
    read = before;
    member = at;
    // Axes may leave shards of different sizes, but all microbatches have one.
    bool isWalked = llvm::any_of(sharding.getAxes(),
                                 [](AxisRefAttr other) { return other.getName() == kMicrobatchAxis; });
    if (isWalked || at == members.size() || !isAlone(members[at], members) || read[members[at]].blocks != 1)
      return false;
    read[members[at]].axes.push_back(axis);
  }
  return true;
}

/// The axes cut the first factor of the dim, within blocks that are whole numbers of all the others.
bool OpSharding::readUnequalBlocks(DimShardingAttr sharding, ArrayRef<int> members, Cuts &read) const {
  int64_t parts = product(sharding.getAxes()), inner = 1;
  for (int factor : members.drop_front())
    inner *= rule.factors[factor].size;
  Cut &cut = read[members.front()];
  cut.axes.assign(sharding.getAxes().begin(), sharding.getAxes().end());
  for (int64_t block : sharding.getBlocks()) {
    if (block % (inner * parts))
      return false;
    cut.sizes.push_back(block / inner);
  }
  return true;
}

/// How what is cut into pieces, or joined from them, is to be cut so that it, or a piece, has its layout.
std::optional<OpSharding::Cut> OpSharding::cutOfPieces(const Cuts &read) const {
  Cut result;
  for (int part : rule.pieces->parts) {
    result.sizes.push_back(rule.factors[part].size);
    if (const Cut &cut = read[part]; cut.blocks == 1 && cut.sizes.empty() && !cut.axes.empty())
      result.axes = cut.axes;
  }
  if (const Cut &whole = read[rule.pieces->whole]; whole.sizes == result.sizes)
    result.axes = whole.axes;
  int64_t parts = product(result.axes);
  bool isCut =
      !result.axes.empty() && llvm::all_of(result.sizes, [&](int64_t size) { return size % parts == 0; });
  return isCut ? std::optional(result) : std::nullopt;
}

/// A piece is cut as that is of which it is one.
OpSharding::Cut OpSharding::cutOf(int factor, const Cuts &cuts) const {
  if (rule.pieces && llvm::is_contained(rule.pieces->parts, factor))
    return {cuts[rule.pieces->whole].axes};
  return cuts[factor];
}

/// Whether all other factors of a dim have one iteration.
bool OpSharding::isAlone(int factor, ArrayRef<int> members) const {
  return llvm::all_of(members, [&](int other) { return other == factor || rule.factors[other].size == 1; });
}

bool OpSharding::isUneven(int factor, const Cut &cut) const {
  return rule.factors[factor].size % (product(cut.axes) * cut.blocks) != 0;
}

/// Whether the op works on shards that are padded to one size: what it makes of the padding stays in the
/// padding, or is summed away with operands that are zero there. Integers name positions, which padding must
/// not.
bool OpSharding::mayBeUneven(int factor) const {
  const nn::Factor &of = rule.factors[factor];
  if (of.expanded || of.kind == FactorKind::Replicated)
    return false;
  auto isRead = [&](const ShardingRule::Tensor &tensor) {
    return llvm::any_of(tensor, [&](ArrayRef<int> dim) { return llvm::is_contained(dim, factor); });
  };
  auto fits = [&](const ShardingRule::Tensor &tensor, Value value) {
    return !isRead(tensor) ||
           (isa<FloatType>(getElementTypeOrSelf(value)) && llvm::all_of(tensor, [&](ArrayRef<int> dim) {
              return !llvm::is_contained(dim, factor) || isAlone(factor, dim);
            }));
  };
  if (!llvm::all_of(llvm::zip(rule.operands, op->getOperands()),
                    [&](auto pair) { return fits(std::get<0>(pair), std::get<1>(pair)); }) ||
      !llvm::all_of(llvm::zip(rule.results, op->getResults()),
                    [&](auto pair) { return fits(std::get<0>(pair), std::get<1>(pair)); }))
    return false;
  if (of.kind == FactorKind::Parallel)
    return true;
  // Zeros in an operand make a term of the sum zero if the op is linear in it and all that goes with it.
  for (int operand = 0; operand < static_cast<int>(rule.operands.size()); ++operand)
    if (isRead(rule.operands[operand]) && llvm::none_of(rule.linear, [&](ArrayRef<int> set) {
          return llvm::is_contained(set, operand) &&
                 llvm::all_of(set, [&](int other) { return isRead(rule.operands[other]); });
        }))
      return false;
  return true;
}

/// Gives an axis to the first factor that still has parts to give. One that has fewer than the axis has ranks
/// takes the outer factor of the axis; what is left goes to the next.
bool OpSharding::assign(AxisRefAttr axis, ArrayRef<int> members, size_t &member, Cuts &read) const {
  int64_t size = getAxisSize(module, axis), pre = axis.isWhole() ? 1 : axis.getPreSize();
  bool split = false;
  while (true) {
    auto left = [&](int factor) {
      return rule.factors[factor].size / (product(read[factor].axes) * read[factor].blocks);
    };
    while (member < members.size() && left(members[member]) == 1)
      ++member;
    if (member == members.size())
      return false;
    int64_t parts = left(members[member]);
    bool isLast = parts % size == 0;
    if (!isLast && (size % parts || axis.getName() == kMicrobatchAxis))
      return false;
    int64_t taken = isLast ? size : parts;
    read[members[member]].axes.push_back(
        isLast && !split ? axis : AxisRefAttr::get(op->getContext(), axis.getName(), pre, taken));
    if (isLast)
      return true;
    split = true;
    pre *= taken;
    size /= taken;
  }
}

SmallVector<std::string> OpSharding::describeGathers() const {
  SmallVector<std::string> texts;
  for (auto [index, dim, sharding] : gathered)
    texts.push_back(describeInexpressible(index, dim, sharding) + ": it is gathered first");
  return texts;
}

std::string OpSharding::describeInexpressible(unsigned index, unsigned dim, DimShardingAttr sharding) const {
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << "dim " << dim << " of operand " << index << " is sharded by ";
  llvm::interleaveComma(sharding.getAxes(), stream, [&](AxisRefAttr axis) {
    stream << "\"" << axis.getName().getValue() << "\" = " << getAxisSize(module, axis);
  });
  if (sharding.hasUnequalBlocks()) {
    stream << " in blocks of ";
    printBlocks(stream, sharding.getBlocks());
  } else if (sharding.countBlocks() != 1) {
    stream << " in " << sharding.countBlocks() << " blocks";
  }
  stream << ", but it is made of ";
  llvm::interleave(
      rule.operands[index][dim], stream, [&](int factor) { stream << rule.factors[factor].size; }, " x ");
  stream << ", which that does not divide";
  return text;
}

void OpSharding::addCandidates(const Cuts &read) {
  if (rule.pieces)
    if (std::optional<Cut> cut = cutOfPieces(read))
      if (Candidate candidate{rule.pieces->whole, *cut}; !llvm::is_contained(candidates, candidate))
        candidates.push_back(candidate);
  for (auto [factor, cut] : llvm::enumerate(read)) {
    Candidate candidate{static_cast<int>(factor), cut};
    bool isWhole = rule.factors[factor].kind == FactorKind::Replicated && !rule.factors[factor].expanded;
    if (!cut.sizes.empty() && rule.factors[factor].expanded)
      continue;
    if (!cut.axes.empty() && isUneven(static_cast<int>(factor), cut) &&
        !mayBeUneven(static_cast<int>(factor)))
      continue;
    if (!cut.axes.empty() && !isWhole && !llvm::is_contained(candidates, candidate))
      candidates.push_back(candidate);
  }
}

/// Where another factor, or a partial sum, wants some of the axes of a cut, the cut without them is a
/// candidate too.
void OpSharding::addReducedCandidates() {
  auto isContended = [&](const Candidate &of, AxisRefAttr axis) {
    return llvm::any_of(partials, [&](const auto &entry) { return overlaps(entry.first.getAxis(), axis); }) ||
           llvm::any_of(candidates, [&](const Candidate &other) {
             return other.factor != of.factor &&
                    llvm::any_of(other.cut.axes, [&](AxisRefAttr used) { return overlaps(used, axis); });
           });
  };
  for (size_t index = 0, count = candidates.size(); index < count; ++index) {
    Candidate reduced = candidates[index];
    llvm::erase_if(reduced.cut.axes, [&](AxisRefAttr axis) { return isContended(candidates[index], axis); });
    if (!reduced.cut.axes.empty() && !llvm::is_contained(candidates, reduced))
      candidates.push_back(reduced);
  }
}

//===----------------------------------------------------------------------===//
// Enumeration
//===----------------------------------------------------------------------===//

SmallVector<OpLayouts> OpSharding::ways() {
  addReducedCandidates();
  if (candidates.size() > kMostCandidates)
    candidates.truncate(kMostCandidates);
  SmallVector<OpLayouts> result;
  Cuts cuts(rule.factors.size());
  enumerate(0, cuts, result);
  return result;
}

bool OpSharding::admits(const Cuts &cuts, const Candidate &candidate) const {
  if (!cuts[candidate.factor].axes.empty())
    return false;
  return llvm::none_of(candidate.cut.axes, [&](AxisRefAttr axis) {
    return llvm::any_of(cuts, [&](const Cut &cut) {
      return llvm::any_of(cut.axes, [&](AxisRefAttr used) { return overlaps(used, axis); });
    });
  });
}

/// All sets of candidates that fit together, larger ones first.
void OpSharding::enumerate(size_t next, Cuts &cuts, SmallVectorImpl<OpLayouts> &ways) {
  if (next == candidates.size()) {
    Cuts expressible = cuts;
    dropInexpressible(expressible);
    return addWays(expressible, ways);
  }
  if (admits(cuts, candidates[next])) {
    cuts[candidates[next].factor] = candidates[next].cut;
    enumerate(next + 1, cuts, ways);
    cuts[candidates[next].factor] = Cut();
  }
  enumerate(next + 1, cuts, ways);
}

/// The cut factors of a dim are adjacent, all but the last are cut completely, and only the first may be cut
/// in blocks, and in unequal ones only if it is the first factor of all: unshards the inner factors of dims
/// that are otherwise.
void OpSharding::dropInexpressible(Cuts &cuts) const {
  auto dropIn = [&](const ShardingRule::Tensor &tensor) {
    for (const ShardingRule::Dim &dim : tensor) {
      bool begun = false, open = false, isInner = false;
      for (int factor : dim) {
        bool isCut = !cuts[factor].axes.empty();
        bool inUnequal = !cuts[factor].sizes.empty();
        if (isCut && (open || (begun && cuts[factor].blocks != 1) || (isInner && inUnequal)))
          cuts[factor] = Cut();
        else if (isCut)
          begun = true;
        isInner |= rule.factors[factor].size != 1;
        if (begun && rule.factors[factor].size != 1)
          open |= product(cuts[factor].axes) != rule.factors[factor].size;
      }
    }
  };
  llvm::for_each(rule.operands, dropIn);
  llvm::for_each(rule.results, dropIn);
}

/// The ways that cut as given: each partial sum either passes, through the first set of operands in which the
/// op is jointly linear and that holds it, or is completed before. Over `microbatch` no operand can be made a
/// part of a sum, so there all of the set must hold it.
void OpSharding::addWays(const Cuts &cuts, SmallVectorImpl<OpLayouts> &ways) {
  SmallVector<PartialAttr> passable;
  SmallVector<const SmallVector<int, 2> *> sets;
  for (const auto &[partial, holders] : partials) {
    AxisRefAttr axis = partial.getAxis();
    if (llvm::any_of(cuts, [&](const Cut &cut) {
          return llvm::any_of(cut.axes, [&](AxisRefAttr used) { return overlaps(used, axis); });
        }))
      continue;
    // An operand of which nothing is known yet may still come as a part of the sum.
    auto holds = [&](int operand) {
      return llvm::is_contained(holders, operand) || !known.contains(operand);
    };
    auto *set = llvm::find_if(rule.linear, [&](ArrayRef<int> operands) {
      return axis.getName() == kMicrobatchAxis ? llvm::all_of(operands, holds)
                                               : llvm::any_of(operands, holds);
    });
    if (set != rule.linear.end()) {
      passable.push_back(partial);
      sets.push_back(set);
    }
  }
  for (unsigned mask = 1u << passable.size(); mask-- > 0;) {
    SmallVector<PartialAttr> passing;
    SmallVector<const SmallVector<int, 2> *> through;
    for (unsigned index = 0; index < passable.size(); ++index)
      if (mask & (1u << index)) {
        passing.push_back(passable[index]);
        through.push_back(sets[index]);
      }
    OpLayouts way = layoutsOf(cuts, passing, through);
    if (!llvm::is_contained(ways, way))
      ways.push_back(std::move(way));
  }
}

//===----------------------------------------------------------------------===//
// From cuts to layouts
//===----------------------------------------------------------------------===//

OpLayouts OpSharding::layoutsOf(const Cuts &cuts, ArrayRef<PartialAttr> passing,
                                ArrayRef<const SmallVector<int, 2> *> through) const {
  OpLayouts layouts;
  for (auto [index, tensor] : llvm::enumerate(rule.operands)) {
    SmallVector<PartialAttr> kept;
    for (auto [partial, set] : llvm::zip(passing, through))
      if (llvm::is_contained(*set, static_cast<int>(index)))
        kept.push_back(partial);
    layouts.operands.push_back(layoutOf(tensor, cuts, kept));
  }
  SmallVector<PartialAttr> made(passing);
  for (auto [factor, cut] : llvm::zip(rule.factors, cuts))
    if (kindOf(factor) == FactorKind::Reduction)
      for (AxisRefAttr axis : cut.axes)
        made.push_back(PartialAttr::get(op->getContext(), axis, StringAttr::get(op->getContext(), "sum")));
  for (const ShardingRule::Tensor &tensor : rule.results)
    layouts.results.push_back(layoutOf(tensor, cuts, made));
  for (auto [index, cut] : llvm::enumerate(cuts))
    if (rule.factors[index].expanded && !cut.axes.empty()) {
      layouts.expandedFactor = static_cast<int>(index);
      layouts.parts = product(cut.axes) * cut.blocks;
    }
  return layouts;
}

LayoutAttr OpSharding::layoutOf(const ShardingRule::Tensor &tensor, const Cuts &cuts,
                                ArrayRef<PartialAttr> partial) const {
  MLIRContext *context = op->getContext();
  SmallVector<DimShardingAttr> dims;
  for (const ShardingRule::Dim &dim : tensor) {
    Axes list;
    SmallVector<int64_t> blocks;
    int64_t before = 1;
    for (auto [position, factor] : llvm::enumerate(dim)) {
      Cut cut = cutOf(factor, cuts);
      if (list.empty() && !cut.axes.empty()) {
        blocks = cut.sizes.empty() ? equalBlocks(before * cut.blocks) : cut.sizes;
        if (!cut.sizes.empty())
          for (int inner : ArrayRef(dim).drop_front(position + 1))
            for (int64_t &size : blocks)
              size *= rule.factors[inner].size;
      }
      llvm::append_range(list, cut.axes);
      before *= rule.factors[factor].size;
    }
    dims.push_back(DimShardingAttr::get(context, list, blocks));
  }
  auto mesh = FlatSymbolRefAttr::get(findOp<MeshOp>(module));
  return canonicalized(module, LayoutAttr::get(context, mesh, dims, partial));
}

bool OpSharding::isFree(LayoutAttr from, LayoutAttr to) const {
  if (op->getNumResults() != 1 || from.getPartial() != to.getPartial())
    return false;
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

double OpSharding::localPoints(const OpLayouts &way) const {
  SmallVector<double> sizes;
  for (const nn::Factor &factor : rule.factors)
    sizes.push_back(static_cast<double>(factor.size));
  // Each factor once, from the first tensor that is cut along it.
  SmallVector<bool> counted(rule.factors.size());
  auto count = [&](const ShardingRule::Tensor &tensor, LayoutAttr layout) {
    for (auto [dim, factors] : llvm::enumerate(tensor)) {
      if (factors.empty() || counted[factors.front()])
        continue;
      for (int factor : factors)
        counted[factor] = true;
      sizes[factors.front()] /= static_cast<double>(product(layout.getDims()[dim].getAxes()));
    }
  };
  for (auto [tensor, layout] : llvm::zip(rule.operands, way.operands))
    count(tensor, layout);
  for (auto [tensor, layout] : llvm::zip(rule.results, way.results))
    count(tensor, layout);
  double points = 1;
  for (double size : sizes)
    points *= size;
  return points;
}
