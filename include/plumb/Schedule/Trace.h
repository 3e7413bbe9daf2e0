//===- Trace.h - A simulated schedule for trace viewers ---------*- C++ -*-===//
//
// The Trace Event format, which ui.perfetto.dev and chrome://tracing open: JSON with a process per rank, a
// slice per computation, an arrow per transfer between ranks and a curve of the activations' memory.
// https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
//
//===----------------------------------------------------------------------===//

#ifndef PLUMB_SCHEDULE_TRACE_H
#define PLUMB_SCHEDULE_TRACE_H

#include "plumb/Schedule/Simulation.h"
#include <string>

namespace plumb::schedule {

struct TraceOptions {
  std::string rankName = "rank";    ///< Processes are called by it and the rank's number.
  double microsecondsPerUnit = 1;   ///< Of the unit of the problem's costs.
  std::string unit = "one of cost"; ///< What a microsecond of the trace stands for, in words.
};

/// `simulation` must be that of this schedule. Slices on the critical path have `"critical": true`.
std::string toTrace(const Problem &problem, const Schedule &schedule, const Simulation &simulation,
                    const TraceOptions &options = {});

} // namespace plumb::schedule

#endif // PLUMB_SCHEDULE_TRACE_H
