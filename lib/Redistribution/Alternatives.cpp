//===- Alternatives.cpp - What else could have been done ------------------===//
#include "Accounting.h"
#include "plumb/Redistribution/Planner.h"
#include "llvm/ADT/STLExtras.h"
#include <set>

using namespace plumb::redistribution;

namespace {

std::optional<Plan> planned(const Plan &plan, const Layout &from, const Layout &to,
                            const PlanOptions &options) {
  llvm::Expected<Plan> result =
      planRedistribution(plan.mesh, plan.shape, plan.elementBytes, from, to, options);
  if (result)
    return std::move(*result);
  llvm::consumeError(result.takeError());
  return std::nullopt;
}

std::optional<Plan> throughReplicated(const Plan &plan, PlanOptions options) {
  Layout whole = Layout::replicated(plan.shape.size());
  auto first = planned(plan, plan.from, whole, options), second = planned(plan, whole, plan.to, options);
  if (!first || !second)
    return std::nullopt;
  first->to = plan.to;
  llvm::append_range(first->steps, second->steps);
  account(*first, options.topology);
  return first;
}

} // namespace

std::vector<Alternative> plumb::redistribution::alternativesTo(const Plan &plan, const PlanOptions &options) {
  std::vector<Alternative> result;
  std::set<StepKind> used;
  for (const Step &step : plan.steps)
    used.insert(step.kind);
  for (StepKind kind : used) {
    PlanOptions without = options;
    without.excluded.push_back(kind);
    result.push_back({("without " + stepKindName(kind)).str(), planned(plan, plan.from, plan.to, without)});
  }
  bool communicates = llvm::any_of(used, [](StepKind kind) { return !isLocal(kind); });
  if (communicates && !used.contains(StepKind::Exchange)) {
    PlanOptions only = options;
    only.exchange = true;
    only.excluded = {StepKind::AllGather, StepKind::AllToAll, StepKind::Permute};
    if (auto exchanged = planned(plan, plan.from, plan.to, only))
      result.push_back({"by exchange", std::move(exchanged)});
  }
  if (communicates)
    result.push_back({"through the replicated tensor", throughReplicated(plan, options)});
  return result;
}
