//===- Balance.cpp - Who sends what to whom, evenly -----------------------===//
#include "Balance.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <map>
#include <set>

using namespace plumb::redistribution;

namespace {

/// Cuts the first `count` positions of dimension `dim` off `set`.
IndexSet takeFront(IndexSet &set, unsigned dim, int64_t count) {
  IndexSet head = set;
  head[dim].clear();
  Intervals rest;
  for (const Interval &run : set[dim]) {
    int64_t take = std::min(count, run.size());
    if (take > 0)
      head[dim].push_back({run.begin, run.begin + take});
    if (take < run.size())
      rest.push_back({run.begin + take, run.end});
    count -= take;
  }
  set[dim] = std::move(rest);
  return head;
}

unsigned longestDim(const IndexSet &set) {
  unsigned dim = 0;
  for (unsigned d = 1; d < set.size(); ++d)
    if (sizeOf(set[d]) > sizeOf(set[dim]))
      dim = d;
  return dim;
}

/// Takes about `room` elements off `elements`: whole rows of the longest dimension.
IndexSet takeAbout(IndexSet &elements, int64_t room) {
  unsigned dim = longestDim(elements);
  int64_t row = volume(elements) / sizeOf(elements[dim]);
  return takeFront(elements, dim, std::max<int64_t>(1, room / row));
}

/// Whether the bounds of two sets tell that they have nothing in common: most pairs of shards.
bool areApart(const IndexSet &a, const IndexSet &b) {
  return llvm::any_of(llvm::zip_equal(a, b), [](auto pair) {
    auto &[x, y] = pair;
    return x.empty() || y.empty() || x.back().end <= y.front().begin || y.back().end <= x.front().begin;
  });
}

/// `set` without `part` of it, which differs from it in one dimension at most.
IndexSet without(IndexSet set, const IndexSet &part) {
  unsigned dim = 0;
  while (dim + 1 < set.size() && set[dim] == part[dim])
    ++dim;
  Intervals rest;
  for (Interval run : set[dim]) {
    for (const Interval &taken : part[dim])
      if (taken.begin < run.end && taken.end > run.begin) {
        if (run.begin < taken.begin)
          rest.push_back({run.begin, taken.begin});
        run.begin = std::min(taken.end, run.end);
      }
    if (run.size() > 0)
      rest.push_back(run);
  }
  set[dim] = std::move(rest);
  return set;
}

/// How many chains of deliveries are changed for one exchange.
constexpr size_t kMostChains = 256;

class Balancer {
public:
  Balancer(std::vector<Block> blocks, int64_t members, int64_t capacity,
           llvm::function_ref<int64_t(int64_t, int64_t)> distance)
      : blocks(std::move(blocks)), load(members), capacity(capacity), distance(distance) {}

  /// Has `elements` sent to `receiver` by the holders of `block`.
  void assign(size_t blockNumber, IndexSet elements, int64_t receiver) {
    const Block &block = blocks[blockNumber];
    for (bool rest = true; rest;) {
      int64_t sender =
          *std::min_element(block.holders.begin(), block.holders.end(), [&](int64_t a, int64_t b) {
            return std::tuple(load[a], distance(a, receiver), a) <
                   std::tuple(load[b], distance(b, receiver), b);
          });
      IndexSet part = elements;
      int64_t remaining = volume(elements);
      int64_t room = std::max(capacity - load[sender], ceilDiv(remaining, block.holders.size()));
      rest = block.holders.size() > 1 && remaining > room;
      if (rest) {
        part = takeAbout(elements, room);
        rest = volume(elements) > 0;
      }
      load[sender] += volume(part);
      shipments.push_back({blockNumber, std::move(part), {{sender, receiver, false}}});
    }
  }

  std::vector<Tile> take() {
    if (!isDone())
      relay();
    std::vector<Tile> tiles;
    for (const Shipment &shipment : shipments)
      for (const Delivery &delivery : shipment.deliveries)
        tiles.push_back({delivery.sender, delivery.receiver, shipment.elements, delivery.isHandedOn});
    return tiles;
  }

