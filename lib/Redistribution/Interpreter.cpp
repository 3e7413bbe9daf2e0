//===- Interpreter.cpp - Plans executed on integers, all ranks ------------===//
#include "plumb/Redistribution/Interpreter.h"
#include "Shrink.h"
#include "plumb/Redistribution/LayoutText.h"
#include "plumb/Redistribution/Lowering.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>

using namespace plumb::redistribution;

namespace {

using Tensor = std::vector<int64_t>;

template <typename... Ts>
llvm::Error failure(const char *format, Ts &&...args) {
  return llvm::createStringError(llvm::formatv(format, std::forward<Ts>(args)...).str());
}

/// Calls `visit` with the row-major position of every element of `box`, in row-major order.
void forEachInBox(const Box &box, llvm::ArrayRef<int64_t> shape, llvm::function_ref<void(int64_t)> visit) {
  if (box.volume() == 0)
    return;
  Index at(box.shape.size(), 0);
  for (;;) {
    int64_t position = 0;
    for (size_t d = 0; d < shape.size(); ++d)
      position = position * shape[d] + box.offset[d] + at[d];
    visit(position);
    size_t d = shape.size();
    while (d > 0 && ++at[d - 1] == box.shape[d - 1])
      at[--d] = 0;
    if (d == 0)
      return;
  }
}

/// The row-major global positions of the elements of `set`.
std::vector<int64_t> globalPositions(const IndexSet &set, llvm::ArrayRef<int64_t> shape) {
  std::vector<int64_t> result;
  for (const Box &box : boxesWithin(set, globalSet(shape)))
    forEachInBox(box, shape, [&](int64_t position) { result.push_back(position); });
  // Boxes follow one another by blocks; local tensors are row-major over all of them.
  llvm::sort(result);
  return result;
}

uint64_t scramble(uint64_t x) {
  x = (x ^ (x >> 31)) * 0x9E3779B97F4A7C15ull;
  return x ^ (x >> 29);
}

uint64_t inverseOfOdd(uint64_t x) {
  uint64_t y = x;
  for (int i = 0; i < 6; ++i)
    y *= 2 - x * y;
  return y;
}

/// Contribution `i` of `n` to `value`. Averages are taken apart in multiples of `exact`, so that they stay
/// integers whatever part of them is averaged first.
int64_t contribution(int64_t value, Reduction reduction, int64_t i, int64_t n, uint64_t seed, int64_t exact) {
  auto noise = [&](int64_t k) { return int64_t(scramble(seed * 977 + k + 1) & 0xffff); };
  auto noiseSum = [&] {
    int64_t sum = 0;
    for (int64_t k = 1; k < n; ++k)
      sum += noise(k);
    return sum;
  };
  switch (reduction) {
  case Reduction::Sum:
    return i == 0 ? value - noiseSum() : noise(i);
  case Reduction::Avg:
    return value + exact * (i == 0 ? -noiseSum() : noise(i));
  case Reduction::Min:
    return value + (i == int64_t(seed % n) ? 0 : noise(i));
  case Reduction::Max:
    return value - (i == int64_t(seed % n) ? 0 : noise(i));
  case Reduction::Product: {
    uint64_t product = 1;
    for (int64_t k = 1; k < n; ++k)
      product *= noise(k) | 1;
    return i == 0 ? int64_t(uint64_t(value) * inverseOfOdd(product)) : noise(i) | 1;
  }
  }
  return value;
}

int64_t combine(int64_t a, int64_t b, Reduction reduction) {
  switch (reduction) {
  case Reduction::Sum:
  case Reduction::Avg:
    return int64_t(uint64_t(a) + uint64_t(b));
  case Reduction::Min:
    return std::min(a, b);
  case Reduction::Max:
    return std::max(a, b);
  case Reduction::Product:
    return int64_t(uint64_t(a) * uint64_t(b));
  }
  return a;
}

int64_t neutralElement(Reduction reduction) { return reduction == Reduction::Product ? 1 : 0; }

/// Reduces equally long tensors element by element.
Tensor reduce(llvm::ArrayRef<Tensor> members, Reduction reduction) {
  Tensor result = members.front();
  for (const Tensor &member : members.drop_front())
    for (auto [a, b] : llvm::zip_equal(result, member))
      a = combine(a, b, reduction);
  if (reduction == Reduction::Avg)
    for (int64_t &value : result)
      value /= int64_t(members.size());
  return result;
}

/// One group executing one step: buffers are packed, moved and unpacked as the program does it.
class GroupRun {
public:
  GroupRun(const Step &step, std::vector<RankStep> members, RankData &data)
      : step(step), members(std::move(members)), data(data) {}

