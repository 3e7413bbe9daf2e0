//===- OptimalityTest.cpp - Plans against an independent brute force ------===//
//
// The brute force knows no search: it asks of every pair of layouts which
// single operation, if any, leads from one to the other and what it costs, and
// closes that relation over all paths.
//
//===----------------------------------------------------------------------===//
#include "TestSupport.h"
#include "llvm/ADT/STLExtras.h"
#include <limits>
#include <map>

using namespace plumb::redistribution;

namespace {

constexpr double never = std::numeric_limits<double>::infinity();

using Axes = std::vector<AxisRef>;

Axes axesOf(const DimSharding &dim) { return Axes(dim.axes.begin(), dim.axes.end()); }

Axes partialOf(const Layout &layout) {
  Axes axes;
  for (const PartialAxis &partial : layout.partial)
    axes.push_back(partial.axis);
  llvm::sort(axes);
  return axes;
}

bool isPrefix(const Axes &a, const Axes &b) {
  return a.size() <= b.size() && std::equal(a.begin(), a.end(), b.begin());
}

double product(const Axes &axes) {
  double result = 1;
  for (const AxisRef &axis : axes)
    result *= axis.size;
  return result;
}

Axes sorted(Axes axes) {
  llvm::sort(axes);
  return axes;
}

/// The least cost of one operation from `a` to `b`, as a fraction of the tensor. A value is made partial only
/// over `targetPartial`, the axes over which the plan's target is.
double operationCost(const Layout &a, const Layout &b, const Axes &targetPartial) {
  Axes partialA = partialOf(a), partialB = partialOf(b), gained, lost;
  bool grows = true, shrinks = true, moves = true, sameCounts = true;
  double in = 1;
  for (auto [x, y] : llvm::zip_equal(a.dims, b.dims)) {
    Axes p = axesOf(x), q = axesOf(y);
    in /= product(p);
    grows &= isPrefix(p, q);
    shrinks &= isPrefix(q, p);
    moves &= isPrefix(p, q) || isPrefix(q, p);
    sameCounts &= product(p) == product(q);
    if (isPrefix(p, q))
      gained.insert(gained.end(), q.begin() + p.size(), q.end());
    else if (isPrefix(q, p))
      lost.insert(lost.end(), p.begin() + q.size(), p.end());
  }
  gained = sorted(gained);
  lost = sorted(lost);
  double best = never;
  if (partialA == partialB) {
    if (grows)
      best = 0;
    if (shrinks)
      best = std::min(best, in * (product(lost) - 1));
    if (moves && gained == lost)
      best = std::min(best, in * (1 - 1 / product(lost)));
    if (sameCounts)
      best = std::min(best, in);
  }
  Axes resolved, created;
  std::set_difference(partialA.begin(), partialA.end(), partialB.begin(), partialB.end(),
                      std::back_inserter(resolved));
  std::set_difference(partialB.begin(), partialB.end(), partialA.begin(), partialA.end(),
                      std::back_inserter(created));
  if (created.empty() && !resolved.empty()) {
    double g = product(resolved);
    if (grows && gained.empty())
      best = std::min(best, 2 * in * (1 - 1 / g));
    if (grows && gained == resolved)
      best = std::min(best, in * (1 - 1 / g));
  }
  // A value that is there, or a shard of it among zeros, is a partial sum.
  if (resolved.empty() && !created.empty() && shrinks &&
      std::includes(created.begin(), created.end(), lost.begin(), lost.end()) &&
      std::includes(targetPartial.begin(), targetPartial.end(), created.begin(), created.end()))
    best = 0;
  return best;
}

/// All-pairs costs over `layouts`, those of a mesh of prime axes.
std::vector<std::vector<double>> closure(const std::vector<Layout> &layouts, const Axes &targetPartial) {
  size_t n = layouts.size();
  std::vector<std::vector<double>> cost(n, std::vector<double>(n));
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j < n; ++j)
      cost[i][j] = i == j ? 0 : operationCost(layouts[i], layouts[j], targetPartial);
  for (size_t k = 0; k < n; ++k)
    for (size_t i = 0; i < n; ++i)
      for (size_t j = 0; j < n; ++j)
        cost[i][j] = std::min(cost[i][j], cost[i][k] + cost[k][j]);
  return cost;
}

