//===- PlanAttributes.h - What the passes after form-kernels decide -*- C++ -*-===//
//
// Decisions are discardable attributes, so that what follows only reads them:
//
//   | attribute | on | says | set by |
//   |---|---|---|---|
//   | `plumb.inout`, `plumb.result` | argument of a kernel | it is overwritten by result `plumb.result` | form-kernels |
//   | `plumb.flops` | kernel | operations of one run | form-kernels |
//   | `plumb.symbol`, `plumb.scratch`, `plumb.object` | kernel | its symbol, bytes of scratch, object file | compile-kernels |
//   | `plumb.streams` | module | names of the streams; 0 is the compute stream | assign-streams |
//   | `plumb.events` | module | number of events | assign-streams |
//   | `plumb.slots` | stage | slot classes, each `{name, table, stride}` | assign-streams, plan-memory |
//   | `plumb.waits`, `plumb.records` | stage | per part the events, `[first event, class, …]` | assign-streams |
//   | `plumb.stream` | send, receive | the stream | assign-streams |
//   | `plumb.slot` | op with results, store | per result (the state) its slot class, or -1 | assign-streams |
//   | `plumb.offset` | the same | per result (the state) its byte offset in the arena, in slot 0 | plan-memory |
//   | `plumb.scratch_offset` | launch | byte offset of its scratch | plan-memory |
//   | `plumb.copy` | store | the value must be copied into the state | plan-memory |
//   | `plumb.offsets` | parameter, state | byte offset per pipeline coordinate, -1 where it is absent | plan-memory |
//   | `plumb.arena`, `plumb.cleared` | module | bytes per coordinate; those at its start that a step clears | plan-memory |
//   | `plumb.memory` | module | per coordinate the bytes by use, for reports | plan-memory |
//   | `plumb.verified` | module | what has been proved | verify-plan |
//
// A *slot class* is a set of per-microbatch buffers of a stage with one lifetime. Microbatch m uses slot `table[m]`;
// a value of the class lies at `offset + table[m] * stride`, and event `first + table[m]` belongs to that slot.
//
//===----------------------------------------------------------------------===//

#ifndef PLUMB_TRANSFORMS_PLANATTRIBUTES_H
#define PLUMB_TRANSFORMS_PLANATTRIBUTES_H

#include "llvm/ADT/StringRef.h"

namespace plumb {

inline constexpr llvm::StringLiteral kInoutAttr = "plumb.inout";
inline constexpr llvm::StringLiteral kResultAttr = "plumb.result";
inline constexpr llvm::StringLiteral kFlopsAttr = "plumb.flops";
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
inline constexpr llvm::StringLiteral kMemoryAttr = "plumb.memory";
inline constexpr llvm::StringLiteral kVerifiedAttr = "plumb.verified";

} // namespace plumb

#endif // PLUMB_TRANSFORMS_PLANATTRIBUTES_H
