//===- Device.h - The streams of one rank, on its own thread ---------------===//
//
// Enqueued work runs when the rank waits for something (or when very much of it has piled up), on the rank's
// thread. Among the streams whose head can run, one is drawn from a seed; streams are favoured for a while,
// so that one may run far ahead of another and a missing event wait shows.
//
//===----------------------------------------------------------------------===//

#ifndef PLUMB_RUNTIME_DEVICE_H
#define PLUMB_RUNTIME_DEVICE_H

#include "plumb/Runtime/Call.h"

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace plumb::host {
class Device;
struct Work;
} // namespace plumb::host

/// An in-order queue. A position is the number of items enqueued before an item; it has run when `executed`
/// is greater.
struct CUstream_st {
  plumb::host::Device *device;
  int index;
  std::deque<plumb::host::Work> queue;
  std::size_t enqueued = 0, executed = 0;
};

/// The latest record: a position on a stream. A wait takes a copy, so a later record does not change it.
struct CUevent_st {
  plumb::host::Device *device;
  int index;
  CUstream_st *stream = nullptr; ///< Null until the first record; waits for it are then satisfied.
  std::size_t position = 0;

  bool isComplete() const { return !stream || stream->executed > position; }
};

struct ncclComm {
  plumb::host::Device *device;
  plumb::host::Clique *clique;
  int self;
  CUstream_st *stream = nullptr; ///< The one stream on which it is used.
};

namespace plumb::host {

/// What the rank of this thread launches from now on belongs to that step.
void beginStep(std::int64_t step);

/// Keeps the sentence for `ncclGetLastError` and returns the result.
ncclResult_t reject(ncclResult_t result, std::string why);
ncclResult_t failedElsewhere();

struct Kernel {
  void (*body)(void **);
  std::unique_ptr<void *[]> args;
  const char *name;
};

struct Work {
  enum Kind { Launch, Copy, Fill, Record, Wait, Communicate } kind;
  Kernel kernel{};
  void *to = nullptr;
  const void *from = nullptr;
  std::size_t bytes = 0; ///< Of a copy: of each row.
  std::size_t rows = 1, toPitch = 0, fromPitch = 0;
  int value = 0;
  CUevent_st awaited{};
  std::unique_ptr<Unit> unit{};
};

class Device {
public:
  Device(World &world, int rank, std::uint64_t seed);

  /// The device of the calling thread; null on a thread that is no rank.
  static Device *current();
  void makeCurrent();

  int rank() const { return number; }
  World &world() { return owner; }
  CUstream_st *makeStream();
  CUevent_st *makeEvent();
  /// The stream that a null handle stands for.
  CUstream_st *defaultStream() { return streams.front().get(); }

  /// Memory for `cudaMalloc`; null if there is none. It lives until `release`, or with the device: another
  /// rank may still be reading it when this one has failed.
  void *allocate(std::size_t bytes);
  void release(void *memory);

  void enqueue(CUstream_st &stream, Work work);
  /// Launches the calls as one unit. All are on `stream`.
  void launch(CUstream_st &stream, std::vector<Call> calls);

  /// Runs one piece of work, if one can run; helps other ranks otherwise. Never waits.
  void poll();
  /// Where the host is in the program: units launched from now on belong there.
  Position position;
  // The host waits; false: the world failed.
  bool synchronize();
  bool synchronize(const CUstream_st &stream);
  bool synchronize(const CUevent_st &event);
  /// Waits, for `what`, until `done`.
  bool waitUntil(const std::function<bool()> &done, const std::string &what);

  /// Groups of NCCL calls under construction.
  struct Group {
    int depth = 0;
    CUstream_st *stream = nullptr;
    std::vector<Call> calls;
  } group;

  /// One line per thing this rank waits for. Nothing may change meanwhile.
  std::string describeWaiting() const;

private:
  template <class Done>
  bool runUntil(const Done &done);
  /// Runs the head of one stream that can run, if any.
  bool step();
  bool canRun(const CUstream_st &stream) const;
  void run(CUstream_st &stream);
  void shuffle();
  std::uint64_t draw();

  World &owner;
  int number;
  std::uint64_t random;
  std::vector<std::unique_ptr<CUstream_st>> streams;
  std::vector<std::unique_ptr<CUevent_st>> events;
  struct Free {
    void operator()(void *memory) const;
  };
  std::map<void *, std::unique_ptr<void, Free>> memory;
  std::vector<CUstream_st *> order; ///< Most favoured first.
  std::size_t queued = 0;           ///< Work on all streams.
  std::size_t launched = 0, started = 0;
  std::string hostWait; ///< What the host waits for besides streams.
};

} // namespace plumb::host

#endif // PLUMB_RUNTIME_DEVICE_H
