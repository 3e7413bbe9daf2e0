//===- Execute.cpp - Builds and runs a compiled program ----------------------===//

#include "Execute.h"
#include "Artefacts.h"
#include "plumb/Runtime/Failure.h"
#include "plumb/Target/Program.h"
#include "llvm/Support/FileSystem.h"
#include <fcntl.h>
#include <filesystem>
#include <iterator>
#include <spawn.h>
#include <sstream>
#include <sys/wait.h>
#include <unistd.h>

using namespace mlir;
using namespace plumb;

TemporaryFolder::TemporaryFolder() {
  std::error_code error;
  std::string parent = std::filesystem::temp_directory_path(error).string(),
              pattern = parent + "/plumb-XXXXXX";
  if (error || !mkdtemp(pattern.data()))
    throw Failure("no folder can be made for temporary files in \"" + parent +
                  "\"; set TMPDIR to one that can be written");
  path = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

//===----------------------------------------------------------------------===//
// Build and run
//===----------------------------------------------------------------------===//

int plumb::runCommand(const std::vector<std::string> &command, bool quiet) {
  std::vector<char *> arguments;
  for (const std::string &argument : command)
    arguments.push_back(const_cast<char *>(argument.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (quiet)
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child;
  int error = posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  int status = 0;
  if (error || waitpid(child, &status, 0) != child)
    return 127;
  return WIFEXITED(status) ? WEXITSTATUS(status) : static_cast<int>(kInternalError);
}

/// The folder above the tool's own: headers lie in `include`, the runtime in `lib` of an installation; a
/// build tree keeps its headers in the source.
static std::string runtimeLibrary() {
  static int anchor;
  std::filesystem::path tool = llvm::sys::fs::getMainExecutable("plumbc", &anchor);
  return (tool.parent_path().parent_path() / "lib" / "libplumb_runtime_threads.a").string();
}

/// The C++ compiler of the machine, with options if CXX names some. What a sanitized runtime needs to be
/// linked is given by the build.
static std::vector<std::string> compilerCommand() {
  auto words = [](const std::string &text) {
    std::istringstream stream(text);
    return std::vector<std::string>(std::istream_iterator<std::string>(stream), {});
  };
  const char *variable = std::getenv("CXX");
  std::vector<std::string> command = words(variable ? variable : "");
  if (command.empty())
    command = words(PLUMB_DEFAULT_CXX);
  for (std::string &flag : words(PLUMB_PROGRAM_FLAGS))
    command.push_back(std::move(flag));
  return command;
}

bool plumb::buildProgram(mlir::ModuleOp module, const TemporaryFolder &folder, const std::string &name,
                         Diagnostics &diagnostics) {
  std::string source = folder.file(name + ".cpp"), text;
  llvm::raw_string_ostream stream(text);
  if (failed(emitProgram(module, stream)) || !writeFile(source, text, diagnostics))
    return false;
  std::string include = PLUMB_INCLUDE_DIR;
  std::vector<std::string> command = compilerCommand();
  command.insert(command.end(),
                 {"-std=c++20", "-O1", "-I" + include, "-I" + include + "/plumb/Runtime/Host", source});
  for (const std::string &object : kernelObjects(module))
    command.push_back(object);
  command.insert(command.end(), {runtimeLibrary(), "-pthread", "-o", folder.file(name)});
  int code = runCommand(command);
  if (code == 0)
    return true;
  diagnostics.error(Place{},
                    "the C++ compiler \"" + command[0] + "\" " +
                        (code == 127 ? "cannot be run; set CXX to one" : "rejected the generated program"));
  return false;
}
