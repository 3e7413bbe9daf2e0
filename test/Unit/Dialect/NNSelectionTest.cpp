//===- NNSelectionTest.cpp - Parts, extremes, running sums, convolutions --===//

#include "Evaluator.h"
#include <cmath>
#include <gtest/gtest.h>

namespace plumb::nn::test {
namespace {

Array randomArray(Shape shape, unsigned seed = 1) {
  std::mt19937 random(seed);
  return Array::random(mlir::RankedTensorType::get(shape, mlir::Float64Type::get(&context())), random);
}

Array arrayOf(Shape shape, std::vector<double> values) {
  Array array(std::move(shape));
  array.values = std::move(values);
  return array;
}

TEST(NNSelection, SliceAndPad) {
  Array x = randomArray({3, 7});
  expectNear(
      evaluate("nn.slice %0 offsets [1, 2] strides [1, 2] : (tensor<3x7xf64>) -> tensor<2x3xf64>", {x})[0],
      generate({2, 3}, [&](const Shape &i) { return x({1 + i[0], 2 + 2 * i[1]}); }), 0, "slice");
  expectNear(
      evaluate("nn.slice %0 offsets [3, 0] strides [1, 1] : (tensor<3x7xf64>) -> tensor<0x7xf64>", {x})[0],
      Array({0, 7}), 0, "empty slice");
  Array part = randomArray({2, 3}, 2);
  expectNear(
      evaluate("nn.pad %0 with -1.5 offsets [1, 2] strides [1, 2] : (tensor<2x3xf64>) -> tensor<4x8xf64>",
               {part})[0],
      generate({4, 8},
               [&](const Shape &i) {
                 bool inside = i[0] >= 1 && i[0] < 3 && i[1] >= 2 && i[1] <= 6 && i[1] % 2 == 0;
                 return inside ? part({i[0] - 1, (i[1] - 2) / 2}) : -1.5;
               }),
      0, "pad");
}

TEST(NNSelection, Reverse) {
  Array x = randomArray({2, 3, 4});
  expectNear(evaluate("nn.reverse %0 dims [0, 2] : (tensor<2x3x4xf64>) -> tensor<2x3x4xf64>", {x})[0],
             generate({2, 3, 4}, [&](const Shape &i) { return x({1 - i[0], i[1], 3 - i[2]}); }), 0,
             "reverse");
}

TEST(NNSelection, GatherStaysInside) {
  Array x = randomArray({2, 3, 2}),
        indices = arrayOf({2, 4, 2}, {0, 2, 1, 1, -7, 9, 2, 0, 1, 1, 0, 2, 2, 2, 0, 0});
  Array expected = generate({2, 4, 2}, [&](const Shape &i) {
    int64_t row = std::clamp<int64_t>(static_cast<int64_t>(indices(i)), 0, 2);
    return x({i[0], row, i[2]});
  });
  for (std::string type : {"i32", "i64"})
    expectNear(evaluate("nn.gather %0, %1 dim 1 : (tensor<2x3x2xf64>, tensor<2x4x2x" + type +
                            ">) -> tensor<2x4x2xf64>",
                        {x, indices})[0],
               expected, 0, type);
}

TEST(NNSelection, ScatterTakesTheLastOrAdds) {
  Array x = randomArray({2, 4}), indices = arrayOf({2, 3}, {1, 1, 3, 0, 9, 0}),
        source = randomArray({2, 3}, 2);
  for (bool adds : {false, true}) {
    Array expected = x;
    for (int64_t i = 0; i < 2; ++i)
      for (int64_t j = 0; j < 3; ++j) {
        double &element =
            expected.values[i * 4 + std::min<int64_t>(3, static_cast<int64_t>(indices({i, j})))];
        element = adds ? element + source({i, j}) : source({i, j});
      }
    std::string op = std::string("nn.scatter %0, %1, %2 dim 1") + (adds ? " add" : "") +
                     " : (tensor<2x4xf64>, tensor<2x3xi64>, tensor<2x3xf64>) -> tensor<2x4xf64>";
    expectNear(evaluate(op, {x, indices, source})[0], expected, 1e-15, op);
  }
  EXPECT_EQ(evaluate("nn.scatter %0, %1, %2 dim 0 : (tensor<2x2xi64>, tensor<1x2xi64>, tensor<1x2xi64>) -> "
                     "tensor<2x2xi64>",
                     {arrayOf({2, 2}, {1, 2, 3, 4}), arrayOf({1, 2}, {1, 0}), arrayOf({1, 2}, {8, 9})})[0]
                .values,
            (std::vector<double>{1, 9, 8, 4}));
}

TEST(NNSelection, TopkKeepsTheFirstOfEqualElements) {
  auto results = evaluate("nn.topk %0 count 3 : (tensor<2x5xf64>) -> (tensor<2x3xf64>, tensor<2x3xi64>)",
                          {arrayOf({2, 5}, {1, 3, 3, -2, 0, -1, -1, -1, -4, -3})});
  EXPECT_EQ(results[0].values, (std::vector<double>{3, 3, 1, -1, -1, -1}));
  EXPECT_EQ(results[1].values, (std::vector<double>{1, 2, 0, 0, 1, 2}));
  auto whole = evaluate("nn.topk %0 count 4 : (tensor<4xi64>) -> (tensor<4xi64>, tensor<4xi64>)",
                        {arrayOf({4}, {5, -9, 7, 5})});
  EXPECT_EQ(whole[0].values, (std::vector<double>{7, 5, 5, -9}));
  EXPECT_EQ(whole[1].values, (std::vector<double>{2, 0, 3, 1}));
}

TEST(NNReduction, Max) {
  Array x = arrayOf({2, 2, 3}, {-5, -4, -9, -1, -2, -3, 1, 0, 2, -7, 8, -9});
  EXPECT_EQ(evaluate("nn.max %0 dims [0, 2] : (tensor<2x2x3xf64>) -> tensor<2xf64>", {x})[0].values,
            (std::vector<double>{2, 8}));
  EXPECT_EQ(evaluate("nn.max %0 dims [1] keepdim : (tensor<2x2x3xi32>) -> tensor<2x1x3xi32>", {x})[0].values,
            (std::vector<double>{-1, -2, -3, 1, 8, 2}));
}

TEST(NNReduction, SumsOfIntegers) {
  EXPECT_EQ(
      evaluate("nn.sum %0 dims [0] : (tensor<3xi64>) -> tensor<i64>", {arrayOf({3}, {5, -9, 2})})[0].values,
      (std::vector<double>{-2}));
}

TEST(NNReduction, Cumsum) {
  Array x = randomArray({2, 4, 3});
  for (bool reverse : {false, true}) {
    Array expected = generate({2, 4, 3}, [&](const Shape &i) {
      double sum = 0;
      for (int64_t j = 0; j < 4; ++j)
        if (reverse ? j >= i[1] : j <= i[1])
          sum += x({i[0], j, i[2]});
      return sum;
    });
    std::string op = std::string("nn.cumsum %0 dim 1") + (reverse ? " reverse" : "") +
                     " : (tensor<2x4x3xf64>) -> tensor<2x4x3xf64>";
    expectNear(evaluate(op, {x})[0], expected, 1e-14, op);
  }
  EXPECT_EQ(evaluate("nn.cumsum %0 dim 0 : (tensor<4xi64>) -> tensor<4xi64>", {arrayOf({4}, {1, 2, 3, 4})})[0]
                .values,
            (std::vector<double>{1, 3, 6, 10}));
  Array ones = generate({600}, [](const Shape &) { return 1; });
  EXPECT_EQ(evaluate("nn.cumsum %0 dim 0 : (tensor<600xbf16>) -> tensor<600xbf16>", {ones})[0].values[599],
            600);
}

TEST(NNReduction, LogSoftmax) {
  Array x = randomArray({2, 5});
  x.values[0] = 800; // the exponential overflows
  expectNear(evaluate("nn.log_softmax %0 : (tensor<2x5xf64>) -> tensor<2x5xf64>", {x})[0],
             generate({2, 5},
                      [&](const Shape &i) {
                        double largest = -INFINITY, sum = 0;
                        for (int64_t j = 0; j < 5; ++j)
                          largest = std::max(largest, x({i[0], j}));
                        for (int64_t j = 0; j < 5; ++j)
                          sum += std::exp(x({i[0], j}) - largest);
                        return x(i) - largest - std::log(sum);
                      }),
             1e-13, "log_softmax");
}

TEST(NNReduction, RootMeanSquare) {
  Array x = randomArray({2, 4});
  auto results = evaluate(
      "nn.normalize %0 count 1 eps 1.0e-3 uncentered : (tensor<2x4xf64>) -> (tensor<2x4xf64>, tensor<2xf64>)",
      {x});
  expectNear(results[0],
             generate({2, 4},
                      [&](const Shape &i) {
                        double squares = 0;
                        for (int64_t j = 0; j < 4; ++j)
                          squares += x({i[0], j}) * x({i[0], j});
                        return x(i) / std::sqrt(squares / 4 + 1e-3);
                      }),
             1e-13, "normalize");
}

TEST(NNConvolution, FromItsDefinition) {
  Array x = randomArray({2, 2, 3, 7, 6}), w = randomArray({2, 2, 3, 3, 2}, 2);
  const int64_t strides[] = {2, 1}, dilations[] = {1, 3};
  Array expected = generate({2, 2, 2, 3, 3}, [&](const Shape &i) {
    double sum = 0;
    for (int64_t c = 0; c < 3; ++c)
      for (int64_t a = 0; a < 3; ++a)
        for (int64_t b = 0; b < 2; ++b)
          sum +=
              x({i[0], i[1], c, i[3] * strides[0] + a * dilations[0], i[4] * strides[1] + b * dilations[1]}) *
              w({i[1], i[2], c, a, b});
    return sum;
  });
  expectNear(evaluate("nn.convolution %0, %1 strides [2, 1] dilations [1, 3] : (tensor<2x2x3x7x6xf64>, "
                      "tensor<2x2x3x3x2xf64>) -> tensor<2x2x2x3x3xf64>",
                      {x, w})[0],
             expected, 1e-13, "convolution");
}

} // namespace
} // namespace plumb::nn::test
