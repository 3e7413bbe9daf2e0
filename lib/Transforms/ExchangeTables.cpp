//===- ExchangeTables.cpp - Exchanges as strided copies and messages ---------===//
//
// The core describes a step by boxes of local tensors. Here each box becomes rows at a constant distance,
// which is what one copy of the device does. Tensors of all ranks have one shape, that of the largest shard,
// in which a smaller one lies at the front of every dim.
//
//===----------------------------------------------------------------------===//

#include "ExchangeTables.h"
#include "DigitStep.h"
#include "plumb/Redistribution/Lowering.h"

using namespace plumb;
using redistribution::Box;
using redistribution::Message;
using redistribution::RankStep;

namespace {

/// Members of a group; numbers of a program's table; ranks whose groups are compared.
constexpr size_t maxMembers = 64, maxNumbers = size_t(1) << 16;
constexpr int64_t maxRanks = 4096;

/// Where a box lies: the element it begins with and the distance of its neighbours in each dim.
struct Place {
  int64_t start = 0;
  redistribution::Index strides;
};

Place placeIn(llvm::ArrayRef<int64_t> shape, const Box &box) {
  Place place{0, redistribution::Index(shape.size())};
  int64_t stride = 1;
  for (size_t d = shape.size(); d-- > 0; stride *= shape[d]) {
    place.strides[d] = stride;
    place.start += box.offset[d] * stride;
  }
  return place;
}

/// As a dense tensor of its own at `start`.
Place placeAt(int64_t start, const Box &box) {
  Place place = placeIn(box.shape, {redistribution::Index(box.shape.size(), 0), box.shape});
  place.start = start;
  return place;
}

/// Appends the pieces that copy a box of `shape` from one place to the other.
void addPieces(llvm::SmallVectorImpl<int64_t> &pieces, llvm::ArrayRef<int64_t> shape, const Place &from,
               const Place &to) {
  struct Loop {
    int64_t count, from, to;
  };
  int64_t run = 1;
  llvm::SmallVector<Loop, 4> loops; // innermost first
  for (size_t d = shape.size(); d-- > 0;) {
    int64_t count = shape[d], source = from.strides[d], target = to.strides[d];
    if (count == 1)
      continue;
    if (loops.empty() && source == run && target == run)
      run *= count;
    else if (!loops.empty() && source == loops.back().from * loops.back().count &&
             target == loops.back().to * loops.back().count)
      loops.back().count *= count;
    else
      loops.push_back({count, source, target});
  }
  Loop rows = loops.empty() ? Loop{1, run, run} : loops.front();
  auto visit = [&](auto &self, size_t depth, int64_t source, int64_t target) -> void {
    if (pieces.size() > maxNumbers)
      return;
    if (depth <= 1) {
      pieces.append({source, target, run, rows.count, rows.from, rows.to});
      return;
    }
    const Loop &loop = loops[depth - 1];
    for (int64_t i = 0; i < loop.count; ++i)
      self(self, depth - 1, source + i * loop.from, target + i * loop.to);
  };
  visit(visit, loops.size(), from.start, to.start);
}

class TableBuilder {
public:
  TableBuilder(std::vector<RankStep> members, redistribution::Index before, redistribution::Index after)
      : members(std::move(members)), before(std::move(before)), after(std::move(after)) {}

