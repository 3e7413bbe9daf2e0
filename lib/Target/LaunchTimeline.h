//===- LaunchTimeline.h - When each launch of a step runs -------*- C++ -*-===//

#ifndef PLUMB_LIB_TARGET_LAUNCHTIMELINE_H
#define PLUMB_LIB_TARGET_LAUNCHTIMELINE_H

#include "plumb/Transforms/Steps.h"

namespace plumb {

/// A launch of one coordinate, and when it runs.
struct TimedLaunch {
  Step step;
  mlir::Operation *op; ///< The first, if it is a group.
  int64_t stream;
  double start, end;
};

/// One step of a verified plan, by pipeline coordinate, in the order in which the host launches. A kernel
/// takes as long as it has operations, a copy as long as it has bytes, a call `kOperationsPerByte` times as
/// long as its largest operand has. A launch starts when its stream has done what came before, the events
/// that it waits for have been recorded and, if it is a call, the call that the device launched before it has
/// started and all partners are ready. O(n log n).
llvm::SmallVector<llvm::SmallVector<TimedLaunch, 0>> simulateLaunches(const Pipeline &pipeline,
                                                                      const schedule::Schedule &actions);

} // namespace plumb

#endif // PLUMB_LIB_TARGET_LAUNCHTIMELINE_H
