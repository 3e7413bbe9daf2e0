//===- Generators.h - One function per family -------------------*- C++ -*-===//
//
// All need `problem.check()` and the precondition of their kind to hold; `generate` sees to both.
//
//===----------------------------------------------------------------------===//

#ifndef PLUMB_SCHEDULE_GENERATORS_GENERATORS_H
#define PLUMB_SCHEDULE_GENERATORS_GENERATORS_H

#include "plumb/Schedule/Problem.h"
#include "plumb/Schedule/Schedule.h"

namespace plumb::schedule {

Schedule generateGPipe(const Problem &problem);
Schedule generateOneFOneB(const Problem &problem);
Schedule generateEagerOneFOneB(const Problem &problem);
Schedule generateForwardOnly(const Problem &problem);
Schedule generateLoopedBFS(const Problem &problem);
Schedule generateInterleavedOneFOneB(const Problem &problem);
Schedule generateDualPipeV(const Problem &problem);
Schedule generateDualPipe(const Problem &problem);

// Regular orders, which do not look at costs.
Schedule interleavedZeroBubblePattern(const Problem &problem);
Schedule zeroBubbleH1Pattern(const Problem &problem);
Schedule zeroBubbleH2Pattern(const Problem &problem);
Schedule zeroBubbleVPattern(const Problem &problem);
Schedule vHalfPattern(const Problem &problem);
Schedule vMinPattern(const Problem &problem);

} // namespace plumb::schedule

#endif // PLUMB_SCHEDULE_GENERATORS_GENERATORS_H
