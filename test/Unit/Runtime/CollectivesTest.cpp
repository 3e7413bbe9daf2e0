//===- CollectivesTest.cpp - What host collectives compute -------------------===//

#include "Ranks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <random>

using namespace plumb;
using namespace plumb::test;

namespace {

// Small: handled with the lock held. Large: cut into parts that several ranks take.
const std::size_t kCounts[] = {0, 1, 7, 1000, 70'001};

PerRank<float> randomData(int ranks, std::size_t count) {
  std::mt19937 engine(static_cast<unsigned>(count) + 17);
  std::normal_distribution<float> normal;
  PerRank<float> data(static_cast<std::size_t>(ranks), std::vector<float>(count));
  for (auto &values : data)
    for (float &value : values)
      value = normal(engine);
  return data;
}

std::vector<float> sumInRankOrder(const PerRank<float> &data) {
  std::vector<float> sum = data[0];
  for (std::size_t r = 1; r < data.size(); ++r)
    for (std::size_t i = 0; i < sum.size(); ++i)
      sum[i] += data[r][i];
  return sum;
}

class Collectives : public testing::TestWithParam<std::tuple<int, std::size_t>> {
protected:
  int ranks = std::get<0>(GetParam());
  std::size_t count = std::get<1>(GetParam());
  std::size_t n = static_cast<std::size_t>(ranks);
};

TEST_P(Collectives, AllReduceSumsInRankOrderOnEveryRank) {
  PerRank<float> input = randomData(ranks, count), output(n, std::vector<float>(count)), inPlace = input;
  auto outcome = run(ranks, [&](TestRank &self) {
    auto r = static_cast<std::size_t>(self.rank);
    ncclComm_t comm = self.comm("all");
    cudaStream_t stream = self.stream();
    PLUMB_NCCL(ncclAllReduce(input[r].data(), output[r].data(), count, ncclFloat32, ncclSum, comm, stream));
    PLUMB_NCCL(
        ncclAllReduce(inPlace[r].data(), inPlace[r].data(), count, ncclFloat32, ncclSum, comm, stream));
  });
  ASSERT_EQ(outcome.code, 0) << outcome.error;
  EXPECT_TRUE(output == PerRank<float>(n, sumInRankOrder(input)));
  EXPECT_TRUE(inPlace == output);
}

TEST_P(Collectives, ReduceScatterAndAllGatherMakeAnAllReduce) {
  PerRank<float> input = randomData(ranks, count * n), output(n, std::vector<float>(count * n));
  PerRank<float> inPlace = input;
  auto outcome = run(ranks, [&](TestRank &self) {
    auto r = static_cast<std::size_t>(self.rank);
    ncclComm_t comm = self.comm("all");
    cudaStream_t stream = self.stream();
    float *chunk = output[r].data() + r * count, *own = inPlace[r].data() + r * count;
    PLUMB_NCCL(ncclReduceScatter(input[r].data(), chunk, count, ncclFloat32, ncclSum, comm, stream));
    PLUMB_NCCL(ncclAllGather(chunk, output[r].data(), count, ncclFloat32, comm, stream));
    PLUMB_NCCL(ncclReduceScatter(inPlace[r].data(), own, count, ncclFloat32, ncclSum, comm, stream));
    PLUMB_NCCL(ncclAllGather(own, inPlace[r].data(), count, ncclFloat32, comm, stream));
  });
  ASSERT_EQ(outcome.code, 0) << outcome.error;
  EXPECT_TRUE(output == PerRank<float>(n, sumInRankOrder(input)));
  EXPECT_TRUE(inPlace == output);
}

TEST_P(Collectives, AllToAllTransposesAndBroadcastCopiesTheRoot) {
  PerRank<float> input = randomData(ranks, count * n), output(n, std::vector<float>(count * n)),
                 copy = output;
  std::size_t root = n - 1;
  auto outcome = run(ranks, [&](TestRank &self) {
    auto r = static_cast<std::size_t>(self.rank);
    ncclComm_t comm = self.comm("all");
    cudaStream_t stream = self.stream();
    PLUMB_NCCL(ncclAlltoAll(input[r].data(), output[r].data(), count, ncclFloat32, comm, stream));
    PLUMB_NCCL(ncclBroadcast(r == root ? input[r].data() : nullptr, copy[r].data(), count * n, ncclFloat32,
                             static_cast<int>(root), comm, stream));
  });
  ASSERT_EQ(outcome.code, 0) << outcome.error;
  EXPECT_TRUE(copy == PerRank<float>(n, input[root]));
  PerRank<float> transposed = input;
  for (std::size_t r = 0; r < n; ++r)
    for (std::size_t from = 0; from < n; ++from)
      std::copy_n(input[from].data() + r * count, count, transposed[r].data() + from * count);
  EXPECT_TRUE(output == transposed);
}

TEST_P(Collectives, AGroupOfTransfersShiftsARing) {
  PerRank<float> input = randomData(ranks, count), output(n, std::vector<float>(count));
  auto outcome = run(ranks, [&](TestRank &self) {
    auto r = static_cast<std::size_t>(self.rank);
    ncclComm_t comm = self.comm("all");
    cudaStream_t stream = self.stream();
    PLUMB_NCCL(ncclGroupStart());
    PLUMB_NCCL(ncclSend(input[r].data(), count, ncclFloat32, (self.rank + 1) % ranks, comm, stream));
    PLUMB_NCCL(ncclRecv(output[r].data(), count, ncclFloat32, (self.rank + ranks - 1) % ranks, comm, stream));
    PLUMB_NCCL(ncclGroupEnd());
  });
  ASSERT_EQ(outcome.code, 0) << outcome.error;
  for (std::size_t r = 0; r < n; ++r)
    EXPECT_TRUE(output[(r + 1) % n] == input[r]);
}

INSTANTIATE_TEST_SUITE_P(Sizes, Collectives,
                         testing::Combine(testing::Values(1, 2, 3, 8), testing::ValuesIn(kCounts)));

template <class T>
std::vector<T> allReduce(const std::vector<std::vector<T>> &inputs, ncclDataType_t type, ncclRedOp_t op) {
  std::vector<std::vector<T>> data = inputs;
  auto outcome = run(static_cast<int>(inputs.size()), [&](TestRank &self) {
    auto &mine = data[static_cast<std::size_t>(self.rank)];
    PLUMB_NCCL(
        ncclAllReduce(mine.data(), mine.data(), mine.size(), type, op, self.comm("all"), self.stream()));
  });
  EXPECT_EQ(outcome.code, 0) << outcome.error;
  EXPECT_EQ(data.front(), data.back());
  return data.front();
}

TEST(Reductions, EveryOperation) {
  PerRank<double> data = {{1, -2, 8}, {4, 5, -1}, {4, 3, 2}};
  using Values = std::vector<double>;
  EXPECT_EQ(allReduce(data, ncclFloat64, ncclSum), (Values{9, 6, 9}));
  EXPECT_EQ(allReduce(data, ncclFloat64, ncclProd), (Values{16, -30, -16}));
  EXPECT_EQ(allReduce(data, ncclFloat64, ncclMax), (Values{4, 5, 8}));
  EXPECT_EQ(allReduce(data, ncclFloat64, ncclMin), (Values{1, -2, -1}));
  EXPECT_EQ(allReduce(data, ncclFloat64, ncclAvg), (Values{3, 2, 3}));
}

TEST(Reductions, IntegersWrap) {
  constexpr auto most = std::numeric_limits<std::int32_t>::max();
  EXPECT_EQ(allReduce<std::int32_t>({{most}, {1}}, ncclInt32, ncclSum)[0],
            std::numeric_limits<std::int32_t>::min());
  EXPECT_EQ(allReduce<std::uint8_t>({{200}, {100}}, ncclUint8, ncclSum)[0], 44);
  EXPECT_EQ(allReduce<std::int64_t>({{1ll << 40}, {1ll << 23}}, ncclInt64, ncclProd)[0],
            std::numeric_limits<std::int64_t>::min());
}

TEST(Reductions, HalfTypesAreRoundedOnce) {
  // 2^8 + 1 needs nine bits; bf16 has eight. Three summands in f32: 256 + 1 + 1 = 258 is representable,
  // whereas rounding after each step would stay at 256.
  auto bf16 = [](float value) {
    return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
  };
  EXPECT_EQ(allReduce<std::uint16_t>({{bf16(256)}, {bf16(1)}, {bf16(1)}}, ncclBfloat16, ncclSum)[0],
            bf16(258));
  // Ties go to even: 257 lies between 256 and 258.
  EXPECT_EQ(allReduce<std::uint16_t>({{bf16(256)}, {bf16(1)}}, ncclBfloat16, ncclSum)[0], bf16(256));
  EXPECT_EQ(allReduce<std::uint16_t>({{0x7fc1}, {bf16(1)}}, ncclBfloat16, ncclSum)[0] & 0x7fc0, 0x7fc0);
  auto f16 = [](float value) { return std::bit_cast<std::uint16_t>(static_cast<_Float16>(value)); };
  EXPECT_EQ(allReduce<std::uint16_t>({{f16(2048)}, {f16(1)}, {f16(1)}}, ncclFloat16, ncclSum)[0], f16(2050));
}

TEST(Reductions, MaximumKeepsNan) {
  std::uint32_t nan = 0x7fc00000, one = std::bit_cast<std::uint32_t>(1.0f);
  for (ncclRedOp_t op : {ncclMax, ncclMin}) {
    EXPECT_EQ(allReduce<std::uint32_t>({{nan}, {one}}, ncclFloat32, op)[0], nan);
    EXPECT_EQ(allReduce<std::uint32_t>({{one}, {nan}}, ncclFloat32, op)[0], nan);
  }
}

} // namespace
