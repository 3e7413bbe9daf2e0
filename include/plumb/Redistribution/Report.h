//===- Report.h - Plans as text and JSON ------------------------*- C++ -*-===//
//
// Everything that `plumbc redistribute` prints.
//
//===----------------------------------------------------------------------===//
#ifndef PLUMB_REDISTRIBUTION_REPORT_H
#define PLUMB_REDISTRIBUTION_REPORT_H

#include "plumb/Redistribution/Planner.h"

namespace plumb::redistribution {

/// The steps with their bytes, the totals beside the lower bound, peak memory, and the local shapes and
/// offsets of the target: a line per rank, ranks that agree folded into one.
std::string planText(const Plan &plan);

/// The alternatives with their costs, each beside the chosen plan's.
std::string alternativesText(const Plan &plan, llvm::ArrayRef<Alternative> alternatives);

/// One object: `label`, `steps` (kind, axes, dims, bytes), `bytes_fraction`, `bound_fraction`, `ratio`,
/// `peak_fraction`, `optimal`, `gap` (cost over what is proven, minus 1), `local_shapes` and `offsets` per
/// rank in rank order (of the target) and the same of the source. Fractions are of the bytes of the global
/// tensor, 0 for an empty one.
std::string planJson(const Plan &plan);

struct BatchAnswer {
  /// One JSON object without a newline; `{"id": …, "error": "…"}` if the row was rejected.
  std::string json;
  /// Why the row was rejected; empty if it was not.
  std::string error;
  /// The planner was wrong.
  bool wrong = false;
};

/// Answers one line of a batch: {"mesh": {"x": 2}, "shape": [4], "src": [["x"]], "partial": [], "dst": [[]],
/// "dst_partial": []}; the partial lists may be missing, an axis may be "x:(1)2", partial ones "x:max", and
/// other keys are ignored. Plans are those of `planRedistribution` with elements of 4 bytes, verified before
/// they are printed.
BatchAnswer answerBatchRow(llvm::StringRef row, const PlanOptions &options, PlanCache &cache);

/// The answer to a row that is wrong, with its id as far as it can be read.
BatchAnswer refuseBatchRow(llvm::StringRef row, std::string error);

} // namespace plumb::redistribution

#endif // PLUMB_REDISTRIBUTION_REPORT_H