  llvm::Error run() {
    for (const RankStep &member : members)
      if (int64_t(local(member).size()) != numElements(member.localBefore))
        return failure("rank {0} holds {1} elements before {2}, not {3}", member.group[member.position],
                       local(member).size(), stepKindName(step.kind), numElements(member.localBefore));
    for (const RankStep &member : members) {
      sendBuffers.push_back(pack(member));
      results.push_back(copyKept(member));
    }
    for (size_t self = 0; self < members.size(); ++self)
      if (llvm::Error error = receive(self))
        return error;
    if (llvm::Error error = handOn())
      return error;
    for (auto [member, result] : llvm::zip_equal(members, results))
      local(member) = std::move(result);
    return llvm::Error::success();
  }

private:
  Tensor &local(const RankStep &member) { return data[member.group[member.position]]; }

  Tensor pack(const RankStep &member) {
    if (member.sendsInPlace)
      return local(member);
    return pack(member.sends, member.count, local(member), member.localBefore);
  }

  static Tensor pack(llvm::ArrayRef<Message> messages, int64_t count, const Tensor &from,
                     llvm::ArrayRef<int64_t> shape) {
    Tensor buffer(messages.empty() ? 0
                                   : messages.back().bufferOffset + std::max(messages.back().count, count));
    for (const Message &message : messages) {
      int64_t at = message.bufferOffset;
      for (const Box &box : message.boxes)
        forEachInBox(box, shape, [&](int64_t position) { buffer[at++] = from[position]; });
    }
    buffer.resize(std::max<size_t>(buffer.size(), count));
    return buffer;
  }

  /// The second group of messages, out of what the first brought.
  llvm::Error handOn() {
    sendBuffers.clear();
    for (auto [member, result] : llvm::zip_equal(members, results))
      sendBuffers.push_back(pack(member.relays, 0, result, member.localAfter));
    for (size_t self = 0; self < members.size(); ++self)
      if (llvm::Error error = receiveMessages(self, &RankStep::relays, &RankStep::relayed))
        return error;
    return llvm::Error::success();
  }

  Tensor copyKept(const RankStep &member) {
    int64_t fill = member.neutral && step.reduction ? neutralElement(*step.reduction) : poison;
    Tensor result(numElements(member.localAfter), fill);
    for (const LocalCopy &copy : member.copies) {
      std::vector<int64_t> values;
      forEachInBox(copy.source, member.localBefore,
                   [&](int64_t position) { values.push_back(local(member)[position]); });
      size_t next = 0;
      forEachInBox(copy.result, member.localAfter,
                   [&](int64_t position) { result[position] = values[next++]; });
    }
    return result;
  }

  llvm::Error receive(size_t self) {
    const RankStep &member = members[self];
    switch (step.kind) {
    case StepKind::Slice:
    case StepKind::Mask:
      return llvm::Error::success();
    case StepKind::AllReduce:
      if (!step.reduction ||
          !llvm::all_of(sendBuffers, [&](const Tensor &sent) { return sent.size() == results[self].size(); }))
        return failure("the members of an all_reduce differ in size, or it names no reduction");
      results[self] = reduce(sendBuffers, *step.reduction);
      return llvm::Error::success();
    case StepKind::AllGather: {
      Tensor buffer;
      for (const Tensor &sent : sendBuffers) {
        if (int64_t(sent.size()) < member.count)
          return failure("a member of an all_gather sends {0} elements of {1}", sent.size(), member.count);
        buffer.insert(buffer.end(), sent.begin(), sent.begin() + member.count);
      }
      return unpack(member, buffer, results[self]);
    }
    case StepKind::ReduceScatter: {
      std::vector<Tensor> pieces;
      for (const Tensor &sent : sendBuffers) {
        if (!step.reduction || int64_t(sent.size()) < int64_t(members.size()) * member.count)
          return failure("a member of a reduce_scatter sends {0} elements of {1}, or it names no reduction",
                         sent.size(), int64_t(members.size()) * member.count);
        pieces.emplace_back(sent.begin() + self * member.count, sent.begin() + (self + 1) * member.count);
      }
      return unpack(member, reduce(pieces, *step.reduction), results[self]);
    }
    case StepKind::AllToAll:
    case StepKind::Permute:
    case StepKind::Exchange:
      return receiveMessages(self, &RankStep::sends, &RankStep::receives);
    }
    return llvm::Error::success();
  }

