// Random allocations never overlap, stay in the region, and do not waste what is free.

#include "Packing.h"
#include "gtest/gtest.h"
#include <random>
#include <vector>

using namespace plumb;

namespace {

struct Block {
  int64_t offset, bytes;
};

TEST(Packing, TakesTheSmallestHole) {
  Packing packing;
  int64_t a = packing.allocate(256), wall = packing.allocate(64), b = packing.allocate(128);
  packing.allocate(64);
  packing.release(a, 256);
  packing.release(b, 128);
  EXPECT_EQ(packing.allocate(100), b);
  EXPECT_EQ(packing.allocate(200), a);
  EXPECT_EQ(wall, 256);
  EXPECT_EQ(packing.size(), 256 + 64 + 128 + 64);
}

TEST(Packing, JoinsNeighboursAndGrowsTheLastHole) {
  Packing packing;
  int64_t a = packing.allocate(64), b = packing.allocate(64), c = packing.allocate(64);
  packing.release(a, 64);
  packing.release(c, 64);
  packing.release(b, 64);
  EXPECT_EQ(packing.allocate(256), 0);
  EXPECT_EQ(packing.size(), 256);
  EXPECT_EQ(packing.live(), 256);
}

TEST(Packing, NothingNeedsNoMemory) {
  Packing packing;
  EXPECT_EQ(packing.allocate(0), 0);
  EXPECT_EQ(packing.allocate(1), 0);
  packing.release(0, 0);
  EXPECT_EQ(packing.size(), 64);
}

TEST(Packing, RandomBlocksNeverOverlap) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    Packing packing;
    std::vector<Block> blocks;
    int64_t most = 0;
    for (int step = 0; step < 100; ++step) {
      if (!blocks.empty() && random() % 2) {
        size_t index = random() % blocks.size();
        packing.release(blocks[index].offset, blocks[index].bytes);
        blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(index));
      } else {
        int64_t bytes = static_cast<int64_t>(random() % 500) + 1;
        blocks.push_back({packing.allocate(bytes), bytes});
      }
      int64_t live = 0;
      for (size_t i = 0; i < blocks.size(); ++i) {
        EXPECT_EQ(blocks[i].offset % kAlignment, 0);
        EXPECT_LE(blocks[i].offset + blocks[i].bytes, packing.size());
        live += alignUp(blocks[i].bytes);
        for (size_t j = 0; j < i; ++j)
          EXPECT_TRUE(blocks[i].offset >= blocks[j].offset + blocks[j].bytes ||
                      blocks[j].offset >= blocks[i].offset + blocks[i].bytes);
      }
      EXPECT_EQ(packing.live(), live);
      most = std::max(most, live);
    }
    EXPECT_GE(packing.size(), most);
  }
}

TEST(Packing, TimesThatOverlapOrTouchAreJoined) {
  llvm::SmallVector<std::pair<int64_t, int64_t>> times{{5, 7}, {0, 1}, {2, 3}, {6, 9}, {12, 12}};
  joinTimes(times);
  EXPECT_EQ(times, (llvm::SmallVector<std::pair<int64_t, int64_t>>{{0, 3}, {5, 9}, {12, 12}}));
}

TEST(Packing, BlocksOfOtherTimesShareMemory) {
  TimedBlock blocks[] = {{128, {{0, 1}, {4, 5}}}, {64, {{2, 3}}}, {64, {{3, 4}}}};
  EXPECT_EQ(placeBlocks(blocks), 192);
  EXPECT_EQ(blocks[0].offset, 0);
  EXPECT_EQ(blocks[1].offset, 0);
  EXPECT_EQ(blocks[2].offset, 128);
}

/// Whether no two blocks that are in use at one time overlap, and all lie in `size` bytes.
bool isPlacement(llvm::ArrayRef<TimedBlock> blocks, int64_t size) {
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i].offset < 0 || blocks[i].offset + alignUp(blocks[i].bytes) > size)
      return false;
    for (size_t j = 0; j < i; ++j)
      for (auto [begin, last] : blocks[i].times)
        for (auto [otherBegin, otherLast] : blocks[j].times)
          if (begin <= otherLast && otherBegin <= last &&
              blocks[i].offset < blocks[j].offset + alignUp(blocks[j].bytes) &&
              blocks[j].offset < blocks[i].offset + alignUp(blocks[i].bytes))
            return false;
  }
  return true;
}

TEST(Packing, RandomTimedBlocksNeverOverlap) {
  std::mt19937 random(2);
  auto draw = [&](int64_t below) { return static_cast<int64_t>(random() % static_cast<unsigned>(below)); };
  for (int round = 0; round < 200; ++round) {
    std::vector<TimedBlock> blocks, values;
    for (int i = 0; i < 30; ++i) {
      TimedBlock &block = blocks.emplace_back(TimedBlock{draw(500) + 1, {}});
      for (int64_t k = draw(3); k >= 0; --k) {
        int64_t begin = draw(40);
        block.times.push_back({begin, begin + draw(6)});
      }
      joinTimes(block.times);
      values.push_back({block.bytes, {block.times.front()}});
    }
    EXPECT_TRUE(isPlacement(blocks, placeBlocks(blocks)));
    Packed packed = packValues(values);
    EXPECT_TRUE(isPlacement(values, packed.size));
    EXPECT_GE(packed.size, packed.peak);
  }
}

} // namespace
