//===- PlanFile.h - The plan as JSON, for launchers and tools ---*- C++ -*-===//
//
// Format, version 2; `plumbc plan --print-schema` prints it as a JSON Schema. Its size does not depend on the
// number of ranks. Sizes and offsets are in bytes, coordinates are pipeline coordinates, lists indexed by
// coordinate are in order. Keys have this order:
//
//   format, version, made_by, model
//   signature      of the program that runs the plan; all ranks of a run have the same
//   mesh           axes [{name, size, stride}]: rank = sum of coordinate x stride; ranks: their number
//   pipeline       axis, schedule, microbatches, coordinate of each stage
//   communicators  in creation order: name, axes, pipeline (coordinates; empty: the rank's own), calls
//   stages         name, modules, parameters, receives and sends ({stage, communicator, type, layout})
//   parameters     name, aliases, dtype, shape, layout, trainable, owner, holders (stages), offsets
//   states         name, kind, of (a parameter), dtype, shape, layout, offsets, completed_by: the calls that
//                  make it whole, once per step
//   memory         per coordinate: arena and its parts, and where most temporary memory is in use
//   buffers        per coordinate: stage, made_by, part that writes it, used_in, offset, bytes, slots,
//   stride, ops streams, events actions        per coordinate the action list as text kernels        name,
//   symbol, scratch, flops certificate    what has been proved, over how many consecutive steps; makespan,
//   bubble and the ranks' peak
//                  activations under the costs of `cost_unit`
//   launch         world_size, and the files beside this one that start the program
//
//===----------------------------------------------------------------------===//

#ifndef PLUMB_TARGET_PLANFILE_H
#define PLUMB_TARGET_PLANFILE_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/raw_ostream.h"

namespace plumb {

inline constexpr int kPlanFileVersion = 2;

/// The JSON Schema, draft 2020-12, of plan files.
llvm::StringRef getPlanFileSchema();

/// Writes the plan file of a module that `verify-plan` has accepted; an error if it has not.
llvm::LogicalResult emitPlanFile(mlir::ModuleOp module, llvm::raw_ostream &os);

} // namespace plumb

#endif // PLUMB_TARGET_PLANFILE_H
