//===- Library.cpp - A program as a C library -----------------------------------===//
//
// The ranks run in threads of their own, as in a program, and take their commands from here. A command is
// given to all ranks of the process, and is over when the last of them has carried it out.
//
//===----------------------------------------------------------------------===//

#include "plumb/Runtime/plumb.h"

#include "plumb/Runtime/Layout.h"
#include "plumb/Runtime/Run.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <limits>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

using namespace plumb;

struct plumb_run : Driver {
  explicit plumb_run(std::vector<std::string> arguments)
      : arguments(std::move(arguments)), results(resultsOf(plumb_program)) {}

  void start();
  int give(const Command &next);
  int close();

  // Driver
  void begin(int count) override { ranks = count; }
  Command next(std::int64_t done) override;
  const std::byte *input(const Tensor &tensor) const override;
  void deliver(const Piece &piece) override;
  void report(const StepReport &report) override { loss = report.loss; }

  int wrong(const std::string &what) {
    error = what;
    return 2;
  }
  std::optional<std::size_t> find(std::string_view name) const;

  std::vector<std::string> arguments;
  std::vector<Result> results;
  std::string error;
  std::span<const plumb_value> inputs;
  double loss = std::numeric_limits<double>::quiet_NaN();
  std::byte *target = nullptr; ///< Where the tensor that is read goes.

private:
  std::thread thread;
  std::mutex mutex;
  std::condition_variable changed;
  Command command;
  std::int64_t given = 0; ///< Commands so far.
  int ranks = 0, waiting = 0;
  std::optional<Outcome> outcome; ///< Once the ranks have ended.
};

//===----------------------------------------------------------------------===//
// Commands
//===----------------------------------------------------------------------===//

void plumb_run::start() {
  thread = std::thread([this] {
    std::vector<const char *> argv{"program"};
    for (const std::string &argument : arguments)
      argv.push_back(argument.c_str());
    Outcome result = runProgram(plumb_program, static_cast<int>(argv.size()), argv.data(), this);
    std::lock_guard guard(mutex);
    outcome = std::move(result);
    changed.notify_all();
  });
}

Command plumb_run::next(std::int64_t done) {
  std::unique_lock lock(mutex);
  ++waiting;
  changed.notify_all();
  changed.wait(lock, [&] { return given > done; });
  return command;
}

/// Waits until all ranks are ready, gives them the command, and waits until they are ready again or have
/// ended.
int plumb_run::give(const Command &next) {
  std::unique_lock lock(mutex);
  auto isReady = [&] { return outcome || (ranks > 0 && waiting == ranks); };
  changed.wait(lock, isReady);
  if (!outcome) {
    command = next;
    ++given;
    waiting = 0;
    changed.notify_all();
    changed.wait(lock, isReady);
  }
  if (outcome && outcome->code)
    error = outcome->file.empty() ? outcome->error : outcome->file + ": " + outcome->error;
  return outcome ? outcome->code : 0;
}

