// Times what a program spends beside computing: its kernels are stubs. Two ranks on two threads, pipelined;
// the time of an action is that of a step divided by the actions of one rank.
//
//   tools/bench dispatch
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>

namespace fs = std::filesystem;

static void run(const std::string &command) {
  if (std::system(command.c_str()) != 0) {
    std::fprintf(stderr, "failed: %s\n", command.c_str());
    std::exit(1);
  }
}

static std::string read(const fs::path &path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Kernels that are enqueued, and do nothing when their turn comes.
static void writeStubs(const fs::path &folder) {
  std::string program = read(folder / "program.cpp");
  std::ofstream stubs(folder / "stubs.cpp");
  stubs << "#include <cstddef>\nextern \"C\" int plumb_host_launch(void *, void (*)(void **), void **, "
           "std::size_t, const char *);\n"
           "static void nothing(void **) {}\n";
  std::regex prototype("cudaError_t (k_[0-9a-f]+)\\(([^)]*)\\);");
  for (std::sregex_iterator match(program.begin(), program.end(), prototype), end; match != end; ++match) {
    std::string parameters = (*match)[2], list;
    auto count = std::count(parameters.begin(), parameters.end(), ',');
    for (long i = 0; i < count; ++i)
      list += "void *, ";
    stubs << "extern \"C\" int " << (*match)[1] << "(" << list
          << "void *stream) { return plumb_host_launch(stream, nothing, nullptr, 0, \"" << (*match)[1]
          << "\"); }\n";
  }
}

static double secondsOf(const fs::path &folder, const std::string &inputs, int steps) {
  auto begin = std::chrono::steady_clock::now();
  run((folder / "program").string() + " --weights " + (folder / "weights.safetensors").string() +
      " --inputs " + inputs + " --steps " + std::to_string(steps) + " > /dev/null");
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

int main(int, char **argv) {
  constexpr double kMostMicroseconds = 2;
  // Many short runs: others who use the machine do not disturb them all.
  constexpr int kSteps = 2000, kRuns = 30;
  fs::path build = fs::absolute(argv[0]).parent_path().parent_path(),
           folder = fs::temp_directory_path() / "plumb-dispatch";
  std::string source = PLUMB_SOURCE_DIR, fixture = source + "/test/Fixtures/mlp";
  fs::remove_all(folder);
  fs::create_directories(folder);
  std::ofstream(folder / "spec.json")
      << R"({"mesh": {"pp": 2}, "pipeline": {"microbatches": 8, "split": {"fc2": "beginning"}},
    "loss": {"output": 0, "reduce": "mean_square"}, "optimizer": {"kind": "sgd", "lr": 0.1}})";
  run((build / "bin/plumbc").string() + " compile " + fixture + ".pt2 --plan " +
      (folder / "spec.json").string() + " --emit plan,program,weights -o " + folder.string());
  writeStubs(folder);
  std::string include = source + "/include";
  run("c++ -std=c++20 -O2 -I" + include + " -I" + include + "/plumb/Runtime/Host " +
      (folder / "program.cpp").string() + " " + (folder / "stubs.cpp").string() + " " +
      (build / "lib/libplumb_runtime_threads.a").string() + " -pthread -o " + (folder / "program").string());
  auto plan = nlohmann::json::parse(read(folder / "plan.json"));
  std::size_t actions = 0;
  for (const auto &row : plan["actions"])
    actions = std::max(actions, row.size());
  std::string inputs = fixture + ".expected.safetensors";
  double start = 1e9, whole = 1e9;
  for (int i = 0; i < kRuns; ++i) {
    start = std::min(start, secondsOf(folder, inputs, 1));
    whole = std::min(whole, secondsOf(folder, inputs, kSteps));
  }
  double microseconds = 1e6 * (whole - start) / (kSteps - 1) / static_cast<double>(actions);
  std::printf("%zu actions of a rank in a step: %.2f us an action, at most %.1f us\n", actions, microseconds,
              kMostMicroseconds);
  fs::remove_all(folder);
  return microseconds > kMostMicroseconds;
}
