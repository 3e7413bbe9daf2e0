//===- Session.h - The run of one rank ---------------------------------------===//
//
// Everything that the providers have in common: checking the files, building the `Rank`, loading slices,
// stepping, and handing out results.
//
//===----------------------------------------------------------------------===//

#ifndef PLUMB_RUNTIME_SESSION_H
#define PLUMB_RUNTIME_SESSION_H

#include "plumb/Runtime/Collector.h"
#include "plumb/Runtime/Options.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace plumb {

/// The files that a run reads.
struct Sources {
  std::unique_ptr<SafetensorsFile> weights, inputs; ///< Null where none was given.
};

/// Opens the files and checks the program's tables and the files against each other. Throws plumb::Failure.
Sources openSources(const Program &program, const Options &options);

/// What differs between providers, as one rank sees it. Every function may throw plumb::Failure.
class Provider {
public:
  virtual ~Provider() = default;

  /// Creates a communicator; `members` are ranks in its order, this rank among them at `self`.
  virtual ncclComm_t connect(int communicator, const std::vector<int> &members, int self) = 0;
  virtual void disconnect(ncclComm_t comm, bool failed) = 0;
  /// Waits until all work on these streams is done.
  virtual void synchronize(std::span<const cudaStream_t> streams) = 0;
  /// Results are wanted.
  virtual bool collects() const = 0;
  virtual void deliver(const Piece &piece) = 0;
  virtual void deliverLoss(std::int64_t step, float loss) = 0;
};

/// Runs one rank from its first allocation to its last result. Prints the loss of each step if this rank is
/// the first that holds it.
class Session {
public:
  Session(const Program &program, int rank, const Options &options, const Sources &sources,
          Provider &provider);
  ~Session();
  Session(const Session &) = delete;
  Session &operator=(const Session &) = delete;

  void run();

private:
  void connect();
  /// The address of the local slice, or null if this rank has none. Throws if it leaves the arena.
  std::byte *locate(const Tensor &tensor, const Slice &slice, std::int64_t microbatch) const;
  std::int64_t slicesOf(const Tensor &tensor) const;
  void load(const Tensor &tensor, const std::byte *global);
  void loadParameters();
  void loadInputs(std::int64_t step);
  void deliver(Result::Kind kind);
  void reportLoss(std::int64_t step);

  const Program &program;
  int number;
  const Options &options;
  const Sources &sources;
  Provider &provider;
  std::vector<std::int64_t> coordinates;
  int pipeline;
  std::vector<Result> results;
  Rank::Handles handles;
  std::vector<std::byte> staging;
  bool completed = false;
};

} // namespace plumb

#endif // PLUMB_RUNTIME_SESSION_H
