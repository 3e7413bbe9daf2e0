// Matrix products of all sizes, orders and strides, against sums in double precision.
#include "KernelHarness.h"
#include "KernelText.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <cstring>
#include <map>

using namespace plumb;
using namespace plumb::test;

namespace {

struct Case {
  bool transposeA, transposeB;
  int64_t m, n, k;
};

std::string typeOf(bool transposed, int64_t rows, int64_t columns) {
  return transposed ? tensor({columns, rows}) : tensor({rows, columns});
}

/// %c = A·B
std::string productOps(const Case &c) {
  return filled("%init", tensor({c.m, c.n})) +
         generic("%c", "m, n; k",
                 std::string(c.transposeA ? "k, m" : "m, k") + (c.transposeB ? "| n, k" : "| k, n") +
                     "| m, n",
                 {"%a", "%b"}, {typeOf(c.transposeA, c.m, c.k), typeOf(c.transposeB, c.k, c.n)}, "%init",
                 tensor({c.m, c.n}), kMultiplyAdd);
}

std::vector<float> multiply(const Case &c, const std::vector<float> &a, const std::vector<float> &b) {
  std::vector<float> result(c.m * c.n);
  for (int64_t m = 0; m < c.m; ++m)
    for (int64_t n = 0; n < c.n; ++n) {
      double sum = 0;
      for (int64_t k = 0; k < c.k; ++k)
        sum += double(c.transposeA ? a[k * c.m + m] : a[m * c.k + k]) *
               (c.transposeB ? b[n * c.k + k] : b[k * c.n + n]);
      result[m * c.n + n] = sum;
    }
  return result;
}

TEST(KernelProducts, AllSizes) {
  std::vector<int64_t> sizes = {1, 2, 3, 7, 8, 16, 17, 30, 31, 32, 33, 52, 64, 100};
  std::mt19937 generator(1);
  auto any = [&] { return sizes[generator() % sizes.size()]; };
  std::vector<Case> cases;
  for (int kind = 0; kind < 4; ++kind) {
    auto add = [&](int64_t m, int64_t n, int64_t k) {
      cases.push_back({bool(kind & 1), bool(kind & 2), m, n, k});
    };
    for (auto [i, size] : llvm::enumerate(sizes))
      i % 3 == 0 ? add(size, any(), any()) : i % 3 == 1 ? add(any(), size, any()) : add(any(), any(), size);
    for (int64_t size : {1, 2, 5, 16})
      add(size, size, size);
    add(1, 100, 100), add(100, 1, 100), add(100, 100, 1);
  }
  // Several blocks of panels, and packed rows.
  cases.push_back({false, false, 50, 700, 600});
  cases.push_back({false, true, 30, 333, 1030});
  cases.push_back({true, false, 70, 300, 900});
  cases.push_back({true, true, 40, 290, 1100});
  std::string text;
  for (auto [i, c] : llvm::enumerate(cases))
    text += llvm::formatv("func.func @k_{0}(%a: {1}, %b: {2}) -> {3} {{\n{4}  return %c : {3}\n}\n", i,
                          typeOf(c.transposeA, c.m, c.k), typeOf(c.transposeB, c.k, c.n), tensor({c.m, c.n}),
                          productOps(c))
                .str();
  LoadedKernels loaded(text);
  ASSERT_TRUE(loaded.ok()) << loaded.diagnostics();
  EXPECT_EQ(loaded.diagnostics(), "");
  for (auto [i, c] : llvm::enumerate(cases)) {
    SCOPED_TRACE(
        llvm::formatv("{0}{1} {2}x{3}x{4}", c.transposeA ? "T" : "N", c.transposeB ? "T" : "N", c.m, c.n, c.k)
            .str());
    auto a = randomFloats(c.m * c.k, 2 * i), b = randomFloats(c.n * c.k, 2 * i + 1);
    std::vector<float> result(c.m * c.n, NAN);
    loaded.call(i, {a.data(), b.data(), result.data()});
    // Rounding errors of a sum in f32 grow like a random walk.
    expectClose(result, multiply(c, a, b), 1e-5 * std::max(1.0, std::sqrt(c.k / 100.0)));
  }
}

TEST(KernelProducts, AddToWhatIsThere) {
  for (auto [m, n, k] : {std::tuple<int64_t, int64_t, int64_t>{13, 37, 20}, {64, 64, 64}, {3, 40, 9}}) {
    std::string a = tensor({m, k}), b = tensor({k, n}), c = tensor({m, n});
    LoadedKernels loaded("func.func @k_f(%a: " + a + ", %b: " + b + ", %c: " + c +
                         " {plumb.inout, plumb.result = 0}) -> " + c +
                         " {\n  %d = linalg.matmul ins(%a, %b : " + a + ", " + b + ") outs(%c : " + c +
                         ") -> " + c + "\n  return %d : " + c + "\n}");
    ASSERT_TRUE(loaded.ok()) << loaded.diagnostics();
    auto va = randomFloats(m * k, 1), vb = randomFloats(k * n, 2), vc = randomFloats(m * n, 3);
    auto expected = multiply({false, false, m, n, k}, va, vb);
    for (auto [sum, before] : llvm::zip_equal(expected, vc))
      sum += before;
    loaded.call(0, {va.data(), vb.data(), vc.data()});
    expectClose(vc, expected);
  }
}

/// gelu(A·Bᵀ + bias) + residual, with the sum before the gelu as a second result.
TEST(KernelProducts, Epilogue) {
  for (auto [m, n, k] : {std::tuple<int64_t, int64_t, int64_t>{30, 52, 20},
                         {64, 96, 64},
                         {5, 17, 33},
                         {1, 40, 8},
                         {2, 3, 100}}) {
    Case c{false, true, m, n, k};
    std::string type = tensor({m, n}), row = tensor({n});
    std::string text =
        llvm::formatv("func.func @k_f(%a: {0}, %b: {1}, %bias: {2}, %r: {3}) -> ({3}, {3}) {{\n{4}",
                      tensor({m, k}), tensor({n, k}), row, type, productOps(c))
            .str() +
        filled("%e", type) +
        generic("%pre", "m, n", "m, n | n | m, n", {"%c", "%bias"}, {type, row}, "%e", type, R"(
  ^bb0(%x: f32, %y: f32, %o: f32):
    %s = arith.addf %x, %y : f32
    linalg.yield %s : f32
)") + generic("%d", "m, n", "m, n | m, n | m, n", {"%pre", "%r"}, {type, type}, "%e", type, R"(
  ^bb0(%v: f32, %z: f32, %o: f32):
    %half = arith.constant 0.5 : f32
    %one = arith.constant 1.0 : f32
    %root = arith.constant 0.70710678 : f32
    %t = arith.mulf %v, %root : f32
    %h = math.erf %t : f32
    %g = arith.addf %h, %one : f32
    %q = arith.mulf %v, %half : f32
    %p = arith.mulf %q, %g : f32
    %s = arith.addf %p, %z : f32
    linalg.yield %s : f32
)") +
        "  return %pre, %d : " + type + ", " + type + "\n}";
    LoadedKernels loaded(text);
    ASSERT_TRUE(loaded.ok()) << loaded.diagnostics();
    auto a = randomFloats(m * k, 1), b = randomFloats(n * k, 2), bias = randomFloats(n, 3),
         r = randomFloats(m * n, 4);
    auto pre = multiply(c, a, b), out = pre;
    for (int64_t i = 0; i < m * n; ++i) {
      pre[i] += bias[i % n];
      out[i] = 0.5 * pre[i] * (1 + std::erf(pre[i] / std::sqrt(2.0))) + r[i];
    }
    std::vector<float> first(m * n, NAN), second(m * n, NAN);
    loaded.call(0, {a.data(), b.data(), bias.data(), r.data(), first.data(), second.data()});
    expectClose(first, pre);
    expectClose(second, out);
  }
}

/// An epilogue that writes into an operand of the product must wait until the product is done with it.
TEST(KernelProducts, EpilogueInPlace) {
  int64_t n = 40;
  std::string type = tensor({n, n});
  LoadedKernels loaded("func.func @k_f(%a: " + type + " {plumb.inout, plumb.result = 0}, %b: " + type +
                       ") -> " + type + " {\n" + productOps({false, false, n, n, n}) + filled("%e", type) +
                       generic("%d", "i, j", "i, j | i, j | i, j", {"%c", "%a"}, {type, type}, "%e", type, R"(
  ^bb0(%x: f32, %y: f32, %o: f32):
    %s = arith.subf %y, %x : f32
    linalg.yield %s : f32
)") +
                       "  return %d : " + type + "\n}");
  ASSERT_TRUE(loaded.ok()) << loaded.diagnostics();
  auto a = randomFloats(n * n, 1), b = randomFloats(n * n, 2);
  auto expected = multiply({false, false, n, n, n}, a, b);
  for (auto [sum, before] : llvm::zip_equal(expected, a))
    sum = before - sum;
  loaded.call(0, {a.data(), b.data()});
  expectClose(a, expected);
}

/// Attention: scores and values over heads that are slices of one projection, in the layout (b, t, 3, h, d).
TEST(KernelProducts, StridedHeads) {
  for (auto [b, h, t, d] :
       {std::tuple<int64_t, int64_t, int64_t, int64_t>{2, 3, 10, 8}, {1, 2, 33, 17}, {2, 2, 16, 16}}) {
    std::string qkv = tensor({b, t, 3, h, d}), x = tensor({b, t, h, d}), s = tensor({b, h, t, t});
    auto slice = [&](int which, const std::string &name) {
      return llvm::formatv("  {0} = tensor.extract_slice %qkv[0, 0, {1}, 0, 0] [{2}, {3}, 1, {4}, {5}] [1, "
                           "1, 1, 1, 1] : "
                           "{6} to {7}\n",
                           name, which, b, t, h, d, qkv, x)
          .str();
    };
    std::string text = "func.func @k_f(%qkv: " + qkv + ") -> (" + s + ", " + x + ") {\n" + slice(0, "%q") +
                       slice(1, "%k") + slice(2, "%v") + filled("%s0", s) +
                       generic("%s", "b, h, t, s; d", "b, t, h, d | b, s, h, d | b, h, t, s", {"%q", "%k"},
                               {x, x}, "%s0", s, kMultiplyAdd) +
                       filled("%o0", x) +
                       generic("%o", "b, t, h, d; s", "b, h, t, s | b, s, h, d | b, t, h, d", {"%s", "%v"},
                               {s, x}, "%o0", x, kMultiplyAdd) +
                       "  return %s, %o : " + s + ", " + x + "\n}";
    LoadedKernels loaded(text);
    ASSERT_TRUE(loaded.ok()) << loaded.diagnostics();
    auto in = randomFloats(b * t * 3 * h * d, 1);
    auto at = [&](int64_t ib, int64_t it, int64_t which, int64_t ih, int64_t id) {
      return in[(((ib * t + it) * 3 + which) * h + ih) * d + id];
    };
    std::vector<float> scores, values;
    for (int64_t ib = 0; ib < b; ++ib)
      for (int64_t ih = 0; ih < h; ++ih)
        for (int64_t it = 0; it < t; ++it)
          for (int64_t is = 0; is < t; ++is) {
            double sum = 0;
            for (int64_t id = 0; id < d; ++id)
              sum += double(at(ib, it, 0, ih, id)) * at(ib, is, 1, ih, id);
            scores.push_back(sum);
          }
    for (int64_t ib = 0; ib < b; ++ib)
      for (int64_t it = 0; it < t; ++it)
        for (int64_t ih = 0; ih < h; ++ih)
          for (int64_t id = 0; id < d; ++id) {
            double sum = 0;
            for (int64_t is = 0; is < t; ++is)
              sum += double(scores[((ib * h + ih) * t + it) * t + is]) * at(ib, is, 2, ih, id);
            values.push_back(sum);
          }
    std::vector<float> first(scores.size(), NAN), second(values.size(), NAN);
    loaded.call(0, {in.data(), first.data(), second.data()});
    expectClose(first, scores);
    expectClose(second, values);
  }
}

/// Several loops of every kind, in any order: C(p, n, q, b, m) over the reduction (r, k).
TEST(KernelProducts, ManyLoops) {
  int64_t b = 2, p = 3, m = 5, q = 2, n = 19, r = 3, k = 7;
  struct Order {
    const char *a, *b, *c;
  };
  for (Order order : {Order{"b, p, m, r, k", "b, r, k, q, n", "b, p, m, q, n"},
                      {"k, r, m, p, b", "n, b, k, q, r", "q, b, n, p, m"},
                      {"p, r, b, k, m", "q, n, r, b, k", "n, m, p, q, b"},
                      {"m, p, k, b, r", "r, n, q, k, b", "m, b, q, p, n"}}) {
    SCOPED_TRACE(order.c);
    auto sizeOf = [&](char name) {
      switch (name) {
      case 'b':
        return b;
      case 'p':
        return p;
      case 'm':
        return m;
      case 'q':
        return q;
      case 'n':
        return n;
      case 'r':
        return r;
      default:
        return k;
      }
    };
    auto typeOf = [&](const char *names) {
      return tensor(
          {sizeOf(names[0]), sizeOf(names[3]), sizeOf(names[6]), sizeOf(names[9]), sizeOf(names[12])});
    };
    std::map<char, int64_t> at;
    auto offset = [&](const char *names) {
      int64_t sum = 0;
      for (int i = 0; i < 15; i += 3)
        sum = sum * sizeOf(names[i]) + at[names[i]];
      return sum;
    };
    LoadedKernels loaded("func.func @k_f(%a: " + typeOf(order.a) + ", %b: " + typeOf(order.b) + ") -> " +
                         typeOf(order.c) + " {\n" + filled("%init", typeOf(order.c)) +
                         generic("%c", "b, p, m, q, n; r, k",
                                 std::string(order.a) + "|" + order.b + "|" + order.c, {"%a", "%b"},
                                 {typeOf(order.a), typeOf(order.b)}, "%init", typeOf(order.c), kMultiplyAdd) +
                         "  return %c : " + typeOf(order.c) + "\n}");
    ASSERT_TRUE(loaded.ok()) << loaded.diagnostics();
    auto va = randomFloats(b * p * m * r * k, 1), vb = randomFloats(b * r * k * q * n, 2);
    std::vector<float> expected(b * p * m * q * n, 0), result(expected.size(), NAN);
    for (at['b'] = 0; at['b'] < b; ++at['b'])
      for (at['p'] = 0; at['p'] < p; ++at['p'])
        for (at['m'] = 0; at['m'] < m; ++at['m'])
          for (at['q'] = 0; at['q'] < q; ++at['q'])
            for (at['n'] = 0; at['n'] < n; ++at['n'])
              for (at['r'] = 0; at['r'] < r; ++at['r'])
                for (at['k'] = 0; at['k'] < k; ++at['k'])
                  expected[offset(order.c)] += va[offset(order.a)] * vb[offset(order.b)];
    loaded.call(0, {va.data(), vb.data(), result.data()});
    expectClose(result, expected);
  }
}

/// A convolution is a product whose packed panels are windows of the image.
TEST(KernelProducts, Convolution) {
  int64_t n = 2, ci = 3, co = 5, h = 11, w = 23, kh = 3, kw = 3, stride = 2;
  int64_t oh = (h - kh) / stride + 1, ow = (w - kw) / stride + 1;
  std::string x = tensor({n, ci, h, w}), f = tensor({co, ci, kh, kw}), y = tensor({n, co, oh, ow});
  LoadedKernels loaded(
      "func.func @k_f(%x: " + x + ", %f: " + f + ") -> " + y + " {\n" + filled("%init", y) +
      "  %y = linalg.conv_2d_nchw_fchw {strides = dense<2> : tensor<2xi64>, dilations = dense<1> : "
      "tensor<2xi64>} ins(%x, %f : " +
      x + ", " + f + ") outs(%init : " + y + ") -> " + y + "\n  return %y : " + y + "\n}");
  ASSERT_TRUE(loaded.ok()) << loaded.diagnostics();
  EXPECT_EQ(loaded.diagnostics(), "");
  auto image = randomFloats(n * ci * h * w, 1), filter = randomFloats(co * ci * kh * kw, 2);
  std::vector<float> expected, result(n * co * oh * ow, NAN);
  for (int64_t in = 0; in < n; ++in)
    for (int64_t o = 0; o < co; ++o)
      for (int64_t i = 0; i < oh; ++i)
        for (int64_t j = 0; j < ow; ++j) {
          double sum = 0;
          for (int64_t c = 0; c < ci; ++c)
            for (int64_t u = 0; u < kh; ++u)
              for (int64_t v = 0; v < kw; ++v)
                sum += double(image[((in * ci + c) * h + i * stride + u) * w + j * stride + v]) *
                       filter[((o * ci + c) * kh + u) * kw + v];
          expected.push_back(sum);
        }
  loaded.call(0, {image.data(), filter.data(), result.data()});
  expectClose(result, expected);
}

/// bf16 factors are summed in f32.
TEST(KernelProducts, MixedPrecision) {
  int64_t m = 20, n = 35, k = 24;
  std::string a = tensor({m, k}, "bf16"), b = tensor({n, k}, "bf16"), c = tensor({m, n});
  LoadedKernels loaded("func.func @k_f(%a: " + a + ", %b: " + b + ") -> " + c + " {\n" + filled("%init", c) +
                       generic("%c", "m, n; k", "m, k | n, k | m, n", {"%a", "%b"}, {a, b}, "%init", c, R"(
  ^bb0(%x: bf16, %y: bf16, %sum: f32):
    %xf = arith.extf %x : bf16 to f32
    %yf = arith.extf %y : bf16 to f32
    %xy = arith.mulf %xf, %yf : f32
    %next = arith.addf %sum, %xy : f32
    linalg.yield %next : f32
)") +
                       "  return %c : " + c + "\n}");
  ASSERT_TRUE(loaded.ok()) << loaded.diagnostics();
  auto round = [](std::vector<float> &values) {
    std::vector<uint16_t> result;
    for (float &value : values) {
      uint32_t bits;
      std::memcpy(&bits, &value, 4);
      bits &= 0xffff0000;
      std::memcpy(&value, &bits, 4);
      result.push_back(bits >> 16);
    }
    return result;
  };
  auto va = randomFloats(m * k, 1), vb = randomFloats(n * k, 2);
  auto ha = round(va), hb = round(vb);
  std::vector<float> result(m * n, NAN);
  loaded.call(0, {ha.data(), hb.data(), result.data()});
  expectClose(result, multiply({false, true, m, n, k}, va, vb));
}

TEST(KernelProducts, IntegersAndDoubles) {
  int64_t m = 9, n = 21, k = 14;
  for (std::string element : {"i64", "f64"}) {
    std::string a = tensor({m, k}, element), b = tensor({k, n}, element), c = tensor({m, n}, element);
    LoadedKernels loaded("func.func @k_f(%a: " + a + ", %b: " + b + ") -> " + c + " {\n" +
                         filled("%init", c, element == "i64" ? "0" : "0.0", element) +
                         "  %c = linalg.matmul ins(%a, %b : " + a + ", " + b + ") outs(%init : " + c +
                         ") -> " + c + "\n  return %c : " + c + "\n}");
    ASSERT_TRUE(loaded.ok()) << loaded.diagnostics();
    auto check = [&](auto zero) {
      using T = decltype(zero);
      std::vector<T> va(m * k), vb(k * n), result(m * n);
      for (int64_t i = 0; i < m * k; ++i)
        va[i] = i % 11 - 5;
      for (int64_t i = 0; i < k * n; ++i)
        vb[i] = i % 7 - 3;
      loaded.call(0, {va.data(), vb.data(), result.data()});
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) {
          T sum = 0;
          for (int64_t l = 0; l < k; ++l)
            sum += va[i * k + l] * vb[l * n + j];
          ASSERT_EQ(result[i * n + j], sum);
        }
    };
    element == "i64" ? check(int64_t(0)) : check(0.0);
  }
}

} // namespace
