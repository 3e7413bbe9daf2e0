//===- Execute.h - Builds and runs a compiled program -----------*- C++ -*-===//
#ifndef PLUMB_TOOLS_PLUMBC_EXECUTE_H
#define PLUMB_TOOLS_PLUMBC_EXECUTE_H

#include "Driver.h"

namespace plumb {

/// A folder that vanishes with the object.
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

/// Compiles and links the program of a module with the threads provider. The C++ compiler is $CXX, or `c++`.
bool buildProgram(mlir::ModuleOp module, const TemporaryFolder &folder, const std::string &name,
                  Diagnostics &diagnostics);

/// Runs a command to its end; its output is this process's. Answers the exit code, or 70 when it died of a
/// signal.
int runCommand(const std::vector<std::string> &command, bool quiet = false);

} // namespace plumb

#endif // PLUMB_TOOLS_PLUMBC_EXECUTE_H
