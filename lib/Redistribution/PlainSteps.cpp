//===- PlainSteps.cpp - The plan that needs no search ---------------------===//
#include "PlainSteps.h"
#include "llvm/ADT/STLExtras.h"
#include <map>

using namespace plumb::redistribution;

namespace {

using Axes = llvm::SmallVector<AxisRef, 4>;

class PlainPlan {
public:
  PlainPlan(const Layout &from, const Layout &to) : now(from), to(to) {}

  std::vector<Step> run(bool exchange) {
    reducePending();
    Layout shared = now, cut = to;
    cut.partial = now.partial;
    Axes dropped = shareWithTarget(shared), added = axesBeyond(shared, cut);
    Axes changed = dropped;
    for (const AxisRef &ref : added)
      if (!llvm::is_contained(changed, ref))
        changed.push_back(ref);
    // A group needs axes that do not overlap; source and target may split one differently.
    if (!dropped.empty() && exchange && areDisjoint(changed)) {
      llvm::sort(changed);
      add(StepKind::Exchange, changed, cut);
    } else {
      add(StepKind::AllGather, dropped, shared);
      add(StepKind::Slice, added, cut);
    }
    Axes masked;
    for (const PartialAxis &partial : to.partial)
      if (!llvm::is_contained(now.partial, partial))
        masked.push_back(partial.axis);
    add(StepKind::Mask, masked, to);
    return std::move(steps);
  }

private:
  /// One all-reduce per reduction.
  void reducePending() {
    std::map<Reduction, Axes> pending;
    for (const PartialAxis &partial : now.partial)
      if (!llvm::is_contained(to.partial, partial))
        pending[partial.reduction].push_back(partial.axis);
    for (auto &[reduction, axes] : pending) {
      Layout reduced = now;
      llvm::erase_if(reduced.partial, [&](const PartialAxis &p) { return llvm::is_contained(axes, p.axis); });
      add(StepKind::AllReduce, axes, reduced);
    }
  }

  /// Drops from every dimension what does not begin the target's; returns the axes dropped.
  Axes shareWithTarget(Layout &layout) const {
    Axes dropped;
    for (auto [dim, wanted] : llvm::zip_equal(layout.dims, to.dims)) {
      size_t same = 0;
      if (dim.sameCut(wanted))
        while (same < dim.axes.size() && same < wanted.axes.size() && dim.axes[same] == wanted.axes[same])
          ++same;
      dropped.append(dim.axes.begin() + same, dim.axes.end());
      dim.axes.truncate(same);
      if (dim.axes.empty())
        dim = DimSharding();
    }
    return dropped;
  }

  static bool areDisjoint(const Axes &axes) {
    for (size_t i = 0; i < axes.size(); ++i)
      for (size_t j = 0; j < i; ++j)
        if (axes[i].axis == axes[j].axis && axes[i].pre % (axes[j].pre * axes[j].size) != 0 &&
            axes[j].pre % (axes[i].pre * axes[i].size) != 0)
          return false;
    return true;
  }

  static Axes axesBeyond(const Layout &shared, const Layout &cut) {
    Axes added;
    for (auto [dim, wanted] : llvm::zip_equal(shared.dims, cut.dims))
      added.append(wanted.axes.begin() + dim.axes.size(), wanted.axes.end());
    return added;
  }

  void add(StepKind kind, const Axes &axes, const Layout &after) {
    if (axes.empty())
      return;
    Step step;
    step.kind = kind;
    step.axes.assign(axes.begin(), axes.end());
    step.before = now;
    step.after = after;
    if (kind == StepKind::AllReduce || kind == StepKind::Mask)
      step.reduction = reductionOver(kind == StepKind::AllReduce ? now : after, axes.front());
    now = after;
    steps.push_back(std::move(step));
  }

  Layout now;
  const Layout &to;
  std::vector<Step> steps;
};

} // namespace

std::vector<Step> plumb::redistribution::plainSteps(const Layout &from, const Layout &to, bool exchange) {
  return PlainPlan(from, to).run(exchange);
}
