//===- Reduce.cpp - The arithmetic of host collectives --------------------===//

#include "plumb/Runtime/Reduce.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace plumb::host {
namespace {

struct BFloat16 {
  std::uint16_t bits;

  BFloat16() = default;
  // Round to nearest even; a NaN stays a (quiet) NaN.
  explicit BFloat16(float value) {
    auto raw = std::bit_cast<std::uint32_t>(value);
    bool isNan = (raw & 0x7fffffffu) > 0x7f800000u;
    std::uint32_t rounded = raw + 0x7fffu + ((raw >> 16) & 1u);
    bits = static_cast<std::uint16_t>(isNan ? (raw >> 16) | 0x40u : rounded >> 16);
  }
  explicit operator float() const { return std::bit_cast<float>(std::uint32_t(bits) << 16); }
};
using Half = _Float16;

/// The type in which T is accumulated.
template <class T>
using Wide = std::conditional_t<std::is_same_v<T, BFloat16> || std::is_same_v<T, Half>, float, T>;

// Integer sums and products wrap, as on the device; in C++ only unsigned ones may.
template <class T, class Op>
T wrapping(T a, T b, Op op) {
  if constexpr (std::is_integral_v<T>) {
    using Unsigned = std::conditional_t<sizeof(T) < 4, std::uint32_t, std::make_unsigned_t<T>>;
    return static_cast<T>(op(static_cast<Unsigned>(a), static_cast<Unsigned>(b)));
  } else {
    return op(a, b);
  }
}
struct Add {
  template <class T>
  T operator()(T a, T b) const {
    return wrapping(a, b, [](auto x, auto y) { return x + y; });
  }
};
struct Multiply {
  template <class T>
  T operator()(T a, T b) const {
    return wrapping(a, b, [](auto x, auto y) { return x * y; });
  }
};
// A NaN in either operand is the result.
struct Maximum {
  template <class T>
  T operator()(T a, T b) const {
    return a > b || a != a ? a : b;
  }
};
struct Minimum {
  template <class T>
  T operator()(T a, T b) const {
    return a < b || a != a ? a : b;
  }
};

// One block of the accumulator stays in the first-level cache.
constexpr std::size_t kBlock = 2048;

template <class T, class Op>
void reduceBlocks(Op op, bool average, std::span<const void *const> inputs, std::span<void *const> outputs,
                  std::size_t count) {
  Wide<T> sum[kBlock];
  T rounded[kBlock];
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    std::size_t size = std::min(kBlock, count - begin);
    const T *first = static_cast<const T *>(inputs[0]) + begin;
    for (std::size_t i = 0; i < size; ++i)
      sum[i] = static_cast<Wide<T>>(first[i]);
    for (const void *input : inputs.subspan(1)) {
      const T *values = static_cast<const T *>(input) + begin;
      for (std::size_t i = 0; i < size; ++i)
        sum[i] = op(sum[i], static_cast<Wide<T>>(values[i]));
    }
    if (average)
      for (std::size_t i = 0; i < size; ++i)
        sum[i] = static_cast<Wide<T>>(sum[i] / static_cast<Wide<T>>(inputs.size()));
    for (std::size_t i = 0; i < size; ++i)
      rounded[i] = static_cast<T>(sum[i]);
    for (void *output : outputs)
      std::memcpy(static_cast<T *>(output) + begin, rounded, size * sizeof(T));
  }
}

template <class T>
void reduceTyped(ncclRedOp_t op, std::span<const void *const> inputs, std::span<void *const> outputs,
                 std::size_t count) {
  switch (op) {
  case ncclProd:
    return reduceBlocks<T>(Multiply{}, false, inputs, outputs, count);
  case ncclMax:
    return reduceBlocks<T>(Maximum{}, false, inputs, outputs, count);
  case ncclMin:
    return reduceBlocks<T>(Minimum{}, false, inputs, outputs, count);
  default:
    return reduceBlocks<T>(Add{}, op == ncclAvg, inputs, outputs, count);
  }
}

} // namespace

void reduce(ncclDataType_t type, ncclRedOp_t op, std::span<const void *const> inputs,
            std::span<void *const> outputs, std::size_t count) {
  switch (type) {
  case ncclInt8:
    return reduceTyped<std::int8_t>(op, inputs, outputs, count);
  case ncclUint8:
    return reduceTyped<std::uint8_t>(op, inputs, outputs, count);
  case ncclInt32:
    return reduceTyped<std::int32_t>(op, inputs, outputs, count);
  case ncclUint32:
    return reduceTyped<std::uint32_t>(op, inputs, outputs, count);
  case ncclInt64:
    return reduceTyped<std::int64_t>(op, inputs, outputs, count);
  case ncclUint64:
    return reduceTyped<std::uint64_t>(op, inputs, outputs, count);
  case ncclFloat16:
    return reduceTyped<Half>(op, inputs, outputs, count);
  case ncclFloat64:
    return reduceTyped<double>(op, inputs, outputs, count);
  case ncclBfloat16:
    return reduceTyped<BFloat16>(op, inputs, outputs, count);
  default:
    return reduceTyped<float>(op, inputs, outputs, count);
  }
}

} // namespace plumb::host
