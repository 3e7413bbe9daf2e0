//===- LayoutTest.cpp - Slices and communicators against brute force -----------===//

#include "plumb/Runtime/Layout.h"

#include "plumb/Runtime/source.h"

#include "Programs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

using namespace plumb;

namespace {

const Axis kMesh[] = {{"pp", 2}, {"dp", 3}, {"tp", 2}};
const std::size_t kArenas[] = {0, 0}, kStaging[] = {0, 0};

Program program(std::int64_t microbatches) {
  Program program = test::emptyProgram();
  program.mesh = kMesh;
  program.pipelineAxis = 0;
  program.microbatches = microbatches;
  program.arenaBytes = kArenas;
  program.staging = kStaging;
  return program;
}

constexpr std::int64_t kPadding = -1;

/// The global rows of one dimension, by the definition: cut a list of rows again and again. Behind the rows
/// of each block lies padding, up to as many as the largest part has.
std::vector<std::int64_t> rows(const Program &program, const Dim &dim,
                               const std::vector<std::int64_t> &coordinates, std::int64_t microbatch) {
  std::vector<std::int64_t> all;
  std::int64_t begin = 0;
  for (int block = 0; block < dim.blocks; ++block) {
    std::int64_t size = dim.blockSizes ? dim.blockSizes[block] : dim.size / dim.blocks;
    std::vector<std::int64_t> mine(static_cast<std::size_t>(size));
    std::iota(mine.begin(), mine.end(), begin);
    begin += size;
    std::size_t largest = mine.size();
    for (const AxisFactor &factor : dim.axes) {
      if (factor.axis < 0)
        break;
      bool inTime = factor.axis == 3;
      std::int64_t whole = inTime ? program.microbatches : kMesh[factor.axis].size;
      std::int64_t at = inTime ? microbatch : coordinates[static_cast<std::size_t>(factor.axis)];
      std::int64_t parts = factor.size ? factor.size : whole, below = whole / (factor.pre * parts);
      auto n = static_cast<std::size_t>(parts), r = static_cast<std::size_t>(at / below % parts);
      std::size_t per = (mine.size() + n - 1) / n;
      std::size_t begin = std::min(mine.size(), per * r), end = std::min(mine.size(), per * (r + 1));
      mine = {mine.begin() + static_cast<std::ptrdiff_t>(begin),
              mine.begin() + static_cast<std::ptrdiff_t>(end)};
      largest = (largest + n - 1) / n;
    }
    mine.resize(largest, kPadding);
    all.insert(all.end(), mine.begin(), mine.end());
  }
  return all;
}

/// Byte offsets, in the global tensor, of the elements of a local slice in row-major order; kAbsent for
/// padding.
std::vector<std::size_t> elements(const Program &program, const Tensor &tensor,
                                  const std::vector<std::int64_t> &coordinates, std::int64_t microbatch) {
  std::vector<std::size_t> result{0};
  for (int i = 0; i < tensor.rank; ++i) {
    std::vector<std::size_t> next;
    for (std::size_t prefix : result)
      for (std::int64_t row : rows(program, tensor.dims[i], coordinates, microbatch))
        next.push_back(prefix == kAbsent || row == kPadding
                           ? kAbsent
                           : prefix * static_cast<std::size_t>(tensor.dims[i].size) +
                                 static_cast<std::size_t>(row));
    result = std::move(next);
  }
  for (std::size_t &element : result)
    if (element != kAbsent)
      element *= sizeOf(tensor.dtype);
  return result;
}

Tensor randomTensor(std::mt19937 &engine) {
  auto draw = [&](int least, int most) { return std::uniform_int_distribution<int>(least, most)(engine); };
  Tensor tensor{"t", static_cast<DType>(draw(0, 7)), static_cast<std::int8_t>(draw(0, 4)), {}, {}};
  std::vector<std::int8_t> axes{0, 1, 2, 3};
  std::ranges::shuffle(axes, engine);
  for (int i = 0; i < tensor.rank; ++i) {
    Dim &dim = tensor.dims[i];
    dim.blocks = draw(0, 3) ? 1 : draw(1, 3);
    dim.size = dim.blocks * draw(0, 9);
    if (dim.blocks == 3 && draw(0, 1)) {
      static constexpr std::int64_t sizes[] = {5, 2, 3};
      dim.blockSizes = sizes;
      dim.size = 10;
    }
    for (int k = 0; k < 3 && !axes.empty() && draw(0, 1); ++k) {
      dim.axes[k] = {axes.back()};
      axes.pop_back();
    }
  }
  return tensor;
}

TEST(Slices, AgreeWithBruteForce) {
  std::mt19937 engine(7);
  for (int round = 0; round < 400; ++round) {
    Program program = ::program(1 + round % 4);
    Tensor tensor = randomTensor(engine);
    std::size_t size = sizeOf(tensor.dtype), bytes = size;
    for (std::int64_t extent : shapeOf(tensor))
      bytes *= static_cast<std::size_t>(extent);
    std::vector<std::byte> global(bytes), rebuilt(bytes);
    for (std::byte &byte : global)
      byte = static_cast<std::byte>(engine());
    for (int rank = 0; rank < rankCount(program); ++rank)
      for (std::int64_t m = 0; m < program.microbatches; ++m) {
        std::vector<std::int64_t> coordinates = coordinatesOf(program, rank);
        Slice slice(program, tensor, coordinates, m);
        std::vector<std::size_t> expected = elements(program, tensor, coordinates, m);
        ASSERT_EQ(slice.bytes(), expected.size() * size);
        ASSERT_EQ(slice.shape().size(), static_cast<std::size_t>(tensor.rank));
        std::vector<std::byte> local(slice.bytes());
        slice.gather(wholeView(tensor, global.data()), local.data());
        const std::byte zeros[8] = {};
        for (std::size_t i = 0; i < expected.size(); ++i)
          ASSERT_EQ(
              std::memcmp(&local[i * size], expected[i] == kAbsent ? zeros : &global[expected[i]], size), 0);
        // The same by way of a dense slice, whose positions are those that sources of inputs see.
        // Ranges are of blocks of one size.
        bool inRanges = std::ranges::none_of(tensor.dims, [](const Dim &dim) { return dim.blockSizes; });
        std::vector<plumb_range> ranges;
        for (std::size_t dim = 0; dim < slice.ranges().size(); ++dim) {
          const SliceRange &range = slice.ranges()[dim];
          ranges.push_back({tensor.dims[dim].size, range.begin, range.stride, range.blocks, range.rows});
        }
        std::vector<std::byte> dense(slice.denseBytes()), padded(slice.bytes(), std::byte{0xff});
        plumb_slice asked{"t",           "t", nameOf(tensor.dtype), tensor.rank,
                          ranges.data(), m,   dense.data(),         dense.size()};
        for (std::size_t i = 0; inRanges && i < dense.size() / size; ++i)
          std::memcpy(
              &dense[i * size],
              &global[static_cast<std::size_t>(plumb_position(&asked, static_cast<std::int64_t>(i))) * size],
              size);
        slice.pad(dense.data(), padded.data());
        if (inRanges) {
          ASSERT_EQ(padded, local);
        }
        // What lies in the padding is nobody's.
        for (std::size_t i = 0; i < expected.size(); ++i)
          if (expected[i] == kAbsent)
            local[i * size] = std::byte{0xff};
        slice.scatter(local.data(), rebuilt.data());
        EXPECT_TRUE(slice.equals(local.data(), global.data()));
        auto own = std::ranges::find_if(expected, [](std::size_t element) { return element != kAbsent; });
        if (own != expected.end()) {
          local[static_cast<std::size_t>(own - expected.begin()) * size] ^= std::byte{1};
          EXPECT_FALSE(slice.equals(local.data(), global.data()));
        }
      }
    ASSERT_EQ(rebuilt, global);
  }
}

TEST(Slices, FactorsOfAnAxisCutByOneDigit) {
  static const Axis mesh[] = {{"tp", 6}};
  Program program = ::program(1);
  program.mesh = mesh;
  program.pipelineAxis = -1;
  // The axis is read as (3, 2): the first digit cuts the rows, the second the columns.
  Tensor tensor{"t", DType::F32, 2, {{9, 1, {{0, 1, 3}}}, {4, 1, {{0, 3, 2}}}}, {}};
  for (int rank = 0; rank < 6; ++rank) {
    Slice slice(program, tensor, coordinatesOf(program, rank), 0);
    ASSERT_TRUE(std::ranges::equal(slice.shape(), std::vector<std::int64_t>{3, 2}));
    std::vector<float> global(36), local(6);
    std::iota(global.begin(), global.end(), 0.0f);
    slice.gather(wholeView(tensor, reinterpret_cast<const std::byte *>(global.data())),
                 reinterpret_cast<std::byte *>(local.data()));
    EXPECT_EQ(local[0], static_cast<float>(12 * (rank / 2) + 2 * (rank % 2)));
    EXPECT_EQ(local[5], static_cast<float>(12 * (rank / 2) + 2 * (rank % 2) + 9));
  }
}

TEST(Slices, ReplicasCompareEqual) {
  Program program = ::program(1);
  Tensor tensor{"t", DType::F32, 2, {{7, 1, {{1}}}, {6, 3, {{2}}}}, {}};
  auto slice = [&](int rank) { return Slice(program, tensor, coordinatesOf(program, rank), 0); };
  EXPECT_EQ(slice(0), slice(6));
  EXPECT_EQ(slice(5), slice(11));
  EXPECT_NE(slice(0), slice(1));
  EXPECT_NE(slice(0), slice(2));
}

TEST(Ranks, AreNumberedRowMajor) {
  Program program = ::program(1);
  EXPECT_EQ(rankCount(program), 12);
  EXPECT_EQ(coordinatesOf(program, 7), (std::vector<std::int64_t>{1, 0, 1}));
  EXPECT_EQ(pipelineOf(program, coordinatesOf(program, 7)), 1);
}

TEST(Communicators, DifferOnlyInTheirAxes) {
  Program program = ::program(1);
  const AxisFactor overDp[] = {{1}}, overBoth[] = {{1}, {2}};
  Communicator dp{"dp", overDp, {}}, both{"dp+tp", overBoth, {}}, none{"self", {}, {}};
  EXPECT_EQ(membersOf(program, dp, 9), (std::vector<int>{7, 9, 11}));
  EXPECT_EQ(membersOf(program, both, 8), (std::vector<int>{6, 7, 8, 9, 10, 11}));
  EXPECT_EQ(membersOf(program, none, 4), (std::vector<int>{4}));
}

TEST(Communicators, FollowThePipelineList) {
  Program program = ::program(1);
  const int backwards[] = {1, 0}, last[] = {1};
  const AxisFactor overPp[] = {{0}}, overTp[] = {{2}};
  EXPECT_EQ(membersOf(program, {"edge", {}, backwards}, 3), (std::vector<int>{9, 3}));
  EXPECT_EQ(membersOf(program, {"edge", overTp, backwards}, 3), (std::vector<int>{8, 9, 2, 3}));
  // The list governs the pipeline axis even where it is among the axes.
  EXPECT_EQ(membersOf(program, {"edge", overPp, last}, 9), (std::vector<int>{9}));
  EXPECT_TRUE(membersOf(program, {"edge", {}, last}, 3).empty());
  EXPECT_EQ(membersOf(program, {"pp", overPp, {}}, 3), (std::vector<int>{3, 9}));
}

TEST(Communicators, RunOverFactorsOfAnAxis) {
  Program program = ::program(1);
  const Axis mesh[] = {{"dp", 2}, {"tp", 12}};
  program.mesh = mesh;
  program.pipelineAxis = -1;
  const AxisFactor outer[] = {{1, 1, 2}}, middle[] = {{1, 2, 3}}, swapped[] = {{1, 6, 2}, {1, 1, 2}};
  EXPECT_EQ(membersOf(program, {"outer", outer, {}}, 20), (std::vector<int>{14, 20}));
  EXPECT_EQ(membersOf(program, {"middle", middle, {}}, 21), (std::vector<int>{19, 21, 23}));
  EXPECT_EQ(membersOf(program, {"swapped", swapped, {}}, 3), (std::vector<int>{2, 8, 3, 9}));
}

} // namespace
