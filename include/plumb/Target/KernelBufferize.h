// From tensors to buffers: results are computed in the buffers that the caller gives.
#ifndef PLUMB_TARGET_KERNELBUFFERIZE_H
#define PLUMB_TARGET_KERNELBUFFERIZE_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace plumb::kernels {

/// Whether `function` keeps to the contract of kernels; emits an error if not.
mlir::LogicalResult verifyKernelSignature(mlir::func::FuncOp function);

/// Gives every result a destination, its in-out argument or a new last argument, and bufferises the function,
/// which must be the only one of its module. Afterwards it returns nothing, and temporaries are allocations.
mlir::LogicalResult bufferizeKernel(mlir::func::FuncOp function);

} // namespace plumb::kernels

#endif // PLUMB_TARGET_KERNELBUFFERIZE_H
