// First step of a kernel, on tensors: few forms of ops, fused where that saves a pass over memory.
#ifndef PLUMB_TARGET_KERNELNORMALIZE_H
#define PLUMB_TARGET_KERNELNORMALIZE_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace plumb::kernels {

/// Turns named structured ops into generic ones and pads into fills and insertions, then fuses elementwise
/// neighbours. A producer is not fused where that would compute an element more than once, so that matrix
/// products keep plain operands.
mlir::LogicalResult normalizeKernel(mlir::func::FuncOp function);

} // namespace plumb::kernels

#endif // PLUMB_TARGET_KERNELNORMALIZE_H
