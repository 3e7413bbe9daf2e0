//===- Journal.h - What a run says of its steps ------------------------------===//

#ifndef PLUMB_RUNTIME_JOURNAL_H
#define PLUMB_RUNTIME_JOURNAL_H

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace plumb {

/// What the rank that holds the loss tells of a step. Trivially copyable: it travels as bytes.
struct StepReport {
  std::int64_t step; ///< From 0.
  double loss;
  std::optional<double> norm, rate; ///< Nothing where the program has none.
  std::int64_t arenaBytes;
};

/// Prints the loss of each step, and appends to the log one line of JSON a step. May be called from several
/// threads.
class Journal {
public:
  /// `log` is a path, or empty. `tokensPerStep` is 0 where it is not known. If it `prints`, each step has a
  /// line on standard output. Throws plumb::Failure.
  Journal(const std::string &log, std::int64_t tokensPerStep, bool prints);

  void add(const StepReport &report);

private:
  struct Close {
    void operator()(std::FILE *file) const { std::fclose(file); }
  };

  std::string path;
  std::unique_ptr<std::FILE, Close> file;
  std::int64_t tokensPerStep;
  bool prints;
  std::chrono::steady_clock::time_point last;
  std::mutex mutex;
};

} // namespace plumb

#endif // PLUMB_RUNTIME_JOURNAL_H
