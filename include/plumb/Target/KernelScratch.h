// Temporaries of a kernel, laid out in memory that the caller gives.
#ifndef PLUMB_TARGET_KERNELSCRATCH_H
#define PLUMB_TARGET_KERNELSCRATCH_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace plumb::kernels {

/// Replaces every allocation by a part of one scratch buffer, which becomes the last argument. Parts are
/// 64-byte aligned; those whose uses never overlap share memory. Returns the size in bytes; with 0 there is
/// no argument.
mlir::FailureOr<int64_t> assignScratch(mlir::func::FuncOp function);

} // namespace plumb::kernels

#endif // PLUMB_TARGET_KERNELSCRATCH_H
