//===- TensorView.h - A tensor in memory --------------------------------------===//

#ifndef PLUMB_RUNTIME_TENSORVIEW_H
#define PLUMB_RUNTIME_TENSORVIEW_H

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace plumb {

/// A tensor of a file.
struct TensorView {
  std::string dtype; ///< As in safetensors: "F32", "BF16", …
  std::vector<std::int64_t> shape;
  std::span<const std::byte> data;        ///< From the first element on.
  std::vector<std::int64_t> strides = {}; ///< In elements; empty: dense and row-major.

  /// Of the tensor when it is dense.
  std::size_t bytes() const;
  /// Copies a part of the dense, row-major tensor, in bytes; both are whole elements.
  void copy(std::size_t offset, std::size_t bytes, std::byte *to) const;
};

using TensorViews = std::map<std::string, TensorView, std::less<>>;

/// A tensor within `record`; strides and offset are in elements. Nothing if there is none: it leaves the
/// record, or has a size that no memory has. The element type must be known.
std::optional<TensorView> viewWithin(std::span<const std::byte> record, std::string dtype,
                                     std::vector<std::int64_t> shape, std::vector<std::int64_t> strides,
                                     std::int64_t offset);

/// Bytes of one element of a type of safetensors; 0 for an unknown type.
std::int64_t elementSize(std::string_view dtype);
/// Bytes of a dense tensor; nothing if they exceed 2^63 - 1.
std::optional<std::int64_t> byteCount(std::string_view dtype, std::span<const std::int64_t> shape);
/// The name in safetensors of an element type that programs use, from its number in torch.export's schema;
/// null for any other.
const char *nameOfScalarType(std::int64_t number);

} // namespace plumb

#endif // PLUMB_RUNTIME_TENSORVIEW_H
