// Device code of kernels, as PTX text: correct and simple, not tuned.
#ifndef PLUMB_TARGET_KERNELPTX_H
#define PLUMB_TARGET_KERNELPTX_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Support/LLVM.h"

#include <string>

namespace plumb {

/// Translates every function `k_…` of `module` (see Kernels.h for the contract), which stays as it is, to
/// PTX.
///
/// A kernel becomes entries `k_x_0`, `k_x_1`, …, one for each step of its work, to be launched in this order
/// on one stream. All take the pointers that the host kernel takes: inputs, outputs, scratch. Every element
/// of a result is one thread; loops that carry tensors run in a single one. The text begins with a line for
/// each entry,
///
///   // k_x_0: 12 blocks of 256 threads
///
/// and for kernels with temporaries `// k_x: 4096 bytes of scratch`.
///
/// `features` names the PTX version, at least 8.0, and 8.8 for chips after sm_90. Errors are emitted at the
/// function: what `compileKernels` reports, and functions that a device has no instructions for (sin, pow,
/// f64 exp).
mlir::FailureOr<std::string> translateKernelsToPTX(mlir::ModuleOp module, llvm::StringRef chip = "sm_90",
                                                   llvm::StringRef features = "+ptx80");

} // namespace plumb

#endif // PLUMB_TARGET_KERNELPTX_H
