#include "plumb/Import/Weights.h"

#include "ArgumentReader.h"

#include "plumb/Runtime/TensorView.h"

#include <algorithm>
#include <map>

namespace plumb::pt2 {

using json::Cursor;

/// An expanded tensor (a stride of 0) may be larger than its record; beyond this it is taken for a mistake.
static constexpr uint64_t kLargestExpansion = uint64_t(1) << 30;

/// The number of elements from the first to the last one of a view, both included; 0 for an empty view.
static bool spanOf(const TensorMeta &meta, int64_t &span) {
  span = 1;
  if (meta.elements() == 0) {
    span = 0;
    return true;
  }
  for (size_t i = 0; i < meta.sizes.size(); ++i) {
    int64_t reach = 0;
    if (__builtin_mul_overflow(meta.sizes[i].value - 1, meta.strides[i].value, &reach) ||
        __builtin_add_overflow(span, reach, &span))
      return false;
  }
  return true;
}

/// Sizes were checked to be non-negative when they were read; here that the view lies within its record.
static void checkView(const Weight &weight, const Cursor &cursor) {
  const TensorMeta &meta = weight.meta;
  if (!meta.isStatic())
    cursor.fail("\"" + weight.fqn + "\" has symbolic sizes, which a stored tensor cannot have");
  if (meta.layout != MemoryLayout::Strided)
    cursor.fail("\"" + weight.fqn +
                "\" is stored sparse or in a special layout; only strided tensors can be read");
  if (itemSize(meta.dtype) == 0)
    cursor.fail("\"" + weight.fqn + "\" has no element type");
  if (weight.isPickled || weight.recordSize == 0)
    return;
  int64_t end = 0, bytes = 0;
  if (!spanOf(meta, end) || __builtin_add_overflow(end, meta.storageOffset.value, &end) ||
      __builtin_mul_overflow(end, static_cast<int64_t>(itemSize(meta.dtype)), &bytes) ||
      (meta.elements() != 0 && static_cast<uint64_t>(bytes) > weight.recordSize))
    cursor.fail("\"" + weight.fqn + "\" is a view of " + meta.str() + " that ends behind its record " +
                weight.record + ", which has " + std::to_string(weight.recordSize) + " bytes");
  uint64_t size = static_cast<uint64_t>(meta.elements()) * itemSize(meta.dtype);
  if (size > std::max(weight.recordSize, kLargestExpansion))
    cursor.fail("\"" + weight.fqn + "\" expands a record of " + std::to_string(weight.recordSize) +
                " bytes to " + std::to_string(size));
}

static std::vector<Weight> readConfig(const Cursor &root,
                                      const std::function<bool(const std::string &, Weight &)> &findRecord) {
  std::vector<Weight> weights;
  for (const auto &[fqn, entry] : root["config"].members()) {
    std::optional<Cursor> meta = entry.find("tensor_meta");
    if (!meta) // A custom object.
      continue;
    Weight weight;
    weight.fqn = *fqn;
    weight.meta = readTensorMeta(*meta);
    Cursor record = entry["path_name"];
    if (!findRecord(record.string(), weight))
      record.fail("the archive has no record \"" + record.string() + "\" for \"" + *fqn + "\"");
    if (std::optional<Cursor> isParameter = entry.find("is_param"))
      weight.isParameter = isParameter->boolean();
    if (std::optional<Cursor> isPickled = entry.find("use_pickle"))
      weight.isPickled = isPickled->boolean();
    checkView(weight, *meta);
    weights.push_back(std::move(weight));
  }
  return weights;
}

std::optional<std::vector<Weight>>
parsePayloadConfig(const json::Document &config,
                   const std::function<bool(const std::string &, Weight &)> &findRecord,
                   Diagnostics &diagnostics) {
  try {
    return readConfig(Cursor(config), findRecord);
  } catch (const json::Malformed &malformed) {
    diagnostics.add(malformed.diagnostic);
    return std::nullopt;
  }
}

/// Indices of weights with bytes, by record, each list in the order of `weights`.
static std::map<std::string_view, std::vector<size_t>> byRecord(const std::vector<Weight> &weights) {
  std::map<std::string_view, std::vector<size_t>> result;
  for (size_t i = 0; i < weights.size(); ++i)
    if (weights[i].recordSize != 0 && !weights[i].isPickled)
      result[weights[i].record].push_back(i);
  return result;
}

/// What two views of one record must agree in to be the same.
static std::vector<int64_t> viewKey(const TensorMeta &meta) {
  std::vector<int64_t> key = {static_cast<int64_t>(meta.dtype), meta.storageOffset.value};
  for (const std::vector<Dimension> *list : {&meta.sizes, &meta.strides})
    for (const Dimension &dimension : *list)
      key.push_back(dimension.value);
  return key;
}

std::vector<std::vector<std::string>> aliasGroups(const std::vector<Weight> &weights) {
  std::map<size_t, std::vector<size_t>> groups; // By the index of the first name.
  for (const auto &[record, members] : byRecord(weights)) {
    std::map<std::vector<int64_t>, size_t> first;
    for (size_t member : members)
      groups[first.emplace(viewKey(weights[member].meta), member).first->second].push_back(member);
  }
  std::vector<std::vector<std::string>> result;
  for (const auto &[first, members] : groups) {
    if (members.size() < 2)
      continue;
    result.emplace_back();
    for (size_t member : members)
      result.back().push_back(weights[member].fqn);
  }
  return result;
}

std::vector<std::pair<std::string, std::string>> partialOverlaps(const std::vector<Weight> &weights) {
  std::vector<std::pair<std::string, std::string>> result;
  auto offset = [&](size_t index) { return weights[index].meta.storageOffset.value; };
  for (auto &[record, members] : byRecord(weights)) {
    std::vector<size_t> sorted = members;
    std::sort(sorted.begin(), sorted.end(),
              [&](size_t a, size_t b) { return std::pair(offset(a), a) < std::pair(offset(b), b); });
    for (size_t i = 1; i < sorted.size(); ++i) {
      const Weight &before = weights[sorted[i - 1]], &after = weights[sorted[i]];
      int64_t span = 0;
      if (spanOf(before.meta, span) && offset(sorted[i - 1]) + span > offset(sorted[i]) &&
          viewKey(before.meta) != viewKey(after.meta))
        result.emplace_back(before.fqn, after.fqn);
    }
  }
  return result;
}

std::optional<std::vector<std::byte>> contiguous(const TensorMeta &meta, const std::string &record) {
  auto numbers = [](const std::vector<Dimension> &dimensions) {
    std::vector<int64_t> result;
    for (const Dimension &dimension : dimensions)
      result.push_back(dimension.value);
    return result;
  };
  const char *dtype = nameOfScalarType(static_cast<int64_t>(meta.dtype));
  std::optional<TensorView> view;
  if (dtype)
    view = viewWithin(std::as_bytes(std::span(record)), dtype, numbers(meta.sizes), numbers(meta.strides),
                      meta.storageOffset.value);
  if (!view)
    return std::nullopt;
  std::vector<std::byte> result(view->bytes());
  view->copy(0, result.size(), result.data());
  return result;
}

} // namespace plumb::pt2
