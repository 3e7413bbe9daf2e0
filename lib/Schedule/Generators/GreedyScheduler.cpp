#include "GreedyScheduler.h"
#include <algorithm>
#include <deque>
#include <queue>

using namespace plumb::schedule;

namespace {

template <typename T>
using MinHeap = std::priority_queue<T, std::vector<T>, std::greater<>>;

/// F or I of one stage and microbatch.
struct Task {
  int stage, microbatch;
  bool gradient;
};

struct Arrival {
  double time;
  int index; // of the task
  bool operator>(const Arrival &other) const {
    return time != other.time ? time > other.time : index > other.index;
  }
};

struct Rank {
  std::vector<int> stages;
  double free = 0;
  double live = 0;                         // memory held
  double reclaimable = 0;                  // part of `live` that pending weight gradients would free
  double whole = 0;                        // what one microbatch needs on all stages
  std::vector<double> held, outstanding;   // per microbatch: memory held, and needed for what has not started
  size_t forwards = 0, gradients = 0;      // how many have run
  std::vector<int> gradientOrder;          // input gradients, if an order is given
  std::vector<int> gradientsBefore;        // per forward of that order
  MinHeap<Arrival> arriving;               // tasks whose inputs are all under way
  std::deque<std::pair<int, int>> weights; // pending (stage, microbatch), oldest first
};

class GreedyScheduler {
public:
  GreedyScheduler(const Problem &problem, const GreedyPolicy &policy);
  Schedule run();

private:
  int indexOf(int stage, int m, bool gradient) const {
    return ((gradient ? problem.stages : 0) + stage) * problem.microbatches + m;
  }
  Task taskOf(int index) const {
    int row = index / problem.microbatches;
    return {row % problem.stages, index % problem.microbatches, row >= problem.stages};
  }
  /// Memory that one microbatch may need on a stage.
  double need(int stage) const {
    const ActivationChange &change = problem.activations[stage];
    return std::max({change.forward, change.forward + change.inputGrad, 0.0});
  }
  /// Memory of it that stays between I and W.
  double rest(int stage) const {
    const ActivationChange &change = problem.activations[stage];
    return std::max(change.forward + change.inputGrad, 0.0);
  }
  void prepareTasks();
  void recordOrder();
  bool mayForward(const Rank &rank, int stage, int m) const {
    if (!policy.order)
      return true;
    int place = placeOf[indexOf(stage, m, false)];
    int lead = rank.gradients == 0 ? policy.firstLead : policy.lead;
    return place <= static_cast<int>(rank.forwards) + lead &&
           static_cast<int>(rank.gradients) >= rank.gradientsBefore[place] - lead;
  }
  bool mayGradient(const Rank &rank, int stage, int m) const {
    return !policy.order || !policy.strictGradients ||
           (rank.gradientOrder[rank.gradients] == indexOf(stage, m, true) &&
            (rank.forwards >= rank.gradientsBefore.size() ||
             rank.gradientsBefore[rank.forwards] > static_cast<int>(rank.gradients)));
  }
  void feed(int stage, int m, bool gradient, double time);
  void step(int rank);
  bool admits(const Rank &rank, int stage, int m) const;
  int bestGradient(const Rank &rank) const;
  int bestForward(const Rank &rank) const;
  void runForward(int rank, int stage);
  void runGradient(int rank, int stage);
  void runWeight(int rank);
  void occupy(int rank, double duration) {
    ranks[rank].free = now + duration;
    pokes.push({ranks[rank].free, rank});
  }

  const Problem &problem;
  GreedyPolicy policy;
  Neighbours neighbours;
  std::vector<Rank> ranks;
  std::vector<int> missing;      // per task: inputs that are not under way
  std::vector<double> readyTime; // per task
  std::vector<int> placeOf;      // per forward: its place in the rank's order, if one is given
  std::vector<MinHeap<int>> readyForwards, readyGradients; // per stage: microbatches
  std::vector<int> finishedStages;                         // per microbatch
  int oldest = 0;                                          // microbatch that is not through yet
  MinHeap<std::pair<double, int>> pokes;                   // (time, rank)
  double now = 0, tolerance = 0;
  Schedule schedule;
};

} // namespace

