//===- Options.cpp - The command line of a program --------------------------===//

#include "plumb/Runtime/Options.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string_view>
#include <system_error>

namespace plumb {

template <class Number>
static bool parseNumber(std::string_view text, Number &result) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), result);
  return error == std::errc() && end == text.data() + text.size();
}

namespace {

/// About thirty years; clocks do not overflow.
constexpr std::int64_t kLongestTimeout = 1'000'000'000;

constexpr const char *kUsage =
    "usage: program [--weights W] [--buffers W] [--source S] [--steps N] [--save F]\n"
    "               [--resume DIR] [--checkpoint DIR [--every K]] [--log F.jsonl] [--timeout S]";

/// Where the value of an option goes: one of the two.
struct Option {
  std::string_view name;
  std::string Options::*text;
  std::int64_t Options::*number;
};
constexpr Option kOptions[] = {
    {"--weights", &Options::weights, nullptr}, {"--buffers", &Options::buffers, nullptr},
    {"--source", &Options::source, nullptr},   {"--inputs", &Options::source, nullptr},
    {"--save", &Options::save, nullptr},       {"--checkpoint", &Options::checkpoint, nullptr},
    {"--resume", &Options::resume, nullptr},   {"--log", &Options::log, nullptr},
    {"--steps", nullptr, &Options::steps},     {"--every", nullptr, &Options::every}};

void set(Options &options, std::string_view name, std::string_view value) {
  std::int64_t number = 0;
  const auto *option = std::ranges::find(kOptions, name, &Option::name);
  bool isTimeout = option == std::end(kOptions);
  if (!isTimeout && option->text) {
    options.*option->text = value;
    return;
  }
  constexpr std::int64_t most = 0x7fffffff; // also as seconds, added to the time
  if (!parseNumber(value, number) || number < 1 || number > most)
    throw UsageError("'" + std::string(name) + "' needs an integer from 1 to " + std::to_string(most) +
                     ", not '" + std::string(value) + "'");
  if (isTimeout)
    options.timeout = std::chrono::seconds(std::min(number, kLongestTimeout));
  else
    options.*option->number = number;
}

} // namespace

Options parseOptions(int argc, const char *const *argv) {
  Options options;
  std::uint64_t timeout =
      environmentNumber("PLUMB_TIMEOUT", static_cast<std::uint64_t>(options.timeout.count()));
  options.timeout = std::chrono::seconds(std::min<std::uint64_t>(timeout, kLongestTimeout));
  for (int i = 1; i < argc; ++i) {
    std::string_view argument = argv[i];
    auto equals = argument.find('=');
    std::string_view name = argument.substr(0, equals), value;
    if (name != "--timeout" && std::ranges::find(kOptions, name, &Option::name) == std::end(kOptions))
      throw UsageError("unknown argument '" + std::string(argument) + "'; " + kUsage);
    if (equals != std::string_view::npos)
      value = argument.substr(equals + 1);
    else if (++i < argc)
      value = argv[i];
    // Nothing is what a variable leaves that is not set.
    if (value.empty())
      throw UsageError("'" + std::string(name) + "' needs a value; " + kUsage);
    set(options, name, value);
  }
  if (options.every && options.checkpoint.empty())
    throw UsageError("'--every' says how often to write a checkpoint; give a folder with --checkpoint");
  return options;
}

std::uint64_t environmentNumber(const char *variable, std::uint64_t otherwise) {
  const char *text = std::getenv(variable);
  if (text && !parseNumber<std::uint64_t>(text, otherwise))
    throw UsageError(std::string(variable) + " needs a non-negative integer, not '" + text + "'");
  return otherwise;
}

} // namespace plumb
