#include "Compare.h"

#include "plumb/Runtime/Safetensors.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <gtest/gtest.h>
#include <map>
#include <sstream>

using namespace plumb;

namespace {

using Values = std::map<std::string, std::vector<float>>;

std::string write(const std::string &name, const Values &values) {
  std::string path = (std::filesystem::path(testing::TempDir()) / name).string();
  std::vector<SafetensorsWriter::Entry> entries;
  for (const auto &[tensor, elements] : values)
    entries.push_back({tensor, "F32", {static_cast<std::int64_t>(elements.size())}});
  SafetensorsWriter writer(path, entries);
  size_t entry = 0;
  for (const auto &[tensor, elements] : values)
    std::ranges::copy(std::as_bytes(std::span(elements)), writer.data(entry++).data());
  writer.commit();
  return path;
}

bool equal(const Values &result, const Values &reference, const CompareOptions &options = {}) {
  std::ostringstream os;
  return compareRuns(write("result.safetensors", result), write("reference.safetensors", reference), options,
                     os);
}

} // namespace

/// A model of any scale: what is wrong is wrong however small it is, and rounding is none.
TEST(Compare, DependsOnRatiosAlone) {
  for (float scale : {1e-12f, 1e-6f, 1e-3f, 1.0f, 1e6f}) {
    SCOPED_TRACE(scale);
    auto scaled = [&](std::vector<float> small) {
      for (float &value : small)
        value *= scale;
      return Values{{"grad.a", {scale, -2 * scale}}, {"grad.b", small}};
    };
    EXPECT_TRUE(equal(scaled({0.01f, 0.02f}), scaled({0.01f, 0.02f})));
    EXPECT_TRUE(equal(scaled({0.01f, 0.020001f}), scaled({0.01f, 0.02f})));
    EXPECT_FALSE(equal(scaled({0.01f, 0.0201f}), scaled({0.01f, 0.02f})));
    EXPECT_FALSE(equal(scaled({0, 0}), scaled({0.01f, 0.02f})));
    EXPECT_FALSE(equal(scaled({0, 0}), scaled({1e-5f, 1e-5f})));
    // A gradient that is zero, as that of a key bias, is the noise of what is summed to it.
    EXPECT_TRUE(equal(scaled({1e-8f, -3e-8f}), scaled({-2e-8f, 1e-8f})));
    EXPECT_FALSE(equal(scaled({1e-4f, 0}), scaled({0, 0})));
  }
}

/// A kind of tensor is measured against its own: large parameters do not excuse gradients.
TEST(Compare, KindsAreApart) {
  EXPECT_FALSE(equal({{"param.a", {1e6f}}, {"grad.a", {0}}}, {{"param.a", {1e6f}}, {"grad.a", {1e-3f}}}));
  EXPECT_FALSE(equal({{"losses", {1}}, {"output.0", {100}}}, {{"losses", {1.001f}}, {"output.0", {100}}}));
}

TEST(Compare, WhatIsMissingOrNotFiniteDiffers) {
  EXPECT_FALSE(equal({{"grad.b", {1}}}, {{"grad.a", {1}}}));
  EXPECT_FALSE(equal({{"grad.a", {1, 1}}}, {{"grad.a", {1}}}));
  EXPECT_FALSE(equal({{"grad.a", {NAN}}}, {{"grad.a", {1}}}));
  EXPECT_FALSE(equal({{"grad.a", {INFINITY}}}, {{"grad.a", {0}}}));
  EXPECT_TRUE(equal({{"grad.a", {}}, {"grad.b", {0}}}, {{"grad.a", {}}, {"grad.b", {0}}}));
}

/// Where products round to bf16, so does what they cancel to.
TEST(Compare, ShortMantissasAllowMore) {
  CompareOptions options;
  options.computesInBF16 = true;
  EXPECT_TRUE(equal({{"grad.a", {1}}, {"grad.b", {1.02f}}}, {{"grad.a", {1}}, {"grad.b", {1}}}, options));
  EXPECT_FALSE(equal({{"grad.a", {1}}, {"grad.b", {1.05f}}}, {{"grad.a", {1}}, {"grad.b", {1}}}, options));
  EXPECT_TRUE(equal({{"grad.a", {1}}, {"grad.b", {1e-4f}}}, {{"grad.a", {1}}, {"grad.b", {0}}}, options));
  EXPECT_FALSE(equal({{"grad.a", {1}}, {"grad.b", {0}}}, {{"grad.a", {1}}, {"grad.b", {0.02f}}}, options));
}
