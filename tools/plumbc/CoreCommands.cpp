//===- CoreCommands.cpp - schedule and redistribute --------------------------===//
//
// Shells over the two cores, which hold what is printed.
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "Driver.h"
#include "plumb/Import/PlanSpec.h"
#include "plumb/Import/SpecSchema.h"
#include "plumb/Redistribution/Interpreter.h"
#include "plumb/Redistribution/LayoutText.h"
#include "plumb/Redistribution/Report.h"
#include "plumb/Redistribution/TransferReport.h"
#include "plumb/Schedule/Command.h"
#include <fstream>
#include <iostream>
#include <memory>
#include <numeric>

using namespace plumb;

//===----------------------------------------------------------------------===//
// schedule
//===----------------------------------------------------------------------===//

namespace {

struct ScheduleArguments {
  schedule::GenerateRequest generate;
  schedule::ValidateRequest validate;
  std::string file;
  int ranks = 0, microbatches = 0;
};

/// Costs are four numbers, or a file that has them for each stage.
bool readCosts(schedule::GenerateRequest &request) {
  if (request.costs.find_first_not_of("0123456789.,+-eE ") == std::string::npos)
    return true;
  Diagnostics diagnostics;
  std::optional<spec::Costs> costs;
  if (std::optional<Source> source = Source::open(request.costs, diagnostics))
    costs = spec::parseCosts(std::make_shared<const Source>(std::move(*source)), diagnostics);
  diagnostics.print(std::cerr);
  if (!costs)
    return false;
  request.costs.clear();
  request.transferCost = costs->transfer;
  for (const spec::Costs::Stage &stage : costs->stages)
    request.stageCosts.push_back({stage.forward, stage.inputGrad, stage.weightGrad});
  return true;
}

int runSchedule(ScheduleArguments &arguments) {
  schedule::CommandOutput output;
  if (arguments.file.empty()) {
    if (!readCosts(arguments.generate))
      return kRejected;
    arguments.generate.ranks = arguments.ranks;
    arguments.generate.microbatches = arguments.microbatches;
    output = schedule::runGenerate(arguments.generate);
  } else {
    Diagnostics diagnostics;
    std::optional<Source> source = Source::open(arguments.file, diagnostics);
    if (!source) {
      diagnostics.print(std::cerr);
      return kRejected;
    }
    arguments.validate.fileName = source->name();
    arguments.validate.text = source->text();
    arguments.validate.ranks = arguments.ranks;
    arguments.validate.microbatches = arguments.microbatches;
    output = schedule::runValidate(arguments.validate);
  }
  std::cout << output.output;
  std::cerr << output.diagnostics;
  return output.exitCode;
}

} // namespace

void plumb::addScheduleCommand(CLI::App &app, Command &command) {
  auto arguments = std::make_shared<ScheduleArguments>();
  CLI::App *sub = app.add_subcommand("schedule", "Make a pipeline schedule, or validate one");
  auto *kind = sub->add_option("--kind", arguments->generate.kind, "gpipe, 1f1b, …, auto");
  sub->add_option("--ranks", arguments->ranks, "pipeline ranks")->check(integerWithin(bounds::kCount));
  sub->add_option("--microbatches", arguments->microbatches)
      ->required()
      ->check(integerWithin(bounds::kCount));
  sub->add_option("--stages-per-rank", arguments->generate.stagesPerRank)
      ->check(integerWithin(bounds::kCount));
  sub->add_option("--costs", arguments->generate.costs,
                  "F,I,W,C: times of a stage, and of a transfer; or a JSON file with those of each stage");
  sub->add_option("--activation-memory", arguments->generate.activationMemory,
                  "F,I,W: change of memory; default 1,0,-1");
  sub->add_option("--memory-limit", arguments->generate.memoryLimit, "in the unit of --activation-memory");
  sub->add_option("--format", arguments->generate.format, "csv, text or json");
  auto *file =
      sub->add_option("--validate", arguments->file, "a CSV or JSON file of actions; - for standard input");
  sub->add_option("--stages", arguments->validate.stages)->needs(file)->check(integerWithin(bounds::kCount));
  sub->add_option("--map", arguments->validate.map, "0,1,1,0: the rank of each stage")->needs(file);
  sub->add_option("--replicas", arguments->validate.replicas)
      ->needs(file)
      ->check(integerWithin(bounds::kCount));
  sub->add_flag("--forward-only", arguments->validate.forwardOnly)->needs(file);
  sub->add_option("--transfers", arguments->validate.transfers, "rendezvous, grouped or async")->needs(file);
  kind->excludes(file);
  sub->callback([=, &command] {
    if (kind->empty() && file->empty())
      throw CLI::RequiredError("--kind or --validate");
    command = [arguments] { return runSchedule(*arguments); };
  });
}

//===----------------------------------------------------------------------===//
// redistribute
//===----------------------------------------------------------------------===//