  using Messages = std::vector<Message> RankStep::*;

  llvm::Error receiveMessages(size_t self, Messages sends, Messages receives) {
    const RankStep &member = members[self];
    for (const Message &expected : member.*receives) {
      const std::vector<Message> &all = members[expected.peer].*sends;
      auto sent = llvm::find_if(all, [&](const Message &m) { return m.peer == int64_t(self); });
      if (sent == all.end() || sent->count != expected.count)
        return failure("rank {0} expects {1} elements from rank {2}, which sends {3}", member.group[self],
                       expected.count, member.group[expected.peer], sent == all.end() ? 0 : sent->count);
      const Tensor &buffer = sendBuffers[expected.peer];
      int64_t at = sent->bufferOffset;
      if (at + expected.count > int64_t(buffer.size()))
        return failure("rank {0} sends past the end of its buffer", member.group[expected.peer]);
      for (const Box &box : expected.boxes)
        forEachInBox(box, member.localAfter,
                     [&](int64_t position) { results[self][position] = buffer[at++]; });
    }
    return llvm::Error::success();
  }

  static llvm::Error unpack(const RankStep &member, const Tensor &buffer, Tensor &result) {
    if (member.receivesInPlace) {
      if (buffer.size() < result.size())
        return failure("{0} elements arrive in place of {1}", buffer.size(), result.size());
      result.assign(buffer.begin(), buffer.begin() + result.size());
      return llvm::Error::success();
    }
    for (const Message &message : member.receives) {
      int64_t at = message.bufferOffset;
      if (at + message.count > int64_t(buffer.size()))
        return failure("a message ends at {0} in a buffer of {1}", at + message.count, buffer.size());
      for (const Box &box : message.boxes)
        forEachInBox(box, member.localAfter, [&](int64_t position) { result[position] = buffer[at++]; });
    }
    return llvm::Error::success();
  }

  /// What no tensor holds, so that an element that nobody delivers is found.
  static constexpr int64_t poison = std::numeric_limits<int64_t>::min() / 3;

  const Step &step;
  std::vector<RankStep> members;
  RankData &data;
  std::vector<Tensor> sendBuffers, results;
};

} // namespace

RankData plumb::redistribution::materialize(const Mesh &mesh, const Layout &layout,
                                            llvm::ArrayRef<int64_t> shape,
                                            llvm::function_ref<int64_t(int64_t)> value) {
  int64_t ranks = mesh.numRanks();
  RankData data(ranks);
  for (int64_t rank = 0; rank < ranks; ++rank) {
    Index coordinates = mesh.coordinates(rank);
    for (int64_t position : globalPositions(localSet(mesh, layout, shape, coordinates), shape)) {
      int64_t element = value(position);
      uint64_t seed = position;
      for (const PartialAxis &partial : layout.partial) {
        int64_t i = digit(mesh, partial.axis, coordinates);
        seed = scramble(seed + 0x51ed27);
        element = contribution(element, partial.reduction, i, partial.axis.size, seed, ranks);
        seed += i;
      }
      data[rank].push_back(element);
    }
  }
  return data;
}

