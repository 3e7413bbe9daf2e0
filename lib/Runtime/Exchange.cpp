//===- Exchange.cpp - How the calls of several ranks meet ------------------===//

#include "plumb/Runtime/Exchange.h"

#include "plumb/Runtime/Reduce.h"

#include <algorithm>
#include <cstring>

namespace plumb::host {

//===----------------------------------------------------------------------===//
// Moving data
//===----------------------------------------------------------------------===//

void Exchange::cut() {
  // Below this size a wake-up costs more than the copy.
  constexpr std::size_t kBytesPerPart = 256 << 10;
  const Call &call = *calls[0];
  traffic = call.count * sizeOf(call.type) * calls.size();
  if (call.kind == CallKind::AllToAll || call.kind == CallKind::AllGather ||
      call.kind == CallKind::ReduceScatter)
    traffic *= calls.size();
  partCount = std::clamp<std::size_t>(traffic / kBytesPerPart, 1, calls.size());
  count = call.count;
  // Parts end on whole cache lines of any type.
  perPart = ((count + partCount - 1) / partCount + 63) / 64 * 64;
}

bool Exchange::work() {
  bool last = false;
  // A helper may come when all is done and the calls are gone; it only finds that no part is left.
  for (std::size_t part; (part = taken.fetch_add(1, std::memory_order_relaxed)) < partCount;) {
    run(std::min(count, part * perPart), std::min(count, (part + 1) * perPart));
    last = done.fetch_add(1, std::memory_order_acq_rel) + 1 == partCount;
  }
  return last;
}

/// Does elements [begin, end) of every count. Only this range of each input is read and only this range of
/// each output is written, which makes the in-place forms of NCCL safe without a second buffer.
void Exchange::run(std::size_t begin, std::size_t end) {
  const Call &first = *calls[0];
  std::size_t size = sizeOf(first.type), bytes = (end - begin) * size, n = calls.size();
  if (bytes == 0)
    return;
  auto input = [&](std::size_t rank, std::size_t chunk) {
    return static_cast<const char *>(calls[rank]->send) + (chunk * first.count + begin) * size;
  };
  auto output = [&](std::size_t rank, std::size_t chunk) {
    return static_cast<char *>(calls[rank]->recv) + (chunk * first.count + begin) * size;
  };
  auto copy = [&](char *to, const char *from) {
    if (to != from)
      std::memcpy(to, from, bytes);
  };
  switch (first.kind) {
  case CallKind::Send:
  case CallKind::Recv:
    return copy(output(1, 0), input(0, 0));
  case CallKind::Broadcast:
    for (std::size_t to = 0; to < n; ++to)
      copy(output(to, 0), input(static_cast<std::size_t>(first.peer), 0));
    return;
  case CallKind::AllGather:
    for (std::size_t to = 0; to < n; ++to)
      for (std::size_t from = 0; from < n; ++from)
        copy(output(to, from), input(from, 0));
    return;
  case CallKind::AllToAll:
    for (std::size_t to = 0; to < n; ++to)
      for (std::size_t from = 0; from < n; ++from)
        copy(output(to, from), input(from, to));
    return;
  case CallKind::AllReduce:
  case CallKind::ReduceScatter: {
    bool scatter = first.kind == CallKind::ReduceScatter;
    std::vector<const void *> inputs(n);
    std::vector<void *> outputs(scatter ? 1 : n);
    for (std::size_t chunk = 0; chunk < (scatter ? n : 1); ++chunk) {
      for (std::size_t rank = 0; rank < n; ++rank)
        inputs[rank] = input(rank, chunk);
      for (std::size_t i = 0; i < outputs.size(); ++i)
        outputs[i] = output(scatter ? chunk : i, 0);
      reduce(first.type, first.op, inputs, outputs, end - begin);
    }
    return;
  }
  }
}

//===----------------------------------------------------------------------===//
// Meeting
//===----------------------------------------------------------------------===//

std::shared_ptr<Exchange> LocalClique::arrive(Call &call, std::string &mismatch) {
  return call.isTransfer() ? arriveTransfer(call, mismatch) : arriveCollective(call, mismatch);
}

std::shared_ptr<Exchange> LocalClique::arriveCollective(Call &call, std::string &mismatch) {
  std::size_t position = next[static_cast<std::size_t>(call.self)]++;
  if (position - base == collectives.size())
    collectives.push_back(std::make_shared<Exchange>(std::vector<Call *>(ranks.size(), nullptr)));
  std::shared_ptr<Exchange> exchange = collectives[position - base];
  for (const Call *other : exchange->calls) {
    if (!other)
      continue;
    if (!call.agreesWith(*other))
      mismatch = "collective " + std::to_string(position) + " of communicator '" + name +
                 "': " + side(*other) + ", but " + side(call);
    break;
  }
  exchange->calls[static_cast<std::size_t>(call.self)] = &call;
  if (++exchange->arrived < ranks.size())
    return nullptr;
  // A member arrives at its collectives in order, so the one completed is the oldest.
  collectives.pop_front();
  ++base;
  return exchange;
}

std::shared_ptr<Exchange> LocalClique::arriveTransfer(Call &call, std::string &mismatch) {
  bool sends = call.kind == CallKind::Send;
  std::deque<Call *> &waiting =
      channels[sends ? std::pair(call.self, call.peer) : std::pair(call.peer, call.self)];
  if (waiting.empty() || waiting.front()->kind == call.kind) {
    waiting.push_back(&call);
    return nullptr;
  }
  Call *other = waiting.front();
  waiting.pop_front();
  if (!call.agreesWith(*other))
    mismatch = "communicator '" + name + "': " + side(*other) + ", but " + side(call);
  auto exchange = std::make_shared<Exchange>(sends ? std::vector{&call, other} : std::vector{other, &call});
  return exchange;
}

std::vector<int> LocalClique::missing(const Call &call) const {
  if (call.isTransfer())
    return {ranks[static_cast<std::size_t>(call.peer)]};
  for (const auto &exchange : collectives) {
    if (exchange->calls[static_cast<std::size_t>(call.self)] != &call)
      continue;
    std::vector<int> result;
    for (std::size_t i = 0; i < ranks.size(); ++i)
      if (!exchange->calls[i])
        result.push_back(ranks[i]);
    return result;
  }
  return {};
}

} // namespace plumb::host
