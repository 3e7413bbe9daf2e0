#include "Search.h"
#include "GreedyScheduler.h"
#include "plumb/Schedule/Simulation.h"
#include <algorithm>

using namespace plumb::schedule;

namespace {

/// A knob of the policy and the values that are tried.
struct Knob {
  void (*set)(GreedyPolicy &policy, double value);
  std::vector<double> values;
  bool needsOrder;
};

const std::vector<Knob> &knobs() {
  static const std::vector<Knob> all = {
      {[](GreedyPolicy &p, double v) { p.fill = v; }, {0, 0.34, 0.5, 0.67, 0.75, 1}, false},
      {[](GreedyPolicy &p, double v) { p.firstPatience = v; }, {0, 0.3, 0.7, 0.9, 1}, false},
      {[](GreedyPolicy &p, double v) { p.firstLead = static_cast<int>(v); }, {0, 1, 2, 3, 4, 6, 8}, true},
      {[](GreedyPolicy &p, double v) { p.lead = static_cast<int>(v); }, {0, 1, 2, 3}, true},
      {[](GreedyPolicy &p, double v) { p.patience = v; }, {0, 0.1, 0.35, 0.7}, false},
      {[](GreedyPolicy &p, double v) { p.strictGradients = v != 0; }, {0, 1}, true},
      {[](GreedyPolicy &p, double v) { p.deepGradientFirst = v != 0; }, {0, 1}, false},
      {[](GreedyPolicy &p, double v) { p.deepForwardFirst = v != 0; }, {0, 1}, false},
      {[](GreedyPolicy &p, double v) { p.gradientFirst = v != 0; }, {0, 1}, false},
  };
  return all;
}

struct Quality {
  double first = std::numeric_limits<double>::infinity();
  double second = std::numeric_limits<double>::infinity();

  bool betterThan(const Quality &other) const {
    double tolerance = 1e-9 * std::max(first, 1e-300);
    if (std::abs(first - other.first) > tolerance)
      return first < other.first;
    return second < other.second - tolerance;
  }
};

class Search {
public:
  Search(const Problem &problem, Objective objective, size_t budget)
      : problem(problem), objective(objective), numActions(3ull * problem.stages * problem.microbatches),
        least(leastQuality()), budget(budget) {}

  Schedule run(const std::vector<Schedule> &orders, Effort effort);

private:
  double leastQuality() const;
  bool consider(Schedule schedule, Quality &quality);
  bool tryPolicy(const GreedyPolicy &policy, Quality &quality);
  void descend(GreedyPolicy policy, size_t until);
  bool exhausted(size_t until) const { return scheduled > until || best.first <= least * (1 + 1e-9); }

  const Problem &problem;
  Objective objective;
  size_t numActions;
  double least;
  Quality best;
  Schedule bestSchedule;
  size_t scheduled = 0;
  size_t budget;
};

} // namespace

/// No rank can do with less than its work, nor start before its first input or end before its last result is
/// through.
double Search::leastQuality() const {
  std::vector<double> work(problem.ranks, 0), head(problem.ranks, std::numeric_limits<double>::infinity());
  std::vector<double> arrival(problem.stages, 0);
  for (int stage = 0; stage < problem.stages; ++stage) {
    int rank = problem.rankOf(stage, 0);
    work[rank] += problem.microbatches * problem.costs[stage].total();
    head[rank] = std::min(head[rank], arrival[stage]);
    for (const Edge &edge : problem.edges)
      if (edge.from == stage)
        arrival[edge.to] =
            std::max(arrival[edge.to], arrival[stage] + problem.costs[stage].forward +
                                           (problem.rankOf(edge.to, 0) == rank ? 0 : edge.cost));
  }
  double bound = 0, span = 0;
  for (int rank = 0; rank < problem.ranks; ++rank) {
    bound = std::max(bound, work[rank] + head[rank]);
    span = std::max(span, work[rank]);
  }
  return objective == Objective::Makespan ? bound : objective == Objective::MaxSpan ? span : bound + span;
}

