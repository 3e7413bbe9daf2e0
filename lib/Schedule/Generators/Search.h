//===- Search.h - Find the best order under a memory limit ------*- C++ -*-===//

#ifndef PLUMB_SCHEDULE_GENERATORS_SEARCH_H
#define PLUMB_SCHEDULE_GENERATORS_SEARCH_H

#include "plumb/Schedule/Problem.h"
#include "plumb/Schedule/Schedule.h"

namespace plumb::schedule {

/// What to make small first; the other one decides between equals.
enum class Objective { Makespan, MaxSpan };

/// Descends over the policies of the greedy scheduler, one knob at a time: free, and along each of the given orders,
/// then along the best schedule found, as long as that helps. The orders take part as they are, too. The effort is
/// bounded by a number of scheduled actions, so the result does not depend on the machine.
/// Empty rows if nothing keeps within `problem.memoryLimit`.
Schedule searchSchedule(const Problem &problem, const std::vector<Schedule> &orders, Objective objective);

} // namespace plumb::schedule

#endif // PLUMB_SCHEDULE_GENERATORS_SEARCH_H
