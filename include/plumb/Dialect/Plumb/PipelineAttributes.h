//===- PipelineAttributes.h - What a plan may say of its pipeline -*- C++ -*-===//
//
// Discardable attributes of `plumb.pipeline`; the dialect verifies them.
//
//   plumb.ranks         the rank of each stage, instead of a placement: array<i64: 0, 1, 1, 0>
//   plumb.copies        C copies of each of S stages, an i64: stage c * S + s is copy c of stage s and runs
//   the c-th
//                       part of the microbatches
//   plumb.actions       the user's own schedule, a CSV file: {file = "plan.csv", text = "0F0,0B0\0A1F0,1B0"}
//   plumb.costs         given or measured times of one microbatch, in any unit: per stage those of the
//   forward, the
//                       input and the weight gradient, and that of a transfer between ranks:
//                       {stages = array<f64: 1.0, 1.0, 1.0, …>, transfer = 0.1 : f64}, and where they were
//                       written, if known: place = loc("plan.json":3:4)
//   plumb.memory_limit  the most bytes that a rank's arena may have, an i64
//   plumb.context_parallel  how attention over a sequence that an axis shards gets at keys and values:
//                       {attention = "auto", "gather" or "ring", axis = "cp"}
//   plumb.bucket_bytes  the most bytes of the tensors that share the launch of a collective, an i64; 0: none
//   do
//
//===----------------------------------------------------------------------===//

#ifndef PLUMB_DIALECT_PLUMB_PIPELINEATTRIBUTES_H
#define PLUMB_DIALECT_PLUMB_PIPELINEATTRIBUTES_H

#include "plumb/Dialect/Plumb/Plumb.h"

namespace plumb {

inline constexpr llvm::StringLiteral kRanksAttr = "plumb.ranks";
inline constexpr llvm::StringLiteral kCopiesAttr = "plumb.copies";
inline constexpr llvm::StringLiteral kActionsAttr = "plumb.actions";
inline constexpr llvm::StringLiteral kCostsAttr = "plumb.costs";
inline constexpr llvm::StringLiteral kMemoryLimitAttr = "plumb.memory_limit";
inline constexpr llvm::StringLiteral kContextParallelAttr = "plumb.context_parallel";
inline constexpr llvm::StringLiteral kBucketBytesAttr = "plumb.bucket_bytes";

/// Unless the pipeline says otherwise; that of PyTorch's DistributedDataParallel, 25 MiB.
inline constexpr int64_t kDefaultBucketBytes = 25 << 20;

/// Copies of each stage; 1 unless the pipeline says otherwise.
int64_t countCopies(PipelineOp pipeline);

/// Reports a malformed attribute of the list above.
mlir::LogicalResult verifyPipelineAttribute(mlir::Operation *op, mlir::NamedAttribute attribute);

} // namespace plumb

#endif // PLUMB_DIALECT_PLUMB_PIPELINEATTRIBUTES_H
