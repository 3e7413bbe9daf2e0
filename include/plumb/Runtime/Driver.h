//===- Driver.h - Who says what the ranks do next -----------------------------===//
//
// Without a driver ranks train until they have done all steps. A driver, the C library of plumb.h, gives them
// commands instead.
//
//===----------------------------------------------------------------------===//

#ifndef PLUMB_RUNTIME_DRIVER_H
#define PLUMB_RUNTIME_DRIVER_H

#include "plumb/Runtime/Hub.h"

#include <cstddef>
#include <cstdint>
#include <string>

namespace plumb {

struct Command {
  enum Kind { Step, Read, Write, End } kind = End;
  std::size_t result = 0;          ///< To read or write: index in resultsOf().
  const std::byte *data = nullptr; ///< To write: the whole tensor.
};

/// Called by the ranks of this process; functions may be called from several threads.
class Driver {
public:
  virtual ~Driver() = default;

  /// So many ranks of this process will ask for commands.
  virtual void begin(int ranks) = 0;
  /// Waits for the command that follows the first `done` ones, all of which this rank has carried out.
  virtual Command next(std::int64_t done) = 0;
  /// The values of an input of the step at hand; null: those of the source, which there is then.
  virtual const std::byte *input(const Tensor &tensor) const = 0;

  // On the process of rank 0.
  virtual void deliver(const Piece &piece) = 0;
  virtual void report(const StepReport &report) = 0;
};

} // namespace plumb

#endif // PLUMB_RUNTIME_DRIVER_H
