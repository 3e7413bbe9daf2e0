//===- Planner.cpp - The cheapest way from one layout to another ----------===//
#include "plumb/Redistribution/Planner.h"
#include "Accounting.h"
#include "PlainSteps.h"
#include "Refinement.h"
#include "Search.h"
#include "plumb/Redistribution/Bound.h"
#include "plumb/Redistribution/LayoutText.h"
#include "plumb/Redistribution/Lowering.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>

using namespace plumb::redistribution;

namespace {

template <typename... Ts>
llvm::Error failure(const char *format, Ts &&...args) {
  return llvm::createStringError(llvm::formatv(format, std::forward<Ts>(args)...).str());
}

llvm::Error nameLayout(llvm::StringRef role, const Mesh &mesh, const Layout &layout, llvm::Error error) {
  return failure("{0} layout {1}: {2}", role, toString(mesh, layout), llvm::toString(std::move(error)));
}

class Planner {
public:
  Planner(Plan &plan, const PlanOptions &options)
      : plan(plan), options(options), from(canonicalize(plan.mesh, plan.from, plan.shape)),
        to(canonicalize(plan.mesh, plan.to, plan.shape)) {}

  llvm::Error run() {
    if (from == to)
      return llvm::Error::success();
    std::optional<std::vector<AxisRef>> coarse = coarseRefinement(plan.mesh, {&from, &to});
    if (!coarse)
      return runInTwo();
    llvm::erase_if(*coarse,
                   [&](const AxisRef &atom) { return llvm::is_contained(options.foreign, atom.axis); });
    int64_t moves = options.maxMoves;
    SearchSpace space(plan.mesh, plan.shape, plan.elementBytes, options, *coarse, from, to);
    SearchResult best = search(space, moves);
    Ticks least = space.bound(space.source());
    if (best.found)
      adopt(space, best);
    Ticks proven = best.proven;
    // A plan as cheap as the bound cannot be beaten by splitting axes.
    if (!best.found || best.cost > least)
      proven = std::min(proven, refine(*coarse, best, moves, least));
    if (!best.found) {
      if (llvm::Error error = fallBack(proven))
        return error;
    }
    for (Step &step : plan.steps)
      if (step.kind == StepKind::Exchange)
        shareWithReplicas(step);
    plan.optimal = best.found && proven == best.cost;
    plan.provenCost = space.seconds(proven);
    return llvm::Error::success();
  }

private:
  /// Looks for something cheaper among the ways to split the axes; returns what is proven to be a lower
  /// bound, which is `least` where not all of them were tried.
  Ticks refine(llvm::ArrayRef<AxisRef> coarse, SearchResult &best, int64_t &moves, Ticks least) {
    Ticks none = std::numeric_limits<Ticks>::max();
    Ticks proven = none;
    // Axes that source and target use alike have the least to gain.
    Refinements refinements = refinementsOf(coarse, [&](const AxisRef &axis) { return !isUsedAlike(axis); });
    for (const std::vector<AxisRef> &atoms : refinements.all) {
      if (llvm::ArrayRef(atoms) == coarse)
        continue;
      SearchSpace space(plan.mesh, plan.shape, plan.elementBytes, options, atoms, from, to);
      SearchResult found = search(space, moves, best.found ? best.cost : none);
      proven = std::min(proven, found.proven);
      if (found.found) {
        best = found;
        adopt(space, best);
      }
    }
    return refinements.areComplete ? proven : std::min(proven, least);
  }

  /// Whether `axis` cuts the same dimension with the same outer axes on both sides, or is partial, or
  /// replicated, on both.
  bool isUsedAlike(const AxisRef &axis) const {
    for (auto [source, target] : llvm::zip_equal(from.dims, to.dims)) {
      for (unsigned k = 0; k < std::max(source.axes.size(), target.axes.size()); ++k) {
        bool isSame = k < source.axes.size() && k < target.axes.size() && source.axes[k] == target.axes[k];
        auto names = [&](const DimSharding &dim) {
          return llvm::any_of(llvm::drop_begin(dim.axes, std::min<size_t>(k, dim.axes.size())),
                              [&](const AxisRef &ref) { return ref.axis == axis.axis; });
        };
        if (!isSame && (names(source) || names(target)))
          return false;
        if (!isSame)
          break;
      }
    }
    return reductionOver(from, axis) == reductionOver(to, axis);
  }

  void adopt(const SearchSpace &space, const SearchResult &result) {
    plan.steps.clear();
    Layout before = from;
    const State *last = &space.source();
    for (const SearchResult::Hop &hop : result.hops) {
      Step step;
      step.kind = hop.kind;
      step.before = before;
      step.after = space.decode(hop.after);
      bool scatters = hop.kind == StepKind::ReduceScatter || hop.kind == StepKind::Slice;
      step.axes = space.axesOf(hop.atoms, scatters ? hop.after : *last);
      bool reduces = hop.kind == StepKind::ReduceScatter || hop.kind == StepKind::AllReduce;
      if (reduces || hop.kind == StepKind::Mask)
        step.reduction = reductionOver(reduces ? step.before : step.after, step.axes.front());
      before = step.after;
      last = &hop.after;
      plan.steps.push_back(std::move(step));
    }
  }

