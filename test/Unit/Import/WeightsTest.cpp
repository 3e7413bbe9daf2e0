#include "plumb/Import/Weights.h"

#include <gtest/gtest.h>

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

} // namespace

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
