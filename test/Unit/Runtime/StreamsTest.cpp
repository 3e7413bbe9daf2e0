//===- StreamsTest.cpp - Order within and among streams -----------------------===//

#include "Ranks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

using namespace plumb;
using namespace plumb::test;

namespace {

// A kernel as a host kernel object defines it: appends its number to a log.
void append(void **args) {
  static_cast<std::vector<int> *>(args[0])->push_back(
      static_cast<int>(reinterpret_cast<std::intptr_t>(args[1])));
}
cudaError_t k_append(std::vector<int> *log, int number, cudaStream_t stream) {
  void *args[] = {log, reinterpret_cast<void *>(static_cast<std::intptr_t>(number))};
  return plumb_host_launch(stream, append, args, 2, "k_append");
}

TEST(Streams, AStreamIsInOrderAndLate) {
  std::vector<int> log;
  auto outcome = run(1, [&](TestRank &self) {
    cudaStream_t stream = self.stream();
    for (int i = 0; i < 100; ++i)
      PLUMB_LAUNCH(k_append(&log, i, stream));
    EXPECT_TRUE(log.empty());
    EXPECT_EQ(cudaStreamQuery(stream), cudaErrorNotReady);
    PLUMB_CUDA(cudaStreamSynchronize(stream));
    EXPECT_EQ(log.size(), 100u);
    EXPECT_EQ(cudaStreamQuery(stream), cudaSuccess);
  });
  ASSERT_EQ(outcome.code, 0) << outcome.error;
  EXPECT_TRUE(std::ranges::is_sorted(log));
}

std::vector<int> interleave(std::uint64_t seed, bool withEvent) {
  std::vector<int> log;
  run(
      1,
      [&](TestRank &self) {
        cudaStream_t first = self.stream(), second = self.stream();
        cudaEvent_t event = self.event();
        for (int i = 0; i < 8; ++i)
          PLUMB_LAUNCH(k_append(&log, i, first));
        if (withEvent) {
          PLUMB_CUDA(cudaEventRecord(event, first));
          PLUMB_CUDA(cudaStreamWaitEvent(second, event));
        }
        for (int i = 8; i < 16; ++i)
          PLUMB_LAUNCH(k_append(&log, i, second));
      },
      seed);
  return log;
}

TEST(Streams, SeedsShowAMissingWait) {
  std::set<std::vector<int>> orders;
  bool secondRanAhead = false;
  for (std::uint64_t seed = 0; seed < 32; ++seed) {
    std::vector<int> order = interleave(seed, false);
    EXPECT_EQ(order, interleave(seed, false));
    EXPECT_TRUE(std::ranges::is_sorted(interleave(seed, true)));
    orders.insert(order);
    secondRanAhead |= order[7] >= 8 && order[0] >= 8;
  }
  EXPECT_GT(orders.size(), 8u);
  EXPECT_TRUE(secondRanAhead);
}

TEST(Streams, AWaitIsForTheRecordBeforeIt) {
  for (std::uint64_t seed = 0; seed < 16; ++seed) {
    std::vector<int> log;
    auto outcome = run(
        1,
        [&](TestRank &self) {
          cudaStream_t first = self.stream(), second = self.stream(), third = self.stream();
          cudaEvent_t event = self.event();
          // Nothing recorded yet: no wait.
          PLUMB_CUDA(cudaStreamWaitEvent(second, event));
          PLUMB_LAUNCH(k_append(&log, 0, first));
          PLUMB_CUDA(cudaEventRecord(event, first));
          PLUMB_CUDA(cudaStreamWaitEvent(second, event));
          // A later record elsewhere does not satisfy, or change, the wait before it.
          PLUMB_CUDA(cudaEventRecord(event, third));
          PLUMB_LAUNCH(k_append(&log, 1, second));
          PLUMB_CUDA(cudaEventSynchronize(event));
          EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
        },
        seed);
    ASSERT_EQ(outcome.code, 0) << outcome.error;
    EXPECT_EQ(log, (std::vector<int>{0, 1}));
  }
}

TEST(Streams, CopiesAndFillsTakeTheirTurn) {
  auto outcome = run(1, [&](TestRank &self) {
    cudaStream_t stream = self.stream();
    std::uint32_t *device = nullptr, host[4] = {};
    PLUMB_CUDA(cudaMalloc(&device, 1 << 20));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(device) % 4096, 0u);
    PLUMB_CUDA(cudaMemsetAsync(device, 0x11, sizeof host, stream));
    PLUMB_CUDA(cudaMemcpyAsync(host, device, sizeof host, cudaMemcpyDeviceToHost, stream));
    EXPECT_EQ(host[3], 0u);
    PLUMB_CUDA(cudaStreamSynchronize(stream));
    EXPECT_EQ(host[3], 0x11111111u);
    PLUMB_CUDA(cudaFree(device));
  });
  EXPECT_EQ(outcome.code, 0) << outcome.error;
}

TEST(Streams, MuchWorkNeedsNoSynchronisation) {
  int value = 0;
  auto outcome = run(1, [&](TestRank &self) {
    cudaStream_t stream = self.stream();
    auto count = [](void **args) { ++*static_cast<int *>(args[0]); };
    void *args[] = {&value};
    for (int i = 0; i < 100'000; ++i)
      PLUMB_LAUNCH(plumb_host_launch(stream, count, args, 1, "k_count"));
    EXPECT_GT(value, 0);
  });
  EXPECT_EQ(outcome.code, 0) << outcome.error;
  EXPECT_EQ(value, 100'000);
}

// Stream 1 of each rank communicates while stream 2 computes; the event hands over.
TEST(Streams, EventsOrderComputeAfterCommunication) {
  for (std::uint64_t seed = 0; seed < 16; ++seed) {
    PerRank<int> value(4, std::vector<int>(1)), result = value;
    auto outcome = run(
        4,
        [&](TestRank &self) {
          auto r = static_cast<std::size_t>(self.rank);
          ncclComm_t comm = self.comm("all");
          cudaStream_t communication = self.stream(), compute = self.stream();
          cudaEvent_t ready = self.event(), reduced = self.event();
          for (int step = 0; step < 10; ++step) {
            auto add = [](void **args) { *static_cast<int *>(args[0]) += 1; };
            auto copy = [](void **args) { *static_cast<int *>(args[1]) = *static_cast<int *>(args[0]); };
            void *args[] = {&value[r][0], &result[r][0]};
            PLUMB_LAUNCH(plumb_host_launch(compute, add, args, 1, "k_add"));
            PLUMB_CUDA(cudaEventRecord(ready, compute));
            PLUMB_CUDA(cudaStreamWaitEvent(communication, ready));
            PLUMB_NCCL(ncclAllReduce(args[0], args[0], 1, ncclInt32, ncclMax, comm, communication));
            PLUMB_CUDA(cudaEventRecord(reduced, communication));
            PLUMB_CUDA(cudaStreamWaitEvent(compute, reduced));
            PLUMB_LAUNCH(plumb_host_launch(compute, copy, args, 2, "k_copy"));
          }
        },
        seed);
    ASSERT_EQ(outcome.code, 0) << outcome.error;
    for (const auto &values : result)
      EXPECT_EQ(values[0], 10);
  }
}

} // namespace
