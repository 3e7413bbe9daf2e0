//===- Schedule.cpp - Chooses the action lists --------------------------------===//

#include "plumb/Dialect/CCL/CCL.h"
#include "plumb/Dialect/NN/NN.h"
#include "plumb/Dialect/Plumb/PipelineAttributes.h"
#include "plumb/Schedule/Communication.h"
#include "plumb/Schedule/Generators.h"
#include "plumb/Schedule/Location.h"
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

static InFlightDiagnostic emitUnknownKind(PipelineOp op) {
  return op.emitError("there is no schedule \"")
         << op.getSchedule() << "\"; there are "
         << llvm::join(
                llvm::map_range(schedule::allKinds(),
                                [](schedule::Kind kind) { return StringRef(schedule::toString(kind)); }),
                ", ")
         << ", custom";
}

namespace {

/// Makes the action lists of one module: of a kind, or from the user's own list.
class Scheduler {
public:
  Scheduler(const Pipeline &pipeline, const schedule::Problem &problem)
      : pipeline(pipeline), problem(problem), op(findOp<PipelineOp>(ModuleOp(pipeline.module))) {}

  /// Lowered and verified.
  FailureOr<schedule::Schedule> run() {
    if (op && op.getSchedule() == "custom")
      return readActions();
    std::optional<schedule::Kind> kind = schedule::Kind::GPipe;
    if (op)
      kind = schedule::parseKind(std::string_view(op.getSchedule().data(), op.getSchedule().size()));
    if (!kind)
      return emitUnknownKind(op);
    // Without a backward all kinds go the same way.
    return generate(pipeline.training ? *kind : schedule::Kind::ForwardOnly);
  }

private:
  FailureOr<schedule::Schedule> generate(schedule::Kind kind);
  FailureOr<schedule::Schedule> readActions();

  const Pipeline &pipeline;
  const schedule::Problem &problem;
  PipelineOp op;
};

} // namespace

static std::optional<schedule::Diagnostic> verifyLowered(const schedule::Problem &problem,
                                                         const schedule::Schedule &list) {
  return schedule::verify(problem, list, {schedule::Transfers::Streams, schedule::ListForm::Lowered});
}

FailureOr<schedule::Schedule> Scheduler::generate(schedule::Kind kind) {
  Operation *place = op ? op.getOperation() : ModuleOp(pipeline.module).getOperation();
  auto report = [&](const schedule::Diagnostic &diagnostic) {
    return place->emitError("schedule ") << schedule::toString(kind) << ": " << diagnostic.toString();
  };
  if (auto diagnostic = problem.check())
    return report(*diagnostic);
  auto compute = schedule::generate(kind, problem);
  if (!compute)
    return report(compute.diagnostic());
  auto lowered = schedule::placeCommunication(problem, *compute);
  if (!lowered)
    return report(lowered.diagnostic());
  if (auto diagnostic = verifyLowered(problem, *lowered))
    return report(*diagnostic);
  return std::move(*lowered);
}

/// The user's list may hold its transfers or leave them to Plumb.
FailureOr<schedule::Schedule> Scheduler::readActions() {
  auto actions = op->getAttrOfType<DictionaryAttr>(kActionsAttr);
  if (!actions)
    return op.emitError("the schedule \"custom\" needs the list of its actions");
  StringRef text = actions.getAs<StringAttr>("text").getValue();
  std::string_view given(text.data(), text.size());
  auto report = [&](const schedule::Diagnostic &diagnostic) -> LogicalResult {
    auto [line, column] = schedule::locateCell(given, std::max(diagnostic.rank, 0), diagnostic.cell);
    InFlightDiagnostic error =
        emitError(FileLineColLoc::get(actions.getAs<StringAttr>("file"), line, std::max(column, 1)));
    return error << diagnostic.toString();
  };
  auto list = schedule::parse(given);
  if (!list)
    return report(list.diagnostic());
  for (auto [rank, row] : llvm::enumerate(list->rows))
    for (auto [cell, action] : llvm::enumerate(row))
      if (action.isSharding())
        return report({schedule::Violation::BadActionText,
                       static_cast<int>(rank),
                       static_cast<int>(cell),
                       schedule::toString(action),
                       "this moves storage shards, which the stages do not have",
                       {}});
  if (!list->hasTransfers()) {
    if (auto diagnostic =
            schedule::verify(problem, *list, {schedule::Transfers::Rendezvous, schedule::ListForm::Compute}))
      return report(*diagnostic);
    list = schedule::placeCommunication(problem, *list);
    if (!list)
      return report(list.diagnostic());
  }
  if (auto diagnostic = verifyLowered(problem, *list))
    return report(*diagnostic);
  return std::move(*list);
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
    FailureOr<schedule::Problem> problem = getScheduleProblem(*pipeline);
    if (failed(problem))
      return signalPassFailure();
    FailureOr<schedule::Schedule> result = Scheduler(*pipeline, *problem).run();
    if (failed(result))
      return signalPassFailure();
    std::vector<std::string> rows;
    for (const auto &row : toStages(*pipeline, std::move(*result)).rows)
      rows.push_back(toText(row));
    for (auto previous : llvm::make_early_inc_range(getOperation().getOps<ScheduleOp>()))
      previous.erase();
    OpBuilder builder(pipeline->stages[0]);
    SmallVector<StringRef> texts(rows.begin(), rows.end());
    ScheduleOp::create(builder, pipeline->stages[0].getLoc(), builder.getStrArrayAttr(texts));
  }
};
} // namespace
