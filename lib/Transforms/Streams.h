//===- Streams.h - Which stream an op runs on -------------------*- C++ -*-===//

#ifndef PLUMB_LIB_TRANSFORMS_STREAMS_H
#define PLUMB_LIB_TRANSFORMS_STREAMS_H

#include "mlir/IR/SymbolTable.h"
#include "plumb/Transforms/Steps.h"

namespace plumb {

/// Gives each op its stream, and each use of a communicator on another stream a communicator of its own,
/// since the calls of one are ordered. The streams are
///
///   * `compute`: kernels and copies;
///   * `tensor`: collectives that a phase has in its midst, for tensor, sequence and context parallelism;
///   * `gather`: parameters come together;
///   * `reduce`: gradients and other sums of the step are completed, with what is computed in between;
///   * one per edge and direction of the pipeline, named as its communicator.
///
/// Only those that something runs on are there, `compute` is always number 0. Returns their names.
mlir::FailureOr<llvm::SmallVector<std::string>> assignStreams(const Pipeline &pipeline);

/// The numbers of two of these streams; one that is not there has a number beyond all.
struct StreamNumbers {
  explicit StreamNumbers(llvm::ArrayRef<std::string> names);

  int64_t gather, reduce;
};

} // namespace plumb

#endif // PLUMB_LIB_TRANSFORMS_STREAMS_H
