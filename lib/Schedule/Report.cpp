#include "plumb/Schedule/Report.h"
#include "plumb/Schedule/CriticalPath.h"
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

using namespace plumb::schedule;

static char letterOf(const Action &action) {
  return action.kind == ActionKind::Overlap ? 'O' : toString(action.kind)[0];
}

/// In a timeline a pair is named by its halves alone.
static std::string labelOf(const Action &action) {
  if (action.kind != ActionKind::Overlap)
    return toString(action);
  return toString(action.first()) + "+" + toString(action.second());
}

/// Columns that the whole step takes: enough for every text, or as many as fit.
static double chooseWidth(const Schedule &schedule, const Simulation &simulation, int columns, bool &fits) {
  double wanted = 0;
  for (size_t rank = 0; rank < schedule.rows.size(); ++rank)
    for (size_t cell = 0; cell < schedule.rows[rank].size(); ++cell) {
      const Interval &span = simulation.spans[rank][cell];
      if (span.end > span.start)
        wanted = std::max(wanted, (labelOf(schedule.rows[rank][cell]).size() + 1) *
                                      (simulation.makespan / (span.end - span.start)));
    }
  fits = wanted <= columns;
  return fits ? wanted : columns;
}

std::string plumb::schedule::drawTimeline(const Schedule &schedule, const Simulation &simulation,
                                          int columns) {
  if (!(simulation.makespan > 0) || columns < 1)
    return "";
  bool fits = false;
  double whole = chooseWidth(schedule, simulation, columns, fits);
  size_t width = static_cast<size_t>(std::ceil(whole - 1e-9));
  auto columnOf = [&](double time) {
    return std::min(width, static_cast<size_t>(std::lround(time / simulation.makespan * whole)));
  };
  size_t digits = std::to_string(schedule.rows.size()).size();
  std::string text;
  for (size_t rank = 0; rank < schedule.rows.size(); ++rank) {
    std::string line(width, '.');
    for (size_t cell = 0; cell < schedule.rows[rank].size(); ++cell) {
      const Action &action = schedule.rows[rank][cell];
      const Interval &span = simulation.spans[rank][cell];
      if (!action.isCompute())
        continue;
      size_t begin = columnOf(span.start), end = columnOf(span.end);
      if (begin == end)
        continue;
      std::string box = fits ? labelOf(action) : std::string();
      box.resize(end - begin, fits ? '-' : letterOf(action));
      if (fits && box.back() == '-')
        box.back() = ' ';
      line.replace(begin, end - begin, box);
    }
    std::string name = std::to_string(rank);
    text += "rank " + std::string(digits - std::min(digits, name.size()), ' ') + name + " |" + line + "|\n";
  }
  return text;
}

static std::string percent(double fraction) {
  std::ostringstream text;
  text.setf(std::ios::fixed);
  text.precision(2);
  text << 100 * fraction << " %";
  return text.str();
}

std::string plumb::schedule::describePath(const Problem &problem, const Schedule &schedule,
                                          const Simulation &simulation) {
  std::vector<std::pair<int, int>> path = criticalPath(problem, schedule, simulation);
  constexpr size_t shown = 40;
  std::string text;
  for (size_t i = 0; i < path.size() && i < shown; ++i)
    text += (i ? " " : "") + labelOf(schedule.rows[path[i].first][path[i].second]);
  if (path.size() > shown)
    text += " ... (" + std::to_string(path.size()) + " actions)";
  return text;
}

std::string plumb::schedule::toText(const Choice &choice, const Simulation &simulation) {
  const Problem &problem = choice.problem;
  std::ostringstream text;
  text.precision(10);
  text << toString(choice.kind) << ": " << problem.stages << " stages on " << problem.ranks << " ranks, "
       << problem.microbatches << " microbatches\n"
       << drawTimeline(choice.schedule, simulation) << "makespan          " << simulation.makespan
       << " (in the unit of the costs)\nbubble            " << percent(simulation.bubble)
       << " of the makespan, " << percent(simulation.bubbleSpan) << " of the longest span ("
       << simulation.maxSpan << ")\npeak activations ";
  for (double peak : simulation.peakActivations)
    text << ' ' << peak;
  text << "\ncritical path     " << describePath(problem, choice.schedule, simulation) << '\n';
  return text.str();
}

std::string plumb::schedule::toJSON(const Choice &choice, const Simulation &simulation) {
  const Problem &problem = choice.problem;
  nlohmann::ordered_json actions = nlohmann::ordered_json::array();
  for (const std::vector<Action> &row : choice.schedule.rows) {
    nlohmann::ordered_json &cells = actions.emplace_back(nlohmann::ordered_json::array());
    for (const Action &action : row)
      cells.push_back(toString(action));
  }
  nlohmann::ordered_json placement = problem.placements[0];
  if (problem.placements.size() > 1)
    placement = problem.placements;
  nlohmann::ordered_json document = {
      {"kind", toString(choice.kind)},
      {"ranks", problem.ranks},
      {"stages", problem.stages},
      {"microbatches", problem.microbatches},
      {"placement", placement},
      {"makespan", simulation.makespan},
      {"bubble", simulation.bubble},
      {"bubble_span", simulation.bubbleSpan},
      {"peak_activations", simulation.peakActivations},
      {"actions", actions},
  };
  return document.dump() + "\n";
}
