//===- Doctor.cpp - doctor: what this machine can do ----------------------------===//

#include "Commands.h"
#include "Execute.h"
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <unistd.h>

using namespace plumb;

/// The path of a program that the shell would find; empty if there is none.
static std::string findProgram(const std::string &name) {
  const char *path = std::getenv("PATH");
  std::string folders = path ? path : "";
  for (size_t begin = 0; begin <= folders.size();) {
    size_t end = std::min(folders.find(':', begin), folders.size());
    std::string candidate = folders.substr(begin, end - begin) + "/" + name;
    if (access(candidate.c_str(), X_OK) == 0)
      return candidate;
    begin = end + 1;
  }
  return "";
}

namespace {

class Report {
public:
  void add(bool good, const std::string &what, const std::string &found, const std::string &advice,
           bool isNeeded) {
    std::cout << (good       ? "ok       "
                  : isNeeded ? "MISSING  "
                             : "absent   ")
              << what << ": " << (good ? found : advice) << "\n";
    complete &= good || !isNeeded;
  }
  bool isComplete() const { return complete; }

private:
  bool complete = true;
};

} // namespace

static int examine() {
  Report report;
  std::vector<std::string> compiler = compilerCommand();
  std::string path = compiler[0].find('/') == std::string::npos ? findProgram(compiler[0]) : compiler[0];
  report.add(!path.empty() && access(path.c_str(), X_OK) == 0, "C++ compiler", path,
             "\"" + compiler[0] + "\" is not there; set CXX to a compiler of C++20", true);
  for (const auto &[provider, use, isNeeded] :
       {std::tuple("threads", "to run programs on this machine", true),
        std::tuple("mpi", "to run one process per rank", false),
        std::tuple("nccl", "to link programs for GPUs", false)}) {
    std::string library = runtimeLibrary(provider);
    report.add(std::filesystem::exists(library), std::string("runtime '") + provider + "'", library,
               std::string("not built; it is needed ") + use, isNeeded);
  }
  std::string mpirun = findProgram("mpirun");
  report.add(!mpirun.empty(), "mpirun", mpirun, "not there; Open MPI starts the ranks of run --provider mpi",
             false);
  std::string driver = findProgram("nvidia-smi");
  report.add(!driver.empty(), "GPU driver", driver,
             "no nvidia-smi; programs for GPUs can be compiled, not run", false);
  std::error_code error;
  std::string temporary = std::filesystem::temp_directory_path(error).string();
  report.add(!error && access(temporary.c_str(), W_OK) == 0, "temporary files", temporary,
             "cannot be written; set TMPDIR", true);
  return report.isComplete() ? kSuccess : kRejected;
}

void plumb::addDoctorCommand(CLI::App &app, Command &command) {
  CLI::App *sub = app.add_subcommand("doctor", "Check what compiling and running needs on this machine");
  sub->callback([&command] { command = examine; });
}
