// Functions that GPUs have no instructions for.
#ifndef PLUMB_TARGET_KERNELMATH_H
#define PLUMB_TARGET_KERNELMATH_H

#include "llvm/IR/Module.h"
#include "llvm/Support/Error.h"

namespace plumb::kernels {

/// Replaces the calls of mathematical functions in `module` that a device cannot make (sin, cos and pow;
/// of f64 also exp, log, tanh and erf) by those of libclc, whose bodies are added. An error names a function
/// that is not there.
llvm::Error linkDeviceMath(llvm::Module &module);

} // namespace plumb::kernels

#endif // PLUMB_TARGET_KERNELMATH_H
