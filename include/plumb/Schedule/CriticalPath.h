//===- CriticalPath.h - What the makespan is made of ------------*- C++ -*-===//

#ifndef PLUMB_SCHEDULE_CRITICALPATH_H
#define PLUMB_SCHEDULE_CRITICALPATH_H

#include "plumb/Schedule/Simulation.h"

namespace plumb::schedule {

/// The computing cells (rank, cell), first to last, each of which starts when the one before it ends or when
/// its result arrives; the last one ends the schedule. Where several would do, the one on the same rank is
/// taken. `simulation` must be that of this schedule.
std::vector<std::pair<int, int>> criticalPath(const Problem &problem, const Schedule &schedule,
                                              const Simulation &simulation);

} // namespace plumb::schedule

#endif // PLUMB_SCHEDULE_CRITICALPATH_H
