#include "KernelHarness.h"

#include "llvm/Support/FormatVariadic.h"
#include <gtest/gtest.h>

#include <cmath>
#include <random>

using namespace plumb;
using namespace plumb::test;

namespace {

std::vector<float> randomFloats(size_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> distribution(-1, 1);
  std::vector<float> values(count);
  for (float &value : values)
    value = distribution(generator);
  return values;
}

void expectClose(const std::vector<float> &actual, const std::vector<float> &expected, float tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i)
    ASSERT_NEAR(actual[i], expected[i], tolerance * (1 + std::abs(expected[i]))) << "element " << i;
}

struct ProductCase {
  bool transposeA, transposeB;
  int64_t m, n, k;
};

std::string productText(const ProductCase &c) {
  std::string a = c.transposeA ? "(k, m)" : "(m, k)", b = c.transposeB ? "(n, k)" : "(k, n)";
  auto shape = [](bool transposed, int64_t rows, int64_t columns) {
    return transposed ? llvm::formatv("{0}x{1}xf32", columns, rows).str()
                      : llvm::formatv("{0}x{1}xf32", rows, columns).str();
  };
  return llvm::formatv(R"(
func.func @k_product(%a: tensor<{0}>, %b: tensor<{1}>) -> tensor<{2}> {{
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<{2}>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<{2}>) -> tensor<{2}>
  %c = linalg.generic {{indexing_maps = [affine_map<(m, n, k) -> {3}>, affine_map<(m, n, k) -> {4}>,
                                         affine_map<(m, n, k) -> (m, n)>],
                        iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : tensor<{0}>, tensor<{1}>) outs(%init : tensor<{2}>) {{
  ^bb0(%x: f32, %y: f32, %sum: f32):
    %xy = arith.mulf %x, %y : f32
    %next = arith.addf %sum, %xy : f32
    linalg.yield %next : f32
  } -> tensor<{2}>
  return %c : tensor<{2}>
})",
                       shape(c.transposeA, c.m, c.k), shape(c.transposeB, c.k, c.n), shape(false, c.m, c.n), a, b)
      .str();
}

std::vector<float> naiveProduct(const ProductCase &c, const std::vector<float> &a, const std::vector<float> &b) {
  std::vector<float> result(c.m * c.n);
  for (int64_t m = 0; m < c.m; ++m)
    for (int64_t n = 0; n < c.n; ++n) {
      double sum = 0;
      for (int64_t k = 0; k < c.k; ++k)
        sum += double(c.transposeA ? a[k * c.m + m] : a[m * c.k + k]) * (c.transposeB ? b[n * c.k + k] : b[k * c.n + n]);
      result[m * c.n + n] = sum;
    }
  return result;
}

TEST(Kernels, ProductsOfAllSizes) {
  std::vector<int64_t> sizes = {1, 2, 3, 7, 8, 16, 17, 30, 31, 32, 33, 52, 64, 100};
  std::mt19937 generator(1);
  std::vector<ProductCase> cases;
  std::string text;
  for (int kind = 0; kind < 4; ++kind)
    for (int64_t m : sizes) {
      int64_t n = sizes[generator() % sizes.size()], k = sizes[generator() % sizes.size()];
      cases.push_back({bool(kind & 1), bool(kind & 2), m, n, k});
      cases.push_back({bool(kind & 1), bool(kind & 2), n, m, k});
      cases.push_back({bool(kind & 1), bool(kind & 2), k, n, m});
    }
  for (auto [i, c] : llvm::enumerate(cases)) {
    std::string one = productText(c);
    size_t at = one.find("@k_product");
    text += one.replace(at, 10, "@k_product" + std::to_string(i));
  }
  LoadedKernels loaded(text);
  ASSERT_TRUE(loaded.ok()) << loaded.diagnostics();
  EXPECT_EQ(loaded.diagnostics(), "");
  std::printf("%zu kernels in %.2f s\n", cases.size(), loaded.compileSeconds());
  for (auto [i, c] : llvm::enumerate(cases)) {
    SCOPED_TRACE(llvm::formatv("{0}{1} {2}x{3}x{4}", c.transposeA ? "T" : "N", c.transposeB ? "T" : "N", c.m, c.n, c.k).str());
    auto a = randomFloats(c.m * c.k, 2 * i), b = randomFloats(c.n * c.k, 2 * i + 1);
    std::vector<float> result(c.m * c.n, NAN);
    loaded.call(i, {a.data(), b.data(), result.data()});
    expectClose(result, naiveProduct(c, a, b), 1e-5);
  }
}

} // namespace
