//===- ModelCommands.cpp - compile, run, check and inspect --------------------===//

#include "Artefacts.h"
#include "Commands.h"
#include "Compare.h"
#include "Driver.h"
#include "Execute.h"
#include "Inspect.h"
#include "RunFiles.h"
#include "Summary.h"
#include "plumb/Transforms/Utils.h"
#include <iostream>
#include <memory>

using namespace plumb;

namespace {

struct Arguments {
  std::string model, plan, output, cpu = "native", target = "host", gpu = "sm_90", provider = "threads",
                                   inputs, weights, buffers, save;
  std::vector<std::string> dumps;
  std::vector<std::string> emission{"plan", "program", "kernels", "launch"};
  int steps = 1;
  bool check = false, emulateGpu = false, printSchema = false, operators = false;

  Driver::CompileOptions compileOptions() const {
    KernelTarget where = target == "nccl" ? KernelTarget::Device
                         : emulateGpu     ? KernelTarget::Emulated
                                          : KernelTarget::Host;
    return {where, cpu, gpu, /*kernels=*/true, dumps};
  }
};

/// A subcommand with the options that all of them share.
struct Subcommand {
  std::shared_ptr<Arguments> arguments = std::make_shared<Arguments>();
  CLI::App *app;
  CLI::Option *model, *plan = nullptr;

  Subcommand(CLI::App &parent, const char *name, const char *description, bool takesPlan)
      : app(parent.add_subcommand(name, description)) {
    model = app->add_option("MODEL", arguments->model,
                            "torch.export archive (.pt2) or MLIR text; - for standard input");
    if (!takesPlan)
      return;
    plan = app->add_option("--plan", arguments->plan, "the plan spec, JSON; - for standard input");
    app->add_option("--cpu", arguments->cpu, "processor of the kernels: native, or a name that LLVM knows");
  }

