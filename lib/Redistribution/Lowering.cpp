//===- Lowering.cpp - One step as messages between local tensors ----------===//
#include "plumb/Redistribution/Lowering.h"
#include "Balance.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <map>
#include <set>

using namespace plumb::redistribution;

namespace {

/// Where a box begins in the row-major tensor, if it is one run of it.
std::optional<int64_t> contiguousOffset(const Box &box, llvm::ArrayRef<int64_t> shape) {
  int64_t offset = 0;
  bool whole = true, single = true;
  // From the innermost dimension: full ones, then one that is cut, then only single rows.
  int64_t stride = 1;
  for (size_t d = shape.size(); d-- > 0; stride *= shape[d]) {
    if (!whole && box.shape[d] != 1)
      single = false;
    if (box.shape[d] != shape[d])
      whole = false;
    offset += box.offset[d] * stride;
  }
  if (!single)
    return std::nullopt;
  return offset;
}

/// Whether every message is one run of the local tensor, and where.
std::optional<std::vector<int64_t>> runsOf(llvm::ArrayRef<Message> messages, llvm::ArrayRef<int64_t> shape) {
  std::vector<int64_t> offsets;
  for (const Message &message : messages) {
    std::optional<int64_t> begin;
    int64_t end = 0;
    for (const Box &box : message.boxes) {
      std::optional<int64_t> offset = contiguousOffset(box, shape);
      if (!offset || (begin && *offset != end))
        return std::nullopt;
      if (!begin)
        begin = offset;
      end = *offset + box.volume();
    }
    offsets.push_back(begin.value_or(0));
  }
  return offsets;
}

/// A collective's buffer can be the tensor if its members lie there as in the buffer.
bool liesInPlace(llvm::ArrayRef<Message> messages, llvm::ArrayRef<int64_t> shape) {
  auto offsets = runsOf(messages, shape);
  return offsets && llvm::all_of(llvm::zip(messages, *offsets), [](auto pair) {
           auto &[message, offset] = pair;
           return message.count == 0 || message.bufferOffset == offset;
         });
}

/// Point-to-point messages are sent from where they lie if each is one run.
bool placeRuns(std::vector<Message> &messages, llvm::ArrayRef<int64_t> shape) {
  auto offsets = runsOf(messages, shape);
  if (!offsets)
    return false;
  for (auto [message, offset] : llvm::zip(messages, *offsets))
    message.bufferOffset = offset;
  return true;
}

class GroupLowering {
public:
  GroupLowering(const Mesh &mesh, llvm::ArrayRef<int64_t> shape, const Step &step, int64_t rank)
      : mesh(mesh), step(step), group(groupOf(mesh, step.axes, rank)) {
    for (int64_t member : group) {
      coordinates.push_back(mesh.coordinates(member));
      before.push_back(localSet(mesh, step.before, shape, coordinates.back()));
      after.push_back(localSet(mesh, step.after, shape, coordinates.back()));
    }
    if (step.kind == StepKind::Exchange)
      tiles = balanceTiles(before, after, [&](int64_t a, int64_t b) { return distance(a, b); });
    if (step.kind == StepKind::Permute)
      tiles = matchBlocks();
  }

  size_t size() const { return group.size(); }
  size_t positionOf(int64_t rank) const { return llvm::find(group, rank) - group.begin(); }

  RankStep lower(size_t self) const {
    RankStep result;
    result.group = group;
    result.position = self;
    result.localBefore = localShape(before[self]);
    result.localAfter = localShape(after[self]);
    switch (step.kind) {
    case StepKind::Slice:
    case StepKind::Mask:
      lowerLocal(self, result);
      break;
    case StepKind::AllGather:
    case StepKind::ReduceScatter:
    case StepKind::AllReduce:
      lowerCollective(self, result);
      break;
    case StepKind::AllToAll:
      lowerAllToAll(self, result);
      break;
    case StepKind::Permute:
    case StepKind::Exchange:
      lowerTiles(self, result);
      break;
    }
    return result;
  }

