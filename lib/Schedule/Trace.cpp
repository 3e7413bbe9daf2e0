#include "plumb/Schedule/Trace.h"
#include "plumb/Schedule/CriticalPath.h"
#include <map>
#include <nlohmann/json.hpp>
#include <set>

using namespace plumb::schedule;
using Json = nlohmann::ordered_json;

namespace {

class Tracer {
public:
  Tracer(const Problem &problem, const Schedule &schedule, const Simulation &simulation,
         const TraceOptions &options)
      : problem(problem), schedule(schedule), simulation(simulation), options(options) {
    for (auto [rank, cell] : criticalPath(problem, schedule, simulation))
      critical.insert({rank, cell});
  }

  std::string run() {
    for (int rank = 0; rank < problem.ranks; ++rank) {
      event("M", rank, 0, "process_name")["args"] = {{"name", options.rankName + " " + std::to_string(rank)}};
      event("M", rank, 0, "process_sort_index")["args"] = {{"sort_index", rank}};
      traceRank(rank);
    }
    for (const Edge &edge : problem.edges)
      for (int microbatch = 0; microbatch < problem.microbatches; ++microbatch)
        if (problem.rankOf(edge.from, microbatch) != problem.rankOf(edge.to, microbatch)) {
          arrow({'F', edge.from, microbatch}, {'F', edge.to, microbatch}, "activations");
          if (problem.training && edge.gradient)
            arrow({'B', edge.to, microbatch}, {'B', edge.from, microbatch}, "gradients");
        }
    return Json{{"traceEvents", events},
                {"displayTimeUnit", "ns"},
                {"otherData",
                 {{"microsecond", options.unit},
                  {"makespan", simulation.makespan},
                  {"bubble", simulation.bubble}}}}
               .dump() +
           "\n";
  }

private:
  using Key = std::tuple<char, int, int>; ///< Forward or backward, stage, microbatch.
  struct Place {
    int rank;
    double start, end;
  };

  double at(double time) const { return time * options.microsecondsPerUnit; }

  Json &event(const char *phase, int rank, double time, const std::string &name) {
    events.push_back({{"ph", phase}, {"pid", rank}, {"tid", 0}, {"ts", at(time)}, {"name", name}});
    return events.back();
  }

  void traceRank(int rank) {
    double live = 0;
    for (size_t cell = 0; cell < schedule.rows[rank].size(); ++cell) {
      const Action &action = schedule.rows[rank][cell];
      if (!action.isCompute())
        continue;
      const Interval &span = simulation.spans[rank][cell];
      Json &slice = event("X", rank, span.start, toString(action));
      slice["dur"] = at(span.end - span.start);
      slice["args"] = {{"stage", action.stage}, {"microbatch", action.microbatch}};
      if (critical.count({rank, static_cast<int>(cell)}))
        slice["args"]["critical"] = true;
      traceMemory(rank, action, span, live);
      for (const Action &half : {action.first(), action.second()})
        if (!half.isIdle() && half.kind != ActionKind::WeightGrad)
          places[{half.kind == ActionKind::Forward ? 'F' : 'B', half.stage, half.microbatch}] = {
              rank, span.start, span.end};
    }
  }

  /// Forwards take memory when they start, backwards give it back when they end.
  void traceMemory(int rank, const Action &action, const Interval &span, double &live) {
    for (const Action &half : {action.first(), action.second()}) {
      if (half.isIdle())
        continue;
      const ActivationChange &change = problem.activations[half.stage];
      bool isForward = half.kind == ActionKind::Forward;
      if (isForward)
        live += change.forward;
      if (half.kind == ActionKind::InputGrad || half.kind == ActionKind::Backward)
        live += change.inputGrad;
      if (half.kind == ActionKind::WeightGrad || half.kind == ActionKind::Backward)
        live += change.weightGrad;
      event("C", rank, isForward ? span.start : span.end, "activations")["args"] = {{"bytes", live}};
    }
  }

  void arrow(const Key &from, const Key &to, const char *name) {
    auto begin = places.find(from), end = places.find(to);
    if (begin == places.end() || end == places.end())
      return;
    // A viewer binds an arrow to the slice around its time.
    Json &start = event("s", begin->second.rank, (begin->second.start + begin->second.end) / 2, name);
    start["cat"] = "transfer";
    start["id"] = arrows;
    Json &finish = event("f", end->second.rank, (end->second.start + end->second.end) / 2, name);
    finish["cat"] = "transfer";
    finish["id"] = arrows++;
    finish["bp"] = "e";
  }

  const Problem &problem;
  const Schedule &schedule;
  const Simulation &simulation;
  const TraceOptions &options;
  std::set<std::pair<int, int>> critical;
  std::map<Key, Place> places;
  Json events = Json::array();
  int arrows = 0;
};

} // namespace

std::string plumb::schedule::toTrace(const Problem &problem, const Schedule &schedule,
                                     const Simulation &simulation, const TraceOptions &options) {
  return Tracer(problem, schedule, simulation, options).run();
}
