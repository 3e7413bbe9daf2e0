//===- plumbc.cpp - The command line of Plumb ---------------------------------===//

#include "Artefacts.h"
#include "Compare.h"
#include "Driver.h"
#include "Execute.h"
#include "Inspect.h"
#include "Summary.h"
#include "plumb/Runtime/Failure.h"
#include "plumb/Transforms/Utils.h"
#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>

using namespace plumb;

namespace {

struct Arguments {
  std::string model, plan, output, cpu = "native", provider = "threads", inputs, weights, save, target = "host";
  std::vector<std::string> emission{"plan", "program", "kernels"};
  int steps = 1;
  bool check = false, printSchema = false;
};

/// Reads model and plan; both report into the driver.
bool load(Driver &driver, const Arguments &arguments) {
  bool model = driver.loadModel(arguments.model), plan = driver.loadPlan(arguments.plan);
  return model && plan;
}

int compileCommand(const Arguments &arguments) {
  if (arguments.printSchema) {
    std::cout << spec::planSchema();
    return kSuccess;
  }
  Driver driver;
  if (load(driver, arguments)) {
    Emission emission(arguments.emission.begin(), arguments.emission.end());
    auto module = driver.compile({arguments.cpu, emission.contains("kernels") || emission.contains("program")});
    if (module && !driver.diagnostics().hasErrors())
      writeArtefacts(*module, arguments.output, emission, driver.diagnostics());
  }
  return driver.report() ? kRejected : kSuccess;
}

int checkCommand(const Arguments &arguments) {
  Driver driver;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  if (load(driver, arguments))
    module = driver.compile({arguments.cpu, /*kernels=*/true});
  if (driver.report() || !module)
    return kRejected;
  llvm::outs() << "the plan is right\n";
  printSummary(*module, llvm::outs());
  return kSuccess;
}

int inspectCommand(const Arguments &arguments) {
  Driver driver;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  if (driver.loadModel(arguments.model))
    module = driver.import();
  if (driver.report() || !module)
    return kRejected;
  inspect(*module, llvm::outs());
  return kSuccess;
}

/// Compiles, builds and runs one plan; saves into `save` unless it is empty.
int runPlan(Driver &driver, const Arguments &arguments, const TemporaryFolder &folder, const std::string &name,
            const std::string &save) {
  auto module = driver.compile({arguments.cpu, /*kernels=*/true});
  bool built = module && !driver.diagnostics().hasErrors() && buildProgram(*module, folder, name, driver.diagnostics());
  if (driver.report() || !built)
    return kRejected;
  std::vector<std::string> command = {folder.file(name), "--weights", arguments.weights, "--inputs", arguments.inputs,
                                      "--steps", std::to_string(arguments.steps)};
  if (!save.empty())
    command.insert(command.end(), {"--save", save});
  return runCommand(command, /*quiet=*/name == "reference");
}

int runCommandLine(Arguments arguments) {
  Driver driver;
  TemporaryFolder folder;
  if (!load(driver, arguments) || !driver.archive()) {
    if (!driver.diagnostics().hasErrors())
      driver.diagnostics().error(Place{arguments.model}, "only a torch.export archive can be run: MLIR text has no weights");
    driver.report();
    return kRejected;
  }
  if (arguments.weights.empty()) {
    arguments.weights = folder.file("weights.safetensors");
    writeWeights(*driver.archive(), arguments.weights, driver.diagnostics());
  }
  if (arguments.inputs.empty() && !driver.diagnostics().hasErrors()) {
    arguments.inputs = folder.file("inputs.safetensors");
    writeInputs(*driver.archive(), arguments.inputs, driver.diagnostics());
  }
  if (driver.report())
    return kRejected;
  std::string save = arguments.save.empty() && arguments.check ? folder.file("split.safetensors") : arguments.save;
  int code = runPlan(driver, arguments, folder, "program", save);
  if (code != kSuccess || !arguments.check)
    return code;

  driver.usePlanOfOneRank();
  std::string reference = folder.file("reference.safetensors");
  if (int failed = runPlan(driver, arguments, folder, "reference", reference))
    return failed;
  std::cout << "compared with the unsplit model on one rank:\n";
  return compareRuns(save, reference, std::cout) ? kSuccess : kCheckFailed;
}

int dispatch(int argc, char **argv) {
  Arguments arguments;
  CLI::App app{"Plumb: an ahead-of-time compiler for parallel plans of deep-learning models"};
  app.require_subcommand(1);
  int (*command)(const Arguments &) = nullptr;
  auto model = [&](CLI::App *sub) {
    return sub->add_option("MODEL", arguments.model, "torch.export archive (.pt2) or MLIR text; - for standard input");
  };
  auto plan = [&](CLI::App *sub) {
    return sub->add_option("--plan", arguments.plan, "the plan spec, JSON; - for standard input");
  };
  auto cpu = [&](CLI::App *sub) { sub->add_option("--cpu", arguments.cpu, "processor of the kernels (LLVM name)"); };

  CLI::App *compile = app.add_subcommand("compile", "Compile a model and a plan into a program");
  auto *compileModel = model(compile);
  auto *compilePlan = plan(compile);
  auto *output = compile->add_option("-o", arguments.output, "output folder");
  compile->add_option("--target", arguments.target, "host: kernels for this machine")->check(CLI::IsMember({"host"}));
  compile->add_option("--emit", arguments.emission, "what to write: plan, program, kernels, mlir")
      ->delimiter(',')
      ->check(CLI::IsMember({"plan", "program", "kernels", "mlir"}));
  compile->add_flag("--print-schema", arguments.printSchema, "print the JSON Schema of plan specs and stop");
  cpu(compile);
  compile->callback([&] {
    if (!arguments.printSchema)
      for (CLI::Option *option : {compileModel, compilePlan, output})
        if (option->empty())
          throw CLI::RequiredError(option->get_name());
    command = compileCommand;
  });

  CLI::App *run = app.add_subcommand("run", "Compile, then run all ranks on this machine");
  model(run)->required();
  plan(run)->required();
  run->add_option("--provider", arguments.provider, "threads: one thread per rank")->check(CLI::IsMember({"threads"}));
  run->add_option("--steps", arguments.steps, "training steps")->check(CLI::Range(1, 1 << 30));
  run->add_option("--inputs", arguments.inputs, "safetensors file with input.0, input.1, …");
  run->add_option("--weights", arguments.weights, "safetensors file to use instead of the archive's weights");
  run->add_option("--save", arguments.save, "safetensors file for outputs, losses, gradients and parameters");
  run->add_flag("--check", arguments.check, "also run the unsplit model and compare");
  cpu(run);
  run->callback([&] { command = [](const Arguments &a) { return runCommandLine(a); }; });

  CLI::App *check = app.add_subcommand("check", "Verify a plan; print the verdict and the numbers");
  model(check)->required();
  plan(check)->required();
  cpu(check);
  check->callback([&] { command = checkCommand; });

  CLI::App *inspectApp = app.add_subcommand("inspect", "Show modules, parameters, markers, inputs and outputs");
  model(inspectApp)->required();
  inspectApp->callback([&] { command = inspectCommand; });

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return app.exit(error, std::cout, std::cerr) == 0 ? kSuccess : kUsage;
  }
  return command(arguments);
}

} // namespace

int main(int argc, char **argv) {
  try {
    return dispatch(argc, argv);
  } catch (const Failure &failure) {
    std::cerr << "error: " << failure.what() << "\n";
    return kRejected;
  } catch (const std::exception &exception) {
    std::cerr << "plumbc: internal error: " << exception.what() << "\n";
    return kInternalError;
  }
}
