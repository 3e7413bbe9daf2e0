//===- Auto.cpp - The best schedule of all kinds --------------------------===//

#include "Search.h"
#include "plumb/Schedule/Generators.h"
#include "plumb/Schedule/Simulation.h"
#include "plumb/Schedule/Verifier.h"
#include <algorithm>
#include <cmath>

using namespace plumb::schedule;

namespace {

/// Keeps the better of two choices: less makespan, or as much of it with less memory.
class Contest {
public:
  void enter(Kind kind, const Problem &problem, const Schedule &schedule) {
    Result<Simulation> simulation = simulate(problem, schedule);
    if (!simulation)
      return;
    double peak = *std::max_element(simulation->peakActivations.begin(), simulation->peakActivations.end());
    bool equal = best && std::abs(simulation->makespan - makespan) <= 1e-9 * makespan;
    if (best && (equal ? peak >= leastPeak : simulation->makespan > makespan))
      return;
    best = Choice{kind, problem, schedule};
    makespan = simulation->makespan;
    leastPeak = peak;
  }

  std::optional<Choice> best;

private:
  double makespan = 0, leastPeak = 0;
};

} // namespace

/// All kinds that apply, and a free search that starts from what they made.
static std::optional<Diagnostic> enterAll(const Problem &problem, Contest &contest) {
  std::optional<Diagnostic> reason;
  std::vector<Schedule> orders;
  for (Kind kind : allKinds()) {
    if (kind == Kind::Auto || checkPrecondition(kind, problem))
      continue;
    Result<Schedule> schedule = generate(kind, problem);
    if (!schedule) {
      reason = schedule.diagnostic();
      continue;
    }
    contest.enter(kind, problem, *schedule);
    orders.push_back(std::move(*schedule));
  }
  if (!problem.training || problem.placements.size() != 1)
    return reason;
  Schedule found = searchSchedule(problem, orders, Objective::Makespan, Effort::Thorough);
  if (!found.rows.empty() && !verify(problem, found, {Transfers::Rendezvous, ListForm::Compute}))
    contest.enter(Kind::Auto, problem, found);
  return reason;
}

Result<Choice> plumb::schedule::choose(const std::vector<Problem> &candidates) {
  Diagnostic reason;
  reason.violation = Violation::UnmetPrecondition;
  reason.message = "there is no candidate to choose from";
  Contest contest;
  for (const Problem &problem : candidates) {
    std::optional<Diagnostic> error = problem.check();
    if (!error)
      error = enterAll(problem, contest);
    if (error)
      reason = *error;
  }
  if (!contest.best)
    return reason;
  return std::move(*contest.best);
}
