//===- VerifyPlan.cpp - Proves that the plan is right --------------------------===//

#include "VerifyPlan.h"
#include "plumb/Dialect/CCL/CCL.h"
#include "plumb/Dialect/NN/NN.h"
#include "plumb/Schedule/Verifier.h"
#include "plumb/Transforms/Passes.h"
#include "plumb/Transforms/ScheduleProblem.h"
#include "plumb/Transforms/Utils.h"

namespace plumb {
#define GEN_PASS_DEF_VERIFYPLAN
#include "plumb/Transforms/Passes.h.inc"
} // namespace plumb

using namespace mlir;
using namespace plumb;

/// Every action is there once, on its coordinate, in an order that the dataflow and the transfers allow.
static LogicalResult verifyActions(const Pipeline &pipeline, const schedule::Schedule &actions) {
  FailureOr<schedule::Problem> problem = getScheduleProblem(pipeline);
  FailureOr<schedule::Schedule> solution = toSolution(pipeline, actions);
  if (failed(problem) || failed(solution))
    return failure();
  // The limit is on the arena, which plan-memory lays out to the byte; here it guided the choice.
  problem->memoryLimit = std::numeric_limits<double>::infinity();
  schedule::VerifyOptions options{schedule::Transfers::Streams, schedule::ListForm::Lowered};
  if (auto diagnostic = schedule::verify(*problem, *solution, options)) {
    ModuleOp module = pipeline.module;
    return findOp<ScheduleOp>(module).emitError(diagnostic->toString());
  }
  return success();
}

static verification::Plan readPlan(const Pipeline &pipeline, const schedule::Schedule &actions) {
  verification::Plan plan{pipeline, {}, {}, {}};
  for (auto [coordinate, row] : llvm::enumerate(actions.rows))
    plan.steps.push_back(getWholeStep(pipeline, static_cast<int64_t>(coordinate), row));
  for (StageOp stage : pipeline.stages) {
    plan.slots.push_back(readSlots(stage));
    auto &parts = plan.parts.emplace_back();
    for (Operation &op : stage.getBody().front())
      parts[getPart(&op)].push_back(&op);
  }
  return plan;
}

namespace {
class VerifyPlanPass : public plumb::impl::VerifyPlanBase<VerifyPlanPass> {
  void runOnOperation() override {
    if (failed(verify()))
      return signalPassFailure();
  }

  LogicalResult verify() {
    ModuleOp module = getOperation();
    FailureOr<Pipeline> pipeline = Pipeline::read(module);
    if (failed(pipeline))
      return failure();
    if (pipeline->stages.empty())
      return success();
    FailureOr<schedule::Schedule> actions = readSchedule(*pipeline);
    if (failed(actions) || failed(verifyPlanAttributes(*pipeline)) ||
        failed(verifyActions(*pipeline, *actions)))
      return failure();
    verification::Plan plan = readPlan(*pipeline, *actions);
    if (failed(verification::verifyTransfers(plan)) || failed(verification::verifyOrder(plan)) ||
        failed(verification::verifyMemory(plan)) || failed(verification::verifyLayouts(plan)) ||
        failed(verification::verifyUpdates(plan)))
      return failure();
    Builder builder(&getContext());
    module->setAttr(kVerifiedAttr, builder.getStrArrayAttr(
                                       {"actions", "transfers", "order", "memory", "layouts", "updates"}));
    return success();
  }
};
} // namespace