  std::vector<Block> blocks;

private:
  struct Delivery {
    int64_t sender, receiver;
    bool isHandedOn;
  };
  /// Elements of one block and the members that lack them.
  struct Shipment {
    size_t block;
    IndexSet elements;
    std::vector<Delivery> deliveries;
  };

  /// Where a member sends more than the most that one receives (few hold what many need), lets the receivers
  /// hand parts on to each other: the better of two ways.
  void relay() {
    joinShipments();
    auto [before, loadBefore] = std::pair(shipments, load);
    relieveAll();
    if (isDone())
      return;
    std::swap(shipments, before);
    std::swap(load, loadBefore);
    for (bool withinCapacity : {true, false})
      for (size_t i = 0, most = mostShipments(); i < shipments.size() && shipments.size() < most && !isDone();
           ++i)
        scatter(i, withinCapacity);
    relieveAll();
    if (busiest(load) > busiest(loadBefore)) {
      shipments = std::move(before);
      load = std::move(loadBefore);
    }
  }

  static int64_t busiest(llvm::ArrayRef<int64_t> load) { return *llvm::max_element(load); }
  bool isDone() const { return busiest(load) <= capacity; }
  size_t mostShipments() const { return 4 * shipments.size() + 256; }

  /// Members that are not too busy are relieved too where that makes room.
  void relieveAll() {
    const size_t most = mostShipments();
    int64_t mean = llvm::sum_of(load, int64_t(0)) / int64_t(load.size());
    for (int64_t pass = 0; pass < 16; ++pass)
      for (int64_t limit : {capacity, mean})
        for (size_t i = 0; i < shipments.size() && shipments.size() < most; ++i) {
          if (isDone())
            return;
          while (relieve(i, limit))
            ;
        }
    for (size_t step = 0; step < kMostChains && shipments.size() < most && !isDone() && passOn(); ++step)
      ;
  }

  /// A delivery that somebody else could make.
  struct Move {
    size_t shipment, delivery;
    int64_t from, to;
  };

  /// A chain of moves from the busiest member over busy ones to one with room: each takes a delivery from the
  /// one before it. False if there is none.
  bool passOn() {
    int64_t start = llvm::max_element(load) - load.begin();
    std::vector<std::optional<Move>> reachedBy(load.size());
    std::vector<int64_t> queue{start};
    for (size_t next = 0; next < queue.size(); ++next)
      for (const Move &move : movesFrom(queue[next])) {
        if (move.to == start || reachedBy[move.to])
          continue;
        reachedBy[move.to] = move;
        queue.push_back(move.to);
        if (load[move.to] < capacity)
          return carryOut(start, move.to, reachedBy);
      }
    return false;
  }

  std::vector<Move> movesFrom(int64_t member) const {
    std::vector<Move> moves;
    for (auto [i, shipment] : llvm::enumerate(shipments))
      for (auto [j, delivery] : llvm::enumerate(shipment.deliveries)) {
        if (delivery.sender != member || handsOn(shipment, delivery.receiver))
          continue;
        for (int64_t holder : blocks[shipment.block].holders)
          moves.push_back({i, j, member, holder});
        for (const Delivery &other : shipment.deliveries)
          if (!other.isHandedOn && other.receiver != delivery.receiver)
            moves.push_back({i, j, member, other.receiver});
      }
    return moves;
  }

  bool carryOut(int64_t start, int64_t end, llvm::ArrayRef<std::optional<Move>> reachedBy) {
    std::vector<Move> chain; // from the end
    int64_t amount = std::min(load[start] - capacity, capacity - load[end]);
    std::set<size_t> used;
    for (int64_t member = end; member != start; member = chain.back().from) {
      chain.push_back(*reachedBy[member]);
      amount = std::min(amount, volume(shipments[chain.back().shipment].elements));
      // Two moves of one shipment could make a member hand on what is handed to it.
      if (!used.insert(chain.back().shipment).second)
        return false;
    }
    for (const Move &move : chain) {
      shrink(move.shipment, amount);
      int64_t size = volume(shipments[move.shipment].elements);
      const Block &block = blocks[shipments[move.shipment].block];
      Delivery &delivery = shipments[move.shipment].deliveries[move.delivery];
      load[move.from] -= size;
      load[move.to] += size;
      delivery = {move.to, delivery.receiver, !llvm::is_contained(block.holders, move.to)};
    }
    return true;
  }

