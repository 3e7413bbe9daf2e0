#include "ListScheduler.h"
#include <algorithm>
#include <queue>
#include <tuple>

using namespace plumb::schedule;

namespace {

struct Task {
  int stage, microbatch;
  bool backward;
};

class ListScheduler {
public:
  ListScheduler(const Problem &problem, const ListPolicy &policy);
  Schedule run();

private:
  struct Event {
    double time;
    int rank;
    Task arrived; // stage < 0: the rank is free
    bool operator>(const Event &other) const {
      return std::tie(time, rank) > std::tie(other.time, other.rank);
    }
  };

  size_t indexOf(const Task &task) const {
    return (static_cast<size_t>(task.backward) * problem.stages + task.stage) * problem.microbatches +
           task.microbatch;
  }
  /// Position of a backward among those of a rank: groups as for forwards, later stages first.
  size_t backwardKey(const Task &task) const {
    size_t group = task.microbatch / policy.group;
    return (group * problem.stages + (problem.stages - 1 - task.stage)) * policy.group +
           task.microbatch % policy.group;
  }
  Task backwardOf(size_t key) const {
    size_t row = key / policy.group;
    return {problem.stages - 1 - static_cast<int>(row % problem.stages),
            static_cast<int>(row / problem.stages * policy.group + key % policy.group), true};
  }
  void buildForwardOrder();
  void countInputs();
  void arrive(const Task &task, int rank);
  bool startNext(int rank);
  void start(const Task &task, int rank);
  void feed(const Task &consumer, int fromRank, double cost, double end);
  bool unblock();

  const Problem &problem;
  ListPolicy policy;
  Neighbours neighbours;
  std::vector<std::vector<Task>> forwards; // per rank
  std::vector<size_t> nextForward;
  std::vector<int> missing; // per task: inputs not there yet
  std::vector<std::priority_queue<size_t, std::vector<size_t>, std::greater<>>> readyBackwards;
  std::vector<int> outstanding;
  std::vector<double> freeAt;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events;
  double now = 0;
  double tolerance = 0;
  Schedule schedule;
};

} // namespace

ListScheduler::ListScheduler(const Problem &problem, const ListPolicy &policy)
    : problem(problem), policy(policy), neighbours(problem), forwards(problem.ranks),
      nextForward(problem.ranks, 0), missing(2ull * problem.stages * problem.microbatches, 0),
      readyBackwards(problem.ranks), outstanding(problem.ranks, 0), freeAt(problem.ranks, 0) {
  schedule.rows.resize(problem.ranks);
  buildForwardOrder();
  countInputs();
  double longest = 0;
  for (const StageCost &cost : problem.costs)
    longest = std::max(longest, cost.total());
  // Arrival times that differ by rounding alone are one moment.
  tolerance = 1e-9 * longest;
}

void ListScheduler::buildForwardOrder() {
  for (int begin = 0; begin < problem.microbatches; begin += policy.group)
    for (int stage = 0; stage < problem.stages; ++stage)
      for (int m = begin; m < std::min(begin + policy.group, problem.microbatches); ++m)
        forwards[problem.rankOf(stage, m)].push_back({stage, m, false});
}

void ListScheduler::countInputs() {
  for (int stage = 0; stage < problem.stages; ++stage) {
    int gradients = 0;
    for (int edge : neighbours.outgoing[stage])
      gradients += problem.edges[edge].gradient;
    for (int m = 0; m < problem.microbatches; ++m) {
      missing[indexOf({stage, m, false})] = static_cast<int>(neighbours.incoming[stage].size());
      missing[indexOf({stage, m, true})] = gradients + 1;
    }
  }
}

void ListScheduler::arrive(const Task &task, int rank) {
  if (--missing[indexOf(task)] == 0 && task.backward)
    readyBackwards[rank].push(backwardKey(task));
}

void ListScheduler::feed(const Task &consumer, int fromRank, double cost, double end) {
  int rank = problem.rankOf(consumer.stage, consumer.microbatch);
  events.push({end + (rank == fromRank ? 0 : cost), rank, consumer});
}

void ListScheduler::start(const Task &task, int rank) {
  int stage = task.stage, m = task.microbatch;
  const StageCost &cost = problem.costs[stage];
  double end = now + (task.backward ? cost.backward() : cost.forward);
  freeAt[rank] = end;
  events.push({end, rank, {-1, 0, false}});
  if (task.backward) {
    --outstanding[rank];
    schedule.rows[rank].push_back(Action::backward(stage, m));
    for (int edge : neighbours.incoming[stage])
      if (problem.edges[edge].gradient)
        feed({problem.edges[edge].from, m, true}, rank, problem.edges[edge].cost, end);
    return;
  }
  ++outstanding[rank];
  schedule.rows[rank].push_back(Action::forward(stage, m));
  for (int edge : neighbours.outgoing[stage])
    feed({problem.edges[edge].to, m, false}, rank, problem.edges[edge].cost, end);
  if (problem.training)
    feed({stage, m, true}, rank, 0, end);
}

bool ListScheduler::startNext(int rank) {
  if (freeAt[rank] > now + tolerance)
    return false;
  bool forwardsLeft = nextForward[rank] < forwards[rank].size();
  bool forward = forwardsLeft && (!problem.training || outstanding[rank] < policy.inFlight[rank]) &&
                 missing[indexOf(forwards[rank][nextForward[rank]])] == 0;
  bool backward = !readyBackwards[rank].empty() && !(policy.forwardsFirst && forwardsLeft);
  if (backward && (policy.backwardFirst || !forward)) {
    Task task = backwardOf(readyBackwards[rank].top());
    readyBackwards[rank].pop();
    start(task, rank);
    return true;
  }
  if (forward)
    start(forwards[rank][nextForward[rank]++], rank);
  return forward;
}

/// Called when nothing can happen any more: lets the first rank with a ready forward exceed its limit by one.
bool ListScheduler::unblock() {
  for (int rank = 0; rank < problem.ranks; ++rank) {
    if (nextForward[rank] == forwards[rank].size() || missing[indexOf(forwards[rank][nextForward[rank]])] > 0)
      continue;
    policy.inFlight[rank] = outstanding[rank] + 1;
    return startNext(rank);
  }
  return false;
}

Schedule ListScheduler::run() {
  for (int rank = 0; rank < problem.ranks; ++rank)
    events.push({0, rank, {-1, 0, false}});
  std::vector<int> touched;
  do {
    while (!events.empty()) {
      now = events.top().time;
      touched.clear();
      while (!events.empty() && events.top().time <= now + tolerance) {
        Event event = events.top();
        events.pop();
        if (event.arrived.stage >= 0)
          arrive(event.arrived, event.rank);
        touched.push_back(event.rank);
      }
      std::sort(touched.begin(), touched.end());
      touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
      for (int rank : touched)
        startNext(rank);
    }
  } while (unblock());
  return std::move(schedule);
}

Schedule plumb::schedule::listSchedule(const Problem &problem, const ListPolicy &policy) {
  return ListScheduler(problem, policy).run();
}
