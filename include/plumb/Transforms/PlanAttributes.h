//===- PlanAttributes.h - What the passes after form-kernels decide -*- C++ -*-===//
//
// Decisions are discardable attributes, so that what follows only reads them.
//
// apply-spec:
//   plumb.batch                 on the module: rows of the whole batch, where the plan sets it
//   plumb.batch_parts           on the module: ranks and microbatches whose rows batch normalisation may part
// bound-inputs:
//   plumb.index_range           on an input: its values are 0 to the first number - 1, or the second, if
//   there is one plumb.index_reader          on an input: the op that says so, for errors
// build-step:
//   plumb.rate                  on the module: the learning rate, where it never changes
// form-kernels:
//   plumb.inout, plumb.result   on an argument of a kernel: it is overwritten by that result
//   plumb.flops                 on a kernel: operations of one run
//   plumb.operand_layouts       on a launch: per operand the layout in which it is read, unit if it has none
// compile-kernels:
//   plumb.target                on the module: what the kernels are for: host, emulated, or the name of a GPU
//   plumb.symbol                on a kernel: the symbol to call
//   plumb.scratch               on a kernel: bytes of scratch memory
//   plumb.object                on a kernel: the object file
// assign-streams:
//   plumb.streams               on the module: names of the streams; 0 is the compute stream
//   plumb.events                on the module: number of events
//   plumb.slots                 on a stage: slot classes, each {name, table, stride, places}
//   plumb.waits, plumb.records  on ops: events, [first event, slot class or -1, …]
//   plumb.stream                on an op that does not run on the compute stream: its stream
//   plumb.slot                  on ops: per result (of a store: for the state) its slot class, or -1
// plan-memory:
//   plumb.offset                on ops: per result (of a store: for the state) its offset in slot 0
//   plumb.scratch_offset        on a launch: offset of its scratch
//   plumb.copy                  on a store: the value must be copied into the state
//   plumb.offsets               on a parameter or state: offset per coordinate, -1 where it is absent
//   plumb.arena, plumb.cleared  on the module: bytes per coordinate; those at its start that a step clears
//   plumb.staging               on the module: offset per coordinate where the inputs of the next step arrive
//   plumb.memory                on the module: bytes per coordinate by use, for reports
// verify-plan:
//   plumb.verified              on the module: what has been proved
//
// Offsets are in bytes from the start of the arena. A *slot class* is a set of per-microbatch buffers of a
// stage with one lifetime. Microbatch m uses slot `table[m]`, to which event `first + table[m]` belongs; a
// value of the class lies at `offset + table[m] * stride`, or, where the slots do not lie side by side, at
// `offset + places[m]`.
//
//===----------------------------------------------------------------------===//

#ifndef PLUMB_TRANSFORMS_PLANATTRIBUTES_H
#define PLUMB_TRANSFORMS_PLANATTRIBUTES_H

#include "llvm/ADT/StringRef.h"

namespace plumb {

inline constexpr llvm::StringLiteral kBatchAttr = "plumb.batch";
inline constexpr llvm::StringLiteral kBatchPartsAttr = "plumb.batch_parts";
inline constexpr llvm::StringLiteral kIndexRangeAttr = "plumb.index_range";
inline constexpr llvm::StringLiteral kIndexReaderAttr = "plumb.index_reader";
inline constexpr llvm::StringLiteral kRateAttr = "plumb.rate";
inline constexpr llvm::StringLiteral kInoutAttr = "plumb.inout";
inline constexpr llvm::StringLiteral kResultAttr = "plumb.result";
inline constexpr llvm::StringLiteral kFlopsAttr = "plumb.flops";
inline constexpr llvm::StringLiteral kOperandLayoutsAttr = "plumb.operand_layouts";
inline constexpr llvm::StringLiteral kTargetAttr = "plumb.target";
inline constexpr llvm::StringLiteral kSymbolAttr = "plumb.symbol";
inline constexpr llvm::StringLiteral kScratchAttr = "plumb.scratch";
inline constexpr llvm::StringLiteral kObjectAttr = "plumb.object";
inline constexpr llvm::StringLiteral kStreamsAttr = "plumb.streams";
inline constexpr llvm::StringLiteral kEventsAttr = "plumb.events";
inline constexpr llvm::StringLiteral kSlotsAttr = "plumb.slots";
inline constexpr llvm::StringLiteral kWaitsAttr = "plumb.waits";
inline constexpr llvm::StringLiteral kRecordsAttr = "plumb.records";
inline constexpr llvm::StringLiteral kStreamAttr = "plumb.stream";
inline constexpr llvm::StringLiteral kSlotAttr = "plumb.slot";
inline constexpr llvm::StringLiteral kOffsetAttr = "plumb.offset";
inline constexpr llvm::StringLiteral kScratchOffsetAttr = "plumb.scratch_offset";
inline constexpr llvm::StringLiteral kCopyAttr = "plumb.copy";
inline constexpr llvm::StringLiteral kOffsetsAttr = "plumb.offsets";
inline constexpr llvm::StringLiteral kArenaAttr = "plumb.arena";
inline constexpr llvm::StringLiteral kClearedAttr = "plumb.cleared";
inline constexpr llvm::StringLiteral kStagingAttr = "plumb.staging";
inline constexpr llvm::StringLiteral kMemoryAttr = "plumb.memory";
/// The entries of `kMemoryAttr` besides `largest`, a text.
inline constexpr llvm::StringLiteral kMemoryUses[] = {"arena",       "live",       "states", "parameters",
                                                      "optimizer",   "outputs",    "inputs", "staging",
                                                      "activations", "temporaries"};
inline constexpr llvm::StringLiteral kVerifiedAttr = "plumb.verified";

} // namespace plumb

#endif // PLUMB_TRANSFORMS_PLANATTRIBUTES_H
