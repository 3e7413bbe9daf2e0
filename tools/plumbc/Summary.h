//===- Summary.h - A compiled plan in a few numbers -------------*- C++ -*-===//
#ifndef PLUMB_TOOLS_PLUMBC_SUMMARY_H
#define PLUMB_TOOLS_PLUMBC_SUMMARY_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/raw_ostream.h"

namespace plumb {

/// Prints what was verified of a compiled module: mesh, stages, memory per rank, and the calls of one step.
void printSummary(mlir::ModuleOp module, llvm::raw_ostream &os);

} // namespace plumb

#endif // PLUMB_TOOLS_PLUMBC_SUMMARY_H
