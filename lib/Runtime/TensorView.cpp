//===- TensorView.cpp - A tensor in memory ------------------------------------===//

#include "plumb/Runtime/TensorView.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace plumb {

std::int64_t elementSize(std::string_view dtype) {
  static const std::map<std::string_view, std::int64_t> sizes = {
      {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E5M2", 1}, {"F8_E4M3", 1}, {"F8_E8M0", 1},
      {"I16", 2},  {"U16", 2}, {"F16", 2}, {"BF16", 2},    {"I32", 4},     {"U32", 4},
      {"F32", 4},  {"F64", 8}, {"I64", 8}, {"U64", 8},     {"C64", 8}};
  auto found = sizes.find(dtype);
  return found == sizes.end() ? 0 : found->second;
}

const char *nameOfScalarType(std::int64_t number) {
  constexpr std::pair<int, const char *> names[] = {{1, "U8"},  {4, "I32"}, {5, "I64"},   {6, "F16"},
                                                    {7, "F32"}, {8, "F64"}, {12, "BOOL"}, {13, "BF16"}};
  const auto *found = std::ranges::find(names, number, &std::pair<int, const char *>::first);
  return found == std::end(names) ? nullptr : found->second;
}

std::optional<std::int64_t> byteCount(std::string_view dtype, std::span<const std::int64_t> shape) {
  std::int64_t bytes = elementSize(dtype);
  // An extent of 0 makes the tensor empty, however large the others are.
  if (std::ranges::count(shape, 0) != 0)
    return 0;
  for (std::int64_t extent : shape)
    if (__builtin_mul_overflow(bytes, extent, &bytes))
      return std::nullopt;
  return bytes;
}

static bool isDense(std::span<const std::int64_t> shape, std::span<const std::int64_t> strides) {
  std::int64_t dense = 1;
  for (std::size_t dim = shape.size(); dim-- > 0; dense *= shape[dim])
    if (shape[dim] != 1 && strides[dim] != dense)
      return false;
  return true;
}

std::optional<TensorView> viewWithin(std::span<const std::byte> record, std::string dtype,
                                     std::vector<std::int64_t> shape, std::vector<std::int64_t> strides,
                                     std::int64_t offset) {
  std::int64_t item = elementSize(dtype), begin = 0, end = offset;
  auto isNegative = [](std::int64_t number) { return number < 0; };
  std::optional<std::int64_t> bytes = byteCount(dtype, shape);
  if (!bytes || shape.size() != strides.size() || offset < 0 || std::ranges::any_of(shape, isNegative) ||
      std::ranges::any_of(strides, isNegative))
    return std::nullopt;
  if (*bytes == 0)
    return TensorView{std::move(dtype), std::move(shape), {}};
  // Behind the last element.
  for (std::size_t dim = 0; dim < shape.size(); ++dim) {
    std::int64_t reach = 0;
    if (__builtin_mul_overflow(shape[dim] - 1, strides[dim], &reach) ||
        __builtin_add_overflow(end, reach, &end))
      return std::nullopt;
  }
  if (__builtin_add_overflow(end, 1, &end) || __builtin_mul_overflow(end, item, &end) ||
      static_cast<std::uint64_t>(end) > record.size())
    return std::nullopt;
  begin = offset * item;
  if (isDense(shape, strides))
    strides.clear();
  return TensorView{std::move(dtype), std::move(shape),
                    record.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)),
                    std::move(strides)};
}

std::size_t TensorView::bytes() const {
  return static_cast<std::size_t>(byteCount(dtype, shape).value_or(0));
}

void TensorView::copy(std::size_t offset, std::size_t bytes, std::byte *to) const {
  if (bytes == 0)
    return;
  if (strides.empty())
    return static_cast<void>(std::memcpy(to, data.data() + offset, bytes));
  auto extent = [&](std::size_t dim) { return static_cast<std::size_t>(shape[dim]); };
  auto item = static_cast<std::size_t>(elementSize(dtype));
  auto stride = [&](std::size_t dim) { return static_cast<std::size_t>(strides[dim]) * item; };
  // The last dimensions that are dense are copied at once.
  std::size_t outer = strides.size(), run = item;
  for (; outer > 0 && (extent(outer - 1) == 1 || stride(outer - 1) == run); --outer)
    run *= extent(outer - 1);
  for (std::size_t part; bytes > 0; offset += part, bytes -= part, to += part) {
    std::size_t from = offset % run, index = offset / run;
    part = std::min(run - from, bytes);
    for (std::size_t dim = outer; dim-- > 0; index /= extent(dim))
      from += index % extent(dim) * stride(dim);
    std::memcpy(to, data.data() + from, part);
  }
}

} // namespace plumb
