//===- WireLayouts.h - How values travel between stages ---------*- C++ -*-===//

#ifndef PLUMB_LIB_TRANSFORMS_WIRELAYOUTS_H
#define PLUMB_LIB_TRANSFORMS_WIRELAYOUTS_H

#include "plumb/Dialect/Plumb/Plumb.h"

namespace plumb {

/// Inserts redistributions around the values that cross between stages, where the topology makes that
/// cheaper: what several ranks hold alike crosses once, each of them sending a part, and is gathered behind
/// the slow link; what they would have to sum first is only summed in parts.
void chooseWireLayouts(mlir::ModuleOp module, ProgramOp program);

} // namespace plumb

#endif // PLUMB_LIB_TRANSFORMS_WIRELAYOUTS_H
