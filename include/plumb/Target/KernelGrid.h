// One thread for each element: the plain mapping of kernels to devices.
#ifndef PLUMB_TARGET_KERNELGRID_H
#define PLUMB_TARGET_KERNELGRID_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <string>

namespace plumb::kernels {

struct GridEntry {
  std::string name;
  int64_t blocks = 1;
  static constexpr int64_t kThreads = 256;
};

/// Splits a bufferised kernel without allocations into entries that a device runs one after the other,
/// functions
/// `<name>_<i>` of the same arguments that are added to `module`. A structured op gets a thread for each
/// point of its parallel loops; anything else that writes memory is done by the first thread alone.
mlir::FailureOr<llvm::SmallVector<GridEntry>> mapToGrid(mlir::func::FuncOp kernel, llvm::StringRef name,
                                                        mlir::ModuleOp module);

} // namespace plumb::kernels

#endif // PLUMB_TARGET_KERNELGRID_H
