//===- BufferUpdates.h - What a step writes to buffers ----------*- C++ -*-===//
#ifndef PLUMB_LIB_TRANSFORMS_BUFFERUPDATES_H
#define PLUMB_LIB_TRANSFORMS_BUFFERUPDATES_H

#include "plumb/Dialect/Plumb/Plumb.h"

namespace plumb {

/// Moves what the program stores in buffers to the end of the step (phase `update`), once for each rank of
/// the pipeline that holds a buffer: until then all readers see the old value, and sums over the batch are
/// complete. The last sums that a new value depends on are kept in states of the kind `statistic`; what is
/// computed from them, from other buffers and from constants is computed again there. A new value that
/// depends on the batch by no sum is kept as it is.
void updateBuffers(mlir::ModuleOp module, ProgramOp program);

} // namespace plumb

#endif // PLUMB_LIB_TRANSFORMS_BUFFERUPDATES_H
