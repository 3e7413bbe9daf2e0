//===- Accounting.h - What the steps of a plan move and hold --------------===//
#ifndef PLUMB_LIB_REDISTRIBUTION_ACCOUNTING_H
#define PLUMB_LIB_REDISTRIBUTION_ACCOUNTING_H

#include "plumb/Redistribution/Plan.h"
#include "plumb/Redistribution/Topology.h"

namespace plumb::redistribution {

/// Bytes live on rank 0, which holds most, during a step: source and result, and a staging buffer for each
/// side that has to be packed. An all-reduce works in place.
int64_t stepMemory(const Mesh &mesh, llvm::ArrayRef<int64_t> shape, int64_t elementBytes, StepKind kind,
                   const Layout &before, const Layout &after);

/// Fills in every figure of the steps and the plan, from their layouts and axes.
void account(Plan &plan, const std::optional<Topology> &topology);

} // namespace plumb::redistribution

#endif // PLUMB_LIB_REDISTRIBUTION_ACCOUNTING_H
