//===- Balance.cpp - Who sends what to whom, evenly -----------------------===//
#include "Balance.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <map>

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

class Balancer {
public:
  Balancer(std::vector<Block> blocks, int64_t members, int64_t capacity,
           llvm::function_ref<int64_t(int64_t, int64_t)> distance)
      : blocks(std::move(blocks)), load(members), capacity(capacity), distance(distance) {}

  void assign(const Block &block, IndexSet elements, int64_t receiver) {
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
      tiles.push_back({sender, receiver, std::move(part)});
    }
  }

  std::vector<Block> blocks;
  std::vector<Tile> tiles;

private:
  std::vector<int64_t> load;
  int64_t capacity;
  llvm::function_ref<int64_t(int64_t, int64_t)> distance;
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
  for (const Block &block : balancer.blocks)
    for (auto [receiver, want] : llvm::enumerate(wanted))
      if (!std::binary_search(block.holders.begin(), block.holders.end(), int64_t(receiver)))
        if (IndexSet lacking = intersect(block.elements, want); volume(lacking) > 0)
          balancer.assign(block, std::move(lacking), receiver);
  return std::move(balancer.tiles);
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
