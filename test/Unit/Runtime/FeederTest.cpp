//===- FeederTest.cpp - How inputs come to a rank ------------------------------===//

#include "plumb/Runtime/Feeder.h"

#include "Programs.h"
#include "Ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <functional>

using namespace plumb;
using namespace plumb::test;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

const std::size_t kOffsets[] = {0};
const Tensor kInputs[] = {{"input.0", DType::I32, 1, {{3}}, kOffsets}};

/// Gives 10 s, 10 s + 1, 10 s + 2 in step s; fails in step `last`.
class Counting : public InputSource {
public:
  explicit Counting(std::int64_t last) : last(last) {}

  bool isMapped() const override { return mapped; }
  void read(int, std::int64_t step, std::span<const InputSlice> slices) override {
    if (step == last)
      throw Failure("there is no step " + std::to_string(step));
    {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return step == 0 || !blocks; });
    }
    for (const InputSlice &slice : slices)
      for (std::int32_t i = 0; i < 3; ++i) {
        std::int32_t value = 10 * static_cast<std::int32_t>(step) + i;
        std::memcpy(slice.data + sizeof value * static_cast<std::size_t>(i), &value, sizeof value);
      }
    std::lock_guard guard(mutex);
    newest = step;
    changed.notify_all();
  }

  bool awaits(std::int64_t step) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, std::chrono::seconds(60), [&] { return newest == step; });
  }
  std::int64_t newestStep() {
    std::lock_guard guard(mutex);
    return newest;
  }

  /// Steps after the first are read when this is over.
  void block(bool begins) {
    std::lock_guard guard(mutex);
    blocks = begins;
    changed.notify_all();
  }

  bool mapped = true;

private:
  const std::int64_t last;
  std::mutex mutex;
  std::condition_variable changed;
  std::int64_t newest = -1;
  bool blocks = false;
};

/// Gives 7, 7, 7 in every step but the first.
class Giving : public Driver {
public:
  void begin(int) override {}
  Command next(std::int64_t) override { return {}; }
  const std::byte *input(const Tensor &) const override {
    return gives ? reinterpret_cast<const std::byte *>(values) : nullptr;
  }
  void deliver(const Piece &) override {}
  void report(const StepReport &) override {}

  bool gives = false;

private:
  std::int32_t values[3] = {7, 7, 7};
};

std::vector<InputSlice> slices(void *arena) {
  return {{&kInputs[0], Slice(emptyProgram(), kInputs[0], {}, 0), 0, static_cast<std::byte *>(arena)}};
}

/// Where the inputs of the next step arrive.
std::byte *arrival(void *arena) { return static_cast<std::byte *>(arena) + 64; }

/// What a kernel on the stream finds in the arena.
std::vector<std::int32_t> look(void *arena, cudaStream_t stream) {
  std::vector<std::int32_t> values(3);
  PLUMB_CUDA(cudaMemcpyAsync(values.data(), arena, 12, cudaMemcpyDeviceToHost, stream));
  PLUMB_CUDA(cudaStreamSynchronize(stream));
  return values;
}

/// A rank with two streams that is fed four steps.
struct Fed {
  void *arena;
  Counting &source;
  Feeder &feeder;
  std::array<cudaStream_t, 2> streams;
};

/// In many orders of the work on streams.
void underSeeds(const std::function<void(Fed)> &body) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    auto rank = [&](TestRank &self) {
      void *arena;
      PLUMB_CUDA(cudaMalloc(&arena, 128));
      Counting source(/*last=*/100);
      Feeder feeder(0, slices(arena), arrival(arena), &source, nullptr, /*lastStep=*/4);
      body({arena, source, feeder, {self.stream(), self.stream()}});
    };
    Outcome outcome = run(1, rank, seed);
    ASSERT_EQ(outcome.code, 0) << outcome.message();
  }
}

TEST(Feeder, ReadsTheNextStepWhileOneRuns) {
  underSeeds([](Fed fed) {
    for (std::int32_t step = 2; step < 4; ++step) {
      fed.feeder.feed(step, fed.streams);
      // The next step is read without being asked for, and leaves this one as it is.
      EXPECT_TRUE(fed.source.awaits(3));
      EXPECT_THAT(look(fed.arena, fed.streams[step % 2]),
                  ElementsAre(10 * step, 10 * step + 1, 10 * step + 2));
      PLUMB_CUDA(cudaDeviceSynchronize());
    }
    EXPECT_EQ(fed.source.newestStep(), 3);
  });
}