  std::vector<MemberLoad> loads() const {
    std::vector<MemberLoad> result;
    for (int64_t member : group)
      result.push_back({member});
    std::vector<std::set<int64_t>> to(size()), from(size());
    auto count = [&](int64_t sender, int64_t receiver, int64_t elements) {
      if (elements == 0)
        return;
      result[sender].sent += elements;
      result[receiver].received += elements;
      to[sender].insert(receiver);
      from[receiver].insert(sender);
    };
    for (const Tile &tile : tiles)
      count(tile.sender, tile.receiver, volume(tile.elements));
    if (step.kind == StepKind::AllToAll)
      for (size_t sender = 0; sender < size(); ++sender)
        for (size_t receiver = 0; receiver < size(); ++receiver)
          if (sender != receiver)
            count(sender, receiver, volume(intersect(before[sender], after[receiver])));
    for (size_t member = 0; member < size(); ++member)
      result[member].messages = std::max(to[member].size(), from[member].size());
    return result;
  }

private:
  /// Hops between two members, weighted so that the outer axes of the mesh count most.
  int64_t distance(int64_t a, int64_t b) const {
    int64_t result = 0;
    for (auto [x, y] : llvm::zip(coordinates[a], coordinates[b]))
      result = 2 * result + (x != y);
    return result;
  }

  /// Pairs the holders of every block with the members that need it; members that hold what they need keep
  /// it.
  std::vector<Tile> matchBlocks() const {
    std::map<std::vector<int64_t>, std::pair<std::vector<int64_t>, std::vector<int64_t>>> blocks;
    auto key = [](const IndexSet &set) {
      std::vector<int64_t> begin;
      for (const Intervals &intervals : set)
        begin.push_back(intervals.empty() ? -1 : intervals.front().begin);
      return begin;
    };
    for (size_t member = 0; member < group.size(); ++member) {
      if (before[member] == after[member])
        continue;
      if (volume(before[member]) > 0)
        blocks[key(before[member])].first.push_back(member);
      if (volume(after[member]) > 0)
        blocks[key(after[member])].second.push_back(member);
    }
    std::vector<Tile> result;
    for (auto &[begin, sides] : blocks)
      for (auto [sender, receiver] : llvm::zip(sides.first, sides.second))
        result.push_back({sender, receiver, after[receiver]});
    return result;
  }

  void lowerLocal(size_t self, RankStep &result) const {
    if (step.kind == StepKind::Mask && dropsValue(self)) {
      result.neutral = true;
      return;
    }
    IndexSet kept = intersect(before[self], after[self]);
    addCopies(kept, self, result);
    result.neutral = volume(kept) < volume(after[self]);
  }

  /// Of the copies of a replicated value only the first takes part, where taking part twice would change the
  /// result.
  bool dropsValue(size_t self) const {
    return llvm::any_of(step.axes, [&](const AxisRef &ref) {
      auto reduction = reductionOver(step.after, ref);
      if (reduction != Reduction::Sum && reduction != Reduction::Product)
        return false;
      bool sharded = llvm::any_of(step.before.dims, [&](const DimSharding &dim) {
        return llvm::any_of(dim.axes, [&](const AxisRef &cut) {
          return cut.axis == ref.axis && cut.pre < ref.pre * ref.size && ref.pre < cut.pre * cut.size;
        });
      });
      return !sharded && digit(mesh, ref, coordinates[self]) != 0;
    });
  }

  void lowerCollective(size_t self, RankStep &result) const {
    bool gather = step.kind == StepKind::AllGather, scatter = step.kind == StepKind::ReduceScatter;
    const std::vector<IndexSet> &pieces = gather ? before : after;
    for (const IndexSet &piece : pieces)
      result.count = std::max(result.count, volume(piece));
    if (!gather && !scatter) {
      result.sends.push_back(message(self, before[self], before[self], 0));
      result.receives = result.sends;
      result.sendsInPlace = result.receivesInPlace = true;
      return;
    }
    const IndexSet &whole = gather ? after[self] : before[self];
    std::vector<Message> all;
    for (size_t member = 0; member < group.size(); ++member)
      all.push_back(message(member, pieces[member], whole, member * result.count));
    std::vector<Message> own{message(self, pieces[self], pieces[self], 0)};
    // The buffer holds all members at full count, so a padded one never fits the tensor.
    bool even = llvm::all_of(pieces, [&](const IndexSet &piece) { return volume(piece) == result.count; });
    bool wholeInPlace = even && liesInPlace(all, localShape(whole));
    result.sends = gather ? own : all;
    result.receives = gather ? all : own;
    bool ownInPlace = even && liesInPlace(own, localShape(pieces[self]));
    result.sendsInPlace = gather ? ownInPlace : wholeInPlace;
    result.receivesInPlace = gather ? wholeInPlace : ownInPlace;
  }

