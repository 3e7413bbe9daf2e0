//===- Failure.h - What goes wrong at run time ------------------------------===//

#ifndef PLUMB_RUNTIME_FAILURE_H
#define PLUMB_RUNTIME_FAILURE_H

#include <stdexcept>

namespace plumb {

/// A call of the program or of the runtime failed, or a file is not what it should be; `what()` is one
/// sentence for the user.
class Failure : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

} // namespace plumb

#endif // PLUMB_RUNTIME_FAILURE_H
