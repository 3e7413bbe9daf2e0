//===- Packing.cpp - Places in memory for what lives for a while -------------===//

#include "Packing.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVectorExtras.h"
#include <algorithm>
#include <iterator>
#include <random>

using namespace plumb;

/// One part in so many may be wasted before another way is tried.
static constexpr int64_t kWaste = 50;

/// So often, and with so many comparisons of blocks.
static constexpr int64_t kMostTries = 4000, kMostPairs = int64_t(1) << 25;

void Packing::addHole(int64_t offset, int64_t bytes) {
  holes[offset] = bytes;
  bySize.insert({bytes, offset});
}

void Packing::removeHole(std::map<int64_t, int64_t>::iterator hole) {
  bySize.erase({hole->second, hole->first});
  holes.erase(hole);
}

int64_t Packing::allocate(int64_t bytes) {
  bytes = alignUp(bytes);
  used += bytes;
  if (bytes == 0)
    return 0;
  auto fit = bySize.lower_bound({bytes, 0});
  if (fit != bySize.end()) {
    auto [size, offset] = *fit;
    removeHole(holes.find(offset));
    if (size > bytes)
      addHole(offset + bytes, size - bytes);
    return offset;
  }
  // A hole at the end is made longer.
  int64_t offset = end;
  if (!holes.empty() && std::prev(holes.end())->first + std::prev(holes.end())->second == end) {
    offset = std::prev(holes.end())->first;
    removeHole(std::prev(holes.end()));
  }
  end = offset + bytes;
  return offset;
}

void Packing::release(int64_t offset, int64_t bytes) {
  bytes = alignUp(bytes);
  used -= bytes;
  if (bytes == 0)
    return;
  auto next = holes.lower_bound(offset);
  if (next != holes.end() && next->first == offset + bytes) {
    bytes += next->second;
    removeHole(next);
  }
  next = holes.lower_bound(offset);
  if (next != holes.begin())
    if (auto previous = std::prev(next); previous->first + previous->second == offset) {
      offset = previous->first;
      bytes += previous->second;
      removeHole(previous);
    }
  addHole(offset, bytes);
}

void plumb::joinTimes(llvm::SmallVectorImpl<std::pair<int64_t, int64_t>> &times) {
  llvm::sort(times);
  size_t kept = 0;
  for (auto [begin, last] : times) {
    if (kept && begin <= times[kept - 1].second + 1)
      times[kept - 1].second = std::max(times[kept - 1].second, last);
    else
      times[kept++] = {begin, last};
  }
  times.truncate(kept);
}

static bool meet(const TimedBlock &a, const TimedBlock &b) {
  for (size_t i = 0, j = 0; i < a.times.size() && j < b.times.size();) {
    if (a.times[i].second < b.times[j].first)
      ++i;
    else if (b.times[j].second < a.times[i].first)
      ++j;
    else
      return true;
  }
  return false;
}

/// Places blocks one after the other, each the lowest that is free whenever it is in use.
static int64_t placeInOrder(llvm::ArrayRef<TimedBlock *> order) {
  int64_t size = 0;
  for (auto [index, block] : llvm::enumerate(order)) {
    llvm::SmallVector<std::pair<int64_t, int64_t>> taken; // begin, end
    for (TimedBlock *other : order.take_front(index))
      if (meet(*block, *other))
        taken.push_back({other->offset, other->offset + alignUp(other->bytes)});
    llvm::sort(taken);
    block->offset = 0;
    for (auto [begin, end] : taken) {
      if (block->offset + alignUp(block->bytes) <= begin)
        break;
      block->offset = std::max(block->offset, end);
    }
    size = std::max(size, block->offset + alignUp(block->bytes));
  }
  return size;
}

static int64_t findPeak(llvm::ArrayRef<TimedBlock> blocks) {
  std::map<int64_t, int64_t> changes; // of the bytes in use, by time
  for (const TimedBlock &block : blocks)
    for (auto [first, last] : block.times) {
      changes[first] += alignUp(block.bytes);
      changes[last + 1] -= alignUp(block.bytes);
    }
  int64_t used = 0, most = 0;
  for (auto [time, change] : changes)
    most = std::max(most, used += change);
  return most;
}

/// Another order: the block that reaches highest comes at an earlier place, and sometimes two others change
/// theirs.
static void changeOrder(llvm::MutableArrayRef<TimedBlock *> order, std::mt19937 &random) {
  auto endOf = [](const TimedBlock *block) { return block->offset + alignUp(block->bytes); };
  auto *highest = std::ranges::max_element(order, {}, endOf);
  std::rotate(order.begin() + random() % (highest - order.begin() + 1), highest, highest + 1);
  if (random() % 2)
    std::swap(order[random() % order.size()], order[random() % order.size()]);
}

/// The largest first; then other orders, as long as they are not worse, until little is wasted.
int64_t plumb::placeBlocks(llvm::MutableArrayRef<TimedBlock> blocks) {
  llvm::SmallVector<TimedBlock *> order =
      llvm::map_to_vector(blocks, [](TimedBlock &block) { return &block; });
  // Among equals as they came.
  llvm::sort(order,
             [](TimedBlock *a, TimedBlock *b) { return std::pair(-a->bytes, a) < std::pair(-b->bytes, b); });
  int64_t size = placeInOrder(order), peak = findPeak(blocks);
  std::mt19937 random(1); // Fixed: the same blocks always have the same places.
  auto count = static_cast<int64_t>(blocks.size());
  int64_t tries = count ? std::min(kMostTries, kMostPairs / (count * count)) : 0;
  for (; tries > 0 && size - peak > peak / kWaste; --tries) {
    llvm::SmallVector<TimedBlock *> other = order;
    changeOrder(other, random);
    if (int64_t otherSize = placeInOrder(other); otherSize <= size) {
      size = otherSize;
      order = std::move(other);
    }
    // What a change begins with are the places in the order kept.
    placeInOrder(order);
  }
  placeInOrder(order);
  return size;
}

/// Places blocks in the order in which they come to be in use.
static Packed packOnline(llvm::MutableArrayRef<TimedBlock> values) {
  std::map<int64_t, std::pair<llvm::SmallVector<TimedBlock *, 2>, llvm::SmallVector<TimedBlock *, 2>>> events;
  for (TimedBlock &value : values) {
    events[value.times.front().first].first.push_back(&value);
    events[value.times.front().second].second.push_back(&value);
  }
  Packing packing;
  Packed result{0, 0, 0};
  for (auto &[time, event] : events) {
    for (TimedBlock *value : event.first)
      value->offset = packing.allocate(value->bytes);
    if (packing.live() > result.peak) {
      result.peak = packing.live();
      result.time = time;
    }
    for (TimedBlock *value : event.second)
      packing.release(value->offset, value->bytes);
  }
  result.size = packing.size();
  return result;
}

Packed plumb::packValues(llvm::MutableArrayRef<TimedBlock> values) {
  Packed packed = packOnline(values);
  if (packed.size - packed.peak <= packed.peak / kWaste)
    return packed;
  llvm::SmallVector<TimedBlock, 0> others(values);
  int64_t size = placeBlocks(others);
  if (size < packed.size) {
    packed.size = size;
    for (auto [value, other] : llvm::zip(values, others))
      value.offset = other.offset;
  }
  return packed;
}