  /// Has a part of shipment `number`, if holders are too busy with it, go to one receiver only, the least
  /// busy, which hands it on to all others. The rest of the shipment comes again.
  void scatter(size_t number, bool withinCapacity) {
    const Shipment &shipment = shipments[number];
    if (shipment.deliveries.size() < 2 ||
        llvm::any_of(shipment.deliveries, [](const Delivery &d) { return d.isHandedOn; }))
      return;
    int64_t sent = 0, first = shipment.deliveries.front().receiver;
    for (const Delivery &delivery : shipment.deliveries) {
      sent = std::max(sent, load[delivery.sender]);
      if (std::pair(load[delivery.receiver], delivery.receiver) < std::pair(load[first], first))
        first = delivery.receiver;
    }
    auto others = int64_t(shipment.deliveries.size()) - 1;
    int64_t room =
        withinCapacity ? (capacity - load[first]) / others : (sent - load[first] + others - 1) / (2 * others);
    int64_t amount = std::min(
        {(sent - capacity + others - 1) / others, room, ceilDiv(volume(shipment.elements), others + 1)});
    if (amount <= 0)
      return;
    shrink(number, amount);
    int64_t size = volume(shipments[number].elements);
    for (Delivery &delivery : shipments[number].deliveries)
      if (delivery.receiver != first) {
        load[delivery.sender] -= size;
        load[first] += size;
        delivery = {first, delivery.receiver, true};
      }
  }

  /// Makes deliveries of the same elements one shipment. Tiles of a block that overlap differ in the
  /// dimension along which they were split between the holders.
  void joinShipments() {
    std::vector<Shipment> joined;
    size_t begin = 0; // of the block
    for (Shipment &shipment : shipments) {
      if (!joined.empty() && joined.back().block != shipment.block)
        begin = joined.size();
      for (size_t i = begin; i < joined.size() && volume(shipment.elements) > 0; ++i) {
        IndexSet common = intersect(joined[i].elements, shipment.elements);
        if (volume(common) == 0)
          continue;
        Shipment rest = joined[i];
        rest.elements = without(rest.elements, common);
        if (volume(rest.elements) > 0)
          joined.push_back(std::move(rest));
        joined[i].elements = common;
        joined[i].deliveries.push_back(shipment.deliveries.front());
        shipment.elements = without(shipment.elements, common);
      }
      if (volume(shipment.elements) > 0)
        joined.push_back(std::move(shipment));
    }
    shipments = std::move(joined);
  }

  /// Lets somebody else send a part of shipment `number` whose sender sends more than `limit`.
  bool relieve(size_t number, int64_t limit) {
    std::optional<size_t> relieved;
    Delivery next{};
    // Who is handed a part on cannot hand it on: rather those that are busy anyway.
    std::pair<int64_t, int64_t> most;
    for (auto [i, now] : llvm::enumerate(shipments[number].deliveries)) {
      if (handsOn(shipments[number], now.receiver))
        continue;
      Delivery other = alternative(shipments[number], now);
      int64_t amount = std::min(load[now.sender] - limit, (load[now.sender] - load[other.sender]) / 2);
      if (amount <= 0 || std::pair(load[now.receiver], amount) <= most)
        continue;
      most = {load[now.receiver], amount};
      next = other;
      relieved = i;
    }
    if (!relieved)
      return false;
    shrink(number, most.second);
    Delivery &now = shipments[number].deliveries[*relieved];
    int64_t size = volume(shipments[number].elements);
    load[now.sender] -= size;
    load[next.sender] += size;
    now = next;
    return true;
  }

