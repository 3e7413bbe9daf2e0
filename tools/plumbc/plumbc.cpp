//===- plumbc.cpp - The command line of Plumb ---------------------------------===//

#include "Commands.h"
#include "Driver.h"
#include "plumb/Runtime/Failure.h"
#include <charconv>
#include <iostream>

using namespace plumb;

CLI::Validator plumb::integerWithin(const Bounds &bounds) {
  auto check = [bounds](std::string &text) -> std::string {
    int64_t number = 0;
    auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
    bool isNumber = status == std::errc() && end == text.data() + text.size();
    if (isNumber && bounds.contains(static_cast<double>(number)))
      return "";
    return "must be an integer" + bounds.str() + ", found " + text;
  };
  return CLI::Validator(check, "INT");
}

static int dispatch(int argc, char **argv) {
  CLI::App app{"Plumb: an ahead-of-time compiler for parallel plans of deep-learning models"};
  app.require_subcommand(1);
  app.set_version_flag("--version", "plumbc " PLUMB_VERSION);
  Command command;
  addCompileCommand(app, command);
  addRunCommand(app, command);
  addCheckCommand(app, command);
  addInspectCommand(app, command);
  addExplainCommand(app, command);
  addScheduleCommand(app, command);
  addRedistributeCommand(app, command);
  addPlanCommand(app, command);
  addDiffCommand(app, command);
  addDoctorCommand(app, command);
  addCompletionCommand(app, command);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return app.exit(error, std::cout, std::cerr) == 0 ? kSuccess : kUsage;
  }
  return command();
}

int main(int argc, char **argv) {
  try {
    return dispatch(argc, argv);
  } catch (const Failure &failure) {
    std::cerr << errorMessage(failure.file(), failure.sentence()) << "\n";
    return kRejected;
  } catch (const std::exception &exception) {
    std::cerr << "plumbc: internal error: " << exception.what() << "\n";
    return kInternalError;
  }
}
