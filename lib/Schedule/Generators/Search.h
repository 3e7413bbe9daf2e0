//===- Search.h - Find the best order under a memory limit ------*- C++ -*-===//

#ifndef PLUMB_SCHEDULE_GENERATORS_SEARCH_H
#define PLUMB_SCHEDULE_GENERATORS_SEARCH_H

#include "plumb/Schedule/Problem.h"
#include "plumb/Schedule/Schedule.h"

namespace plumb::schedule {

/// What to make small: the time until all ranks are done, the longest time from a rank's first start to its
/// last end, or their sum. Between equals the other one decides, or the makespan.
enum class Objective { Makespan, MaxSpan, Sum };

/// How far to look around: `Quick` starts the descent freely and strictly along each order; `Thorough` also
/// loosely along each, and along the best order for unit costs.
enum class Effort { Quick, Thorough };

/// Descends over the policies of the greedy scheduler, one knob at a time: free, and along the given orders,
/// then along the best schedule found, as long as that helps. The orders take part as they are, too. The work
/// is bounded by a number of scheduled actions, so the result does not depend on the machine. Empty rows if
/// nothing keeps within `problem.memoryLimit`.
Schedule searchSchedule(const Problem &problem, const std::vector<Schedule> &orders, Objective objective,
                        Effort effort);

} // namespace plumb::schedule

#endif // PLUMB_SCHEDULE_GENERATORS_SEARCH_H
