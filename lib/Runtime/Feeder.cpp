//===- Feeder.cpp - Brings the inputs of each step to one rank ----------------===//

#include "plumb/Runtime/Feeder.h"

#include <utility>

namespace plumb {

Feeder::Feeder(int rank, Slices slices, InputSource *source, const Driver *driver, std::int64_t lastStep)
    : rank(rank), targets(std::move(slices)), source(source), driver(driver), lastStep(lastStep) {
  if (targets.empty())
    return;
  PLUMB_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  PLUMB_CUDA(cudaEventCreateWithFlags(&copied, cudaEventDisableTiming));
  for (Slices &staged : staging)
    staged = allocate(targets);
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
  for (void *memory : pinned)
    (void)cudaFreeHost(memory);
  if (copied)
    (void)cudaEventDestroy(copied);
  if (stream)
    (void)cudaStreamDestroy(stream);
}

Feeder::Slices Feeder::allocate(const Slices &slices) {
  constexpr std::size_t kLine = 64;
  auto aligned = [](std::size_t bytes) { return (bytes + kLine - 1) / kLine * kLine; };
  std::size_t total = 0;
  for (const InputSlice &slice : slices)
    total += aligned(slice.slice.bytes());
  PLUMB_CUDA(cudaMallocHost(&pinned.emplace_back(), total));
  auto *next = static_cast<std::byte *>(pinned.back());
  Slices staged = slices;
  for (InputSlice &slice : staged) {
    slice.data = next;
    next += aligned(slice.slice.bytes());
  }
  return staged;
}

void Feeder::feed(std::int64_t step, std::span<const cudaStream_t> streams) {
  if (targets.empty())
    return;
  Slices &staged = staging[step % 2];
  if (driver)
    readNow(step, staged);
  else
    awaitAhead(step);
  for (std::size_t i = 0; i < targets.size(); ++i)
    PLUMB_CUDA(cudaMemcpyAsync(targets[i].data, staged[i].data, targets[i].slice.bytes(),
                               cudaMemcpyHostToDevice, stream));
  PLUMB_CUDA(cudaEventRecord(copied, stream));
  for (cudaStream_t other : streams)
    PLUMB_CUDA(cudaStreamWaitEvent(other, copied, 0));
  if (!driver && step + 1 < lastStep)
    startAhead(step + 1);
}

/// What the driver gives, and the rest from the source.
void Feeder::readNow(std::int64_t step, Slices &staged) {
  Slices rest;
  for (const InputSlice &slice : staged)
    if (const std::byte *given = driver->input(*slice.input))
      slice.slice.gather(given, slice.data);
    else
      rest.push_back(slice);
  if (!rest.empty())
    source->read(rank, step, rest);
}

//===----------------------------------------------------------------------===//
// Reading ahead
//===----------------------------------------------------------------------===//

void Feeder::startAhead(std::int64_t step) {
  std::lock_guard guard(mutex);
  wanted = step;
  changed.notify_all();
}

void Feeder::awaitAhead(std::int64_t step) {
  std::unique_lock lock(mutex);
  // Nobody has asked for the first step yet.
  if (std::exchange(wanted, step) != step)
    changed.notify_all();
  changed.wait(lock, [&] { return ready == step || failure; });
  if (failure)
    std::rethrow_exception(failure);
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
