//===- Device.cpp - The streams of one rank, on its own thread -------------===//

#include "plumb/Runtime/Device.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace plumb::host {

// So much work may wait before the enqueuing thread runs some of it: a bound on memory, far above what a
// missing wait needs to show.
static constexpr std::size_t kMostQueued = 1 << 14;

static thread_local Device *currentDevice = nullptr;

Device::Device(World &world, int rank, std::uint64_t seed)
    : owner(world), number(rank),
      random((seed + 1) * 0x9E3779B97F4A7C15u + static_cast<std::uint64_t>(rank)) {
  makeStream();
}

Device *Device::current() { return currentDevice; }
void Device::makeCurrent() { currentDevice = this; }

CUstream_st *Device::makeStream() {
  streams.push_back(std::make_unique<CUstream_st>(this, static_cast<int>(streams.size())));
  order.push_back(streams.back().get());
  return order.back();
}

CUevent_st *Device::makeEvent() {
  events.push_back(std::make_unique<CUevent_st>(this, static_cast<int>(events.size())));
  return events.back().get();
}

void Device::Free::operator()(void *memory) const { std::free(memory); }

void *Device::allocate(std::size_t bytes) {
  constexpr std::size_t kPage = 4096, kLine = 64;
  std::size_t alignment = bytes >= kPage ? kPage : kLine;
  if (bytes > SIZE_MAX - alignment)
    return nullptr;
  void *result =
      std::aligned_alloc(alignment, (std::max(bytes, kLine) + alignment - 1) / alignment * alignment);
  if (result)
    memory.emplace(result, result);
  return result;
}

void Device::release(void *address) {
  if (!owner.failed())
    memory.erase(address);
}

void Device::enqueue(CUstream_st &stream, Work work) {
  stream.queue.push_back(std::move(work));
  ++stream.enqueued;
  if (++queued > kMostQueued)
    step();
}

void Device::launch(CUstream_st &stream, std::vector<Call> calls) {
  auto unit = std::make_unique<Unit>();
  unit->device = this;
  unit->calls = std::move(calls);
  unit->launch = launched++;
  unit->position = position;
  unit->pending.store(unit->calls.size(), std::memory_order_relaxed);
  for (Call &call : unit->calls)
    call.unit = unit.get();
  Work work{Work::Communicate};
  work.unit = std::move(unit);
  enqueue(stream, std::move(work));
}

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

// SplitMix64.
std::uint64_t Device::draw() {
  std::uint64_t z = (random += 0x9E3779B97F4A7C15u);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

void Device::shuffle() {
  for (std::size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[draw() % i]);
}

bool Device::canRun(const CUstream_st &stream) const {
  if (stream.queue.empty())
    return false;
  const Work &head = stream.queue.front();
  if (head.kind == Work::Wait)
    return head.awaited.isComplete();
  if (head.kind != Work::Communicate)
    return true;
  return head.unit->started ? head.unit->pending.load(std::memory_order_acquire) == 0
                            : head.unit->launch == started;
}

bool Device::step() {
  if (draw() % 16 == 0)
    shuffle();
  for (CUstream_st *stream : order) {
    if (!canRun(*stream))
      continue;
    run(*stream);
    return true;
  }
  return false;
}

void Device::run(CUstream_st &stream) {
  Work &head = stream.queue.front();
  switch (head.kind) {
  case Work::Launch:
    head.kernel.body(head.kernel.args.get());
    break;
  case Work::Copy:
    for (std::size_t row = 0; row < head.rows; ++row)
      std::memmove(static_cast<char *>(head.to) + row * head.toPitch,
                   static_cast<const char *>(head.from) + row * head.fromPitch, head.bytes);
    break;
  case Work::Fill:
    std::memset(head.to, head.value, head.bytes);
    break;
  case Work::Record:
  case Work::Wait:
    break;
  case Work::Communicate:
    if (!head.unit->started) {
      head.unit->started = true;
      ++started;
      owner.start(*this, *head.unit);
      return;
    }
    break;
  }
  stream.queue.pop_front();
  ++stream.executed;
  --queued;
}

//===----------------------------------------------------------------------===//
// Waiting
//===----------------------------------------------------------------------===//

template <class Done>
bool Device::runUntil(const Done &done) {
  while (!done()) {
    if (owner.failed())
      return false;
    if (!step())
      owner.wait(*this);
  }
  return !owner.failed();
}

void Device::poll() {
  if (!owner.failed() && !step())
    owner.help(*this);
}

bool Device::synchronize() {
  return runUntil([&] { return queued == 0; });
}

bool Device::synchronize(const CUstream_st &stream) {
  std::size_t target = stream.enqueued;
  return runUntil([&] { return stream.executed >= target; });
}

bool Device::synchronize(const CUevent_st &event) {
  CUevent_st awaited = event;
  return runUntil([&] { return awaited.isComplete(); });
}

bool Device::waitUntil(const std::function<bool()> &done, const std::string &what) {
  hostWait = what;
  bool result = runUntil(done);
  hostWait.clear();
  return result;
}

//===----------------------------------------------------------------------===//
// Reporting
//===----------------------------------------------------------------------===//

static std::string list(const std::vector<int> &ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i)
    text += (i ? ", " : "") + std::to_string(ranks[i]);
  return text;
}

static std::string describeUnit(const Unit &unit) {
  std::string text;
  for (const Call &call : unit.calls) {
    if (call.met)
      continue;
    text += (text.empty() ? "" : "; ") + call.describe() + " on communicator '" + call.clique->name + "'";
    if (!unit.started)
      continue;
    std::vector<int> missing = call.clique->missing(call);
    text += missing.empty() ? ", whose data is under way" : ", not yet called by " + list(missing);
  }
  return text + unit.position.describe();
}

std::string Device::describeWaiting() const {
  std::string text = hostWait.empty() ? "" : " waits in " + hostWait;
  for (const auto &stream : streams) {
    if (stream->queue.empty())
      continue;
    const Work &head = stream->queue.front();
    text += (text.empty() ? " waits on stream " : "\n          and on stream ") +
            std::to_string(stream->index) + ": ";
    if (head.kind == Work::Wait)
      text += "for event " + std::to_string(head.awaited.index) + ", recorded on stream " +
              std::to_string(head.awaited.stream->index);
    else if (head.kind == Work::Communicate && head.unit->started)
      text += "in " + describeUnit(*head.unit);
    else if (head.kind == Work::Communicate)
      text += "before " + describeUnit(*head.unit) + ", which was launched after a call that has not started";
  }
  return text;
}

} // namespace plumb::host
