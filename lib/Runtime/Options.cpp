//===- Options.cpp - The command line of a program --------------------------===//

#include "plumb/Runtime/Options.h"

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

Options parseOptions(int argc, const char *const *argv) {
  const std::string usage =
      "usage: program [--weights F.safetensors] --inputs F.safetensors [--steps N] [--save F.safetensors]";
  Options options;
  for (int i = 1; i < argc; ++i) {
    std::string_view argument = argv[i];
    auto equals = argument.find('=');
    std::string_view name = argument.substr(0, equals), value;
    bool known = name == "--weights" || name == "--inputs" || name == "--save" || name == "--steps";
    if (!known)
      throw UsageError("unknown argument '" + std::string(argument) + "'; " + usage);
    if (equals != std::string_view::npos)
      value = argument.substr(equals + 1);
    else if (++i < argc)
      value = argv[i];
    else
      throw UsageError("'" + std::string(name) + "' needs a value; " + usage);
    if (name == "--weights")
      options.weights = value;
    else if (name == "--inputs")
      options.inputs = value;
    else if (name == "--save")
      options.save = value;
    else if (!parseNumber(value, options.steps) || options.steps < 1)
      throw UsageError("'--steps' needs a positive integer, not '" + std::string(value) + "'");
  }
  return options;
}

std::uint64_t environmentNumber(const char *variable, std::uint64_t otherwise) {
  const char *text = std::getenv(variable);
  if (text && !parseNumber<std::uint64_t>(text, otherwise))
    throw UsageError(std::string(variable) + " needs a non-negative integer, not '" + text + "'");
  return otherwise;
}

} // namespace plumb
