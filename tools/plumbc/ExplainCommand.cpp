//===- ExplainCommand.cpp - explain ---------------------------------------------===//

#include "Commands.h"
#include "Driver.h"
#include "Explain.h"
#include "Summary.h"
#include <memory>

using namespace plumb;

namespace {

struct Arguments {
  std::string model, plan, parameter, module;
  std::optional<int64_t> stage, rank;
};

/// Prints what was asked for; an error text if the plan does not have it.
std::string explain(const Arguments &arguments, const Pipeline &pipeline) {
  Explanation explanation(pipeline, llvm::outs());
  if (!arguments.parameter.empty())
    return explanation.explainParameter(arguments.parameter);
  if (!arguments.module.empty())
    return explanation.explainModule(arguments.module);
  if (arguments.stage)
    return explanation.explainStage(*arguments.stage);
  if (arguments.rank)
    return explanation.explainRank(*arguments.rank);
  printSummary(pipeline.module, llvm::outs());
  explanation.listParameters();
  return "";
}

int run(const Arguments &arguments) {
  Driver driver;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  bool model = driver.loadModel(arguments.model), plan = driver.loadPlan(arguments.plan);
  if (model && plan)
    module = driver.compile({.kernels = false});
  if (driver.report() || !module)
    return kRejected;
  mlir::FailureOr<Pipeline> pipeline = Pipeline::read(*module);
  if (mlir::succeeded(pipeline))
    if (std::string problem = explain(arguments, *pipeline); !problem.empty())
      driver.diagnostics().error(Place{}, problem);
  return driver.report() ? kRejected : kSuccess;
}

} // namespace

void plumb::addExplainCommand(CLI::App &app, Command &command) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App *sub =
      app.add_subcommand("explain", "Say why a plan is as it is: who owns what, what is exchanged when");
  sub->add_option("MODEL", arguments->model, "torch.export archive (.pt2) or MLIR text; - for standard input")
      ->required();
  sub->add_option("--plan", arguments->plan, "the plan spec, JSON; - for standard input")->required();
  CLI::Option_group *what = sub->add_option_group("what", "what to explain; all parameters if none is given");
  what->add_option("--parameter", arguments->parameter, "a parameter, by any of its names");
  what->add_option("--module", arguments->module, "a module");
  what->add_option("--stage", arguments->stage, "a pipeline stage")->check(integerWithin(bounds::kIndex));
  what->add_option("--rank", arguments->rank, "a rank")->check(integerWithin(bounds::kIndex));
  what->require_option(0, 1);
  sub->callback([arguments, &command] { command = [arguments] { return run(*arguments); }; });
}
