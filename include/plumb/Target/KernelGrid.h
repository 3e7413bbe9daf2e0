// What a device runs of a kernel: entries, each a function of one thread.
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

/// Replaces a kernel, the only function of its module, whose work is in `scf.forall` ops (see
/// KernelThreads.h) and which has no allocations, by functions `<name>_<i>` of the same arguments, to be run
/// one after the other.
mlir::FailureOr<llvm::SmallVector<GridEntry>> outlineEntries(mlir::func::FuncOp kernel, llvm::StringRef name);

/// Adds a function `kernel` of the entries' arguments that runs them on the host: all threads of each, one
/// after the other in an order that is far from theirs on a device.
void emulateEntries(mlir::ModuleOp module, mlir::FunctionType type, llvm::ArrayRef<GridEntry> entries);

} // namespace plumb::kernels

#endif // PLUMB_TARGET_KERNELGRID_H