namespace {

struct RedistributeArguments {
  std::string mesh, shape, from, to, batch, topology, toMesh, fromDevices, toDevices;
  std::optional<int64_t> memoryLimit;
  bool json = false, noExchange = false, why = false;
};

int reject(llvm::StringRef what, llvm::Error error) {
  llvm::errs() << what << ": error: " << llvm::toString(std::move(error)) << "\n";
  return kRejected;
}

/// A row of `--batch`.
const spec::Schema &rowTable() {
  auto dims = [](const char *description) {
    return spec::array(description, spec::array("The axes that shard a dim, outer ones first.",
                                                spec::text("An axis, or a sub-axis as x:(1)2.")));
  };
  auto partial = [](const char *description) {
    return spec::array(description, spec::text("An axis, or with a reduction as x:max."));
  };
  static const spec::Schema table = [&] {
    spec::Schema row = spec::object(
        "A question.",
        {{"mesh", spec::map("Axis name to size.", spec::integer("Ranks.", bounds::kCount)), true},
         {"shape", spec::array("Of the whole tensor.", spec::integer("A size.", bounds::kSize)), true},
         {"src", dims("How it lies."), true},
         {"dst", dims("How it is to lie."), true},
         {"partial", partial("What it is still to be reduced over.")},
         {"dst_partial", partial("What it is to be partial over.")}});
    row.isOpen = true;
    return row;
  }();
  return table;
}

constexpr const char *kBatchHelp = R"(Each line of --batch is an object:
  {"id": "a", "mesh": {"x": 2, "y": 4}, "shape": [64, 64], "src": [["x"], []], "dst": [[], ["y"]]}
  mesh          axis names to sizes, the last axis fastest
  shape         of the whole tensor
  src, dst      for each dim the axes that shard it; a sub-axis is "y:(1)2"
  partial, dst_partial
                axes over which src or dst is still to be reduced, "y" or "y:max"; none without
  id            anything; it comes back with the answer
Other keys are ignored. Each line is answered by one, in order. One that is wrong is answered by {"id": …,
"error": …} and reported with its line and column; the others are answered, and the exit code is 1.)";

redistribution::BatchAnswer answerRow(const std::string &file, unsigned line, const std::string &text,
                                      const redistribution::PlanOptions &options,
                                      redistribution::PlanCache &cache) {
  Diagnostics diagnostics;
  auto source = std::make_shared<const Source>(file, text, line);
  std::optional<json::Document> row = json::parse(source, diagnostics);
  redistribution::BatchAnswer answer;
  if (row && spec::validate(*row, rowTable(), diagnostics, "a row")) {
    answer = redistribution::answerBatchRow(text, options, cache);
    if (!answer.error.empty())
      diagnostics.error(Place{file, line}, answer.error);
  } else {
    answer = redistribution::refuseBatchRow(text, diagnostics.all().front().message);
  }
  diagnostics.print(std::cerr);
  return answer;
}

int answerBatch(const RedistributeArguments &arguments, const redistribution::PlanOptions &options) {
  bool isInput = arguments.batch == "-";
  std::ifstream file;
  if (!isInput) {
    file.open(arguments.batch);
    if (!file) {
      std::cerr << arguments.batch << ": error: cannot be read\n";
      return kRejected;
    }
  }
  std::istream &rows = isInput ? std::cin : file;
  redistribution::PlanCache cache;
  bool rejected = false, wrong = false;
  unsigned line = 0;
  for (std::string row; std::getline(rows, row);) {
    ++line;
    if (row.find_first_not_of(" \t\r") == std::string::npos)
      continue;
    redistribution::BatchAnswer answer =
        answerRow(isInput ? "<stdin>" : arguments.batch, line, row, options, cache);
    std::cout << answer.json << "\n";
    rejected |= !answer.error.empty();
    wrong |= answer.wrong;
  }
  return wrong ? kInternalError : rejected ? kRejected : kSuccess;
}

/// A mesh on the devices that are named, or on those from `first` on.
llvm::Expected<redistribution::Placement> place(const redistribution::Mesh &mesh, llvm::StringRef devices,
                                                int64_t first) {
  redistribution::Placement placement{mesh, {}};
  if (devices.empty()) {
    placement.devices.resize(mesh.numRanks());
    std::iota(placement.devices.begin(), placement.devices.end(), first);
    return placement;
  }
  auto parsed = redistribution::parseDevices(devices);
  if (!parsed)
    return parsed.takeError();
  placement.devices = std::move(*parsed);
  return placement;
}

