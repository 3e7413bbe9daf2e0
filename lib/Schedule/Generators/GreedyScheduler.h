//===- GreedyScheduler.h - Zero-bubble scheduling under a memory limit ----===//
//
// Time passes by events; whenever a rank is free it takes the best of what is ready: an input gradient, a
// forward that the memory admits, or else a weight gradient that fills the gap until the next input arrives.
//
// Memory is granted by the banker's rule: a forward may start only if afterwards the microbatches, oldest
// first, could still be brought to their end one after the other on that rank. So every limit that holds one
// microbatch leads to a schedule, for any placement, and none can get stuck.
//
//===----------------------------------------------------------------------===//

#ifndef PLUMB_SCHEDULE_GENERATORS_GREEDYSCHEDULER_H
#define PLUMB_SCHEDULE_GENERATORS_GREEDYSCHEDULER_H

#include "plumb/Schedule/Problem.h"
#include "plumb/Schedule/Schedule.h"

namespace plumb::schedule {

struct GreedyPolicy {
  /// If given: every rank runs its forwards in the order of this list, each after as many input gradients as
  /// precede it there; the list may hold backwards of any form. Such an order may get stuck in a tight limit;
  /// the result is incomplete then.
  const Schedule *order = nullptr;
  /// How many places ahead of that order a forward may run where the next one is not ready, before the first
  /// input gradient of the rank, and after it.
  int firstLead = 0, lead = 0;
  /// Whether input gradients keep their places in `order` too, or run as soon as they can.
  bool strictGradients = true;
  /// Largest memory of a rank.
  double memoryLimit = 0;
  /// If a forward and an input gradient are ready: which one runs.
  bool gradientFirst = true;
  /// Of several ready forwards: that of the later stage, or else of the older microbatch.
  bool deepForwardFirst = true;
  /// The same for input gradients: that of the later stage, or else of the older microbatch.
  bool deepGradientFirst = false;
  /// A forward waits for an input gradient that arrives within this fraction of its duration, before the
  /// first input gradient of the rank, and after it: starting the forward would delay that one, and all that
  /// follow.
  double firstPatience = 0, patience = 0;
  /// A weight gradient fills a gap of at least this fraction of its duration; 0: any gap.
  double fill = 1;
};

/// Backwards are split. Needs `problem.check()` to hold and every rank's stages to fit one microbatch into
/// the limit.
Schedule greedySchedule(const Problem &problem, const GreedyPolicy &policy);

} // namespace plumb::schedule

#endif // PLUMB_SCHEDULE_GENERATORS_GREEDYSCHEDULER_H
