//===- ListScheduler.h - Event-driven list scheduling -----------*- C++ -*-===//
//
// Every rank runs its forwards in one fixed order and its backwards as they get ready, within a limit on the
// forwards whose backward is outstanding. Time passes by events, so unequal costs, transfers, skip
// connections and any placement are taken as they are.
//
//===----------------------------------------------------------------------===//

#ifndef PLUMB_SCHEDULE_GENERATORS_LISTSCHEDULER_H
#define PLUMB_SCHEDULE_GENERATORS_LISTSCHEDULER_H

#include "plumb/Schedule/Problem.h"
#include "plumb/Schedule/Schedule.h"

namespace plumb::schedule {

struct ListPolicy {
  /// Forwards run in the order (m / group, stage, m mod group).
  int group = 1;
  /// Per rank: most forwards whose backward is outstanding. Raised by one where every rank would wait for
  /// ever.
  std::vector<int> inFlight;
  /// Whether a ready backward runs before a forward that the limit would admit.
  bool backwardFirst = true;
  /// No backward before all forwards of the rank.
  bool forwardsFirst = false;
};

/// Needs `problem.check()` to hold. Backwards are whole.
Schedule listSchedule(const Problem &problem, const ListPolicy &policy);

} // namespace plumb::schedule

#endif // PLUMB_SCHEDULE_GENERATORS_LISTSCHEDULER_H