  /// Returns the option that asks for a target.
  CLI::Option *addTarget() const {
    app->add_option("--target", arguments->target, "host: kernels for this machine; nccl: for GPUs")
        ->check(CLI::IsMember({"host", "nccl"}));
    return app->add_option("--gpu", arguments->gpu,
                           "the oldest GPU that is to run the kernels, sm_70 or later; sm_90 without");
  }
  void checkTarget(const CLI::Option *gpu) const {
    if (!gpu->empty() && arguments->target != "nccl")
      throw CLI::ValidationError("--gpu", "is of kernels for GPUs; give --target nccl too");
  }
};

/// Reads model and plan; both report into the driver.
bool load(Driver &driver, const Arguments &arguments) {
  bool model = driver.loadModel(arguments.model), plan = driver.loadPlan(arguments.plan);
  return model && plan;
}

void writeFiles(Driver &driver, mlir::ModuleOp module, const Arguments &arguments) {
  Emission emission(arguments.emission.begin(), arguments.emission.end());
  if (emission.contains("weights") && !driver.archive())
    driver.diagnostics().error(Place{arguments.model}, "MLIR text has no weights to emit");
  else if (writeArtefacts(module, arguments.output, emission, driver.diagnostics()) &&
           emission.contains("weights"))
    writeWeights(*driver.archive(), driver.planSpec().init, arguments.output + "/weights.safetensors",
                 driver.diagnostics());
}

int compileModel(const Arguments &arguments) {
  if (arguments.printSchema) {
    std::cout << spec::planSchema();
    return kSuccess;
  }
  Driver driver;
  if (load(driver, arguments)) {
    auto module = driver.compile(arguments.compileOptions());
    if (module && !driver.diagnostics().hasErrors() && arguments.output == "-")
      printArtefact(*module, Emission(arguments.emission.begin(), arguments.emission.end()),
                    driver.diagnostics());
    else if (module && !driver.diagnostics().hasErrors())
      writeFiles(driver, *module, arguments);
  }
  return driver.report() ? driver.failureCode() : kSuccess;
}

int checkPlan(const Arguments &arguments) {
  Driver driver;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  if (load(driver, arguments))
    module = driver.compile(arguments.compileOptions());
  if (driver.report() || !module)
    return driver.failureCode();
  llvm::outs() << "the plan is right\n";
  printSummary(*module, llvm::outs());
  return kSuccess;
}

int inspectModel(const Arguments &arguments) {
  if (arguments.operators) {
    printOperators(llvm::outs());
    return kSuccess;
  }
  Driver driver;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  if (driver.loadModel(arguments.model))
    module = driver.import();
  if (module && !findOp<ProgramOp>(*module))
    driver.diagnostics().error(Place{arguments.model},
                               "there is no 'plumb.program' in this module: nothing to inspect");
  if (driver.report() || !module)
    return driver.failureCode();
  inspect(*module, llvm::outs());
  return kSuccess;
}

//===----------------------------------------------------------------------===//
// run
//===----------------------------------------------------------------------===//

/// Compiles, builds and runs one plan; saves into `save` unless it is empty.
int runPlan(Driver &driver, const Arguments &arguments, const TemporaryFolder &folder,
            const std::string &name, const std::string &save, bool quiet,
            mlir::OwningOpRef<mlir::ModuleOp> &module) {
  module = driver.compile(arguments.compileOptions());
  bool built = module && !driver.diagnostics().hasErrors() &&
               buildProgram(*module, folder, name, arguments.provider, driver.diagnostics());
  // What the unsplit model is warned of, the plan was, or it is about pipelines.
  if (driver.report(/*errorsOnly=*/quiet) || !built)
    return driver.failureCode();
  std::vector<std::string> command = launcherOf(*module, arguments.provider);
  command.insert(command.end(), {folder.file(name), "--weights", arguments.weights, "--inputs",
                                 arguments.inputs, "--steps", std::to_string(arguments.steps)});
  if (!arguments.buffers.empty())
    command.insert(command.end(), {"--buffers", arguments.buffers});
  if (!save.empty())
    command.insert(command.end(), {"--save", save});
  return runCommand(command, quiet);
}

int runModel(Arguments arguments) {
  if (!arguments.dumps.empty() && arguments.save.empty() && !arguments.check) {
    std::cerr << "error: --dump needs --save, a file for the values, or --check, which compares them\n";
    return kUsage;
  }
  Driver driver;
  TemporaryFolder folder;
  bool loaded = load(driver, arguments);
  if (loaded && !driver.archive() && (arguments.weights.empty() || arguments.inputs.empty()))
    driver.diagnostics().error(
        Place{arguments.model},
        "MLIR text has no weights and no example inputs; give both with --weights and --inputs");
  if (driver.report() || !loaded)
    return driver.failureCode();
  if (arguments.weights.empty() && arguments.model != "-" && hasAllValues(*driver.archive())) {
    arguments.weights = arguments.model;
  } else if (arguments.weights.empty()) {
    arguments.weights = folder.file("weights.safetensors");
    writeWeights(*driver.archive(), driver.planSpec().init, arguments.weights, driver.diagnostics());
  } else if (std::string buffers = folder.file("buffers.safetensors");
             arguments.buffers.empty() && driver.archive() &&
             writeNonPersistent(*driver.archive(), driver.planSpec().init, buffers, driver.diagnostics())) {
    arguments.buffers = buffers;
  }
  if (arguments.inputs.empty() && !driver.diagnostics().hasErrors()) {
    arguments.inputs = folder.file("inputs.safetensors");
    if (auto applied = driver.applyPlan())
      writeInputs(*applied, arguments.inputs, driver.diagnostics());
  }
  if (driver.report())
    return driver.failureCode();
  std::string save =
      arguments.save.empty() && arguments.check ? folder.file("split.safetensors") : arguments.save;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  int code = runPlan(driver, arguments, folder, "program", save, /*quiet=*/false, module);
  if (code != kSuccess || !arguments.check)
    return code;

  driver.usePlanOfOneRank(*module);
  arguments.provider = "threads";
  arguments.emulateGpu = false;
  std::string reference = folder.file("reference.safetensors");
  if (int failed = runPlan(driver, arguments, folder, "reference", reference, /*quiet=*/true, module))
    return failed;
  std::cout << "compared with the unsplit model on one rank:\n";
  const auto &optimizer = driver.planSpec().optimizer;
  CompareOptions options;
  options.scalesGradients = optimizer && optimizer->kind.value != "sgd";
  options.computesInBF16 = driver.planSpec().compute && driver.planSpec().compute->value == "bf16";
  return compareRuns(save, reference, options, std::cout) ? kSuccess : kCheckFailed;
}

} // namespace

