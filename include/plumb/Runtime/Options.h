//===- Options.h - The command line of a program ----------------------------===//

#ifndef PLUMB_RUNTIME_OPTIONS_H
#define PLUMB_RUNTIME_OPTIONS_H

#include "plumb/Runtime/Failure.h"

#include <chrono>
#include <cstdint>
#include <string>

namespace plumb {

struct Options {
  // Paths; empty: not given.
  std::string weights;    ///< See TensorFiles.
  std::string buffers;    ///< The same, for what the model does not save.
  std::string source;     ///< `--source` or `--inputs`: see openInputSource.
  std::string save;       ///< Results of the run.
  std::string checkpoint; ///< Folder for checkpoints.
  std::string resume;     ///< Folder with checkpoints, or one of them, to go on from.
  std::string log;        ///< File to which each step appends a line of JSON.
  std::int64_t steps = 1; ///< To be finished at the end, those before the checkpoint included.
  std::int64_t every =
      0; ///< Steps from checkpoint to checkpoint; 0: only the last step, or when told to stop.
  std::chrono::seconds timeout{600}; ///< Bounds every wait for other ranks and for a source.
};

/// The options, each also as `--option=value`. PLUMB_TIMEOUT in the environment stands for `--timeout`.
/// Throws UsageError.
Options parseOptions(int argc, const char *const *argv);

/// A non-negative integer from the environment; `otherwise` if the variable is not set. Throws UsageError.
std::uint64_t environmentNumber(const char *variable, std::uint64_t otherwise);

} // namespace plumb

#endif // PLUMB_RUNTIME_OPTIONS_H
