//===- Session.h - The run of one rank ---------------------------------------===//
//
// Everything that the providers have in common: building the `Rank`, loading slices, stepping, handing out
// results, writing checkpoints.
//
//===----------------------------------------------------------------------===//

#ifndef PLUMB_RUNTIME_SESSION_H
#define PLUMB_RUNTIME_SESSION_H

#include "plumb/Runtime/Driver.h"
#include "plumb/Runtime/Feeder.h"
#include "plumb/Runtime/Hub.h"
#include "plumb/Runtime/Layout.h"
#include "plumb/Runtime/Options.h"
#include "plumb/Runtime/Sources.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace plumb {

/// What differs between providers, as one rank sees it. Every function may throw plumb::Failure.
class Provider {
public:
  virtual ~Provider() = default;

  /// Creates a communicator; `members` are ranks in its order, this rank among them at `self`.
  virtual ncclComm_t connect(int communicator, const std::vector<int> &members, int self) = 0;
  virtual void disconnect(ncclComm_t comm, bool failed) = 0;
  /// Waits until all work on these streams is done, and calls `meanwhile` once or, where the device works by
  /// itself, again and again.
  virtual void synchronize(std::span<const cudaStream_t> streams, const std::function<void()> &meanwhile) = 0;
  /// What follows belongs to this step.
  virtual void beginStep(std::int64_t step) = 0;
  /// Why the calls of this rank fail, if the provider knows better than the call that has failed; null
  /// otherwise.
  virtual const Outcome *explain() const { return nullptr; }
};

/// Runs one rank from its first allocation to its last result. The first rank that holds the loss reports
/// each step.
class Session {
public:
  Session(const Program &program, int rank, const Options &options, const Sources &sources,
          Provider &provider, Hub &hub, Driver *driver);
  ~Session();
  Session(const Session &) = delete;
  Session &operator=(const Session &) = delete;

  void run();

private:
  void connect();
  /// The address of an offset in the arena. Throws if `bytes` there leave it.
  std::byte *locate(const std::string &what, std::size_t offset, std::size_t bytes) const;
  /// The address of the local slice, or null if this rank has none. Throws if it leaves the arena.
  std::byte *locate(const Tensor &tensor, const Slice &slice, std::int64_t microbatch) const;
  std::int64_t slicesOf(const Tensor &tensor) const;
  void load(const Tensor &tensor, const TensorView &global);
  void loadState();
  std::vector<InputSlice> inputSlices() const;
  void loadInputs(std::int64_t step);
  void runStep(Rank &rank, std::int64_t step);
  void train(Rank &rank);
  /// Carries out what the driver says.
  void serve(Rank &rank);
  /// Calls `visit(microbatch, slice)` for each slice of this rank, with its values in `staging`.
  void fetch(const Tensor &tensor, const std::function<void(std::int64_t, const Slice &)> &visit);
  void deliver(std::size_t result);
  void deliverAll(Result::Kind kind);
  bool isReporter() const;
  std::optional<double> read(const Tensor *scalar) const;
  void report(std::int64_t step);
  void writeCheckpoint(std::int64_t step);
  /// Whether the run is to end after this step, of which it writes a checkpoint if one is due.
  bool checkpoint(std::int64_t step);

  const Program &program;
  int number;
  const Options &options;
  const Sources &sources;
  Provider &provider;
  Hub &hub;
  Driver *driver; ///< May be null.
  std::vector<std::int64_t> coordinates;
  int pipeline;
  std::vector<Result> results;
  Rank::Handles handles;
  std::unique_ptr<Feeder> feeder;
  std::vector<std::byte> staging;
  bool completed = false;
};

/// From now on SIGTERM asks the run to end after its step: with a checkpoint if it writes any, as a failure
/// otherwise. A launcher that ends the ranks of a run because one is lost so lets them say which.
void handleTermination();

} // namespace plumb

#endif // PLUMB_RUNTIME_SESSION_H
