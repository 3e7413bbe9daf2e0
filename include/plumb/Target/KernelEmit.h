// Replaces structured ops on buffers by vector loops.
#ifndef PLUMB_TARGET_KERNELEMIT_H
#define PLUMB_TARGET_KERNELEMIT_H

#include "plumb/Target/KernelNest.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace plumb::kernels {

/// Emits every structured op and copy of a bufferised function. Loops are generated with their accumulators
/// carried in registers and their edges of static size, instead of derived by rewriting vectors of higher
/// rank: the code is the same, no pattern set has to converge, and a kernel takes milliseconds. A product
/// takes the fill before it and the elementwise op after it along. An op without vector form becomes scalar
/// loops, with a remark.
mlir::LogicalResult emitKernelLoops(mlir::func::FuncOp function, const VectorTarget &target);

} // namespace plumb::kernels

#endif // PLUMB_TARGET_KERNELEMIT_H
