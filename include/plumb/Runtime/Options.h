//===- Options.h - The command line of a program ----------------------------===//

#ifndef PLUMB_RUNTIME_OPTIONS_H
#define PLUMB_RUNTIME_OPTIONS_H

#include "plumb/Runtime/Failure.h"

#include <cstdint>
#include <string>

namespace plumb {

struct Options {
  std::string weights, inputs, save; ///< Paths; empty: not given.
  std::int64_t steps = 1;
};

/// The command line is wrong: exit code 2.
class UsageError : public Failure {
public:
  using Failure::Failure;
};

/// `program [--weights F] --inputs F [--steps N] [--save F]`, also `--option=value`. Throws UsageError.
Options parseOptions(int argc, const char *const *argv);

/// A non-negative integer from the environment; `otherwise` if the variable is not set. Throws UsageError.
std::uint64_t environmentNumber(const char *variable, std::uint64_t otherwise);

} // namespace plumb

#endif // PLUMB_RUNTIME_OPTIONS_H