int plumb_run::close() {
  if (!thread.joinable())
    return 2;
  give({});
  thread.join();
  return outcome->code;
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

static bool isNamed(const Tensor &tensor, std::string_view name) {
  return name == tensor.name ||
         std::ranges::any_of(tensor.aliases, [&](const char *alias) { return name == alias; });
}

const std::byte *plumb_run::input(const Tensor &tensor) const {
  for (const plumb_value &value : inputs)
    if (isNamed(tensor, value.name))
      return static_cast<const std::byte *>(value.data);
  return nullptr;
}

std::optional<std::size_t> plumb_run::find(std::string_view name) const {
  for (std::size_t i = 0; i < results.size(); ++i) {
    const Result &result = results[i];
    if (std::ranges::find(result.names, name) != result.names.end() ||
        (result.kind == Result::Parameter && isNamed(*result.tensor, name)))
      return i;
  }
  return std::nullopt;
}

void plumb_run::deliver(const Piece &piece) {
  const Tensor &tensor = *results[piece.result].tensor;
  Slice slice(plumb_program, tensor, coordinatesOf(plumb_program, piece.rank), piece.microbatch);
  if (slice.bytes() != piece.data.size())
    throw Failure(std::string("a slice of '") + tensor.name + "' has another size on rank " +
                  std::to_string(piece.rank));
  std::lock_guard guard(mutex);
  slice.scatter(piece.data.data(), target);
}

static std::size_t bytesOf(const Tensor &tensor) {
  std::size_t bytes = sizeOf(tensor.dtype);
  for (std::int64_t extent : shapeOf(tensor))
    bytes *= static_cast<std::size_t>(extent);
  return bytes;
}

static std::string sizeMismatch(const char *name, std::size_t needed, std::size_t given) {
  return std::string("'") + name + "' has " + std::to_string(needed) + " bytes, not " + std::to_string(given);
}

//===----------------------------------------------------------------------===//
// The library
//===----------------------------------------------------------------------===//

static bool hasOption(const std::vector<std::string> &arguments, std::string_view option) {
  return std::ranges::any_of(
      arguments, [&](std::string_view argument) { return argument.substr(0, argument.find('=')) == option; });
}

int plumb_open(plumb_run **run, int argc, const char *const *argv) {
  *run = new plumb_run(std::vector<std::string>(argv, argv + argc));
  for (const char *option : {"--steps", "--every", "--checkpoint", "--save"})
    if (hasOption((*run)->arguments, option))
      return (*run)->wrong(std::string("'") + option +
                           "' is an option of a program; here the loop is the caller's");
  (*run)->start();
  // Ranks are ready for the first command when they have loaded their state: writing nothing asks for that.
  return (*run)->give({Command::Write});
}

int plumb_step(plumb_run *run, const plumb_value *inputs, size_t count, double *loss) {
  run->inputs = {inputs, count};
  for (const plumb_value &value : run->inputs) {
    auto input = std::ranges::find_if(plumb_program.inputs,
                                      [&](const Tensor &tensor) { return isNamed(tensor, value.name); });
    if (input == plumb_program.inputs.end())
      return run->wrong(std::string("the program has no input '") + value.name + "'");
    if (std::size_t bytes = bytesOf(*input); value.bytes != bytes || !value.data)
      return run->wrong(sizeMismatch(value.name, bytes, value.bytes));
  }
  bool hasSource = hasOption(run->arguments, "--inputs") || hasOption(run->arguments, "--source");
  for (const Tensor &input : plumb_program.inputs)
    if (!hasSource && !run->input(input))
      return run->wrong(std::string("nothing gives the input '") + input.name + "'");
  run->loss = std::numeric_limits<double>::quiet_NaN();
  int code = run->give({Command::Step});
  if (loss)
    *loss = run->loss;
  return code;
}

int plumb_read(plumb_run *run, const char *name, void *data, size_t bytes) {
  std::optional<std::size_t> result = run->find(name);
  if (!result)
    return run->wrong(std::string("the program has no tensor '") + name + "'");
  if (std::size_t needed = bytesOf(*run->results[*result].tensor); bytes != needed)
    return run->wrong(sizeMismatch(name, needed, bytes));
  run->target = static_cast<std::byte *>(data);
  return run->give({Command::Read, *result});
}

int plumb_write(plumb_run *run, const char *name, const void *data, size_t bytes) {
  std::optional<std::size_t> result = run->find(name);
  if (!result || run->results[*result].kind != Result::Parameter)
    return run->wrong(std::string("the program has no parameter '") + name + "'");
  if (std::size_t needed = bytesOf(*run->results[*result].tensor); bytes != needed)
    return run->wrong(sizeMismatch(name, needed, bytes));
  return run->give({Command::Write, *result, static_cast<const std::byte *>(data)});
}

const char *plumb_error(const plumb_run *run) { return run->error.c_str(); }

int plumb_close(plumb_run *run) {
  int code = run->close();
  delete run;
  return code;
}
