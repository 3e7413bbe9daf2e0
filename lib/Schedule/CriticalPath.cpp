#include "plumb/Schedule/CriticalPath.h"
#include <algorithm>

using namespace plumb::schedule;

using Cell = std::pair<int, int>; // rank, cell

namespace {

class PathFinder {
public:
  PathFinder(const Problem &problem, const Schedule &schedule, const Simulation &simulation)
      : problem(problem), schedule(schedule), simulation(simulation), neighbours(problem),
        forwardAt(static_cast<size_t>(problem.stages) * problem.microbatches, none),
        gradientAt(forwardAt.size(), none) {
    for (Cell cell : simulation.order)
      for (const Action &half : {actionAt(cell).first(), actionAt(cell).second()}) {
        if (half.kind == ActionKind::Forward)
          forwardAt[indexOf(half.stage, half.microbatch)] = cell;
        if (half.kind == ActionKind::Backward || half.kind == ActionKind::InputGrad)
          gradientAt[indexOf(half.stage, half.microbatch)] = cell;
      }
  }

  std::vector<Cell> find() const {
    std::vector<Cell> path;
    Cell last = none;
    for (Cell cell : simulation.order)
      if (last == none || spanOf(cell).end > spanOf(last).end)
        last = cell;
    for (Cell cell = last; cell != none; cell = predecessor(cell))
      path.push_back(cell);
    std::reverse(path.begin(), path.end());
    return path;
  }

private:
  static constexpr Cell none{-1, -1};

  size_t indexOf(int stage, int m) const { return static_cast<size_t>(stage) * problem.microbatches + m; }
  const Action &actionAt(Cell cell) const { return schedule.rows[cell.first][cell.second]; }
  const Interval &spanOf(Cell cell) const { return simulation.spans[cell.first][cell.second]; }

  /// What kept `cell` from starting earlier: the one whose result came last.
  Cell predecessor(Cell cell) const {
    Cell best = none;
    double latest = 0;
    for (int before = cell.second - 1; before >= 0; --before)
      if (schedule.rows[cell.first][before].isCompute()) {
        best = {cell.first, before};
        latest = spanOf(best).end;
        break;
      }
    auto offer = [&](Cell producer, double transfer) {
      if (producer == none || producer == cell)
        return;
      double arrival = spanOf(producer).end + (producer.first == cell.first ? 0 : transfer);
      if (best == none || arrival > latest) {
        best = producer;
        latest = arrival;
      }
    };
    // A pair starts with its forward.
    Action action = actionAt(cell).first();
    if (action.kind == ActionKind::Forward)
      for (int edge : neighbours.incoming[action.stage])
        offer(forwardAt[indexOf(problem.edges[edge].from, action.microbatch)], problem.edges[edge].cost);
    if (action.kind == ActionKind::Backward || action.kind == ActionKind::InputGrad)
      for (int edge : neighbours.outgoing[action.stage])
        if (problem.edges[edge].gradient)
          offer(gradientAt[indexOf(problem.edges[edge].to, action.microbatch)], problem.edges[edge].cost);
    return best;
  }

  const Problem &problem;
  const Schedule &schedule;
  const Simulation &simulation;
  Neighbours neighbours;
  std::vector<Cell> forwardAt, gradientAt;
};

} // namespace

std::vector<Cell> plumb::schedule::criticalPath(const Problem &problem, const Schedule &schedule,
                                                const Simulation &simulation) {
  return PathFinder(problem, schedule, simulation).find();
}
