//===- Feeder.cpp - Brings the inputs of each step to one rank ----------------===//

#include "plumb/Runtime/Feeder.h"

#include <utility>

namespace plumb {

static std::size_t aligned(std::size_t bytes) {
  constexpr std::size_t kLine = 64;
  return (bytes + kLine - 1) / kLine * kLine;
}

std::size_t Feeder::stagedBytes(std::span<const InputSlice> slices) {
  std::size_t total = 0;
  for (const InputSlice &slice : slices)
    total += aligned(slice.slice.bytes());
  return total;
}

/// Lays the slices one after the other.
static void place(std::vector<InputSlice> &slices, std::byte *next) {
  for (InputSlice &slice : slices) {
    slice.data = next;
    next += aligned(slice.slice.bytes());
  }
}

Feeder::Feeder(int rank, Slices slices, std::byte *arrival, InputSource *source, const Driver *driver,
               std::int64_t lastStep)
    : rank(rank), targets(std::move(slices)), arrival(arrival), bytes(stagedBytes(targets)), source(source),
      driver(driver), lastStep(lastStep) {
  if (targets.empty())
    return;
  PLUMB_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  PLUMB_CUDA(cudaEventCreateWithFlags(&copied, cudaEventDisableTiming));
  for (int parity : {0, 1}) {
    PLUMB_CUDA(cudaMallocHost(&pinned[parity], bytes));
    staging[parity] = targets;
    place(staging[parity], static_cast<std::byte *>(pinned[parity]));
  }
  if (!driver)
    reader = std::thread([this] { readAhead(); });
}

Feeder::~Feeder() {
  if (reader.joinable()) {
    {
      std::lock_guard guard(mutex);
      ends = true;
      changed.notify_all();
    }
    reader.join();
  }
  // What is on its way to the device comes from the pinned memory.
  if (stream)
    (void)cudaStreamSynchronize(stream);
  for (void *memory : pinned)
    if (memory)
      (void)cudaFreeHost(memory);
  if (copied)
    (void)cudaEventDestroy(copied);
  if (stream)
    (void)cudaStreamDestroy(stream);
}

void Feeder::feed(std::int64_t step, std::span<const cudaStream_t> streams) {
  if (targets.empty())
    return;
  if (uploaded != step) {
    if (driver)
      readNow(step, staging[step % 2]);
    else if (!awaitAhead(step))
      std::rethrow_exception(failure);
    upload(step);
  }
  const std::byte *from = arrival;
  for (const InputSlice &target : targets) {
    PLUMB_CUDA(cudaMemcpyAsync(target.data, from, target.slice.bytes(), cudaMemcpyDeviceToDevice, stream));
    from += aligned(target.slice.bytes());
  }
  PLUMB_CUDA(cudaEventRecord(copied, stream));
  for (cudaStream_t other : streams)
    PLUMB_CUDA(cudaStreamWaitEvent(other, copied, 0));
  if (!driver && step + 1 < lastStep)
    startAhead(step + 1);
}

void Feeder::feedAhead() {
  // A driver's feeder never wants a step.
  std::int64_t next = uploaded + 1;
  if (targets.empty() || wanted != next || (!source->isMapped() && !isRead(next)))
    return;
  if (awaitAhead(next))
    upload(next);
}

void Feeder::upload(std::int64_t step) {
  PLUMB_CUDA(cudaMemcpyAsync(arrival, pinned[step % 2], bytes, cudaMemcpyHostToDevice, stream));
  uploaded = step;
}

/// What the driver gives, and the rest from the source.
void Feeder::readNow(std::int64_t step, Slices &staged) {
  Slices rest;
  for (const InputSlice &slice : staged)
    if (const std::byte *given = driver->input(*slice.input))
      slice.slice.gather(wholeView(*slice.input, given), slice.data);
    else
      rest.push_back(slice);
  if (!rest.empty())
    source->read(rank, step, rest);
  checkIndices(step, staged);
}

//===----------------------------------------------------------------------===//
// Reading ahead
//===----------------------------------------------------------------------===//

void Feeder::startAhead(std::int64_t step) {
  std::lock_guard guard(mutex);
  wanted = step;
  changed.notify_all();
}

bool Feeder::isRead(std::int64_t step) {
  std::lock_guard guard(mutex);
  return ready == step;
}

/// Whether the step has been read; false: `failure` says why not.
bool Feeder::awaitAhead(std::int64_t step) {
  std::unique_lock lock(mutex);
  // Nobody has asked for the first step yet.
  if (std::exchange(wanted, step) != step)
    changed.notify_all();
  changed.wait(lock, [&] { return ready == step || failure; });
  return !failure;
}

void Feeder::readAhead() {
  std::unique_lock lock(mutex);
  for (;;) {
    changed.wait(lock, [&] { return ends || wanted > ready; });
    if (ends)
      return;
    std::int64_t step = wanted;
    lock.unlock();
    std::exception_ptr caught;
    try {
      source->read(rank, step, staging[step % 2]);
      checkIndices(step, staging[step % 2]);
    } catch (...) {
      caught = std::current_exception();
    }
    lock.lock();
    ready = step;
    failure = caught;
    changed.notify_all();
    if (failure)
      return;
  }
}

} // namespace plumb
