//===- Report.h - A schedule as text and JSON -------------------*- C++ -*-===//

#ifndef PLUMB_SCHEDULE_REPORT_H
#define PLUMB_SCHEDULE_REPORT_H

#include "plumb/Schedule/Generators.h"
#include "plumb/Schedule/Simulation.h"
#include <string>

namespace plumb::schedule {

/// A row a rank over a common time axis: each action as its text, followed by '-' for as long as it lasts;
/// '.' is idle. Where `columns` are too few for texts, one letter a column: F, B, I, W, and O for a pair.
std::string drawTimeline(const Schedule &schedule, const Simulation &simulation, int columns = 160);

/// The first actions of the critical path, and how many there are.
std::string describePath(const Problem &problem, const Schedule &schedule, const Simulation &simulation);

/// The timeline, and below it makespan, bubble, bubble of the longest span and peak activations.
std::string toText(const Choice &choice, const Simulation &simulation);

/// {"kind", "ranks", "stages", "microbatches", "placement", "makespan", "bubble", "bubble_span",
/// "peak_activations", "actions"}; `actions` is a list of texts per rank.
std::string toJSON(const Choice &choice, const Simulation &simulation);

} // namespace plumb::schedule

#endif // PLUMB_SCHEDULE_REPORT_H
