//===- Bounds.h - What numbers of a plan may be -----------------*- C++ -*-===//
//
// The one list of ranges that the plan spec, its schema and the command line know. They are far wider than
// any machine or model needs, and narrow enough that what is computed from numbers within them (sums over a
// step, bytes of a tensor on all ranks) stays finite and fits its type.
//
//===----------------------------------------------------------------------===//

#ifndef PLUMB_SUPPORT_BOUNDS_H
#define PLUMB_SUPPORT_BOUNDS_H

#include <charconv>
#include <limits>
#include <string>

namespace plumb {

/// The shortest text that reads as the number.
inline std::string numberText(double number) {
  char buffer[32];
  return std::string(buffer, std::to_chars(buffer, buffer + sizeof(buffer), number).ptr);
}

/// A range of numbers, both ends included.
struct Bounds {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();

  constexpr bool contains(double number) const { return number >= least && number <= most; }

  /// ` from 1 to 100`, ` of at least 0`, or nothing where all numbers are allowed: to follow "a number".
  std::string str() const {
    if (most != std::numeric_limits<double>::infinity())
      return " from " + numberText(least) + " to " + numberText(most);
    return least == -most ? "" : " of at least " + numberText(least);
  }
};

namespace bounds {

/// Ranks, stages, microbatches, rows, steps, layers, sizes of blocks.
inline constexpr Bounds kCount = {1, 0x7fffffff};
/// The same where nothing is a number too, and indices.
inline constexpr Bounds kIndex = {0, 0x7fffffff};
/// A dim of a tensor; negative ones count from the last.
inline constexpr Bounds kDim = {-64, 63};
/// A number among the classes that does not count.
inline constexpr Bounds kLabel = {-0x1p31, 0x1p31};
/// The size of a dim of a tensor.
inline constexpr Bounds kSize = {0, 0x1p50};
/// Random numbers begin with any seed.
inline constexpr Bounds kSeed = {0, 0x1p62};
/// Memory of a rank, up to 1 PiB.
inline constexpr Bounds kBytes = {1, 0x1p50};
/// Bytes that may be none.
inline constexpr Bounds kBucketBytes = {0, 0x1p50};
/// Bytes per second of a link.
inline constexpr Bounds kBandwidth = {1e3, 1e15};
/// Seconds that a collective or a message takes besides moving bytes.
inline constexpr Bounds kLatency = {0, 10};
/// Times of a stage, in any unit.
inline constexpr Bounds kCost = {0, 1e12};
/// A change of activation memory, and a limit of it, in any unit.
inline constexpr Bounds kMemoryChange = {-1e15, 1e15};
inline constexpr Bounds kMemory = {0, 1e15};
/// What an optimizer multiplies with; kernels hold it in f32.
inline constexpr Bounds kFactor = {0, 1e30};

} // namespace bounds
} // namespace plumb

#endif // PLUMB_SUPPORT_BOUNDS_H
