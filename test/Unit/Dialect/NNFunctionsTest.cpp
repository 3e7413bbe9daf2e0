//===- NNFunctionsTest.cpp - Functions, comparisons, choices --------------===//

#include "Evaluator.h"
#include <cmath>
#include <gtest/gtest.h>

namespace plumb::nn::test {
namespace {

Array arrayOf(Shape shape, std::vector<double> values) {
  Array array(std::move(shape));
  array.values = std::move(values);
  return array;
}

TEST(NNFunctions, OfOneNumber) {
  std::vector<std::pair<std::string, std::function<double(double)>>> ops = {
      {"exp %0", [](double x) { return std::exp(x); }},
      {"log %0", [](double x) { return std::log(x); }},
      {"sin %0", [](double x) { return std::sin(x); }},
      {"cos %0", [](double x) { return std::cos(x); }},
      {"erf %0", [](double x) { return std::erf(x); }},
      {"sigmoid %0", [](double x) { return 1 / (1 + std::exp(-x)); }},
      {"softplus %0", [](double x) { return std::log(1 + std::exp(x)); }},
      {"power %0 by 0.0", [](double) { return 1; }},
      {"power %0 by 3.0", [](double x) { return x * x * x; }},
      {"power %0 by -2.0", [](double x) { return 1 / (x * x); }},
      {"power %0 by 0.5", [](double x) { return std::sqrt(x); }},
      {"power %0 by -0.5", [](double x) { return 1 / std::sqrt(x); }},
      {"power %0 by 1.7", [](double x) { return std::pow(x, 1.7); }},
      {"floor %0", [](double x) { return std::floor(x); }},
      {"round %0", [](double x) { return std::nearbyint(x); }},
  };
  Array x = arrayOf({2, 3}, {0.1, 0.5, 1, 1.5, 2.5, 7});
  for (auto &[name, formula] : ops) {
    std::string op = "nn." + name + " : (tensor<2x3xf64>) -> tensor<2x3xf64>";
    expectNear(evaluate(op, {x})[0], generate({2, 3}, [&](const Shape &i) { return formula(x(i)); }), 1e-13,
               op);
  }
  EXPECT_EQ(
      evaluate("nn.power %0 by 3.0 : (tensor<2xf64>) -> tensor<2xf64>", {arrayOf({2}, {-2, 0})})[0].values,
      (std::vector<double>{-8, 0}));
  EXPECT_EQ(
      evaluate("nn.softplus %0 : (tensor<2xf64>) -> tensor<2xf64>", {arrayOf({2}, {1000, -1000})})[0].values,
      (std::vector<double>{1000, 0}));
}

TEST(NNFunctions, Comparisons) {
  std::vector<std::pair<std::string, std::function<bool(double, double)>>> ops = {
      {"equal", [](double a, double b) { return a == b; }},
      {"less", [](double a, double b) { return a < b; }},
      {"less_equal", [](double a, double b) { return a <= b; }},
  };
  for (auto &[name, formula] : ops) {
    Array a = arrayOf({4, 1}, {-1, 0, 2, NAN}), b = arrayOf({3}, {0, 2, -1});
    std::string op = "nn." + name + " %0, %1 : (tensor<4x1xf64>, tensor<3xf64>) -> tensor<4x3xi1>";
    Array expected = generate({4, 3}, [&](const Shape &i) { return formula(a(i), b(i)); });
    EXPECT_EQ(evaluate(op, {a, b})[0].values, expected.values) << op;
    Array whole = arrayOf({3}, {-1, 0, 2});
    EXPECT_EQ(
        evaluate("nn." + name + " %0, %1 : (tensor<3xi64>, tensor<3xi64>) -> tensor<3xi1>", {whole, b})[0]
            .values,
        generate({3}, [&](const Shape &i) { return formula(whole(i), b(i)); }).values);
  }
}

TEST(NNFunctions, Choices) {
  Array condition = arrayOf({2, 1}, {1, 0}), a = arrayOf({3}, {1, 2, 3}), b = arrayOf({}, {7});
  EXPECT_EQ(evaluate("nn.where %0, %1, %2 : (tensor<2x1xi1>, tensor<3xf64>, tensor<f64>) -> tensor<2x3xf64>",
                     {condition, a, b})[0]
                .values,
            (std::vector<double>{1, 2, 3, 7, 7, 7}));
  Array c = arrayOf({3}, {2, 2, -5});
  EXPECT_EQ(evaluate("nn.maximum %0, %1 : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi32>", {a, c})[0].values,
            (std::vector<double>{2, 2, 3}));
  EXPECT_EQ(evaluate("nn.minimum %0, %1 : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>", {a, c})[0].values,
            (std::vector<double>{1, 2, -5}));
  EXPECT_TRUE(std::isnan(evaluate("nn.maximum %0, %1 : (tensor<1xf64>, tensor<1xf64>) -> tensor<1xf64>",
                                  {arrayOf({1}, {NAN}), arrayOf({1}, {1})})[0]
                             .values[0]));
}

TEST(NNFunctions, Conversions) {
  auto convert = [](std::vector<double> values, const std::string &from, const std::string &to) {
    std::string size = "tensor<" + std::to_string(values.size()) + "x";
    Shape shape{static_cast<int64_t>(values.size())};
    return evaluate("nn.convert %0 : (" + size + from + ">) -> " + size + to + ">",
                    {arrayOf(shape, values)})[0]
        .values;
  };
  using Values = std::vector<double>;
  EXPECT_EQ(convert({-2.7, 2.7, 0}, "f64", "i64"), (Values{-2, 2, 0}));
  EXPECT_EQ(convert({-2.5, 0.1, 0}, "f32", "i1"), (Values{1, 1, 0}));
  EXPECT_EQ(convert({1, 0}, "i1", "f32"), (Values{1, 0}));
  EXPECT_EQ(convert({1, 0}, "i1", "i64"), (Values{1, 0}));
  EXPECT_EQ(convert({-3, 4}, "i32", "i64"), (Values{-3, 4}));
  EXPECT_EQ(convert({-3, 0}, "i64", "i1"), (Values{1, 0}));
  EXPECT_EQ(convert({-3, 4}, "i64", "bf16"), (Values{-3, 4}));
  EXPECT_EQ(convert({257, 1}, "f32", "bf16"), (Values{256, 1}));
  EXPECT_EQ(convert({1.5, -2}, "f16", "f64"), (Values{1.5, -2}));
}

TEST(NNFunctions, DetachIsTheValue) {
  Array x = arrayOf({2}, {1, 2});
  EXPECT_EQ(evaluate("nn.detach %0 : (tensor<2xf64>) -> tensor<2xf64>", {x})[0].values, x.values);
}

} // namespace
} // namespace plumb::nn::test