TEST(Feeder, TheNextStepIsOnTheDeviceBeforeThisOneEnds) {
  underSeeds([](Fed fed) {
    for (std::int32_t step = 0; step < 4; ++step) {
      fed.feeder.feed(step, fed.streams);
      fed.feeder.feedAhead();
      // On other streams than that of the copy, this step's inputs stay.
      EXPECT_THAT(look(fed.arena, fed.streams[0]), ElementsAre(10 * step, 10 * step + 1, 10 * step + 2));
      EXPECT_EQ(fed.source.newestStep(), std::min(step + 1, 3));
      PLUMB_CUDA(cudaDeviceSynchronize());
      std::int32_t next = 10 * static_cast<std::int32_t>(fed.source.newestStep());
      EXPECT_THAT(look(arrival(fed.arena), fed.streams[1]), ElementsAre(next, next + 1, next + 2));
    }
  });
}

TEST(Feeder, ASlowSourceHoldsUpNoStepButItsOwn) {
  Outcome outcome = run(1, [&](TestRank &self) {
    void *arena;
    PLUMB_CUDA(cudaMalloc(&arena, 128));
    cudaStream_t streams[] = {self.stream()};
    Counting source(/*last=*/100);
    source.mapped = false;
    source.block(true);
    Feeder feeder(0, slices(arena), arrival(arena), &source, nullptr, /*lastStep=*/2);
    feeder.feed(0, streams);
    feeder.feedAhead();
    EXPECT_THAT(look(arena, streams[0]), ElementsAre(0, 1, 2));
    source.block(false);
    feeder.feed(1, streams);
    EXPECT_THAT(look(arena, streams[0]), ElementsAre(10, 11, 12));
  });
  EXPECT_EQ(outcome.code, 0) << outcome.message();
}

TEST(Feeder, AFailureAheadIsThatOfItsStep) {
  Outcome outcome = run(1, [&](TestRank &self) {
    void *arena;
    PLUMB_CUDA(cudaMalloc(&arena, 128));
    cudaStream_t streams[] = {self.stream()};
    Counting source(/*last=*/1);
    Feeder feeder(0, slices(arena), arrival(arena), &source, nullptr, /*lastStep=*/4);
    feeder.feed(0, streams);
    feeder.feedAhead();
    EXPECT_THAT(look(arena, streams[0]), ElementsAre(0, 1, 2));
    feeder.feed(1, streams);
  });
  EXPECT_EQ(outcome.message(), "error: rank 0: there is no step 1");
}

TEST(Feeder, WhatADriverGivesGoesBeforeTheSource) {
  Outcome outcome = run(1, [&](TestRank &self) {
    void *arena;
    PLUMB_CUDA(cudaMalloc(&arena, 128));
    cudaStream_t streams[] = {self.stream()};
    Counting source(/*last=*/100);
    Giving driver;
    Feeder feeder(0, slices(arena), arrival(arena), &source, &driver, /*lastStep=*/1);
    feeder.feed(0, streams);
    EXPECT_THAT(look(arena, streams[0]), ElementsAre(0, 1, 2));
    driver.gives = true;
    feeder.feed(1, streams);
    EXPECT_THAT(look(arena, streams[0]), ElementsAre(7, 7, 7));
    driver.gives = false;
    feeder.feed(2, streams);
    EXPECT_THAT(look(arena, streams[0]), ElementsAre(20, 21, 22));
  });
  EXPECT_EQ(outcome.code, 0) << outcome.message();
}

TEST(Feeder, ARankWithoutInputsReadsNothing) {
  Outcome outcome = run(1, [&](TestRank &self) {
    cudaStream_t streams[] = {self.stream()};
    Counting source(/*last=*/0);
    Feeder feeder(0, {}, nullptr, &source, nullptr, /*lastStep=*/4);
    for (std::int64_t step = 0; step < 4; ++step)
      feeder.feed(step, streams);
    EXPECT_EQ(source.newestStep(), -1);
  });
  EXPECT_EQ(outcome.code, 0) << outcome.message();
}

} // namespace