  void lowerAllToAll(size_t self, RankStep &result) const {
    for (size_t member = 0; member < group.size(); ++member) {
      if (member == self) {
        addCopies(intersect(before[self], after[self]), self, result);
        continue;
      }
      addMessage(result.sends, member, intersect(before[self], after[member]), before[self]);
      addMessage(result.receives, member, intersect(before[member], after[self]), after[self]);
    }
    result.sendsInPlace = placeRuns(result.sends, result.localBefore);
    result.receivesInPlace = placeRuns(result.receives, result.localAfter);
  }

  void lowerTiles(size_t self, RankStep &result) const {
    addCopies(intersect(before[self], after[self]), self, result);
    for (const Tile &tile : tiles) {
      if (tile.sender == int64_t(self))
        addMessage(tile.isHandedOn ? result.relays : result.sends, tile.receiver, tile.elements,
                   tile.isHandedOn ? after[self] : before[self]);
      if (tile.receiver == int64_t(self))
        addMessage(tile.isHandedOn ? result.relayed : result.receives, tile.sender, tile.elements,
                   after[self]);
    }
    result.sendsInPlace = placeRuns(result.sends, result.localBefore);
    result.receivesInPlace = placeRuns(result.receives, result.localAfter);
  }

  static Message message(size_t peer, const IndexSet &part, const IndexSet &whole, int64_t bufferOffset) {
    return {int64_t(peer), bufferOffset, volume(part), boxesWithin(part, whole)};
  }

  /// Appends to the message for the same peer, if it is the last one.
  static void addMessage(std::vector<Message> &messages, size_t peer, const IndexSet &part,
                         const IndexSet &whole) {
    int64_t count = volume(part);
    if (count == 0)
      return;
    auto known = llvm::find_if(messages, [&](const Message &m) { return m.peer == int64_t(peer); });
    if (known == messages.end()) {
      int64_t offset = messages.empty() ? 0 : messages.back().bufferOffset + messages.back().count;
      messages.push_back(message(peer, part, whole, offset));
      return;
    }
    known->count += count;
    llvm::append_range(known->boxes, boxesWithin(part, whole));
    for (auto it = known + 1; it != messages.end(); ++it)
      it->bufferOffset += count;
  }

  void addCopies(const IndexSet &kept, size_t self, RankStep &result) const {
    if (volume(kept) == 0)
      return;
    for (auto [source, target] :
         llvm::zip_equal(boxesWithin(kept, before[self]), boxesWithin(kept, after[self])))
      result.copies.push_back({source, target});
  }

  const Mesh &mesh;
  const Step &step;
  std::vector<int64_t> group;
  std::vector<Index> coordinates;
  std::vector<IndexSet> before, after;
  std::vector<Tile> tiles;
};

int64_t countOf(llvm::ArrayRef<Message> messages) {
  int64_t count = 0;
  for (const Message &message : messages)
    count += message.count;
  return count;
}

} // namespace

int64_t RankStep::sentElements() const { return countOf(sends) + countOf(relays); }
int64_t RankStep::receivedElements() const { return countOf(receives) + countOf(relayed); }

std::vector<int64_t> plumb::redistribution::groupOf(const Mesh &mesh, llvm::ArrayRef<AxisRef> axes,
                                                    int64_t rank) {
  Index coordinates = mesh.coordinates(rank);
  for (const AxisRef &ref : axes)
    rank -= digit(mesh, ref, coordinates) * rankStride(mesh, ref);
  std::vector<int64_t> group{rank};
  for (const AxisRef &ref : axes) {
    std::vector<int64_t> next;
    for (int64_t member : group)
      for (int64_t i = 0; i < ref.size; ++i)
        next.push_back(member + i * rankStride(mesh, ref));
    group = std::move(next);
  }
  return group;
}

RankStep plumb::redistribution::lowerStep(const Mesh &mesh, llvm::ArrayRef<int64_t> shape, const Step &step,
                                          int64_t rank) {
  GroupLowering lowering(mesh, shape, step, rank);
  return lowering.lower(lowering.positionOf(rank));
}

std::vector<RankStep> plumb::redistribution::lowerGroup(const Mesh &mesh, llvm::ArrayRef<int64_t> shape,
                                                        const Step &step, int64_t rank) {
  GroupLowering lowering(mesh, shape, step, rank);
  std::vector<RankStep> result;
  for (size_t member = 0; member < lowering.size(); ++member)
    result.push_back(lowering.lower(member));
  return result;
}

std::vector<MemberLoad> plumb::redistribution::loadsOfGroup(const Mesh &mesh, llvm::ArrayRef<int64_t> shape,
                                                            const Step &step, int64_t rank) {
  return GroupLowering(mesh, shape, step, rank).loads();
}
