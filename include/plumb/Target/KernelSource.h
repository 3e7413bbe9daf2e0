// A kernel on its way from the caller's context to one of its own.
#ifndef PLUMB_TARGET_KERNELSOURCE_H
#define PLUMB_TARGET_KERNELSOURCE_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/DialectRegistry.h"

#include <string>

namespace plumb::kernels {

/// The dialects that the steps of kernel compilation go through, with all that the steps need of them.
mlir::DialectRegistry kernelDialects();

/// The text of a function, named @kernel, without what does not change its meaning: its name, locations, and
/// attributes that mean something to others.
std::string kernelText(mlir::func::FuncOp function);

} // namespace plumb::kernels

#endif // PLUMB_TARGET_KERNELSOURCE_H