  ExchangeTables build() {
    ExchangeTables tables;
    tables.isLocal = llvm::all_of(
        members, [](const RankStep &member) { return member.sends.empty() && member.receives.empty(); });
    // The tensors themselves serve as buffers if they do so on every member, what stays there included.
    bool sends = llvm::all_of(members, [&](const RankStep &member) {
      return member.sendsInPlace && liesAsShard(member.localBefore, before);
    });
    bool receives = llvm::all_of(members, [&](const RankStep &member) {
      return member.receivesInPlace && liesAsShard(member.localAfter, after) &&
             (member.copies.empty() || (sends && staysInRuns(member)));
    });
    if (!sends)
      tables.sendBuffer = mostOf(&RankStep::sentElements);
    if (!receives)
      tables.receiveBuffer = mostOf(&RankStep::receivedElements);
    for (const RankStep &member : members) {
      tables.packs.emplace_back();
      tables.copies.emplace_back();
      tables.unpacks.emplace_back();
      tables.sends.push_back(messages(member.sends, sends));
      tables.receives.push_back(messages(member.receives, receives));
      addCopies(member, receives && !tables.isLocal, tables);
      if (!sends)
        for (const Message &message : member.sends)
          addBoxes(message, packedOffset(member.sends, message), before, true, tables.packs.back());
      if (!receives)
        for (const Message &message : member.receives)
          addBoxes(message, packedOffset(member.receives, message), after, false, tables.unpacks.back());
    }
    return tables;
  }

private:
  using Count = int64_t (RankStep::*)() const;
  int64_t mostOf(Count count) const {
    int64_t most = 0;
    for (const RankStep &member : members)
      most = std::max(most, (member.*count)());
    return most;
  }

  /// Whether the elements of a shard have the offsets in the tensor that they have in the shard: only the
  /// outermost dim may be longer.
  static bool liesAsShard(const redistribution::Index &shard, const redistribution::Index &tensor) {
    return llvm::ArrayRef(shard).drop_front(!shard.empty()) ==
           llvm::ArrayRef(tensor).drop_front(!tensor.empty());
  }

  /// Whether what the member keeps is one run of operand and result.
  bool staysInRuns(const RankStep &member) const {
    llvm::SmallVector<int64_t> pieces;
    for (const redistribution::LocalCopy &copy : member.copies)
      addPieces(pieces, copy.source.shape, placeIn(before, copy.source), placeIn(after, copy.result));
    return pieces.size() == 6 && pieces[3] == 1;
  }

  /// Where a message lies in a buffer that holds all of them densely.
  static int64_t packedOffset(llvm::ArrayRef<Message> all, const Message &message) {
    int64_t offset = 0;
    for (const Message &before : all.take_while([&](const Message &m) { return &m != &message; }))
      offset += before.count;
    return offset;
  }

  static llvm::SmallVector<int64_t> messages(llvm::ArrayRef<Message> all, bool inPlace) {
    llvm::SmallVector<int64_t> numbers;
    for (const Message &message : all)
      numbers.append(
          {message.peer, inPlace ? message.bufferOffset : packedOffset(all, message), message.count});
    return numbers;
  }

  /// What stays is copied, or sent to oneself where there is nothing else to copy.
  void addCopies(const RankStep &member, bool asMessage, ExchangeTables &tables) const {
    llvm::SmallVector<int64_t> &pieces = tables.copies.back();
    for (const redistribution::LocalCopy &copy : member.copies)
      addPieces(pieces, copy.source.shape, placeIn(before, copy.source), placeIn(after, copy.result));
    if (!asMessage || pieces.empty())
      return;
    tables.sends.back().append({member.position, pieces[0], pieces[2]});
    tables.receives.back().append({member.position, pieces[1], pieces[2]});
    pieces.clear();
  }

  static void addBoxes(const Message &message, int64_t offset, llvm::ArrayRef<int64_t> shape, bool packs,
                       llvm::SmallVectorImpl<int64_t> &pieces) {
    for (const Box &box : message.boxes) {
      Place local = placeIn(shape, box), packed = placeAt(offset, box);
      addPieces(pieces, box.shape, packs ? local : packed, packs ? packed : local);
      offset += box.volume();
    }
  }