/// The closures by the axes over which the target is partial.
class BruteForce {
public:
  explicit BruteForce(std::vector<Layout> layouts) : layouts(std::move(layouts)) {}

  double cost(const Layout &from, const Layout &to) {
    auto [known, isNew] = closures.try_emplace(partialOf(to));
    if (isNew)
      known->second = closure(layouts, known->first);
    return known->second[indexOf(from)][indexOf(to)];
  }

private:
  size_t indexOf(const Layout &layout) const {
    return llvm::find_if(layouts,
                         [&](const Layout &known) {
                           return known.dims == layout.dims && partialOf(known) == partialOf(layout);
                         }) -
           layouts.begin();
  }

  std::vector<Layout> layouts;
  std::map<Axes, std::vector<std::vector<double>>> closures;
};

void compare(const Mesh &m, unsigned rank) {
  Index sizes(rank, 24);
  std::vector<Layout> layouts = allLayouts(m, rank, true);
  BruteForce bruteForce(layouts);
  PlanOptions options;
  options.exchange = false;
  for (const Layout &from : layouts)
    for (const Layout &to : layouts) {
      llvm::Expected<Plan> plan = planRedistribution(m, sizes, 4, from, to, options);
      ASSERT_TRUE(bool(plan)) << messageOf(plan.takeError());
      EXPECT_TRUE(plan->optimal);
      EXPECT_NEAR(plan->bytes / plan->globalBytes(), bruteForce.cost(from, to), 1e-9)
          << toString(m, from) << " -> " << toString(m, to) << ": " << stepsOf(*plan);
    }
}

TEST(Optimality, EqualsBruteForceOnSmallMeshes) {
  for (unsigned rank = 1; rank <= 3; ++rank) {
    compare(mesh("x=2,y=2"), rank);
    compare(mesh("x=2,y=3"), rank);
  }
  compare(mesh("x=2,y=2,z=2"), 1);
  compare(mesh("x=2,y=2,z=2"), 2);
}

/// The same mesh, once with an axis of 4 and once with its factors as axes of their own.
TEST(Optimality, SplitsAxes) {
  Mesh whole = mesh("x=2,y=4"), split = mesh("x=2,y1=2,y2=2");
  auto refine = [&](const Layout &l) {
    Layout result = Layout::replicated(l.dims.size());
    auto add = [&](const AxisRef &axis, llvm::function_ref<void(AxisRef)> push) {
      if (axis.axis == 0)
        return push(wholeAxis(split, 0));
      push(wholeAxis(split, 1));
      push(wholeAxis(split, 2));
    };
    for (size_t d = 0; d < l.dims.size(); ++d)
      for (const AxisRef &axis : l.dims[d].axes)
        add(axis, [&](AxisRef ref) { result.dims[d].axes.push_back(ref); });
    for (const PartialAxis &partial : l.partial)
      add(partial.axis, [&](AxisRef ref) { result.partial.push_back({ref, Reduction::Sum}); });
    return result;
  };
  BruteForce bruteForce(allLayouts(split, 2, true));
  PlanOptions options;
  options.exchange = false;
  std::vector<Layout> layouts = allLayouts(whole, 2, true);
  for (const Layout &from : layouts)
    for (const Layout &to : layouts) {
      auto plan = planned(whole, {16, 16}, from, to, options);
      ASSERT_TRUE(plan);
      EXPECT_NEAR(plan->bytes / plan->globalBytes(), bruteForce.cost(refine(from), refine(to)), 1e-9)
          << toString(whole, from) << " -> " << toString(whole, to) << ": " << stepsOf(*plan);
    }
}

} // namespace
