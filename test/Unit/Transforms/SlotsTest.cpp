// Interval colouring against a count of what overlaps.

#include "plumb/Transforms/Slots.h"
#include "gtest/gtest.h"
#include <random>

using namespace plumb;

namespace {

TEST(Slots, EndsAreIncluded) {
  EXPECT_EQ(colourIntervals({{0, 1}, {1, 2}, {2, 3}}), (llvm::SmallVector<int64_t>{0, 1, 0}));
  EXPECT_EQ(colourIntervals({{0, 0}, {1, 1}, {2, 2}}), (llvm::SmallVector<int64_t>{0, 0, 0}));
}

TEST(Slots, AsFewAsOverlapAnywhere) {
  std::mt19937 random(2);
  for (int round = 0; round < 500; ++round) {
    llvm::SmallVector<std::pair<int64_t, int64_t>> intervals;
    for (int i = static_cast<int>(random() % 12); i >= 0; --i) {
      auto begin = static_cast<int64_t>(random() % 20);
      intervals.push_back({begin, begin + static_cast<int64_t>(random() % 8)});
    }
    llvm::SmallVector<int64_t> slots = colourIntervals(intervals);
    for (size_t i = 0; i < intervals.size(); ++i)
      for (size_t j = 0; j < i; ++j)
        if (intervals[i].first <= intervals[j].second && intervals[j].first <= intervals[i].second)
          EXPECT_NE(slots[i], slots[j]);
    int64_t needed = 0;
    for (int64_t time = 0; time < 30; ++time)
      needed = std::max<int64_t>(needed, llvm::count_if(intervals, [&](auto interval) {
                                   return interval.first <= time && time <= interval.second;
                                 }));
    EXPECT_EQ(*llvm::max_element(slots) + 1, needed);
  }
}

TEST(Slots, KnowsTheIdentity) {
  EXPECT_TRUE((SlotClass{"x", {0, 1, 2}}.isIdentity()));
  EXPECT_FALSE((SlotClass{"x", {0, 1, 0}}.isIdentity()));
  EXPECT_EQ((SlotClass{"x", {0, 1, 0}}.count()), 2);
}

} // namespace
