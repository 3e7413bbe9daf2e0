//===- Packing.h - Places in memory for what lives for a while --*- C++ -*-===//

#ifndef PLUMB_LIB_TRANSFORMS_PACKING_H
#define PLUMB_LIB_TRANSFORMS_PACKING_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include <cstdint>
#include <map>
#include <set>

namespace plumb {

/// Alignment of everything in an arena, in bytes: a cache line, and what kernels are promised.
inline constexpr int64_t kAlignment = 64;

inline int64_t alignUp(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

/// Best fit: what is allocated takes the smallest hole that holds it, the lowest of equal ones. O(log n) a
/// call.
class Packing {
public:
  /// The offset of `bytes` bytes, which are rounded up to the alignment. Nothing lies in no memory, at 0.
  int64_t allocate(int64_t bytes);
  /// Gives back what `allocate` gave for as many bytes.
  void release(int64_t offset, int64_t bytes);

  /// Bytes of the region that all of it together needs.
  int64_t size() const { return end; }
  /// Bytes in use now, alignment included.
  int64_t live() const { return used; }

private:
  void addHole(int64_t offset, int64_t bytes);
  void removeHole(std::map<int64_t, int64_t>::iterator hole);

  std::map<int64_t, int64_t> holes;             // offset → bytes; no two touch
  std::set<std::pair<int64_t, int64_t>> bySize; // (bytes, offset)
  int64_t end = 0, used = 0;
};

/// Memory that is in use at certain times.
struct TimedBlock {
  int64_t bytes;
  /// Disjoint and ascending, ends included.
  llvm::SmallVector<std::pair<int64_t, int64_t>, 2> times;
  int64_t offset = 0;
};

/// A region, and how much of it is in use at most, and when first.
struct Packed {
  int64_t size, peak, time;
};

/// Gives blocks of one interval of time each their places: online by best fit, and if that wastes more than a
/// fiftieth, the largest first, if that is better. O(n log n), or O(n²) where it wastes.
Packed packValues(llvm::MutableArrayRef<TimedBlock> values);

/// Sorts intervals of time and joins those that overlap or touch.
void joinTimes(llvm::SmallVectorImpl<std::pair<int64_t, int64_t>> &times);

/// Gives blocks places so that those in use at one time do not overlap: the largest first, each the lowest
/// that is free whenever the block is in use. While that wastes more than a fiftieth, what ended last is
/// placed first; the best of so many tries as time allows counts. Returns the bytes of the region. O(n²) for
/// n blocks.
int64_t placeBlocks(llvm::MutableArrayRef<TimedBlock> blocks);

} // namespace plumb

#endif // PLUMB_LIB_TRANSFORMS_PACKING_H