GreedyScheduler::GreedyScheduler(const Problem &problem, const GreedyPolicy &policy)
    : problem(problem), policy(policy), neighbours(problem), ranks(problem.ranks),
      missing(2ull * problem.stages * problem.microbatches), readyTime(missing.size(), 0),
      readyForwards(problem.stages), readyGradients(problem.stages), finishedStages(problem.microbatches, 0) {
  schedule.rows.resize(problem.ranks);
  for (int rank = 0; rank < problem.ranks; ++rank) {
    ranks[rank].stages = problem.stagesOf(rank);
    ranks[rank].held.assign(problem.microbatches, 0);
    double total = 0;
    for (int stage : ranks[rank].stages)
      total += need(stage);
    ranks[rank].whole = total;
    ranks[rank].outstanding.assign(problem.microbatches, total);
    pokes.push({0, rank});
  }
  double longest = 0;
  for (const StageCost &cost : problem.costs)
    longest = std::max(longest, cost.total());
  tolerance = 1e-9 * longest; // times that differ by rounding alone are one moment
  prepareTasks();
  if (policy.order)
    recordOrder();
}

void GreedyScheduler::recordOrder() {
  placeOf.resize(missing.size() / 2);
  for (int r = 0; r < problem.ranks; ++r)
    for (const Action &action : policy.order->rows[r])
      for (const Action &half : {action.first(), action.second()}) {
        if (half.kind == ActionKind::Forward) {
          placeOf[indexOf(half.stage, half.microbatch, false)] =
              static_cast<int>(ranks[r].gradientsBefore.size());
          ranks[r].gradientsBefore.push_back(static_cast<int>(ranks[r].gradientOrder.size()));
        }
        if (half.kind == ActionKind::Backward || half.kind == ActionKind::InputGrad)
          ranks[r].gradientOrder.push_back(indexOf(half.stage, half.microbatch, true));
      }
}

void GreedyScheduler::prepareTasks() {
  for (int stage = 0; stage < problem.stages; ++stage) {
    int gradients = 1;
    for (int edge : neighbours.outgoing[stage])
      gradients += problem.edges[edge].gradient;
    for (int m = 0; m < problem.microbatches; ++m) {
      missing[indexOf(stage, m, false)] = static_cast<int>(neighbours.incoming[stage].size());
      missing[indexOf(stage, m, true)] = gradients;
      if (neighbours.incoming[stage].empty())
        readyForwards[stage].push(m);
    }
  }
}

void GreedyScheduler::feed(int stage, int m, bool gradient, double time) {
  int index = indexOf(stage, m, gradient);
  readyTime[index] = std::max(readyTime[index], time);
  if (--missing[index] > 0)
    return;
  int rank = problem.rankOf(stage, m);
  ranks[rank].arriving.push({readyTime[index], index});
  pokes.push({readyTime[index], rank});
}

/// The banker's rule, for the microbatches up to `m`; for later ones nothing changes.
bool GreedyScheduler::admits(const Rank &rank, int stage, int m) const {
  if (policy.order && policy.lead == 0 && policy.firstLead == 0)
    return rank.live - rank.reclaimable + need(stage) <= policy.memoryLimit * (1 + 1e-9);
  double slack = policy.memoryLimit * (1 + 1e-9);
  double available = slack - (rank.live - rank.reclaimable) - need(stage);
  if (available < 0)
    return false;
  for (int older = oldest; older < m && available < rank.whole; ++older) {
    if (available < rank.outstanding[older])
      return false;
    available += rank.held[older];
  }
  return available >= rank.outstanding[m] - need(stage);
}

int GreedyScheduler::bestGradient(const Rank &rank) const {
  int best = -1;
  for (int stage : rank.stages) // ascending
    if (!readyGradients[stage].empty() && mayGradient(rank, stage, readyGradients[stage].top()) &&
        (best < 0 || policy.deepGradientFirst || readyGradients[stage].top() <= readyGradients[best].top()))
      best = stage;
  return best;
}

