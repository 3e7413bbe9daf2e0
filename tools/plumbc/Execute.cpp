//===- Execute.cpp - Builds and runs a compiled program ----------------------===//

#include "Execute.h"
#include "Artefacts.h"
#include "plumb/Runtime/Failure.h"
#include "plumb/Target/Program.h"
#include "plumb/Transforms/Utils.h"
#include "llvm/Support/FileSystem.h"
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <iterator>
#include <mutex>
#include <spawn.h>
#include <sstream>
#include <sys/file.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace mlir;
using namespace plumb;

//===----------------------------------------------------------------------===//
// The temporary folder
//===----------------------------------------------------------------------===//

/// Held while a command is started or the folder is removed; for good by the thread that ends the process, so
/// that it knows of every command.
static std::mutex ending;
/// The command that is running; 0 for none.
static pid_t running = 0;

/// The signals that end the process: not those that whoever started it has it ignore, as nohup does.
static sigset_t endings() {
  sigset_t signals;
  sigemptyset(&signals);
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action;
    if (sigaction(signal, nullptr, &action) == 0 && action.sa_handler != SIG_IGN)
      sigaddset(&signals, signal);
  }
  return signals;
}

static void removeFolder(const std::string &path) {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

/// A folder is in use as long as its lock is held: by the process that made it, and by the commands which
/// that has started and which inherit the lock.
static constexpr const char *kPrefix = "plumbc-", *kLock = "/plumbc.lock";

/// Locks a new folder; the lock has its name only when it is held.
static void lockFolder(const std::string &path) {
  std::string unnamed = path + kLock + ".new";
  int lock = open(unnamed.c_str(), O_RDWR | O_CREAT, 0600);
  if (lock >= 0 && flock(lock, LOCK_EX) == 0)
    rename(unnamed.c_str(), (path + kLock).c_str());
}

static bool isAbandoned(const std::string &path) {
  int lock = open((path + kLock).c_str(), O_RDWR | O_CLOEXEC);
  if (lock < 0)
    return false;
  bool isFree = flock(lock, LOCK_EX | LOCK_NB) == 0;
  close(lock);
  return isFree;
}

/// Removes the folders that processes have left which could not clear up, since they were killed.
static void removeAbandoned(const std::string &parent) {
  std::error_code error;
  std::vector<std::string> abandoned;
  for (const auto &entry : std::filesystem::directory_iterator(parent, error))
    if (llvm::StringRef(entry.path().filename().string()).starts_with(kPrefix) &&
        isAbandoned(entry.path().string()))
      abandoned.push_back(entry.path().string());
  for (const std::string &path : abandoned)
    removeFolder(path);
}

/// Waits for a signal that ends the process, and clears up first.
static void awaitEnd(const std::string &path) {
  sigset_t signals = endings();
  int signal = 0;
  if (sigwait(&signals, &signal) != 0)
    return;
  ending.lock();
  if (running > 0) {
    kill(running, signal);
    waitpid(running, nullptr, 0);
  }
  removeFolder(path);
  _exit(128 + signal);
}

TemporaryFolder::TemporaryFolder() {
  std::error_code error;
  std::string parent = std::filesystem::temp_directory_path(error).string(),
              pattern = parent + "/" + kPrefix + "XXXXXX";
  if (error || !mkdtemp(pattern.data()))
    throw Failure("no folder can be made for temporary files in \"" + parent +
                  "\"; set TMPDIR to one that can be written");
  path = pattern;
  lockFolder(path);
  removeAbandoned(parent);
  // Blocked here and in all threads made later, so that the one thread that waits for them gets them.
  sigset_t signals = endings();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread(awaitEnd, path).detach();
}

TemporaryFolder::~TemporaryFolder() {
  std::lock_guard guard(ending);
  removeFolder(path);
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
  // The command is to get the signals that this process keeps for its own end.
  posix_spawnattr_t attributes;
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t child;
  int error;
  {
    std::lock_guard guard(ending);
    error = posix_spawnp(&child, arguments[0], &actions, &attributes, arguments.data(), environ);
    running = error ? 0 : child;
  }
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error)
    return 127;
  int status = 0;
  bool hasEnded = waitpid(child, &status, 0) == child;
  {
    std::lock_guard guard(ending);
    running = 0;
  }
  if (!hasEnded)
    return 127;
  return WIFEXITED(status) ? WEXITSTATUS(status) : static_cast<int>(kInternalError);
}

/// The folder above the tool's own: headers lie in `include`, the runtime in `lib` of an installation; a
/// build tree keeps its headers in the source.
std::string plumb::runtimeLibrary(const std::string &provider) {
  static int anchor;
  std::filesystem::path tool = llvm::sys::fs::getMainExecutable("plumbc", &anchor);
  return (tool.parent_path().parent_path() / "lib" / ("libplumb_runtime_" + provider + ".a")).string();
}

static std::vector<std::string> words(const std::string &text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

std::vector<std::string> plumb::compilerCommand() {
  const char *variable = std::getenv("CXX");
  std::vector<std::string> command = words(variable ? variable : "");
  if (command.empty())
    command = words(PLUMB_DEFAULT_CXX);
  for (std::string &flag : words(PLUMB_PROGRAM_FLAGS))
    command.push_back(std::move(flag));
  return command;
}

std::vector<std::string> plumb::launcherOf(mlir::ModuleOp module, const std::string &provider) {
  if (provider != "mpi")
    return {};
  int64_t ranks = 1;
  for (int64_t size : findOp<MeshOp>(module).getSizes())
    ranks *= size;
  // When a rank is lost, the others have five seconds to say so.
  std::vector<std::string> command = {"mpirun",
                                      "-np",
                                      std::to_string(ranks),
                                      "--oversubscribe",
                                      "--bind-to",
                                      "none",
                                      "--mca",
                                      "odls_base_sigkill_timeout",
                                      "5"};
  // Open MPI asks whoever is root to say so.
  if (geteuid() == 0)
    command.push_back("--allow-run-as-root");
  return command;
}

bool plumb::buildProgram(mlir::ModuleOp module, const TemporaryFolder &folder, const std::string &name,
                         const std::string &provider, Diagnostics &diagnostics) {
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
  command.insert(command.end(), {runtimeLibrary(provider), "-pthread", "-o", folder.file(name)});
  if (provider == "mpi")
    for (const std::string &library : words(PLUMB_MPI_LIBRARIES))
      command.push_back(library);
  int code = runCommand(command);
  if (code == 0)
    return true;
  diagnostics.error(Place{},
                    "the C++ compiler \"" + command[0] + "\" " +
                        (code == 127 ? "cannot be run; set CXX to one" : "rejected the generated program"));
  return false;
}
