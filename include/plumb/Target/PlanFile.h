//===- PlanFile.h - The plan as JSON, for launchers and tools ---*- C++ -*-===//
//
// Format, version 1. Sizes and offsets are in bytes, coordinates are pipeline coordinates, lists indexed by
// coordinate are in order. Keys have this order:
//
//   format, version, model
//   mesh           axes [{name, size}], ranks: the coordinates of each rank, by rank
//   pipeline       axis, schedule, microbatches, coordinate of each stage
//   communicators  in creation order: name, axes, pipeline (coordinates; empty: the rank's own)
//   stages         name, parameters, receives and sends ({stage, communicator, type})
//   parameters     name, aliases, dtype, shape, layout, trainable, owner, holders (stages), offsets
//   states         name, kind, dtype, shape, layout, offsets
//   memory         per coordinate: arena and its parts, and where most temporary memory is in use
//   buffers        per coordinate: stage, made_by, part, offset, bytes, slots, stride
//   streams, events
//   actions        per coordinate the action list as text
//   kernels        name, symbol, scratch, flops
//   certificate    what has been proved, over how many consecutive steps
//
//===----------------------------------------------------------------------===//

#ifndef PLUMB_TARGET_PLANFILE_H
#define PLUMB_TARGET_PLANFILE_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/raw_ostream.h"

namespace plumb {

/// Writes the plan file of a module that `verify-plan` has accepted; an error if it has not.
llvm::LogicalResult emitPlanFile(mlir::ModuleOp module, llvm::raw_ostream &os);

} // namespace plumb

#endif // PLUMB_TARGET_PLANFILE_H
