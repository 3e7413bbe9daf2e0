// The last steps within MLIR: approximated functions, then the LLVM dialect.
#ifndef PLUMB_TARGET_KERNELLOWER_H
#define PLUMB_TARGET_KERNELLOWER_H

#include "mlir/IR/BuiltinOps.h"

namespace plumb::kernels {

/// Lowers loops and vectors to the LLVM dialect. exp, tanh, erf, log and the like become polynomials that
/// work on all lanes; functions of memrefs become functions of bare pointers that do not alias.
mlir::LogicalResult lowerToLLVM(mlir::ModuleOp module);

} // namespace plumb::kernels

#endif // PLUMB_TARGET_KERNELLOWER_H
