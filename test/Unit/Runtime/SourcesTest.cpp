//===- SourcesTest.cpp - Inputs from streams of tokens -------------------------===//

#include "plumb/Runtime/InputSource.h"
#include "plumb/Runtime/Safetensors.h"

#include "Programs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <numeric>
#include <unistd.h>

using namespace plumb;
using testing::ElementsAre;
using testing::HasSubstr;

namespace fs = std::filesystem;

namespace {

const Axis kMesh[] = {{"dp", 2}};
const std::size_t kOffsets[] = {0};
// Rows over dp: three of five, and two and a row of padding.
const Tensor kIds{"input.0", DType::I64, 2, {{5, 1, {{0}}}, {2}}, kOffsets},
    kTargets{"input.1", DType::I32, 2, {{5}, {2, 1, {{0}}}}, kOffsets},
    kMask{"input.1", DType::F32, 1, {{10}}, kOffsets}, kShort{"input.1", DType::I64, 1, {{9}}, kOffsets};

class Tokens : public testing::Test {
protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "plumb-sources-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder = pattern;
    program.mesh = kMesh;
  }
  void TearDown() override { fs::remove_all(folder); }

  template <class T>
  void write(const char *file, const char *name, const char *dtype, const std::vector<T> &values,
             std::vector<std::int64_t> shape = {}) {
    if (shape.empty())
      shape = {static_cast<std::int64_t>(values.size())};
    SafetensorsWriter writer((folder / file).string(), {{name, dtype, shape}});
    std::ranges::copy(std::as_bytes(std::span(values)), writer.data(0).begin());
    writer.commit();
  }

  std::unique_ptr<InputSource> open(std::int64_t steps) {
    program.inputs = inputs;
    Options options;
    options.source = folder.string();
    options.steps = steps;
    return openInputSource(program, options, 0);
  }
  std::string errorOf(std::int64_t steps, std::int64_t read = -1) {
    try {
      auto source = open(steps);
      if (read >= 0)
        this->read<std::int64_t>(*source, 0, 0, read);
    } catch (const Failure &failure) {
      return failure.what();
    }
    return "";
  }
  template <class T>
  std::vector<T> read(InputSource &source, std::size_t input, int rank, std::int64_t step) {
    Slice slice(program, inputs[input], coordinatesOf(program, rank), 0);
    std::vector<T> values((slice.bytes() + sizeof(T) - 1) / sizeof(T), -1);
    InputSlice wanted{&program.inputs[input], slice, 0, reinterpret_cast<std::byte *>(values.data())};
    source.read(rank, step, {&wanted, 1});
    return values;
  }

  fs::path folder;
  std::vector<Tensor> inputs{kIds, kTargets};
  Program program = test::emptyProgram();
};

std::vector<std::uint16_t> numbers(std::uint16_t first, std::size_t count) {
  std::vector<std::uint16_t> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

TEST_F(Tokens, EachRankReadsItsSliceOfTheStream) {
  write("a.safetensors", "tokens", "U16", numbers(100, 7));
  write("b.safetensors", "tokens", "U8", std::vector<std::uint8_t>{});
  write("c.safetensors", "tokens", "I64", std::vector<std::int64_t>{107, 108, 109, 110});
  write("d.safetensors", "tokens", "U16", numbers(111, 10));
  auto source = open(2);
  EXPECT_THAT(read<std::int64_t>(*source, 0, 0, 0), ElementsAre(100, 101, 102, 103, 104, 105));
  EXPECT_THAT(read<std::int64_t>(*source, 0, 1, 0), ElementsAre(106, 107, 108, 109, 0, 0));
  EXPECT_THAT(read<std::int64_t>(*source, 0, 1, 1), ElementsAre(116, 117, 118, 119, 0, 0));
  EXPECT_THAT(read<std::int32_t>(*source, 1, 0, 0), ElementsAre(101, 103, 105, 107, 109));
  EXPECT_THAT(read<std::int32_t>(*source, 1, 1, 1), ElementsAre(112, 114, 116, 118, 120));
  EXPECT_THAT(errorOf(3), HasSubstr("the stream has 21 tokens, but 3 steps of 10"));
  EXPECT_THAT(errorOf(2, 2), HasSubstr("the stream has 21 tokens, but 3 steps of 10"));
}

TEST_F(Tokens, ShiftsMayBeGiven) {
  write("a.safetensors", "tokens", "U16", numbers(0, 16));
  write("shifts.safetensors", "shifts", "I64", std::vector<std::int64_t>{6, 0});
  EXPECT_THAT(errorOf(1), HasSubstr("shifts.safetensors: there is no tensor 'tokens'"));
  fs::remove(folder / "a.safetensors");
  SafetensorsWriter writer((folder / "shifts.safetensors").string(),
                           {{"tokens", "U16", {16}}, {"shifts", "I64", {2}}});
  std::int64_t shifts[] = {6, 0};
  std::memcpy(writer.data(0).data(), numbers(0, 16).data(), 32);
  std::memcpy(writer.data(1).data(), shifts, sizeof shifts);
  writer.commit();
  auto source = open(1);
  EXPECT_THAT(read<std::int64_t>(*source, 0, 0, 0), ElementsAre(6, 7, 8, 9, 10, 11));
  EXPECT_THAT(read<std::int32_t>(*source, 1, 1, 0), ElementsAre(1, 3, 5, 7, 9));
}

TEST_F(Tokens, WhatIsNoStreamIsRejected) {
  write("a.safetensors", "tokens", "F32", std::vector<float>(30));
  EXPECT_THAT(errorOf(1),
              HasSubstr("a.safetensors: 'tokens' is F32 [30], but a stream of tokens has one dimension"));
  write("a.safetensors", "tokens", "U16", numbers(0, 30), {5, 6});
  EXPECT_THAT(errorOf(1), HasSubstr("'tokens' is U16 [5, 6], but"));
  write("a.safetensors", "tokens", "U16", numbers(0, 30));
  inputs[1] = kMask;
  EXPECT_THAT(errorOf(1),
              HasSubstr("input 'input.1' is F32 [10], but a stream of tokens gives integers only"));
  inputs[1] = kShort;
  EXPECT_THAT(errorOf(1), HasSubstr("input 'input.1' is I64 [9] and 'input.0' [5, 2], but"));
}

TEST_F(Tokens, MustFitTheirInput) {
  inputs = {kTargets};
  write("a.safetensors", "tokens", "U32", std::vector<std::uint32_t>(10, 0x80000000u));
  EXPECT_THAT(errorOf(1, 0), HasSubstr("token 0 is 2147483648, which an input of type I32 cannot hold"));
}

} // namespace
