//===- Failure.h - What goes wrong at run time ------------------------------===//

#ifndef PLUMB_RUNTIME_FAILURE_H
#define PLUMB_RUNTIME_FAILURE_H

#include <stdexcept>
#include <string>

namespace plumb {

/// "FILE: error: SENTENCE", the form of compilers; "error: SENTENCE" if `file` is empty.
inline std::string errorMessage(const std::string &file, const std::string &sentence) {
  return (file.empty() ? "error: " : file + ": error: ") + sentence;
}

/// A call of the program or of the runtime failed, or a file is not what it should be. `what()` is for the
/// user: a sentence, after "FILE: " if it is about a file.
class Failure : public std::runtime_error {
public:
  explicit Failure(const std::string &sentence) : runtime_error(sentence), text(sentence) {}
  Failure(const std::string &file, const std::string &sentence)
      : runtime_error(file + ": " + sentence), path(file), text(sentence) {}

  const std::string &file() const { return path; } ///< Empty if it is about none.
  const std::string &sentence() const { return text; }

private:
  std::string path, text;
};

/// Throws a Failure that also says what errno means.
[[noreturn]] void failOn(const std::string &file, const std::string &sentence);

/// The command line is wrong: exit code 2.
class UsageError : public Failure {
public:
  using Failure::Failure;
};

/// How a run ended. `code` is 0, 1 (a failure of a rank), 2 (wrong usage), or 3 (a deadlock, or calls that
/// contradict each other).
struct Outcome {
  int code = 0;
  std::string error;
  std::string file = {}; ///< That the error is about; empty: none.

  std::string message() const { return errorMessage(file, error); }
};

/// What the exception that is being handled makes of the run. `who`, such as "rank 2: ", goes before its
/// sentence. To be called in a handler.
Outcome outcomeOfException(const std::string &who = "");

} // namespace plumb

#endif // PLUMB_RUNTIME_FAILURE_H
