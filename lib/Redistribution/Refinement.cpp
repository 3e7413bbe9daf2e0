//===- Refinement.cpp - Axes split into factors ---------------------------===//
#include "Refinement.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <set>

using namespace plumb::redistribution;

namespace {

/// Orders of factors that are tried; a mesh with more is planned with these.
constexpr size_t maxRefinements = 24;

/// Where digits of `axis` begin and end: 1, its size, and what the layouts add.
std::set<int64_t> boundaries(const Mesh &mesh, unsigned axis, llvm::ArrayRef<const Layout *> layouts) {
  std::set<int64_t> result{1, mesh.axes[axis].size};
  auto add = [&](const AxisRef &ref) {
    if (ref.axis == axis)
      result.insert({ref.pre, ref.pre * ref.size});
  };
  for (const Layout *layout : layouts) {
    for (const DimSharding &dim : layout->dims)
      llvm::for_each(dim.axes, add);
    for (const PartialAxis &partial : layout->partial)
      add(partial.axis);
  }
  return result;
}

bool formsChain(const std::set<int64_t> &boundaries) {
  int64_t last = 1;
  for (int64_t boundary : boundaries) {
    if (boundary % last != 0)
      return false;
    last = boundary;
  }
  return true;
}

std::vector<int64_t> primeFactors(int64_t n) {
  std::vector<int64_t> factors;
  for (int64_t p = 2; p * p <= n; ++p)
    for (; n % p == 0; n /= p)
      factors.push_back(p);
  if (n > 1)
    factors.push_back(n);
  return factors;
}

} // namespace

std::optional<std::vector<AxisRef>>
plumb::redistribution::coarseRefinement(const Mesh &mesh, llvm::ArrayRef<const Layout *> layouts) {
  std::vector<AxisRef> atoms;
  for (unsigned axis = 0; axis < mesh.axes.size(); ++axis) {
    std::set<int64_t> ends = boundaries(mesh, axis, layouts);
    if (!formsChain(ends))
      return std::nullopt;
    for (auto it = ends.begin(); std::next(it) != ends.end(); ++it)
      atoms.push_back({axis, *it, *std::next(it) / *it});
  }
  return atoms;
}

/// The prime factors of the sizes, the smallest joined while there are too many digits in all.
static std::vector<std::vector<int64_t>>
factorsOf(llvm::ArrayRef<AxisRef> axes, llvm::function_ref<bool(const AxisRef &)> first, bool &areComplete) {
  std::vector<std::vector<int64_t>> factors;
  size_t digits = 0;
  for (const AxisRef &axis : axes) {
    factors.push_back(primeFactors(axis.size));
    digits += factors.back().size();
  }
  areComplete = digits <= maxDigits;
  for (bool spare : {true, false})
    while (digits > maxDigits) {
      std::vector<int64_t> *longest = nullptr;
      for (auto [axis, of] : llvm::zip_equal(axes, factors))
        if (of.size() > 1 && !(spare && first(axis)) && (!longest || of.size() > longest->size()))
          longest = &of;
      if (!longest)
        break;
      int64_t joined = (*longest)[0] * (*longest)[1];
      longest->erase(longest->begin(), longest->begin() + 2);
      longest->insert(llvm::lower_bound(*longest, joined), joined);
      --digits;
    }
  return factors;
}

Refinements plumb::redistribution::refinementsOf(llvm::ArrayRef<AxisRef> axes,
                                                 llvm::function_ref<bool(const AxisRef &)> first) {
  Refinements result{{{}}};
  auto factors = factorsOf(axes, first, result.areComplete);
  for (auto [axis, order] : llvm::zip_equal(axes, factors)) {
    std::vector<std::vector<AxisRef>> next;
    bool hasMore = true;
    while (hasMore && next.size() < maxRefinements) {
      for (std::vector<AxisRef> atoms : result.all) {
        int64_t pre = axis.pre;
        for (int64_t factor : order) {
          atoms.push_back({axis.axis, pre, factor});
          pre *= factor;
        }
        next.push_back(std::move(atoms));
      }
      hasMore = std::next_permutation(order.begin(), order.end());
    }
    result.areComplete &= !hasMore;
    result.all = std::move(next);
  }
  if (result.all.size() > maxRefinements) {
    result.all.resize(maxRefinements);
    result.areComplete = false;
  }
  return result;
}

Layout plumb::redistribution::withoutConflicts(const Mesh &mesh, const Layout &from, const Layout &to) {
  Layout middle = from;
  for (unsigned axis = 0; axis < mesh.axes.size(); ++axis) {
    if (formsChain(boundaries(mesh, axis, {&from, &to})))
      continue;
    for (DimSharding &dim : middle.dims) {
      auto first = llvm::find_if(dim.axes, [&](const AxisRef &ref) { return ref.axis == axis; });
      dim.axes.erase(first, dim.axes.end());
      if (dim.axes.empty())
        dim = DimSharding();
    }
    llvm::erase_if(middle.partial, [&](const PartialAxis &partial) { return partial.axis.axis == axis; });
  }
  return middle;
}