  /// Where shards differ in size, some rank may have to send more than any receives. Then replicas, which
  /// would do the same in groups of their own, share the load if that helps.
  void shareWithReplicas(Step &step) {
    constexpr int64_t maxRanks = 64;
    if (plan.mesh.numRanks() > maxRanks ||
        (cutsEvenly(step.before, plan.shape) && cutsEvenly(step.after, plan.shape)))
      return;
    Step wide = step;
    wide.axes.clear();
    for (unsigned axis = 0; axis < plan.mesh.axes.size(); ++axis) {
      bool isFixed = llvm::is_contained(options.foreign, axis) ||
                     llvm::any_of(step.before.partial,
                                  [&](const PartialAxis &partial) { return partial.axis.axis == axis; });
      if (!isFixed && plan.mesh.axes[axis].size > 1)
        wide.axes.push_back(wholeAxis(plan.mesh, axis));
      else if (llvm::any_of(step.axes, [&](const AxisRef &ref) { return ref.axis == axis; }))
        return;
    }
    auto [sent, received] = mostMoved(step);
    if (sent > received && mostMoved(wide).first < sent)
      step.axes = wide.axes;
  }

  /// The most elements that a rank sends, and that one receives.
  std::pair<int64_t, int64_t> mostMoved(const Step &step) const {
    std::pair<int64_t, int64_t> most;
    std::vector<bool> done(plan.mesh.numRanks());
    for (int64_t rank = 0; rank < plan.mesh.numRanks(); ++rank)
      if (!done[rank])
        for (const MemberLoad &load : loadsOfGroup(plan.mesh, plan.shape, step, rank)) {
          done[load.rank] = true;
          most = {std::max(most.first, load.sent), std::max(most.second, load.received)};
        }
    return most;
  }

  /// Source and target split one axis in ways that have no common factors, so no refinement can write both:
  /// the way leads over a layout that holds the axes in question whole.
  llvm::Error runInTwo() {
    Layout middle = withoutConflicts(plan.mesh, from, to);
    for (auto [source, target] : {std::pair(from, middle), std::pair(middle, to)}) {
      llvm::Expected<Plan> part =
          planRedistribution(plan.mesh, plan.shape, plan.elementBytes, source, target, options);
      if (!part)
        return part.takeError();
      llvm::append_range(plan.steps, part->steps);
    }
    plan.optimal = false;
    return llvm::Error::success();
  }

  /// Nothing was found: because there is nothing, or because the search was cut short. Then there is still
  /// the plain way: reduce, gather what does not fit (or exchange it), slice, mask.
  llvm::Error fallBack(Ticks proven) {
    std::string what = llvm::formatv("{0} -> {1} on {2}", toString(plan.mesh, plan.from),
                                     toString(plan.mesh, plan.to), toString(plan.mesh));
    bool cutShort = proven < std::numeric_limits<Ticks>::max();
    if (cutShort)
      plan.steps = plainSteps(from, to, options.exchange);
    bool allowed =
        cutShort && llvm::none_of(plan.steps, [&](const Step &step) {
          return llvm::is_contained(options.excluded, step.kind) ||
                 (options.memoryLimit && stepMemory(plan.mesh, plan.shape, plan.elementBytes, step.kind,
                                                    step.before, step.after) > *options.memoryLimit);
        });
    if (allowed)
      return llvm::Error::success();
    if (cutShort)
      return failure(
          "no plan for {0} was found within {1} moves of the search; raise the limit or use a mesh of "
          "fewer axes",
          what, options.maxMoves);
    if (options.memoryLimit)
      return failure(
          "no plan for {0} needs at most {1} bytes on a rank; raise the memory limit or choose layouts "
          "with smaller shards",
          what, *options.memoryLimit);
    return failure("no sequence of the allowed steps leads from {0}", what);
  }

  Plan &plan;
  const PlanOptions &options;
  Layout from, to;
};

} // namespace

llvm::Error plumb::redistribution::checkSizes(const Mesh &mesh, llvm::ArrayRef<int64_t> shape,
                                              int64_t elementBytes) {
  if (elementBytes < 1 || elementBytes > 1024)
    return failure("an element of {0} bytes", elementBytes);
  if (shape.size() > State::maxDims)
    return failure("a tensor of {0} dimensions; {1} are supported", shape.size(), State::maxDims);
  // The search counts in 1/ranks of a byte and adds several steps up.
  double units = double(elementBytes) * mesh.numRanks() * 64;
  for (int64_t size : shape)
    units *= std::max<int64_t>(size, 1);
  if (units > 9e18)
    return failure("a tensor of shape {0} on {1} ranks is too large to count its bytes", toString(shape),
                   mesh.numRanks());
  return llvm::Error::success();
}

llvm::Expected<Plan> plumb::redistribution::planRedistribution(const Mesh &mesh,
                                                               llvm::ArrayRef<int64_t> shape,
                                                               int64_t elementBytes, const Layout &from,
                                                               const Layout &to, const PlanOptions &options) {
  if (llvm::Error error = checkMesh(mesh))
    return error;
  if (llvm::Error error = checkLayout(mesh, from, shape))
    return nameLayout("source", mesh, from, std::move(error));
  if (llvm::Error error = checkLayout(mesh, to, shape))
    return nameLayout("target", mesh, to, std::move(error));
  if (llvm::Error error = checkSizes(mesh, shape, elementBytes))
    return error;
  if (options.topology)
    if (llvm::Error error = checkTopology(*options.topology))
      return error;
  Plan plan;
  plan.mesh = mesh;
  plan.shape.assign(shape.begin(), shape.end());
  plan.elementBytes = elementBytes;
  plan.from = from;
  plan.to = to;
  if (llvm::Error error = Planner(plan, options).run())
    return error;
  account(plan, options.topology);
  plan.boundBytes = lowerBoundBytes(mesh, shape, elementBytes, from, to);
  if (!options.topology) {
    plan.provenCost = std::max(plan.provenCost, plan.boundBytes);
    plan.optimal |= plan.cost <= plan.boundBytes;
  }
  // Uneven steps may move less than the padded collectives that the search counts.
  plan.provenCost = plan.optimal ? plan.cost : std::min(plan.provenCost, plan.cost);
  return plan;
}