int GreedyScheduler::bestForward(const Rank &rank) const {
  int best = -1;
  for (int stage : rank.stages)
    if (!readyForwards[stage].empty() && mayForward(rank, stage, readyForwards[stage].top()) &&
        (best < 0 || policy.deepForwardFirst || readyForwards[stage].top() <= readyForwards[best].top()) &&
        admits(rank, stage, readyForwards[stage].top()))
      best = stage;
  return best;
}

void GreedyScheduler::runForward(int r, int stage) {
  Rank &rank = ranks[r];
  int m = readyForwards[stage].top();
  readyForwards[stage].pop();
  ++rank.forwards;
  double size = need(stage), end = now + problem.costs[stage].forward;
  rank.live += size;
  rank.held[m] += size;
  rank.outstanding[m] -= size;
  schedule.rows[r].push_back(Action::forward(stage, m));
  occupy(r, problem.costs[stage].forward);
  feed(stage, m, true, end);
  for (int e : neighbours.outgoing[stage]) {
    const Edge &edge = problem.edges[e];
    feed(edge.to, m, false, end + (problem.rankOf(edge.to, m) == r ? 0 : edge.cost));
  }
}

void GreedyScheduler::runGradient(int r, int stage) {
  Rank &rank = ranks[r];
  int m = readyGradients[stage].top();
  readyGradients[stage].pop();
  double end = now + problem.costs[stage].inputGrad;
  ++rank.gradients;
  rank.live -= need(stage) - rest(stage);
  rank.reclaimable += rest(stage);
  rank.held[m] -= need(stage);
  rank.weights.emplace_back(stage, m);
  schedule.rows[r].push_back(Action::inputGrad(stage, m));
  occupy(r, problem.costs[stage].inputGrad);
  for (int e : neighbours.incoming[stage]) {
    const Edge &edge = problem.edges[e];
    if (edge.gradient)
      feed(edge.from, m, true, end + (problem.rankOf(edge.from, m) == r ? 0 : edge.cost));
  }
  ++finishedStages[m];
  while (oldest < problem.microbatches && finishedStages[oldest] == problem.stages)
    ++oldest;
}

void GreedyScheduler::runWeight(int r) {
  Rank &rank = ranks[r];
  auto [stage, m] = rank.weights.front();
  rank.weights.pop_front();
  rank.live -= rest(stage);
  rank.reclaimable -= rest(stage);
  schedule.rows[r].push_back(Action::weightGrad(stage, m));
  occupy(r, problem.costs[stage].weightGrad);
}

/// Takes the best that is ready on a free rank, if anything.
void GreedyScheduler::step(int r) {
  Rank &rank = ranks[r];
  if (rank.free > now + tolerance)
    return;
  while (!rank.arriving.empty() && rank.arriving.top().time <= now + tolerance) {
    Task task = taskOf(rank.arriving.top().index);
    (task.gradient ? readyGradients : readyForwards)[task.stage].push(task.microbatch);
    rank.arriving.pop();
  }
  int gradient = bestGradient(rank);
  int forward = gradient >= 0 && policy.gradientFirst ? -1 : bestForward(rank);
  double gap =
      rank.arriving.empty() ? std::numeric_limits<double>::infinity() : rank.arriving.top().time - now;
  if (forward >= 0 && gradient < 0 && !rank.arriving.empty() && taskOf(rank.arriving.top().index).gradient &&
      gap + tolerance <
          (rank.gradients == 0 ? policy.firstPatience : policy.patience) * problem.costs[forward].forward)
    forward = -1;
  if (forward >= 0 && rank.live + need(forward) > policy.memoryLimit * (1 + 1e-9))
    return runWeight(r); // granted on account of what it frees
  if (forward >= 0)
    return runForward(r, forward);
  if (gradient >= 0)
    return runGradient(r, gradient);
  if (rank.weights.empty())
    return;
  if (gap + tolerance >= policy.fill * problem.costs[rank.weights.front().first].weightGrad)
    runWeight(r);
}

Schedule GreedyScheduler::run() {
  while (!pokes.empty()) {
    now = pokes.top().first;
    int rank = pokes.top().second;
    pokes.pop();
    step(rank);
  }
  return std::move(schedule);
}

Schedule plumb::schedule::greedySchedule(const Problem &problem, const GreedyPolicy &policy) {
  return GreedyScheduler(problem, policy).run();
}