//===----------------------------------------------------------------------===//
// Options
//===----------------------------------------------------------------------===//

void plumb::addCompileCommand(CLI::App &app, Command &command) {
  Subcommand sub(app, "compile", "Compile a model and a plan into a program", /*takesPlan=*/true);
  auto arguments = sub.arguments;
  CLI::Option *output =
      sub.app->add_option("-o", arguments->output, "output folder; - prints the one artefact of --emit");
  CLI::Option *gpu = sub.addTarget();
  sub.app
      ->add_option("--emit", arguments->emission,
                   "what to write: plan, program, kernels, launch, report, trace, mlir, weights")
      ->delimiter(',')
      ->check(CLI::IsMember({"plan", "program", "kernels", "launch", "report", "trace", "mlir", "weights"}));
  sub.app->add_flag("--print-schema", arguments->printSchema, "print the JSON Schema of plan specs and stop");
  sub.app->callback([=, &command] {
    if (!arguments->printSchema)
      for (CLI::Option *option : {sub.model, sub.plan, output})
        if (option->empty())
          throw CLI::RequiredError(option->get_name());
    sub.checkTarget(gpu);
    command = [arguments] { return compileModel(*arguments); };
  });
}

void plumb::addRunCommand(CLI::App &app, Command &command) {
  Subcommand sub(app, "run", "Compile, then run all ranks on this machine", /*takesPlan=*/true);
  auto arguments = sub.arguments;
  sub.model->required();
  sub.plan->required();
  sub.app
      ->add_option("--provider", arguments->provider,
                   "threads: one thread per rank; mpi: one process per rank, started by mpirun")
      ->check(CLI::IsMember({"threads", "mpi"}));
  sub.app->add_option("--dump", arguments->dumps,
                      "name of a module: what it returns is compared or saved as dump.NAME");
  sub.app->add_option("--steps", arguments->steps, "training steps")->check(integerWithin(bounds::kCount));
  sub.app->add_option(
      "--inputs", arguments->inputs,
      "safetensors file or folder with input.0, input.1, … or a stream of tokens, or a shared object; "
      "drawn from a fixed seed without");
  sub.app->add_option("--weights", arguments->weights,
                      "what to use instead of the archive's weights: a safetensors file, a folder of them, "
                      "the index.json of a sharded checkpoint, or another archive");
  sub.app->add_option("--buffers", arguments->buffers,
                      "the same for buffers that are not persistent and for constants");
  sub.app->add_option("--save", arguments->save,
                      "safetensors file for outputs, losses, gradients and parameters");
  sub.app->add_flag("--check", arguments->check, "also run the unsplit model and compare");
  sub.app->add_flag("--emulate-gpu", arguments->emulateGpu,
                    "run the kernels that GPUs would be given, a thread at a time");
  sub.app->callback([=, &command] { command = [arguments] { return runModel(*arguments); }; });
}

void plumb::addCheckCommand(CLI::App &app, Command &command) {
  Subcommand sub(app, "check", "Verify a plan; print the verdict and the numbers", /*takesPlan=*/true);
  auto arguments = sub.arguments;
  sub.model->required();
  sub.plan->required();
  CLI::Option *gpu = sub.addTarget();
  sub.app->callback([=, &command] {
    sub.checkTarget(gpu);
    command = [arguments] { return checkPlan(*arguments); };
  });
}

void plumb::addInspectCommand(CLI::App &app, Command &command) {
  Subcommand sub(app, "inspect", "Show modules, parameters, markers, inputs and outputs",
                 /*takesPlan=*/false);
  auto arguments = sub.arguments;
  sub.app->add_flag("--operators", arguments->operators,
                    "list the ATen operators that models may use and stop");
  sub.app->callback([=, &command] {
    if (!arguments->operators && sub.model->empty())
      throw CLI::RequiredError(sub.model->get_name());
    command = [arguments] { return inspectModel(*arguments); };
  });
}