  std::vector<RankStep> members;
  redistribution::Index before, after; ///< The shapes of the tensors that hold the shards.
};

bool isEqual(const ExchangeTables &a, const ExchangeTables &b) {
  return std::tie(a.packs, a.copies, a.unpacks, a.sends, a.receives, a.sendBuffer, a.receiveBuffer) ==
         std::tie(b.packs, b.copies, b.unpacks, b.sends, b.receives, b.sendBuffer, b.receiveBuffer);
}

size_t sizeOf(const ExchangeTables &tables) {
  size_t numbers = 0;
  for (const auto *table : {&tables.packs, &tables.copies, &tables.unpacks, &tables.sends, &tables.receives})
    for (const auto &entries : *table)
      numbers += entries.size();
  return numbers;
}

/// The messages of the second group, out of the result of the first.
RankStep secondRound(const RankStep &first) {
  RankStep second;
  second.group = first.group;
  second.position = first.position;
  second.localBefore = second.localAfter = first.localAfter;
  second.sends = first.relays;
  second.receives = first.relayed;
  Box whole{redistribution::Index(first.localAfter.size(), 0), first.localAfter};
  if (whole.volume() > 0)
    second.copies.push_back({whole, whole});
  return second;
}

/// The rounds of one group.
std::vector<ExchangeTables> roundsOf(std::vector<RankStep> members, const redistribution::Index &before,
                                     const redistribution::Index &after) {
  std::vector<ExchangeTables> rounds;
  rounds.push_back(TableBuilder(members, before, after).build());
  if (llvm::any_of(members, [](const RankStep &member) { return !member.relays.empty(); })) {
    for (RankStep &member : members)
      member = secondRound(member);
    rounds.push_back(TableBuilder(std::move(members), after, after).build());
  }
  return rounds;
}

/// Over `axes`; nothing if groups differ.
std::optional<std::vector<ExchangeTables>> tablesOver(llvm::ArrayRef<redistribution::AxisRef> axes,
                                                      const redistribution::Mesh &mesh,
                                                      llvm::ArrayRef<int64_t> shape,
                                                      redistribution::Step step) {
  step.axes.assign(axes.begin(), axes.end());
  if (step.groupSize() > int64_t(maxMembers))
    return std::nullopt;
  std::optional<std::vector<ExchangeTables>> rounds;
  std::vector<bool> done(mesh.numRanks(), false);
  for (int64_t rank = 0; rank < mesh.numRanks(); ++rank) {
    if (done[rank])
      continue;
    std::vector<RankStep> members = redistribution::lowerGroup(mesh, shape, step, rank);
    for (int64_t member : members.front().group)
      done[member] = true;
    std::vector<ExchangeTables> mine =
        roundsOf(std::move(members), largestLocalShape(mesh, step.before, shape),
                 largestLocalShape(mesh, step.after, shape));
    if (llvm::any_of(mine, [](const ExchangeTables &round) { return sizeOf(round) > maxNumbers; }) ||
        (rounds && !llvm::equal(*rounds, mine, isEqual)))
      return std::nullopt;
    rounds = std::move(mine);
  }
  for (ExchangeTables &round : *rounds)
    round.axes.assign(axes.begin(), axes.end());
  return rounds;
}

/// The digits of a step, and of the axes that cut a tensor of `shape` into shards of different sizes.
llvm::SmallVector<redistribution::AxisRef>
axesOfUnevenDims(const DigitStep &step, const redistribution::Step &whole, llvm::ArrayRef<int64_t> shape) {
  llvm::SmallVector<redistribution::AxisRef> axes = step.axes;
  for (size_t d = 0; d < shape.size(); ++d)
    for (auto [dim, digits] : {std::pair(whole.before.dims[d], step.before.dims[d]),
                               std::pair(whole.after.dims[d], step.after.dims[d])})
      if (!cutsEvenly(dim, shape[d], dim.axes.size()))
        llvm::append_range(axes, digits.axes);
  llvm::sort(axes);
  axes.erase(llvm::unique(axes), axes.end());
  return axes;
}

} // namespace

std::optional<std::vector<ExchangeTables>> plumb::exchangeTables(const redistribution::Mesh &mesh,
                                                                 llvm::ArrayRef<int64_t> shape,
                                                                 const redistribution::Step &step) {
  if (mesh.numRanks() > maxRanks)
    return std::nullopt;
  redistribution::Step core = step;
  if (core.kind != redistribution::StepKind::Permute)
    core.kind = redistribution::StepKind::Exchange;
  DigitStep digits(step);
  if (auto rounds = tablesOver(digits.axes, mesh, shape, core))
    return rounds;
  auto more = axesOfUnevenDims(digits, step, shape);
  return more == digits.axes ? std::nullopt : tablesOver(more, mesh, shape, core);
}