  static bool handsOn(const Shipment &shipment, int64_t member) {
    return llvm::any_of(shipment.deliveries,
                        [&](const Delivery &d) { return d.isHandedOn && d.sender == member; });
  }

  /// The least busy member that could send in place of the sender: a holder, or one to which a holder sends.
  Delivery alternative(const Shipment &shipment, const Delivery &delivery) const {
    Delivery best = delivery;
    auto consider = [&](int64_t member, bool isHandedOn) {
      if (member != delivery.receiver && std::pair(load[member], !handsOn(shipment, member)) <
                                             std::pair(load[best.sender], !handsOn(shipment, best.sender)))
        best = {member, delivery.receiver, isHandedOn};
    };
    for (int64_t holder : blocks[shipment.block].holders)
      consider(holder, false);
    for (const Delivery &other : shipment.deliveries)
      if (!other.isHandedOn)
        consider(other.receiver, true);
    return best;
  }

  /// Leaves at most `amount` elements in a shipment; the rest become shipments of their own.
  void shrink(size_t number, int64_t amount) {
    while (volume(shipments[number].elements) > amount) {
      Shipment rest = shipments[number];
      unsigned dim = longestDim(rest.elements);
      int64_t row = volume(rest.elements) / sizeOf(rest.elements[dim]);
      shipments[number].elements = takeFront(rest.elements, dim, std::max<int64_t>(1, amount / row));
      shipments.push_back(std::move(rest));
    }
  }

  std::vector<int64_t> load;
  int64_t capacity;
  llvm::function_ref<int64_t(int64_t, int64_t)> distance;
  std::vector<Shipment> shipments;
};

} // namespace

std::vector<Block> plumb::redistribution::distinctBlocks(llvm::ArrayRef<IndexSet> held) {
  std::vector<Block> blocks;
  // Disjoint sets differ in where they begin.
  std::map<std::vector<int64_t>, size_t> byBegin;
  for (auto [member, set] : llvm::enumerate(held)) {
    if (volume(set) == 0)
      continue;
    std::vector<int64_t> begin;
    for (const Intervals &intervals : set)
      begin.push_back(intervals.front().begin);
    auto [known, isNew] = byBegin.try_emplace(std::move(begin), blocks.size());
    if (isNew)
      blocks.push_back({set, {}});
    blocks[known->second].holders.push_back(member);
  }
  return blocks;
}

std::vector<Tile>
plumb::redistribution::balanceTiles(llvm::ArrayRef<IndexSet> held, llvm::ArrayRef<IndexSet> wanted,
                                    llvm::function_ref<int64_t(int64_t, int64_t)> distance) {
  int64_t capacity = 0;
  for (auto [have, want] : llvm::zip(held, wanted))
    capacity = std::max(capacity, volume(want) - volume(intersect(want, have)));
  Balancer balancer(distinctBlocks(held), held.size(), capacity, distance);
  // Blocks with few holders leave no choice, so they are placed first.
  llvm::sort(balancer.blocks, [](const Block &a, const Block &b) {
    return std::pair(a.holders.size(), a.holders.front()) < std::pair(b.holders.size(), b.holders.front());
  });
  for (auto [number, block] : llvm::enumerate(balancer.blocks))
    for (auto [receiver, want] : llvm::enumerate(wanted))
      if (!areApart(block.elements, want) &&
          !std::binary_search(block.holders.begin(), block.holders.end(), int64_t(receiver)))
        if (IndexSet lacking = intersect(block.elements, want); volume(lacking) > 0)
          balancer.assign(number, std::move(lacking), receiver);
  return balancer.take();
}

std::vector<IndexSet> plumb::redistribution::splitEvenly(IndexSet set, int64_t parts) {
  std::vector<IndexSet> result;
  if (parts == 1 || set.empty() || volume(set) == 0) {
    result.push_back(std::move(set));
    return result;
  }
  unsigned dim = longestDim(set);
  for (int64_t left = parts; left > 0; --left)
    result.push_back(takeFront(set, dim, ceilDiv(sizeOf(set[dim]), left)));
  return result;
}
