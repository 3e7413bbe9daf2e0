//===- Feeder.h - Brings the inputs of each step to one rank ------------------===//
//
// A thread reads the inputs of the next step into pinned memory while this one computes. At the beginning of
// a step they are copied to the device on a stream of their own, for which all other streams wait.
//
//===----------------------------------------------------------------------===//

#ifndef PLUMB_RUNTIME_FEEDER_H
#define PLUMB_RUNTIME_FEEDER_H

#include "plumb/Runtime/Driver.h"
#include "plumb/Runtime/InputSource.h"

#include <condition_variable>
#include <exception>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

namespace plumb {

class Feeder {
public:
  /// `slices` are all that the rank holds; their `data` is where they go on the device. Without a source the
  /// driver gives every input. No step from `lastStep` on is read ahead; with a driver none is, since it says
  /// only at a step what it gives. Throws plumb::Failure.
  Feeder(int rank, std::vector<InputSlice> slices, InputSource *source, const Driver *driver,
         std::int64_t lastStep);
  /// All copies are over.
  ~Feeder();
  Feeder(const Feeder &) = delete;
  Feeder &operator=(const Feeder &) = delete;

  /// What is launched on `streams` after this finds the inputs of the step in place. The work of the step
  /// before it is over. Throws plumb::Failure.
  void feed(std::int64_t step, std::span<const cudaStream_t> streams);

private:
  using Slices = std::vector<InputSlice>;

  Slices allocate(const Slices &slices);
  void readNow(std::int64_t step, Slices &staged);
  void awaitAhead(std::int64_t step);
  void startAhead(std::int64_t step);
  void readAhead();

  int rank;
  Slices targets;
  InputSource *source;
  const Driver *driver;
  std::int64_t lastStep;
  Slices staging[2]; ///< The slices in pinned memory; of even steps, and of odd ones.
  std::vector<void *> pinned;
  cudaStream_t stream = nullptr;
  cudaEvent_t copied = nullptr;

  std::thread reader;
  std::mutex mutex; ///< Guards what follows.
  std::condition_variable changed;
  std::int64_t wanted = -1, ready = -1; ///< Steps that the reader is to read, and has read.
  bool ends = false;
  std::exception_ptr failure;
};

} // namespace plumb

#endif // PLUMB_RUNTIME_FEEDER_H
