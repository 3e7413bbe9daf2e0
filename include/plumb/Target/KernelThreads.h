// A thread for each element: the plain mapping of kernels to devices.
#ifndef PLUMB_TARGET_KERNELTHREADS_H
#define PLUMB_TARGET_KERNELTHREADS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace plumb::kernels {

/// Replaces what writes memory in a bufferised kernel by `scf.forall` ops of one dim, whose threads may run
/// in any order.
///
/// * A structured op gets a thread for each point of its parallel loops, which walks over its reduction
///   loops; in a large product, for each square of points. A long reduction to few points gets several
///   threads a point, whose partial results, temporaries of the kernel, a second op adds up.
/// * A loop whose turns update a slice gets a thread for each point of the slice.
/// * Anything else is done by one thread.
mlir::LogicalResult spreadOverThreads(mlir::func::FuncOp kernel);

} // namespace plumb::kernels

#endif // PLUMB_TARGET_KERNELTHREADS_H
