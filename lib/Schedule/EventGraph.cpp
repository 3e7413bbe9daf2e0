#include "plumb/Schedule/EventGraph.h"
#include <algorithm>

using namespace plumb::schedule;

namespace {

/// Successor lists, one after another.
struct Successors {
  std::vector<int> begin, to;

  Successors(int numEvents, const std::vector<std::pair<int, int>> &edges)
      : begin(numEvents + 1, 0), to(edges.size()) {
    for (const auto &edge : edges)
      ++begin[edge.first + 1];
    for (int event = 0; event < numEvents; ++event)
      begin[event + 1] += begin[event];
    std::vector<int> next(begin.begin(), begin.end() - 1);
    for (const auto &edge : edges)
      to[next[edge.first]++] = edge.second;
  }
};

/// Breadth-first searches for cycles among the events that are left, each bounded by the best cycle found so
/// far.
class CycleSearch {
public:
  CycleSearch(const Successors &successors, const std::vector<bool> &left)
      : successors(successors), left(left), parent(left.size()), seenIn(left.size(), -1) {}

  std::vector<int> shortest() {
    // Bounds the time on huge rejected graphs, where the last cycle found is then short, but not proven
    // shortest.
    constexpr size_t budget = 50'000'000;
    for (int event = 0; event < static_cast<int>(left.size()); ++event)
      if (left[event] && (best.empty() || visited < budget))
        searchFrom(event);
    return best;
  }

private:
  void searchFrom(int root) {
    std::vector<int> frontier{root}, next;
    for (size_t length = 1; !frontier.empty() && (best.empty() || length < best.size()); ++length) {
      next.clear();
      for (int event : frontier)
        for (int i = successors.begin[event]; i < successors.begin[event + 1]; ++i, ++visited) {
          int successor = successors.to[i];
          if (successor == root)
            return record(root, event);
          if (!left[successor] || seenIn[successor] == root)
            continue;
          seenIn[successor] = root;
          parent[successor] = event;
          next.push_back(successor);
        }
      frontier.swap(next);
    }
  }

  void record(int root, int last) {
    best.clear();
    for (int event = last; event != root; event = parent[event])
      best.push_back(event);
    best.push_back(root);
    std::reverse(best.begin(), best.end());
  }

  const Successors &successors;
  const std::vector<bool> &left;
  std::vector<int> parent, seenIn, best;
  size_t visited = 0;
};

} // namespace

std::vector<int> EventGraph::findCycle() const {
  Successors successors(numEvents, edges);
  std::vector<int> waiting(numEvents, 0);
  for (const auto &edge : edges)
    ++waiting[edge.second];
  std::vector<int> ready;
  for (int event = 0; event < numEvents; ++event)
    if (waiting[event] == 0)
      ready.push_back(event);
  int happened = 0;
  while (!ready.empty()) {
    int event = ready.back();
    ready.pop_back();
    ++happened;
    for (int i = successors.begin[event]; i < successors.begin[event + 1]; ++i)
      if (--waiting[successors.to[i]] == 0)
        ready.push_back(successors.to[i]);
  }
  if (happened == numEvents)
    return {};
  std::vector<bool> left(numEvents);
  for (int event = 0; event < numEvents; ++event)
    left[event] = waiting[event] > 0;
  return CycleSearch(successors, left).shortest();
}
