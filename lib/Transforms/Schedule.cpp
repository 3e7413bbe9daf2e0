//===- Schedule.cpp - Chooses the action lists --------------------------------===//

#include "plumb/Dialect/CCL/CCL.h"
#include "plumb/Dialect/NN/NN.h"
#include "plumb/Dialect/Plumb/Plumb.h"
#include "plumb/Schedule/Communication.h"
#include "plumb/Schedule/Generators.h"
#include "plumb/Schedule/Verifier.h"
#include "plumb/Transforms/Passes.h"
#include "plumb/Transforms/ScheduleProblem.h"
#include "plumb/Transforms/Utils.h"

namespace plumb {
#define GEN_PASS_DEF_SCHEDULE
#include "plumb/Transforms/Passes.h.inc"
} // namespace plumb

using namespace mlir;
using namespace plumb;

/// The kind that the plan asks for; without a backward there is only one way to go.
static FailureOr<schedule::Kind> getKind(const Pipeline &pipeline, PipelineOp op) {
  std::optional<schedule::Kind> kind = schedule::Kind::GPipe;
  if (op) {
    StringRef name = op.getSchedule();
    kind = schedule::parseKind(std::string_view(name.data(), name.size()));
    if (!kind)
      return op.emitError("there is no schedule \"")
             << name << "\"; there are "
             << llvm::join(llvm::map_range(schedule::allKinds(),
                                           [](schedule::Kind k) { return StringRef(schedule::toString(k)); }),
                           ", ");
  }
  return pipeline.training ? *kind : schedule::Kind::ForwardOnly;
}

static FailureOr<schedule::Schedule> makeSchedule(const schedule::Problem &problem, schedule::Kind kind,
                                                  Operation *op) {
  auto report = [&](const schedule::Diagnostic &diagnostic) {
    return op->emitError("schedule ") << schedule::toString(kind) << ": " << diagnostic.toString();
  };
  if (auto diagnostic = problem.check())
    return report(*diagnostic);
  auto compute = schedule::generate(kind, problem);
  if (!compute)
    return report(compute.diagnostic());
  auto lowered = schedule::placeCommunication(problem, *compute);
  if (!lowered)
    return report(lowered.diagnostic());
  if (auto diagnostic =
          schedule::verify(problem, *lowered, {schedule::Transfers::Streams, schedule::ListForm::Lowered}))
    return report(*diagnostic);
  return std::move(*lowered);
}

static std::string toText(const std::vector<schedule::Action> &row) {
  std::string text;
  for (const schedule::Action &action : row)
    if (!action.isIdle())
      text += (text.empty() ? "" : ",") + schedule::toString(action);
  return text;
}

namespace {
class SchedulePass : public plumb::impl::ScheduleBase<SchedulePass> {
  void runOnOperation() override {
    FailureOr<Pipeline> pipeline = Pipeline::read(getOperation());
    if (failed(pipeline))
      return signalPassFailure();
    if (pipeline->stages.empty())
      return;
    auto op = findOp<PipelineOp>(getOperation());
    FailureOr<schedule::Problem> problem = getScheduleProblem(*pipeline);
    FailureOr<schedule::Kind> kind = getKind(*pipeline, op);
    if (failed(problem) || failed(kind))
      return signalPassFailure();
    Operation *place = op ? op.getOperation() : getOperation().getOperation();
    FailureOr<schedule::Schedule> result = makeSchedule(*problem, *kind, place);
    if (failed(result))
      return signalPassFailure();
    std::vector<std::string> rows;
    for (const auto &row : result->rows)
      rows.push_back(toText(row));
    for (auto previous : llvm::make_early_inc_range(getOperation().getOps<ScheduleOp>()))
      previous.erase();
    OpBuilder builder(pipeline->stages[0]);
    SmallVector<StringRef> texts(rows.begin(), rows.end());
    ScheduleOp::create(builder, place->getLoc(), builder.getStrArrayAttr(texts));
  }
};
} // namespace
