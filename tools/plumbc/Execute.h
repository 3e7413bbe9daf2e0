//===- Execute.h - Builds and runs a compiled program -----------*- C++ -*-===//
#ifndef PLUMB_TOOLS_PLUMBC_EXECUTE_H
#define PLUMB_TOOLS_PLUMBC_EXECUTE_H

#include "Driver.h"

namespace plumb {

/// A folder that vanishes with the object, or when the process is told to end (SIGINT, SIGTERM, SIGHUP),
/// which a command that is running is then told too. A process that is killed leaves its folder, which the
/// next one removes. There is one at a time.
class TemporaryFolder {
public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder &) = delete;
  TemporaryFolder &operator=(const TemporaryFolder &) = delete;
  std::string file(const std::string &name) const { return path + "/" + name; }

private:
  std::string path;
};

/// Compiles and links the program of a module with a provider, `threads` or `mpi`.
bool buildProgram(mlir::ModuleOp module, const TemporaryFolder &folder, const std::string &name,
                  const std::string &provider, Diagnostics &diagnostics);

/// The C++ compiler of the machine, with options if CXX names some. What a sanitized runtime needs to be
/// linked is given by the build.
std::vector<std::string> compilerCommand();

/// The path at which the runtime library of a provider belongs.
std::string runtimeLibrary(const std::string &provider);

/// What starts all ranks of a program on this machine: goes before the program in a command.
std::vector<std::string> launcherOf(mlir::ModuleOp module, const std::string &provider);

/// Runs a command to its end; its output is this process's. Answers the exit code, or 70 when it died of a
/// signal.
int runCommand(const std::vector<std::string> &command, bool quiet = false);

} // namespace plumb

#endif // PLUMB_TOOLS_PLUMBC_EXECUTE_H