llvm::Error plumb::redistribution::checkData(const Mesh &mesh, const Layout &layout,
                                             llvm::ArrayRef<int64_t> shape,
                                             llvm::function_ref<int64_t(int64_t)> value,
                                             const RankData &data) {
  llvm::SmallVector<AxisRef, 4> partialAxes;
  for (const PartialAxis &partial : layout.partial)
    partialAxes.push_back(partial.axis);
  for (int64_t rank = 0; rank < mesh.numRanks(); ++rank) {
    std::vector<int64_t> positions =
        globalPositions(localSet(mesh, layout, shape, mesh.coordinates(rank)), shape);
    if (data[rank].size() != positions.size())
      return failure("rank {0} holds {1} elements, its layout {2} says {3}", rank, data[rank].size(),
                     toString(mesh, layout), positions.size());
    std::vector<Tensor> members;
    for (int64_t member : groupOf(mesh, partialAxes, rank)) {
      if (member < rank)
        break; // done with the group's first rank
      members.push_back(data[member]);
    }
    if (members.empty())
      continue;
    // The last axis varies fastest in the group.
    for (const PartialAxis &partial : llvm::reverse(layout.partial)) {
      std::vector<Tensor> reduced;
      for (size_t i = 0; i < members.size(); i += partial.axis.size)
        reduced.push_back(reduce(llvm::ArrayRef(members).slice(i, partial.axis.size), partial.reduction));
      members = std::move(reduced);
    }
    for (auto [i, position] : llvm::enumerate(positions))
      if (members.front()[i] != value(position))
        return failure("rank {0} holds {1} at local position {2}, where {3} says element {4}: {5}", rank,
                       members.front()[i], i, toString(mesh, layout), position, value(position));
  }
  return llvm::Error::success();
}

llvm::Expected<RankData> plumb::redistribution::execute(const Plan &plan, RankData data) {
  int64_t ranks = plan.mesh.numRanks();
  for (const Step &step : plan.steps) {
    std::vector<bool> done(ranks, false);
    for (int64_t rank = 0; rank < ranks; ++rank) {
      if (done[rank])
        continue;
      std::vector<RankStep> members = lowerGroup(plan.mesh, plan.shape, step, rank);
      for (int64_t member : members.front().group)
        done[member] = true;
      if (llvm::Error error = GroupRun(step, std::move(members), data).run())
        return failure("{0}: {1}", toString(plan.mesh, step), llvm::toString(std::move(error)));
    }
  }
  return data;
}

/// Whether every member receives the shard that it is to hold from one that holds it. Sets of elements are
/// compared, so that neither mesh nor tensor need be small; of many ranks the first groups are looked at.
static llvm::Error verifyPermute(const Plan &plan, const Step &step) {
  constexpr int64_t maxRanks = 1024;
  int64_t ranks = plan.mesh.numRanks(), visited = 0;
  std::vector<bool> done(ranks, false);
  for (int64_t rank = 0; rank < ranks && visited < maxRanks; ++rank) {
    if (done[rank])
      continue;
    for (const RankStep &member : lowerGroup(plan.mesh, plan.shape, step, rank)) {
      int64_t self = member.group[member.position];
      done[self] = true;
      ++visited;
      int64_t source = member.receives.empty() ? self : member.group[member.receives.front().peer];
      auto held = localSet(plan.mesh, step.before, plan.shape, plan.mesh.coordinates(source));
      auto wanted = localSet(plan.mesh, step.after, plan.shape, plan.mesh.coordinates(self));
      if (volume(wanted) > 0 && (held != wanted || member.receives.size() > 1))
        return failure("{0}: rank {1} does not receive its shard from rank {2}", toString(plan.mesh, step),
                       self, source);
    }
  }
  return llvm::Error::success();
}

llvm::Error plumb::redistribution::verifyPlan(const Plan &plan, int64_t maxElements) {
  // Members of a group are compared with one another.
  constexpr int64_t maxRanks = 256;
  auto isSmall = [&](const Plan &candidate) {
    return candidate.mesh.numRanks() <= maxRanks &&
           numElements(candidate.shape) <= maxElements / candidate.mesh.numRanks();
  };
  Plan small = plan;
  if (!isSmall(small))
    small = withSmallTensor(plan);
  if (!isSmall(small)) {
    // On a smaller mesh other axes have other sizes: shards that changed places no longer fit each other.
    for (Step &step : small.steps) {
      if (step.kind != StepKind::Permute)
        continue;
      if (llvm::Error error = verifyPermute(small, step))
        return error;
      step.kind = StepKind::Exchange;
    }
    small = withSmallTensor(withSmallMesh(small));
  }
  auto value = [](int64_t position) { return position; };
  llvm::Expected<RankData> result = execute(small, materialize(small.mesh, small.from, small.shape, value));
  if (!result)
    return result.takeError();
  return checkData(small.mesh, small.to, small.shape, value, *result);
}
