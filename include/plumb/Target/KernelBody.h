// From a structured op on buffers to its loop nest.
#ifndef PLUMB_TARGET_KERNELBODY_H
#define PLUMB_TARGET_KERNELBODY_H

#include "plumb/Target/KernelNest.h"

namespace plumb::kernels {

/// The nest of a structured op on buffers. Fails, without leaving code behind that matters, where an address
/// is not linear in the loop indices, a stride is not static, or the body has an op without vector form.
mlir::FailureOr<LoopNest> buildNest(mlir::ImplicitLocOpBuilder &b, mlir::linalg::LinalgOp op);

/// The op `yielded = combine(accumulator, value)` with an associative combine that has a neutral element, if
/// a body has this form, `accumulator` being its argument for an output; else null.
mlir::Operation *matchCombiner(mlir::BlockArgument accumulator, mlir::Value yielded);

} // namespace plumb::kernels

#endif // PLUMB_TARGET_KERNELBODY_H