/// From `mesh` to another one.
int runTransfer(const RedistributeArguments &arguments, const redistribution::Mesh &mesh,
                llvm::ArrayRef<int64_t> shape, const redistribution::Layout &from,
                const redistribution::PlanOptions &options) {
  auto toMesh = redistribution::parseMesh(arguments.toMesh);
  if (!toMesh)
    return reject("--to-mesh", toMesh.takeError());
  auto to = redistribution::parseLayout(*toMesh, arguments.to);
  if (!to)
    return reject("--to", to.takeError());
  auto source = place(mesh, arguments.fromDevices, 0);
  if (!source)
    return reject("--from-devices", source.takeError());
  auto target = place(*toMesh, arguments.toDevices, mesh.numRanks());
  if (!target)
    return reject("--to-devices", target.takeError());
  auto plan = redistribution::planTransfer(*source, from, *target, *to, shape, /*elementBytes=*/4,
                                           options.topology ? options.topology->nodeSize : 0, options);
  if (!plan)
    return reject("redistribute", plan.takeError());
  llvm::Error error = redistribution::verifyTransfer(*plan);
  if (!error && plan->prepare)
    error = redistribution::verifyPlan(*plan->prepare);
  if (error) {
    llvm::errs() << "plumbc: internal error: " << llvm::toString(std::move(error)) << "\n";
    return kInternalError;
  }
  llvm::outs() << (arguments.json ? redistribution::transferJson(*plan) + "\n"
                                  : redistribution::transferText(*plan));
  return kSuccess;
}

int runRedistribute(const RedistributeArguments &arguments) {
  redistribution::PlanOptions options;
  options.exchange = !arguments.noExchange;
  options.memoryLimit = arguments.memoryLimit;
  if (!arguments.batch.empty())
    return answerBatch(arguments, options);

  auto mesh = redistribution::parseMesh(arguments.mesh);
  if (!mesh)
    return reject("--mesh", mesh.takeError());
  auto shape = redistribution::parseShape(arguments.shape);
  if (!shape)
    return reject("--shape", shape.takeError());
  auto from = redistribution::parseLayout(*mesh, arguments.from);
  if (!from)
    return reject("--from", from.takeError());
  if (!arguments.topology.empty()) {
    Diagnostics diagnostics;
    std::shared_ptr<const Source> source;
    if (std::optional<Source> opened = Source::open(arguments.topology, diagnostics))
      source = std::make_shared<const Source>(std::move(*opened));
    bool isValid = source && spec::checkTopologyFile(source, diagnostics);
    diagnostics.print(std::cerr);
    if (!isValid)
      return kRejected;
    auto topology = redistribution::parseTopology(*mesh, std::string(source->text()));
    if (!topology)
      return reject(arguments.topology, topology.takeError());
    options.topology = *topology;
  }
  if (!arguments.toMesh.empty())
    return runTransfer(arguments, *mesh, *shape, *from, options);
  auto to = redistribution::parseLayout(*mesh, arguments.to);
  if (!to)
    return reject("--to", to.takeError());
  auto plan = redistribution::planRedistribution(*mesh, *shape, /*elementBytes=*/4, *from, *to, options);
  if (!plan)
    return reject("redistribute", plan.takeError());
  if (llvm::Error error = redistribution::verifyPlan(*plan)) {
    llvm::errs() << "plumbc: internal error: " << llvm::toString(std::move(error)) << "\n";
    return kInternalError;
  }
  llvm::outs() << (arguments.json ? redistribution::planJson(*plan) + "\n" : redistribution::planText(*plan));
  if (arguments.why)
    llvm::outs() << redistribution::alternativesText(*plan, redistribution::alternativesTo(*plan, options));
  return kSuccess;
}

} // namespace

void plumb::addRedistributeCommand(CLI::App &app, Command &command) {
  auto arguments = std::make_shared<RedistributeArguments>();
  CLI::App *sub = app.add_subcommand("redistribute", "Plan the cheapest way from one layout to another");
  auto *mesh = sub->add_option("--mesh", arguments->mesh, "dp=2,tp=4");
  auto *shape = sub->add_option("--shape", arguments->shape, "64,64");
  auto *from = sub->add_option("--from", arguments->from, "[{dp},{}] partial{tp}");
  auto *to = sub->add_option("--to", arguments->to, "[{},{dp,tp}]");
  sub->add_flag("--json", arguments->json);
  sub->add_flag("--no-exchange", arguments->noExchange, "no grouped point-to-point step");
  auto *why = sub->add_flag("--why", arguments->why, "also print what was not chosen");
  auto *toMesh = sub->add_option("--to-mesh", arguments->toMesh,
                                 "the mesh of --to where it is another one, as that of a next stage")
                     ->excludes(why);
  sub->add_option("--from-devices", arguments->fromDevices, "0-3: the devices of the ranks of --mesh")
      ->needs(toMesh);
  sub->add_option("--to-devices", arguments->toDevices, "of --to-mesh; by default those that follow")
      ->needs(toMesh);
  sub->add_option("--topology", arguments->topology, "JSON file with bandwidths and latencies");
  sub->add_option("--memory-limit", arguments->memoryLimit, "bytes that a step may need on a rank")
      ->check(integerWithin(bounds::kBytes));
  auto *batch =
      sub->add_option("--batch", arguments->batch, "JSON lines, one question each; - for standard input");
  sub->footer(kBatchHelp);
  sub->callback([=, &command] {
    if (batch->empty())
      for (CLI::Option *option : {mesh, shape, from, to})
        if (option->empty())
          throw CLI::RequiredError(option->get_name());
    command = [arguments] { return runRedistribute(*arguments); };
  });
}
