//===- Inspect.h - What is in a model ---------------------------*- C++ -*-===//
#ifndef PLUMB_TOOLS_PLUMBC_INSPECT_H
#define PLUMB_TOOLS_PLUMBC_INSPECT_H

#include "mlir/IR/BuiltinOps.h"
#include <ostream>

namespace plumb {

/// Prints modules with their parameters, markers, inputs and outputs, and what no op uses.
void inspect(mlir::ModuleOp module, llvm::raw_ostream &os);

/// Prints the ATen operators that can be imported, a Markdown page.
void printOperators(llvm::raw_ostream &os);

} // namespace plumb

#endif // PLUMB_TOOLS_PLUMBC_INSPECT_H
