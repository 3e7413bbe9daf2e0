//===- Interpreter.h - Plans executed on integers, all ranks ----*- C++ -*-===//
#ifndef PLUMB_REDISTRIBUTION_INTERPRETER_H
#define PLUMB_REDISTRIBUTION_INTERPRETER_H

#include "plumb/Redistribution/Plan.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace plumb::redistribution {

/// The local tensor of every rank, row-major.
using RankData = std::vector<std::vector<int64_t>>;

/// The local tensors that `layout` means for a global tensor whose element i (row-major) is `value(i)`. Over
/// partial axes the contributions combine to the value and differ between ranks.
RankData materialize(const Mesh &mesh, const Layout &layout, llvm::ArrayRef<int64_t> shape,
                     llvm::function_ref<int64_t(int64_t)> value);

/// Fails, naming rank and position, unless `data` is what `layout` means for that tensor.
llvm::Error checkData(const Mesh &mesh, const Layout &layout, llvm::ArrayRef<int64_t> shape,
                      llvm::function_ref<int64_t(int64_t)> value, const RankData &data);

/// Executes the lowered steps of `plan` as the collectives would, buffers and padding included.
llvm::Expected<RankData> execute(const Plan &plan, RankData data);

/// Executes the plan on 0, 1, 2, … for all ranks and compares the result with the definition of the target. A
/// tensor of more than `maxElements` (over all ranks) is replaced by a smaller one that the layouts cut
/// alike.
llvm::Error verifyPlan(const Plan &plan, int64_t maxElements = int64_t(1) << 14);

} // namespace plumb::redistribution

#endif // PLUMB_REDISTRIBUTION_INTERPRETER_H