bool Search::consider(Schedule schedule, Quality &quality) {
  scheduled += numActions;
  Result<Simulation> simulation = simulate(problem, schedule);
  if (!simulation)
    return false;
  for (double peak : simulation->peakActivations)
    if (peak > problem.memoryLimit * (1 + 1e-9))
      return false;
  quality = {simulation->makespan, simulation->maxSpan};
  if (objective == Objective::MaxSpan)
    std::swap(quality.first, quality.second);
  if (objective == Objective::Sum)
    quality = {simulation->makespan + simulation->maxSpan, simulation->makespan};
  if (quality.betterThan(best)) {
    best = quality;
    bestSchedule = std::move(schedule);
  }
  return true;
}

bool Search::tryPolicy(const GreedyPolicy &policy, Quality &quality) {
  Schedule schedule = greedySchedule(problem, policy);
  if (schedule.numActions() == numActions)
    return consider(std::move(schedule), quality);
  scheduled += numActions;
  return false;
}

void Search::descend(GreedyPolicy policy, size_t until) {
  Quality here;
  tryPolicy(policy, here);
  bool improved = true;
  while (improved && !exhausted(until)) {
    improved = false;
    for (const Knob &knob : knobs()) {
      if (knob.needsOrder && !policy.order)
        continue;
      for (double value : knob.values) {
        GreedyPolicy changed = policy;
        knob.set(changed, value);
        Quality there;
        if (exhausted(until) || !tryPolicy(changed, there) || !there.betterThan(here))
          continue;
        here = there;
        policy = changed;
        improved = true;
      }
    }
  }
}

Schedule Search::run(const std::vector<Schedule> &orders, Effort effort) {
  Quality quality;
  for (const Schedule &order : orders)
    consider(order, quality);
  GreedyPolicy free;
  free.memoryLimit = problem.memoryLimit;
  free.deepForwardFirst = false;
  free.fill = 0;
  std::vector<GreedyPolicy> starts = {free};
  std::vector<int> leads = effort == Effort::Quick ? std::vector{0} : std::vector{0, 1, 3};
  for (int lead : leads)
    for (const Schedule &order : orders) {
      GreedyPolicy &guided = starts.emplace_back();
      guided.memoryLimit = problem.memoryLimit;
      guided.order = &order;
      guided.strictGradients = lead == 0;
      guided.firstLead = lead;
      guided.gradientFirst = lead < 3;
    }
  // Few descents that get somewhere rather than many that do not.
  constexpr size_t leastTrials = 20;
  starts.resize(std::clamp<size_t>(budget / (leastTrials * numActions), 1, starts.size()));
  size_t share = budget / (starts.size() + 1);
  for (size_t i = 0; i < starts.size(); ++i)
    descend(starts[i], (i + 1) * share);
  Quality before;
  while (best.betterThan(before) && !exhausted(budget)) {
    before = best;
    Schedule order = bestSchedule;
    free.order = &order;
    free.strictGradients = false;
    descend(free, budget);
  }
  return std::move(bestSchedule);
}

/// Whether F, I and W all take equally long, so that schedules are tilings of a grid.
static bool hasUnitCosts(const Problem &problem) {
  const StageCost &unit = problem.costs.front();
  return std::all_of(problem.costs.begin(), problem.costs.end(), [&](const StageCost &cost) {
    return cost.forward == unit.forward && cost.inputGrad == unit.forward && cost.weightGrad == unit.forward;
  });
}

Schedule plumb::schedule::searchSchedule(const Problem &problem, const std::vector<Schedule> &orders,
                                         Objective objective, Effort effort) {
  constexpr size_t budget = 1'200'000; // some tenths of a second
  if (effort == Effort::Quick || hasUnitCosts(problem))
    return Search(problem, objective, budget).run(orders, effort);
  // The best order on the grid is often good for uneven costs that no regular order fits.
  Problem grid = problem;
  grid.setCosts({}, 0);
  std::vector<Schedule> more = orders;
  if (Schedule schedule = Search(grid, objective, budget / 3).run(orders, effort); !schedule.rows.empty())
    more.push_back(std::move(schedule));
  return Search(problem, objective, budget).run(more, effort);
}
