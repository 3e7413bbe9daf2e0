//===- Commands.h - The subcommands of plumbc -------------------*- C++ -*-===//
//
// Each function adds a subcommand to the command line; when it is the one that was given, it sets `command`
// to what is to be done, which answers the exit code.
//
//===----------------------------------------------------------------------===//
#ifndef PLUMB_TOOLS_PLUMBC_COMMANDS_H
#define PLUMB_TOOLS_PLUMBC_COMMANDS_H

#include "plumb/Support/Bounds.h"
#include <CLI/CLI.hpp>
#include <functional>

namespace plumb {

using Command = std::function<int()>;

/// Checks that an option is an integer within bounds; the message says which, and what it is.
CLI::Validator integerWithin(const Bounds &bounds);

void addCompileCommand(CLI::App &app, Command &command);
void addRunCommand(CLI::App &app, Command &command);
void addCheckCommand(CLI::App &app, Command &command);
void addInspectCommand(CLI::App &app, Command &command);
void addExplainCommand(CLI::App &app, Command &command);
void addScheduleCommand(CLI::App &app, Command &command);
void addRedistributeCommand(CLI::App &app, Command &command);
void addPlanCommand(CLI::App &app, Command &command);
void addDiffCommand(CLI::App &app, Command &command);
void addDoctorCommand(CLI::App &app, Command &command);
/// The last one: it names all others.
void addCompletionCommand(CLI::App &app, Command &command);

} // namespace plumb

#endif // PLUMB_TOOLS_PLUMBC_COMMANDS_H
