//===- EventGraph.h - A graph of events and its cycles ----------*- C++ -*-===//

#ifndef PLUMB_SCHEDULE_EVENTGRAPH_H
#define PLUMB_SCHEDULE_EVENTGRAPH_H

#include <cstddef>
#include <utility>
#include <vector>

namespace plumb::schedule {

/// Events 0..n-1 and the order between them. Edges may repeat; an edge from an event to itself is a cycle.
class EventGraph {
public:
  int addEvent() { return numEvents++; }
  int size() const { return numEvents; }
  void addEdge(int before, int after) { edges.emplace_back(before, after); }
  void reserveEdges(std::size_t count) { edges.reserve(count); }

  /// Empty if some order of the events respects all edges; else the events of a shortest cycle, each before
  /// the next and the last before the first. Linear if there is none.
  std::vector<int> findCycle() const;

private:
  int numEvents = 0;
  std::vector<std::pair<int, int>> edges;
};

} // namespace plumb::schedule

#endif // PLUMB_SCHEDULE_EVENTGRAPH_H
