//===- NNOpsTest.cpp - The value of each nn op ----------------------------===//

#include "Evaluator.h"
#include <cmath>
#include <gtest/gtest.h>

namespace plumb::nn::test {
namespace {

constexpr double kExact = 1e-13;

mlir::RankedTensorType typeOf(const Shape &shape) {
  return mlir::RankedTensorType::get(shape, mlir::Float64Type::get(&context()));
}

Array randomArray(Shape shape, unsigned seed = 1) {
  std::mt19937 random(seed);
  return Array::random(typeOf(shape), random);
}

Array arrayOf(Shape shape, std::vector<double> values) {
  Array array(std::move(shape));
  array.values = std::move(values);
  return array;
}

Shape withLast(Shape index, int64_t last) {
  index.back() = last;
  return index;
}

TEST(NNOps, BinaryOpsBroadcast) {
  struct Case {
    const char *types;
    Shape lhs, rhs, result;
  };
  std::vector<Case> cases = {
      {"(tensor<3x5xf64>, tensor<3x5xf64>) -> tensor<3x5xf64>", {3, 5}, {3, 5}, {3, 5}},
      {"(tensor<3x1x5xf64>, tensor<4x1xf64>) -> tensor<3x4x5xf64>", {3, 1, 5}, {4, 1}, {3, 4, 5}},
      {"(tensor<f64>, tensor<2x1xf64>) -> tensor<2x1xf64>", {}, {2, 1}, {2, 1}},
      {"(tensor<1x7xf64>, tensor<1x1xf64>) -> tensor<1x7xf64>", {1, 7}, {1, 1}, {1, 7}},
      {"(tensor<0x3xf64>, tensor<3xf64>) -> tensor<0x3xf64>", {0, 3}, {3}, {0, 3}},
  };
  std::vector<std::pair<std::string, double (*)(double, double)>> ops = {
      {"add", [](double a, double b) { return a + b; }},
      {"sub", [](double a, double b) { return a - b; }},
      {"mul", [](double a, double b) { return a * b; }},
      {"div", [](double a, double b) { return a / b; }},
  };
  for (const Case &test : cases)
    for (auto &[name, formula] : ops) {
      Array lhs = randomArray(test.lhs, 1), rhs = randomArray(test.rhs, 2);
      std::string op = "nn." + name + " %0, %1 : " + test.types;
      Array expected = generate(test.result, [&](const Shape &i) { return formula(lhs(i), rhs(i)); });
      expectNear(evaluate(op, {lhs, rhs})[0], expected, kExact, op);
    }
}

TEST(NNOps, IntegersAddSubtractMultiply) {
  Array a = arrayOf({3}, {5, -7, 4000000000.0}), b = arrayOf({1}, {3});
  EXPECT_EQ(evaluate("nn.add %0, %1 : (tensor<3xi64>, tensor<1xi64>) -> tensor<3xi64>", {a, b})[0].values,
            (std::vector<double>{8, -4, 4000000003.0}));
  EXPECT_EQ(evaluate("nn.mul %0, %1 : (tensor<3xi64>, tensor<1xi64>) -> tensor<3xi64>", {a, b})[0].values,
            (std::vector<double>{15, -21, 12000000000.0}));
  EXPECT_EQ(
      evaluate("nn.sub %0, %1 : (tensor<1xi32>, tensor<1xi32>) -> tensor<1xi32>", {b, arrayOf({1}, {5})})[0]
          .values,
      (std::vector<double>{-2}));
}

TEST(NNOps, UnaryOps) {
  const double root = std::sqrt(2 / M_PI);
  std::vector<std::pair<std::string, std::function<double(double)>>> ops = {
      {"scale %0 by -0.3", [](double x) { return -0.3 * x; }},
      {"relu %0", [](double x) { return std::max(x, 0.0); }},
      {"tanh %0", [](double x) { return std::tanh(x); }},
      {"gelu %0", [](double x) { return x / 2 * (1 + std::erf(x / std::sqrt(2))); }},
      {"gelu %0 tanh", [&](double x) { return x / 2 * (1 + std::tanh(root * (x + 0.044715 * x * x * x))); }},
  };
  for (auto &[name, formula] : ops)
    for (const Shape &shape : {Shape{}, Shape{1}, Shape{3, 1, 7}, Shape{2, 0}}) {
      std::string type;
      llvm::raw_string_ostream(type) << typeOf(shape);
      Array x = randomArray(shape);
      std::string op = "nn." + name + " : (" + type + ") -> " + type;
      expectNear(evaluate(op, {x})[0], generate(shape, [&](const Shape &i) { return formula(x(i)); }), kExact,
                 op);
    }
}

TEST(NNOps, ReluKeepsNotANumber) {
  EXPECT_TRUE(std::isnan(
      evaluate("nn.relu %0 : (tensor<1xf32>) -> tensor<1xf32>", {arrayOf({1}, {NAN})})[0].values[0]));
}

TEST(NNOps, SgdStep) {
  Array p = randomArray({3, 5}, 1), g = randomArray({3, 5}, 2);
  Array expected = generate({3, 5}, [&](const Shape &i) { return p(i) - 0.1 * g(i); });
  expectNear(
      evaluate("nn.sgd %0, %1, %2 : (tensor<3x5xf64>, tensor<3x5xf64>, tensor<f64>) -> tensor<3x5xf64>",
               {p, g, arrayOf({}, {0.1})})[0],
      expected, kExact, "sgd");
}

TEST(NNOps, WeightedSum) {
  Array a = randomArray({3, 5}, 1), b = randomArray({3, 5}, 2);
  Array expected = generate({3, 5}, [&](const Shape &i) { return 0.9 * a(i) + 0.25 * b(i); });
  expectNear(
      evaluate(
          "nn.weighted_sum %0 by 0.9, %1 by 0.25 : (tensor<3x5xf64>, tensor<3x5xf64>) -> tensor<3x5xf64>",
          {a, b})[0],
      expected, kExact, "weighted_sum");
}

TEST(NNOps, AdamStep) {
  Array p = randomArray({3, 5}, 1), m = randomArray({3, 5}, 2), x = randomArray({3, 5}, 3);
  Array v = generate({3, 5}, [&](const Shape &i) { return x(i) * x(i); });
  Array expected = generate({3, 5}, [&](const Shape &i) {
    return p(i) * (1 - 0.1 * 0.01) - 0.3 * m(i) / (std::sqrt(v(i)) * 2.0 + 1e-3);
  });
  expectNear(
      evaluate(
          "nn.adam %0, %1, %2, %3, %4, %5 epsilon 1.0e-3 decay 0.01 : (tensor<3x5xf64>, tensor<3x5xf64>, "
          "tensor<3x5xf64>, tensor<f64>, tensor<f64>, tensor<f64>) -> tensor<3x5xf64>",
          {p, m, v, arrayOf({}, {0.1}), arrayOf({}, {0.3}), arrayOf({}, {2.0})})[0],
      expected, kExact, "adam");
}

TEST(NNOps, SquareSum) {
  Array x = arrayOf({2, 3}, {1, 2, 3, 4, 5, 6});
  expectNear(evaluate("nn.square_sum %0 : (tensor<2x3xf64>) -> tensor<f64>", {x})[0], arrayOf({}, {91}),
             kExact, "square_sum");
}

/// An einsum straight from its definition: a sum over every assignment of the letters.
Array referenceEinsum(const std::string &lhs, const std::string &rhs, const std::string &result,
                      const Array &a, const Array &b) {
  std::map<char, int64_t> sizes;
  for (size_t i = 0; i < lhs.size(); ++i)
    sizes[lhs[i]] = a.shape[i];
  for (size_t i = 0; i < rhs.size(); ++i)
    sizes[rhs[i]] = b.shape[i];
  std::string letters;
  Shape loops, shape;
  for (auto [letter, size] : sizes) {
    letters += letter;
    loops.push_back(size);
  }
  auto pick = [&](const std::string &of, const Shape &values) {
    Shape picked;
    for (char letter : of)
      picked.push_back(values[letters.find(letter)]);
    return picked;
  };
  Array sum(pick(result, loops));
  for (int64_t i = 0; i < elementCount(loops); ++i) {
    Shape index = indexOf(loops, i);
    int64_t position = 0;
    for (auto [at, size] : llvm::zip(pick(result, index), sum.shape))
      position = position * size + at;
    sum.values[position] += a(pick(lhs, index)) * b(pick(rhs, index));
  }
  return sum;
}

TEST(NNOps, Einsum) {
  struct Case {
    std::string lhs, rhs, result;
    Shape a, b;
  };
  std::vector<Case> cases = {
      {"bti", "oi", "bto", {2, 3, 5}, {7, 5}},              // linear
      {"ik", "kj", "ij", {3, 4}, {4, 5}},                   // matmul
      {"bhqd", "bhkd", "bhqk", {2, 3, 5, 4}, {2, 3, 6, 4}}, // attention scores
      {"bhqk", "bhkd", "bhqd", {2, 3, 5, 6}, {2, 3, 6, 4}}, // attention values
      {"bto", "bti", "oi", {2, 3, 5}, {2, 3, 7}},           // weight gradient
      {"ij", "jk", "ki", {3, 4}, {4, 5}},                   // transposed result
      {"ab", "cd", "dbca", {2, 3}, {4, 5}},                 // outer product
      {"ab", "c", "cb", {2, 3}, {4}},                       // a is summed alone
      {"ab", "ab", "", {2, 3}, {2, 3}},                     // inner product
      {"a", "", "a", {3}, {}},
      {"ij", "jk", "ik", {1, 1}, {1, 1}},
      {"ij", "jk", "ik", {3, 0}, {0, 2}},
  };
  for (const Case &test : cases) {
    Array a = randomArray(test.a, 1), b = randomArray(test.b, 2);
    Array expected = referenceEinsum(test.lhs, test.rhs, test.result, a, b);
    std::string op;
    llvm::raw_string_ostream(op) << "nn.einsum \"" << test.lhs << "," << test.rhs << "->" << test.result
                                 << "\"(%0, %1) : (" << typeOf(test.a) << ", " << typeOf(test.b) << ") -> "
                                 << typeOf(expected.shape);
    expectNear(evaluate(op, {a, b})[0], expected, kExact, op);
  }
}

TEST(NNOps, Sum) {
  Array x = randomArray({3, 4, 5});
  auto total = [&](Shape from, Shape to) {
    double sum = 0;
    for (int64_t i = 0; i < elementCount(x.shape); ++i) {
      Shape index = indexOf(x.shape, i);
      bool inside = true;
      for (size_t d = 0; d < 3; ++d)
        inside &= index[d] >= from[d] && index[d] < to[d];
      sum += inside ? x.values[i] : 0;
    }
    return sum;
  };
  expectNear(evaluate("nn.sum %0 dims [0, 2] : (tensor<3x4x5xf64>) -> tensor<4xf64>", {x})[0],
             generate({4}, [&](const Shape &i) { return total({0, i[0], 0}, {3, i[0] + 1, 5}); }), kExact,
             "sum");
  expectNear(
      evaluate("nn.sum %0 dims [1] keepdim : (tensor<3x4x5xf64>) -> tensor<3x1x5xf64>", {x})[0],
      generate({3, 1, 5}, [&](const Shape &i) { return total({i[0], 0, i[2]}, {i[0] + 1, 4, i[2] + 1}); }),
      kExact, "sum keepdim");
  expectNear(evaluate("nn.sum %0 dims [0, 1, 2] : (tensor<3x4x5xf64>) -> tensor<f64>", {x})[0],
             generate({}, [&](const Shape &) { return total({0, 0, 0}, {3, 4, 5}); }), kExact, "sum of all");
  expectNear(evaluate("nn.sum %0 dims [] : (tensor<3x4x5xf64>) -> tensor<3x4x5xf64>", {x})[0], x, kExact,
             "sum of none");
  expectNear(evaluate("nn.sum %0 dims [0] : (tensor<0x2xf64>) -> tensor<2xf64>", {Array({0, 2})})[0],
             Array({2}), kExact, "sum of nothing");
}

TEST(NNOps, Softmax) {
  Array x = randomArray({2, 3, 5});
  for (double &value : x.values)
    value *= 300; // exp overflows unless the row's maximum is subtracted
  for (bool causal : {false, true}) {
    Array expected = generate(x.shape, [&](const Shape &i) {
      int64_t keys = causal ? i[1] + 1 : 5;
      double largest = -INFINITY, sum = 0;
      for (int64_t k = 0; k < keys; ++k)
        largest = std::max(largest, x(withLast(i, k)));
      for (int64_t k = 0; k < keys; ++k)
        sum += std::exp(x(withLast(i, k)) - largest);
      return i[2] < keys ? std::exp(x(i) - largest) / sum : 0;
    });
    std::string op = std::string("nn.softmax %0") + (causal ? " causal" : "") +
                     " : (tensor<2x3x5xf64>) -> tensor<2x3x5xf64>";
    expectNear(evaluate(op, {x})[0], expected, kExact, op);
  }
}

TEST(NNOps, Normalize) {
  Array x = randomArray({2, 3, 4, 5});
  for (int64_t count : {1, 2, 4}) {
    Shape rows(x.shape.begin(), x.shape.end() - count), row(x.shape.end() - count, x.shape.end());
    int64_t size = elementCount(row);
    Array expected(x.shape), rstd(rows);
    for (int64_t r = 0; r < elementCount(rows); ++r) {
      double mean = 0, variance = 0;
      for (int64_t i = 0; i < size; ++i)
        mean += x.values[r * size + i] / static_cast<double>(size);
      for (int64_t i = 0; i < size; ++i)
        variance += std::pow(x.values[r * size + i] - mean, 2) / static_cast<double>(size);
      rstd.values[r] = 1 / std::sqrt(variance + 1e-3);
      for (int64_t i = 0; i < size; ++i)
        expected.values[r * size + i] = (x.values[r * size + i] - mean) * rstd.values[r];
    }
    std::string op;
    llvm::raw_string_ostream(op) << "nn.normalize %0 count " << count
                                 << " eps 1.0e-3 : (tensor<2x3x4x5xf64>) -> (tensor<2x3x4x5xf64>, "
                                 << typeOf(rows) << ")";
    auto results = evaluate(op, {x});
    expectNear(results[0], expected, kExact, op);
    expectNear(results[1], rstd, kExact, op);
  }
}

TEST(NNOps, Views) {
  std::vector<std::pair<std::string, Shape>> views = {
      {"tensor<4x6xf64>", {4, 6}},           {"tensor<24xf64>", {24}},
      {"tensor<2x2x6x1xf64>", {2, 2, 6, 1}}, {"tensor<6x4xf64>", {6, 4}},
      {"tensor<1x3x8xf64>", {1, 3, 8}},      {"tensor<1x1x24x1xf64>", {1, 1, 24, 1}},
      {"tensor<2x3x4xf64>", {2, 3, 4}}};
  for (auto &[from, fromShape] : views)
    for (auto &[to, toShape] : views) {
      Array x = randomArray(fromShape), expected = x;
      expected.shape = toShape;
      expectNear(evaluate("nn.view %0 : (" + from + ") -> " + to, {x})[0], expected, 0, from + " -> " + to);
    }
  Array one = arrayOf({}, {3});
  expectNear(evaluate("nn.view %0 : (tensor<f64>) -> tensor<1x1xf64>", {one})[0], arrayOf({1, 1}, {3}), 0,
             "from scalar");
  expectNear(evaluate("nn.view %0 : (tensor<1x1xf64>) -> tensor<f64>", {arrayOf({1, 1}, {3})})[0], one, 0,
             "to scalar");
  expectNear(evaluate("nn.view %0 : (tensor<0x4xf64>) -> tensor<2x0x3xf64>", {Array({0, 4})})[0],
             Array({2, 0, 3}), 0, "empty");
}

TEST(NNOps, TransposeAndBroadcast) {
  Array x = randomArray({2, 3, 4});
  expectNear(evaluate("nn.transpose %0 [1, 2, 0] : (tensor<2x3x4xf64>) -> tensor<3x4x2xf64>", {x})[0],
             generate({3, 4, 2}, [&](const Shape &i) { return x({i[2], i[0], i[1]}); }), 0, "transpose");
  Array y = randomArray({3, 1});
  expectNear(evaluate("nn.broadcast %0 : (tensor<3x1xf64>) -> tensor<2x3x4xf64>", {y})[0],
             generate({2, 3, 4}, [&](const Shape &i) { return y(i); }), 0, "broadcast");
  Array flags = arrayOf({1}, {1});
  EXPECT_EQ(evaluate("nn.broadcast %0 : (tensor<1xi1>) -> tensor<3xi1>", {flags})[0].values,
            (std::vector<double>{1, 1, 1}));
}

TEST(NNOps, SplitAndCat) {
  Array x = randomArray({2, 5, 3});
  auto part = [&](int64_t from, int64_t size) {
    return generate({2, size, 3}, [&](const Shape &i) { return x({i[0], from + i[1], i[2]}); });
  };
  auto pieces = evaluate("nn.split %0 dim 1 : (tensor<2x5x3xf64>) -> "
                         "(tensor<2x1x3xf64>, tensor<2x4x3xf64>, tensor<2x0x3xf64>)",
                         {x});
  expectNear(pieces[0], part(0, 1), 0, "piece 0");
  expectNear(pieces[1], part(1, 4), 0, "piece 1");
  expectNear(pieces[2], part(5, 0), 0, "piece 2");
  expectNear(
      evaluate("nn.cat %0, %1, %2 dim 1 : (tensor<2x1x3xf64>, tensor<2x4x3xf64>, tensor<2x0x3xf64>) -> "
               "tensor<2x5x3xf64>",
               pieces)[0],
      x, 0, "cat");
}

TEST(NNOps, FillAndIota) {
  EXPECT_EQ(evaluate("nn.fill -2.5 : tensor<2x1xf32>", {})[0].values, (std::vector<double>{-2.5, -2.5}));
  EXPECT_EQ(evaluate("nn.fill 7.0 : tensor<i64>", {})[0].values, (std::vector<double>{7}));
  EXPECT_EQ(evaluate("nn.fill 1.0 : tensor<2xi1>", {})[0].values, (std::vector<double>{1, 1}));
  EXPECT_EQ(evaluate("nn.iota start -3 step 2 : tensor<4xi64>", {})[0].values,
            (std::vector<double>{-3, -1, 1, 3}));
  EXPECT_EQ(evaluate("nn.iota start 1 step 1 : tensor<3xi32>", {})[0].values, (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(evaluate("nn.iota start 0 step -1 : tensor<3xbf16>", {})[0].values,
            (std::vector<double>{0, -1, -2}));
}

TEST(NNOps, EmbeddingStaysInsideTheTable) {
  Array table = randomArray({4, 3}), ids = arrayOf({2, 3}, {0, 3, 3, -9, 7, 1}); // -9 and 7 name no row
  auto row = [](double id) { return std::min<int64_t>(3, std::max<int64_t>(0, static_cast<int64_t>(id))); };
  for (std::string type : {"i32", "i64"})
    expectNear(
        evaluate("nn.embedding %0, %1 : (tensor<4x3xf64>, tensor<2x3x" + type + ">) -> tensor<2x3x3xf64>",
                 {table, ids})[0],
        generate({2, 3, 3}, [&](const Shape &i) { return table({row(ids({i[0], i[1]})), i[2]}); }), 0, type);

  Array cotangent = randomArray({2, 3, 3}), expected({4, 3});
  for (int64_t i = 0; i < 6; ++i)
    for (int64_t j = 0; j < 3; ++j)
      expected.values[row(ids.values[i]) * 3 + j] += cotangent.values[i * 3 + j];
  expectNear(
      evaluate("nn.embedding_backward %0, %1 : (tensor<2x3x3xf64>, tensor<2x3xi64>) -> tensor<4x3xf64>",
               {cotangent, ids})[0],
      expected, kExact, "embedding_backward");
}

TEST(NNOps, CrossEntropyIgnores) {
  Array logits = randomArray({2, 3, 5}), targets = arrayOf({2, 3}, {0, 4, -100, 2, 2, -100});
  Array lse = generate({2, 3}, [&](const Shape &i) {
    double sum = 0;
    for (int64_t c = 0; c < 5; ++c)
      sum += std::exp(logits({i[0], i[1], c}));
    return std::log(sum);
  });
  Array losses = generate({2, 3}, [&](const Shape &i) {
    return targets(i) < 0 ? 0 : lse(i) - logits({i[0], i[1], static_cast<int64_t>(targets(i))});
  });
  for (std::string type : {"i32", "i64"}) {
    auto results = evaluate("nn.cross_entropy %0, %1 ignore -100 : (tensor<2x3x5xf64>, tensor<2x3x" + type +
                                ">) -> (tensor<2x3xf64>, tensor<2x3xf64>)",
                            {logits, targets});
    expectNear(results[0], losses, kExact, "losses");
    expectNear(results[1], lse, kExact, "lse");
    EXPECT_EQ(
        evaluate("nn.is_valid %0 ignore -100 : (tensor<2x3x" + type + ">) -> tensor<2x3xbf16>", {targets})[0]
            .values,
        (std::vector<double>{1, 1, 0, 1, 1, 0}));
  }
}

TEST(NNOps, NarrowFloatsAccumulateInF32) {
  // Each partial sum above 256 would lose the 1 in bf16.
  Array ones = generate({600}, [](const Shape &) { return 1; });
  EXPECT_EQ(evaluate("nn.sum %0 dims [0] : (tensor<600xbf16>) -> tensor<bf16>", {ones})[0].values[0], 600);
  EXPECT_EQ(evaluate("nn.einsum \"i,i->\"(%0, %1) : (tensor<600xbf16>, tensor<600xbf16>) -> tensor<bf16>",
                     {ones, ones})[0]
                .values[0],
            600);
  Array ids = generate({600}, [](const Shape &) { return 0; }),
        rows = generate({600, 1}, [](const Shape &) { return 1; });
  EXPECT_EQ(
      evaluate("nn.embedding_backward %0, %1 : (tensor<600x1xbf16>, tensor<600xi64>) -> tensor<1x1xbf16>",
               {rows, ids})[0]
          .values[0],
      600);
  Array logits = randomArray({3, 5});
  for (std::string type : {"bf16", "f16", "f32"})
    expectNear(
        evaluate("nn.softmax %0 : (tensor<3x5x" + type + ">) -> tensor<3x5x" + type + ">", {logits})[0],
        evaluate("nn.softmax %0 : (tensor<3x5xf64>) -> tensor<3x5xf64>", {logits})[0],
        type == "f32" ? 1e-6 : 1e-2, type);
}

} // namespace
} // namespace plumb::nn::test
