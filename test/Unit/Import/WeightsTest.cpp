#include "plumb/Import/Weights.h"

#include <cstring>
#include <gtest/gtest.h>
#include <random>

using namespace plumb;
using namespace plumb::pt2;

namespace {

TensorMeta meta(std::vector<int64_t> sizes, std::vector<int64_t> strides, int64_t offset = 0) {
  TensorMeta result;
  result.dtype = DType::I32;
  for (int64_t size : sizes)
    result.sizes.push_back({size});
  for (int64_t stride : strides)
    result.strides.push_back({stride});
  result.storageOffset = {offset};
  return result;
}

Weight weight(const char *fqn, const char *record, TensorMeta view, uint64_t recordSize = 400) {
  Weight result;
  result.fqn = fqn;
  result.record = record;
  result.recordSize = recordSize;
  result.meta = std::move(view);
  return result;
}

/// Element by element, from the definition of strides.
std::vector<int32_t> gather(const TensorMeta &view, const std::vector<int32_t> &storage) {
  std::vector<int32_t> result;
  for (int64_t i = 0; i < view.elements(); ++i) {
    int64_t rest = i, at = view.storageOffset.value;
    for (size_t d = view.sizes.size(); d-- > 0;) {
      at += rest % view.sizes[d].value * view.strides[d].value;
      rest /= view.sizes[d].value;
    }
    result.push_back(storage[at]);
  }
  return result;
}

} // namespace

TEST(Weights, AnyViewIsGathered) {
  std::vector<int32_t> storage(1000);
  for (int i = 0; i < 1000; ++i)
    storage[i] = i * 7;
  std::string record(reinterpret_cast<const char *>(storage.data()), 4000);
  std::mt19937 random;
  for (int round = 0; round < 2000; ++round) {
    std::vector<int64_t> sizes, strides;
    for (size_t rank = random() % 5; rank > 0; --rank) {
      sizes.push_back(random() % 5);
      strides.push_back(random() % 2 ? random() % 40 : 1);
    }
    // Often a dense view, so that the copy of whole runs is met too.
    if (random() % 2)
      for (size_t d = sizes.size(), dense = 1; d-- > 0; dense *= std::max<int64_t>(1, sizes[d]))
        strides[d] = dense;
    TensorMeta view = meta(sizes, strides, random() % 50);
    std::vector<std::byte> bytes = contiguous(view, record);
    std::vector<int32_t> expected = gather(view, storage);
    ASSERT_EQ(bytes.size(), expected.size() * 4);
    EXPECT_TRUE(bytes.empty() || std::memcmp(bytes.data(), expected.data(), bytes.size()) == 0);
  }
}

TEST(Weights, AliasesAreEqualViewsOfOneRecord) {
  TensorMeta view = meta({2, 3}, {3, 1});
  std::vector<Weight> weights = {weight("wte", "r0", view),   weight("bias", "r1", view),
                                 weight("head", "r0", view),  weight("row", "r0", meta({3}, {1})),
                                 weight("bias2", "r1", view), weight("bias3", "r1", view)};
  EXPECT_EQ(aliasGroups(weights),
            (std::vector<std::vector<std::string>>{{"wte", "head"}, {"bias", "bias2", "bias3"}}));
}

TEST(Weights, ViewsThatDifferInAnythingAreNoAliases) {
  TensorMeta view = meta({2, 2}, {2, 1}), half = view;
  half.dtype = DType::F32;
  for (const TensorMeta &other : {meta({2, 2}, {1, 2}), meta({2, 2}, {2, 1}, 4), meta({4}, {1}), half})
    EXPECT_TRUE(aliasGroups({weight("a", "r", view), weight("b", "r", other)}).empty());
}

TEST(Weights, EmptyRecordsTieNothing) {
  TensorMeta view = meta({2, 3}, {3, 1});
  EXPECT_TRUE(aliasGroups({weight("a", "r", view, 0), weight("b", "r", view, 0)}).empty());
  EXPECT_FALSE(weight("a", "r", view, 0).hasBytes());
}

TEST(Weights, PartialOverlapsAreFound) {
  std::vector<Weight> weights = {weight("a", "r", meta({4}, {1}, 0)), weight("b", "r", meta({4}, {1}, 4)),
                                 weight("c", "r", meta({4}, {1}, 6))};
  EXPECT_EQ(partialOverlaps(weights), (std::vector<std::pair<std::string, std::string>>{{"b", "c"}}));
}
