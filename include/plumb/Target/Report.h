//===- Report.h - A plan for people and trace viewers -----------*- C++ -*-===//

#ifndef PLUMB_TARGET_REPORT_H
#define PLUMB_TARGET_REPORT_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/raw_ostream.h"

namespace plumb {

/// One HTML page that needs nothing else: what was proved, the timeline, memory, stages, calls between ranks,
/// parameters. Its numbers are those of the plan file. Errors are those of `emitPlanFile`.
llvm::LogicalResult emitReport(mlir::ModuleOp module, llvm::raw_ostream &os);

/// The simulated step as Trace Event JSON, see Schedule/Trace.h: a process per pipeline coordinate with its
/// actions. With the plan's `costs` one of their units is a millisecond, else a million operations are a
/// microsecond. One more process per coordinate has a thread per stream with each launch, by the operations
/// and bytes of each (`kOperationsPerByte`): what overlaps with what.
llvm::LogicalResult emitTrace(mlir::ModuleOp module, llvm::raw_ostream &os);

} // namespace plumb

#endif // PLUMB_TARGET_REPORT_H
