//===- Shrink.cpp - Plans on small stand-ins for mesh and tensor ----------===//
#include "Shrink.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <map>
#include <numeric>
#include <set>

using namespace plumb::redistribution;

namespace {

template <typename PlanType, typename Visit>
void forEachLayout(PlanType &plan, Visit visit) {
  visit(plan.from);
  visit(plan.to);
  for (auto &step : plan.steps) {
    visit(step.before);
    visit(step.after);
  }
}

int64_t reducedSize(const Plan &plan, unsigned dim) {
  int64_t size = plan.shape[dim], period = 1;
  forEachLayout(plan, [&](const Layout &layout) {
    const DimSharding &sharding = layout.dims[dim];
    int64_t shards = sharding.blockSizes.empty() ? sharding.unit * sharding.blocks : size + 1;
    for (const AxisRef &ref : sharding.axes)
      shards *= ref.size;
    // Twice the period is as far as shrinking goes, so larger ones need no exact value.
    period = period > size || shards > size ? size + 1 : std::lcm(period, shards);
  });
  return period > size / 2 ? size : period + size % period;
}

int64_t smallestPrimeFactor(int64_t n) {
  for (int64_t p = 2; p * p <= n; ++p)
    if (n % p == 0)
      return p;
  return n;
}

/// The digits of a mesh that a plan speaks of, and the sizes that they shrink to.
class DigitShrinker {
public:
  explicit DigitShrinker(const Plan &plan)
      : plan(plan), ends(plan.mesh.axes.size()), fixed(plan.mesh.axes.size()) {
    for (auto [i, axis] : llvm::enumerate(plan.mesh.axes))
      ends[i] = {1, axis.size};
    auto note = [&](const AxisRef &ref) { ends[ref.axis].insert({ref.pre, ref.pre * ref.size}); };
    for (const Step &step : plan.steps)
      llvm::for_each(step.axes, note);
    forEachLayout(plan, [&](const Layout &layout) {
      for (const PartialAxis &partial : layout.partial)
        note(partial.axis);
      for (auto [dim, size] : llvm::zip_equal(layout.dims, plan.shape)) {
        llvm::for_each(dim.axes, note);
        if (!cutsEvenly(dim, size, dim.axes.size()))
          for (const AxisRef &ref : dim.axes)
            fixed[ref.axis] = true;
      }
    });
  }

  /// The product of the shrunken digits of `axis` below `end`, one of its boundaries.
  int64_t shrunkenEnd(unsigned axis, int64_t end) const {
    int64_t product = 1;
    for (auto it = ends[axis].begin(); *it != end; ++it) {
      int64_t digit = *std::next(it) / *it;
      product *= fixed[axis] || digit == 1 ? digit : smallestPrimeFactor(digit);
    }
    return product;
  }

  AxisRef shrink(const AxisRef &ref) const {
    int64_t pre = shrunkenEnd(ref.axis, ref.pre);
    return {ref.axis, pre, shrunkenEnd(ref.axis, ref.pre * ref.size) / pre};
  }

  Mesh shrunkenMesh() const {
    Mesh mesh = plan.mesh;
    for (auto [i, axis] : llvm::enumerate(mesh.axes))
      axis.size = shrunkenEnd(i, axis.size);
    return mesh;
  }

private:
  const Plan &plan;
  std::vector<std::set<int64_t>> ends;
  std::vector<bool> fixed;
};

} // namespace

Plan plumb::redistribution::withSmallTensor(const Plan &plan) {
  Plan small = plan;
  for (unsigned d = 0; d < plan.shape.size(); ++d)
    small.shape[d] = reducedSize(plan, d);
  return small;
}

Plan plumb::redistribution::withSmallMesh(const Plan &plan) {
  DigitShrinker shrinker(plan);
  Plan small = plan;
  auto shrink = [&](AxisRef &ref) { ref = shrinker.shrink(ref); };
  small.mesh = shrinker.shrunkenMesh();
  for (Step &step : small.steps)
    llvm::for_each(step.axes, shrink);
  forEachLayout(small, [&](Layout &layout) {
    for (PartialAxis &partial : layout.partial)
      shrink(partial.axis);
    for (DimSharding &dim : layout.dims)
      llvm::for_each(dim.axes, shrink);
  });
  return small;
}
