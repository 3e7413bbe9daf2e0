//===- Feeder.h - Brings the inputs of each step to one rank ------------------===//
//
// While a step computes, a thread reads the inputs of the next one into pinned memory, and a stream of their
// own copies them to the device. At the beginning of their step they only move on the device, to where the
// program reads them; all other streams wait for that.
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
  /// `slices` are all that the rank holds; their `data` is where they go on the device, and `arrival` where
  /// those of the next step do before: `stagedBytes(slices)`. Without a source the driver gives every input.
  /// No step from `lastStep` on is read ahead; with a driver none is, since it says only at a step what it
  /// gives. Throws plumb::Failure.
  Feeder(int rank, std::vector<InputSlice> slices, std::byte *arrival, InputSource *source,
         const Driver *driver, std::int64_t lastStep);
  /// All copies are over.
  ~Feeder();
  Feeder(const Feeder &) = delete;
  Feeder &operator=(const Feeder &) = delete;

  /// What is launched on `streams` after this finds the inputs of the step in place. The work of the step
  /// before it is over. Throws plumb::Failure.
  void feed(std::int64_t step, std::span<const cudaStream_t> streams);
  /// Copies the inputs of the next step to the device if they have been read; mapped files are waited for. To
  /// be called when all work of the step has been launched, and while the step is waited for. A failure to
  /// read them is that of the next `feed`.
  void feedAhead();

  /// Bytes of slices that lie one after the other, each aligned.
  static std::size_t stagedBytes(std::span<const InputSlice> slices);

private:
  using Slices = std::vector<InputSlice>;

  void readNow(std::int64_t step, Slices &staged);
  void upload(std::int64_t step);
  bool isRead(std::int64_t step);
  bool awaitAhead(std::int64_t step);
  void startAhead(std::int64_t step);
  void readAhead();

  int rank;
  Slices targets;
  std::byte *arrival;
  std::size_t bytes; ///< There.
  InputSource *source;
  const Driver *driver;
  std::int64_t lastStep;
  Slices staging[2]; ///< The slices in pinned memory; of even steps, and of odd ones.
  void *pinned[2] = {};
  std::int64_t uploaded = -1; ///< The step whose inputs are on the device, or on their way there.
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
