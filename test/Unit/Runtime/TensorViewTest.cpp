//===- TensorViewTest.cpp - Views with strides against their definition --------===//

#include "plumb/Runtime/TensorView.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

using namespace plumb;

namespace {

using Numbers = std::vector<std::int64_t>;

/// Element by element, from the definition of strides; -1: outside of the record.
std::vector<std::int32_t> elements(const Numbers &shape, const Numbers &strides, std::int64_t offset,
                                   const std::vector<std::int32_t> &record) {
  std::vector<std::int32_t> result;
  std::int64_t count = std::accumulate(shape.begin(), shape.end(), std::int64_t(1), std::multiplies<>());
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t rest = i, at = offset;
    for (std::size_t dim = shape.size(); dim-- > 0;) {
      at += rest % shape[dim] * strides[dim];
      rest /= shape[dim];
    }
    result.push_back(at < static_cast<std::int64_t>(record.size()) ? record[static_cast<std::size_t>(at)]
                                                                   : -1);
  }
  return result;
}

TEST(TensorView, AnyPartOfAnyViewIsCopied) {
  std::vector<std::int32_t> record(150);
  std::iota(record.begin(), record.end(), 1000);
  std::mt19937 random(7);
  int views = 0;
  for (int round = 0; round < 3000; ++round) {
    Numbers shape, strides;
    for (std::size_t rank = random() % 5; rank > 0; --rank) {
      shape.push_back(random() % 5);
      strides.push_back(random() % 2 ? random() % 40 : 1);
    }
    // Often a dense view, so that whole runs are met too.
    if (random() % 2)
      for (std::int64_t dim = std::ssize(shape), dense = 1; dim-- > 0;) {
        strides[static_cast<std::size_t>(dim)] = dense;
        dense *= std::max<std::int64_t>(1, shape[static_cast<std::size_t>(dim)]);
      }
    std::int64_t offset = random() % 50;
    std::vector<std::int32_t> expected = elements(shape, strides, offset, record);
    auto view = viewWithin(std::as_bytes(std::span(record)), "I32", shape, strides, offset);
    ASSERT_EQ(view.has_value(), std::ranges::count(expected, -1) == 0);
    if (!view)
      continue;
    ++views;
    ASSERT_EQ(view->bytes(), expected.size() * 4);
    std::size_t begin = random() % (expected.size() + 1),
                end = begin + random() % (expected.size() + 1 - begin);
    std::vector<std::int32_t> part(end - begin);
    view->copy(begin * 4, part.size() * 4, reinterpret_cast<std::byte *>(part.data()));
    EXPECT_TRUE(std::equal(part.begin(), part.end(), expected.begin() + static_cast<std::ptrdiff_t>(begin)));
  }
  EXPECT_GT(views, 1000);
}

TEST(TensorView, WhatNoRecordHoldsIsNone) {
  std::vector<std::byte> record(64);
  const std::int64_t most = INT64_MAX;
  auto isView = [&](Numbers shape, Numbers strides, std::int64_t offset) {
    return viewWithin(record, "F32", std::move(shape), std::move(strides), offset).has_value();
  };
  EXPECT_TRUE(isView({4, 4}, {4, 1}, 0));
  EXPECT_TRUE(isView({}, {}, 15));
  EXPECT_TRUE(isView({0, most}, {most, most}, most));
  EXPECT_TRUE(isView({1000}, {0}, 0));
  EXPECT_FALSE(isView({4, 4}, {4, 1}, 1));
  EXPECT_FALSE(isView({}, {}, 16));
  EXPECT_FALSE(isView({}, {}, -1));
  EXPECT_FALSE(isView({}, {}, most));
  EXPECT_FALSE(isView({4}, {-1}, 3));
  EXPECT_FALSE(isView({4}, {1, 1}, 0));
  EXPECT_FALSE(isView({2}, {most}, 0));
  EXPECT_FALSE(isView({3}, {most / 2}, most / 2));
  EXPECT_FALSE(isView({most, 2}, {0, 0}, 0));
}

} // namespace
