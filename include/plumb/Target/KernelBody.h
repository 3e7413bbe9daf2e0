// From a structured op on buffers to its loop nest.
#ifndef PLUMB_TARGET_KERNELBODY_H
#define PLUMB_TARGET_KERNELBODY_H

#include "plumb/Target/KernelNest.h"

namespace plumb::kernels {

/// The nest of a structured op on buffers. Fails, without leaving code behind that matters, where an address
/// is not linear in the loop indices, a stride is not static, or the body has an op without vector form.
mlir::FailureOr<LoopNest> buildNest(mlir::ImplicitLocOpBuilder &b, mlir::linalg::LinalgOp op);

} // namespace plumb::kernels

#endif // PLUMB_TARGET_KERNELBODY_H
