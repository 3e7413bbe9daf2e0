//===- Failure.h - What goes wrong at run time ------------------------------===//

#ifndef PLUMB_RUNTIME_FAILURE_H
#define PLUMB_RUNTIME_FAILURE_H

#include <stdexcept>
#include <string>

namespace plumb {

/// A call of the program or of the runtime failed, or a file is not what it should be; `what()` is one
/// sentence for the user.
class Failure : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

/// How a run ended. `code` is 0, 1 (a failure of a rank), or 3 (a deadlock, or calls that contradict each
/// other).
struct Outcome {
  int code = 0;
  std::string error;
};

} // namespace plumb

#endif // PLUMB_RUNTIME_FAILURE_H
