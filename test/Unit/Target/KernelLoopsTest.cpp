// Elementwise ops, reductions, transposes, gathers and scatters against plain loops.
#include "KernelHarness.h"
#include "KernelText.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>

using namespace plumb;
using namespace plumb::test;

namespace {

/// Each of these rows is a kernel of one op on `count` elements; the sizes leave vectors whole, partial and
/// single.
TEST(KernelLoops, Functions) {
  struct Function {
    std::string name, body;
    double (*reference)(double);
    float low, high, tolerance;
  };
  auto call = [](const std::string &op) { return "    %r = " + op + " %v : f32\n"; };
  std::vector<Function> functions = {
      {"exp", call("math.exp"), [](double x) { return std::exp(x); }, -20, 20, 2e-6},
      {"log", call("math.log"), [](double x) { return std::log(x); }, 1e-6, 1e4, 2e-6},
      {"tanh", call("math.tanh"), [](double x) { return std::tanh(x); }, -12, 12, 2e-6},
      {"erf", call("math.erf"), [](double x) { return std::erf(x); }, -5, 5, 2e-6},
      {"rsqrt", call("math.rsqrt"), [](double x) { return 1 / std::sqrt(x); }, 1e-4, 1e4, 2e-6},
      {"sqrt", call("math.sqrt"), [](double x) { return std::sqrt(x); }, 0, 1e4, 2e-6},
      {"sin", call("math.sin"), [](double x) { return std::sin(x); }, -30, 30, 2e-6},
      {"cos", call("math.cos"), [](double x) { return std::cos(x); }, -30, 30, 2e-6},
      {"floor", call("math.floor"), [](double x) { return std::floor(x); }, -9, 9, 0},
      {"absf", call("math.absf"), [](double x) { return std::abs(x); }, -9, 9, 0},
      {"log1p", call("math.log1p"), [](double x) { return std::log1p(x); }, -0.9, 100, 2e-6},
      {"pow", "    %p = arith.constant 2.5 : f32\n    %r = math.powf %v, %p : f32\n",
       [](double x) { return std::pow(x, 2.5); }, 0.01, 30, 5e-6},
      {"relu", "    %z = arith.constant 0.0 : f32\n    %r = arith.maximumf %v, %z : f32\n",
       [](double x) { return std::max(x, 0.0); }, -3, 3, 0},
  };
  std::vector<int64_t> counts = {1, 7, 16, 83};
  std::string text;
  for (const Function &f : functions)
    for (int64_t count : counts)
      text += "func.func @k_" + f.name + std::to_string(count) + "(%x: " + tensor({count}) + ") -> " +
              tensor({count}) + " {\n" + filled("%e", tensor({count})) +
              generic("%y", "i", "i | i", {"%x"}, {tensor({count})}, "%e", tensor({count}),
                      "\n  ^bb0(%v: f32, %o: f32):\n" + f.body + "    linalg.yield %r : f32\n") +
              "  return %y : " + tensor({count}) + "\n}\n";
  LoadedKernels loaded(text);
  ASSERT_TRUE(loaded.ok()) << loaded.diagnostics();
  EXPECT_EQ(loaded.diagnostics(), "");
  size_t index = 0;
  for (const Function &f : functions)
    for (int64_t count : counts) {
      SCOPED_TRACE(f.name + " of " + std::to_string(count));
      std::vector<float> x = randomFloats(count, index), result(count, NAN), expected;
      for (float &value : x) {
        value = f.low + (f.high - f.low) * (value + 1) / 2;
        expected.push_back(f.reference(value));
      }
      loaded.call(index++, {x.data(), result.data()});
      for (int64_t i = 0; i < count; ++i)
        ASSERT_NEAR(result[i], expected[i], f.tolerance * std::max(std::abs(expected[i]), 1e-3f))
            << "at " << x[i];
    }
}

/// Limits that softmax and its like depend on.
TEST(KernelLoops, SpecialValues) {
  std::string type = tensor({6});
  std::string text;
  for (std::string op : {"math.exp", "math.tanh", "math.erf"})
    text +=
        "func.func @k_" + op.substr(5) + "(%x: " + type + ") -> " + type + " {\n" + filled("%e", type) +
        generic("%y", "i", "i | i", {"%x"}, {type}, "%e", type,
                "\n  ^bb0(%v: f32, %o: f32):\n    %r = " + op + " %v : f32\n    linalg.yield %r : f32\n") +
        "  return %y : " + type + "\n}\n";
  LoadedKernels loaded(text);
  ASSERT_TRUE(loaded.ok()) << loaded.diagnostics();
  std::vector<float> x = {-INFINITY, INFINITY, 0, -200, 200, NAN}, y(6);
  loaded.call(0, {x.data(), y.data()});
  EXPECT_EQ(y[0], 0);
  EXPECT_EQ(y[1], INFINITY);
  EXPECT_EQ(y[2], 1);
  EXPECT_NEAR(y[3], 0, 1e-37);
  EXPECT_EQ(y[4], INFINITY);
  EXPECT_TRUE(std::isnan(y[5]));
  for (size_t kernel : {1, 2}) {
    loaded.call(kernel, {x.data(), y.data()});
    for (auto [i, expected] : llvm::enumerate(std::vector<float>{-1, 1, 0, -1, 1}))
      EXPECT_NEAR(y[i], expected, 1e-6);
    EXPECT_TRUE(std::isnan(y[5]));
  }
}

TEST(KernelLoops, Softmax) {
  for (auto [rows, columns] : {std::pair<int64_t, int64_t>{30, 52}, {8, 64}, {3, 5}, {1, 100}, {5, 1}}) {
    std::string x = tensor({rows, columns}), r = tensor({rows});
    std::string text =
        "func.func @k_f(%x: " + x + ") -> " + x + " {\n" + filled("%m0", r, "0xFF800000") +
        generic("%m", "i; j", "i, j | i", {"%x"}, {x}, "%m0", r,
                "\n  ^bb0(%v: f32, %s: f32):\n    %n = arith.maximumf %v, %s : f32\n    linalg.yield %n : "
                "f32\n") +
        filled("%e", x) +
        generic("%p", "i, j", "i, j | i | i, j", {"%x", "%m"}, {x, r}, "%e", x,
                "\n  ^bb0(%v: f32, %s: f32, %o: f32):\n    %d = arith.subf %v, %s : f32\n    %n = math.exp "
                "%d : f32\n    "
                "linalg.yield %n : f32\n") +
        filled("%s0", r) +
        generic(
            "%s", "i; j", "i, j | i", {"%p"}, {x}, "%s0", r,
            "\n  ^bb0(%v: f32, %s: f32):\n    %n = arith.addf %v, %s : f32\n    linalg.yield %n : f32\n") +
        generic("%y", "i, j", "i, j | i | i, j", {"%p", "%s"}, {x, r}, "%e", x,
                "\n  ^bb0(%v: f32, %t: f32, %o: f32):\n    %n = arith.divf %v, %t : f32\n    linalg.yield %n "
                ": f32\n") +
        "  return %y : " + x + "\n}";
    LoadedKernels loaded(text);
    ASSERT_TRUE(loaded.ok()) << loaded.diagnostics();
    EXPECT_EQ(loaded.diagnostics(), "");
    auto in = randomFloats(rows * columns, 1);
    std::vector<float> expected(in.size()), result(in.size(), NAN);
    for (int64_t i = 0; i < rows; ++i) {
      double sum = 0, most = *std::max_element(&in[i * columns], &in[i * columns] + columns);
      for (int64_t j = 0; j < columns; ++j)
        sum += std::exp(in[i * columns + j] - most);
      for (int64_t j = 0; j < columns; ++j)
        expected[i * columns + j] = std::exp(in[i * columns + j] - most) / sum;
    }
    loaded.call(0, {in.data(), result.data()});
    expectClose(result, expected, 1e-6);
  }
}

/// Sums over every subset of three dimensions, each in every order of the input's dimensions.
TEST(KernelLoops, ReductionsOverAnyDimensions) {
  std::vector<int64_t> sizes = {5, 18, 37};
  std::string names = "abc", text;
  struct Case {
    std::string order;
    int kept;
  };
  std::vector<Case> cases;
  auto list = [](const std::string &letters) {
    std::string text;
    for (char letter : letters)
      text += (text.empty() ? "" : ", ") + std::string(1, letter);
    return text;
  };
  auto subset = [&](int mask) {
    std::string letters;
    for (int i = 0; i < 3; ++i)
      if (mask >> i & 1)
        letters += names[i];
    return letters;
  };
  auto typeOf = [&](const std::string &letters) {
    std::string type = "tensor<";
    for (char letter : letters)
      type += std::to_string(sizes[letter - 'a']) + "x";
    return type + "f32>";
  };
  for (std::string order : {"abc", "cab", "bca"})
    for (int kept = 0; kept < 8; ++kept) {
      cases.push_back({order, kept});
      std::string in = typeOf(order), out = typeOf(subset(kept));
      text += "func.func @k_" + std::to_string(cases.size()) + "(%x: " + in + ") -> " + out + " {\n" +
              filled("%init", out, "1.0") +
              generic("%y", list(subset(kept)) + ";" + list(subset(7 - kept)),
                      list(order) + "|" + list(subset(kept)), {"%x"}, {in}, "%init", out,
                      "\n  ^bb0(%v: f32, %s: f32):\n    %q = arith.mulf %v, %v : f32\n    %n = arith.addf "
                      "%s, %q : f32\n    "
                      "linalg.yield %n : f32\n") +
              "  return %y : " + out + "\n}\n";
    }
  LoadedKernels loaded(text);
  ASSERT_TRUE(loaded.ok()) << loaded.diagnostics();
  EXPECT_EQ(loaded.diagnostics(), "");
  auto in = randomFloats(5 * 18 * 37, 1);
  for (auto [i, c] : llvm::enumerate(cases)) {
    SCOPED_TRACE(c.order + " keeping " + subset(c.kept));
    int64_t at[3];
    auto offset = [&](const std::string &letters) {
      int64_t sum = 0;
      for (char letter : letters)
        sum = sum * sizes[letter - 'a'] + at[letter - 'a'];
      return sum;
    };
    int64_t count = 1;
    for (char letter : subset(c.kept))
      count *= sizes[letter - 'a'];
    std::vector<float> expected(count, 1), result(count, NAN);
    for (at[0] = 0; at[0] < sizes[0]; ++at[0])
      for (at[1] = 0; at[1] < sizes[1]; ++at[1])
        for (at[2] = 0; at[2] < sizes[2]; ++at[2])
          expected[offset(subset(c.kept))] += in[offset(c.order)] * in[offset(c.order)];
    loaded.call(i, {in.data(), result.data()});
    expectClose(result, expected, 1e-5);
  }
}

TEST(KernelLoops, Maximum) {
  std::string x = tensor({9, 45}), r = tensor({9});
  LoadedKernels loaded(
      "func.func @k_f(%x: " + x + ") -> " + r + " {\n" + filled("%init", r, "0xFF800000") +
      generic(
          "%y", "i; j", "i, j | i", {"%x"}, {x}, "%init", r,
          "\n  ^bb0(%v: f32, %s: f32):\n    %n = arith.maximumf %s, %v : f32\n    linalg.yield %n : f32\n") +
      "  return %y : " + r + "\n}");
  ASSERT_TRUE(loaded.ok()) << loaded.diagnostics();
  auto in = randomFloats(9 * 45, 1);
  for (float &value : in)
    value -= 5;
  in[44] = NAN;
  std::vector<float> result(9);
  loaded.call(0, {in.data(), result.data()});
  EXPECT_TRUE(std::isnan(result[0]));
  for (int i = 1; i < 9; ++i)
    EXPECT_EQ(result[i], *std::max_element(&in[i * 45], &in[i * 45] + 45));
}

/// Value and place of the largest element: two outputs whose combination is no single op.
TEST(KernelLoops, ArgMax) {
  std::string x = tensor({9, 45}), r = tensor({9}), p = tensor({9}, "i64");
  LoadedKernels loaded("func.func @k_f(%x: " + x + ") -> " + p + " {\n" + filled("%v0", r, "0xFF800000") +
                       filled("%p0", p, "0", "i64") + R"(
  %v:2 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i)>],
                         iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<9x45xf32>) outs(%v0, %p0 : tensor<9xf32>, tensor<9xi64>) {
  ^bb0(%v: f32, %best: f32, %place: i64):
    %j = linalg.index 1 : index
    %at = arith.index_cast %j : index to i64
    %more = arith.cmpf ogt, %v, %best : f32
    %b = arith.select %more, %v, %best : f32
    %q = arith.select %more, %at, %place : i64
    linalg.yield %b, %q : f32, i64
  } -> (tensor<9xf32>, tensor<9xi64>)
  return %v#1 : tensor<9xi64>
})");
  ASSERT_TRUE(loaded.ok()) << loaded.diagnostics();
  auto in = randomFloats(9 * 45, 1);
  std::vector<int64_t> result(9);
  loaded.call(0, {in.data(), result.data()});
  for (int i = 0; i < 9; ++i)
    EXPECT_EQ(result[i], std::max_element(&in[i * 45], &in[i * 45] + 45) - &in[i * 45]);
}

TEST(KernelLoops, TransposesOfRankFour) {
  std::vector<int64_t> sizes = {3, 17, 5, 20};
  std::string text, order = "0123";
  std::vector<std::string> orders;
  do {
    orders.push_back(order);
    std::string x = tensor({3, 17, 5, 20}), y = tensor({sizes[order[0] - '0'], sizes[order[1] - '0'],
                                                        sizes[order[2] - '0'], sizes[order[3] - '0']});
    text += llvm::formatv("func.func @k_{0}(%x: {1}) -> {2} {{\n  %e = tensor.empty() : {2}\n  %y = "
                          "linalg.transpose ins(%x : "
                          "{1}) outs(%e : {2}) permutation = [{3}, {4}, {5}, {6}]\n  return %y : {2}\n}\n",
                          order, x, y, order[0], order[1], order[2], order[3])
                .str();
  } while (std::next_permutation(order.begin(), order.end()));
  LoadedKernels loaded(text);
  ASSERT_TRUE(loaded.ok()) << loaded.diagnostics();
  EXPECT_EQ(loaded.diagnostics(), "");
  std::vector<float> in(3 * 17 * 5 * 20);
  std::iota(in.begin(), in.end(), 0);
  for (auto [i, order] : llvm::enumerate(orders)) {
    SCOPED_TRACE(order);
    std::vector<float> expected, result(in.size(), NAN);
    int64_t at[4], size[4];
    for (int d = 0; d < 4; ++d)
      size[d] = sizes[order[d] - '0'];
    for (int64_t a = 0; a < size[0]; ++a)
      for (int64_t b = 0; b < size[1]; ++b)
        for (int64_t c = 0; c < size[2]; ++c)
          for (int64_t d = 0; d < size[3]; ++d) {
            at[order[0] - '0'] = a, at[order[1] - '0'] = b, at[order[2] - '0'] = c, at[order[3] - '0'] = d;
            expected.push_back(in[((at[0] * 17 + at[1]) * 5 + at[2]) * 20 + at[3]]);
          }
    loaded.call(i, {in.data(), result.data()});
    EXPECT_EQ(result, expected);
  }
}

/// Rows of a table by index, and its transpose in the backward pass: gradients added to rows of a table.
TEST(KernelLoops, GatherAndScatter) {
  int64_t count = 11, rows = 7, width = 37;
  LoadedKernels loaded(R"(
func.func @k_gather(%table: tensor<7x37xf32>, %index: tensor<11xi64>) -> tensor<11x37xf32> {
  %e = tensor.empty() : tensor<11x37xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>],
                       iterator_types = ["parallel", "parallel"]}
      ins(%index : tensor<11xi64>) outs(%e : tensor<11x37xf32>) {
  ^bb0(%i: i64, %o: f32):
    %row = arith.index_cast %i : i64 to index
    %column = linalg.index 1 : index
    %v = tensor.extract %table[%row, %column] : tensor<7x37xf32>
    linalg.yield %v : f32
  } -> tensor<11x37xf32>
  return %y : tensor<11x37xf32>
}
func.func @k_gather_columns(%table: tensor<7x37xf32>, %index: tensor<11xi64>) -> tensor<7x11xf32> {
  %e = tensor.empty() : tensor<7x11xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>],
                       iterator_types = ["parallel", "parallel"]}
      ins(%index : tensor<11xi64>) outs(%e : tensor<7x11xf32>) {
  ^bb0(%i: i64, %o: f32):
    %column = arith.index_cast %i : i64 to index
    %row = linalg.index 0 : index
    %v = tensor.extract %table[%row, %column] : tensor<7x37xf32>
    linalg.yield %v : f32
  } -> tensor<7x11xf32>
  return %y : tensor<7x11xf32>
}
func.func @k_scatter(%table: tensor<7x37xf32> {plumb.inout, plumb.result = 0}, %index: tensor<11xi64>,
                     %grad: tensor<11x37xf32>) -> tensor<7x37xf32> {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %count = arith.constant 11 : index
  %r = scf.for %i = %zero to %count step %one iter_args(%t = %table) -> (tensor<7x37xf32>) {
    %at = tensor.extract %index[%i] : tensor<11xi64>
    %row = arith.index_cast %at : i64 to index
    %old = tensor.extract_slice %t[%row, 0] [1, 37] [1, 1] : tensor<7x37xf32> to tensor<37xf32>
    %g = tensor.extract_slice %grad[%i, 0] [1, 37] [1, 1] : tensor<11x37xf32> to tensor<37xf32>
    %new = linalg.add ins(%old, %g : tensor<37xf32>, tensor<37xf32>) outs(%old : tensor<37xf32>) -> tensor<37xf32>
    %next = tensor.insert_slice %new into %t[%row, 0] [1, 37] [1, 1] : tensor<37xf32> into tensor<7x37xf32>
    scf.yield %next : tensor<7x37xf32>
  }
  return %r : tensor<7x37xf32>
}
)");
  ASSERT_TRUE(loaded.ok()) << loaded.diagnostics();
  EXPECT_EQ(loaded.diagnostics(), "");
  auto table = randomFloats(rows * width, 1), grad = randomFloats(count * width, 2);
  std::vector<int64_t> index = {3, 0, 6, 3, 3, 1, 5, 0, 2, 6, 4};
  std::vector<float> gathered(count * width, NAN), columns(rows * count, NAN), expected = table;
  loaded.call(0, {table.data(), index.data(), gathered.data()});
  for (int64_t i = 0; i < count; ++i)
    for (int64_t j = 0; j < width; ++j)
      ASSERT_EQ(gathered[i * width + j], table[index[i] * width + j]);
  loaded.call(1, {table.data(), index.data(), columns.data()});
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < count; ++j)
      ASSERT_EQ(columns[i * count + j], table[i * width + index[j]]);
  for (int64_t i = 0; i < count; ++i)
    for (int64_t j = 0; j < width; ++j)
      expected[index[i] * width + j] += grad[i * width + j];
  loaded.call(2, {table.data(), index.data(), grad.data()});
  expectClose(table, expected, 0);
}

TEST(KernelLoops, IntegersBoolsAndSelect) {
  LoadedKernels loaded(R"(
func.func @k_compare(%x: tensor<3x21xi64>, %y: tensor<21xi64>) -> (tensor<3x21xi1>, tensor<3x21xi64>) {
  %b0 = tensor.empty() : tensor<3x21xi1>
  %s0 = tensor.empty() : tensor<3x21xi64>
  %r:2 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>,
                                          affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
                         iterator_types = ["parallel", "parallel"]}
      ins(%x, %y : tensor<3x21xi64>, tensor<21xi64>) outs(%b0, %s0 : tensor<3x21xi1>, tensor<3x21xi64>) {
  ^bb0(%a: i64, %b: i64, %o0: i1, %o1: i64):
    %less = arith.cmpi slt, %a, %b : i64
    %j = linalg.index 1 : index
    %ji = arith.index_cast %j : index to i64
    %t = arith.muli %a, %ji : i64
    %s = arith.select %less, %t, %b : i64
    linalg.yield %less, %s : i1, i64
  } -> (tensor<3x21xi1>, tensor<3x21xi64>)
  return %r#0, %r#1 : tensor<3x21xi1>, tensor<3x21xi64>
}
func.func @k_where(%c: tensor<3x21xi1>, %x: tensor<3x21xf32>) -> tensor<3x21xf32> {
  %e = tensor.empty() : tensor<3x21xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
                       iterator_types = ["parallel", "parallel"]}
      ins(%c, %x : tensor<3x21xi1>, tensor<3x21xf32>) outs(%e : tensor<3x21xf32>) {
  ^bb0(%b: i1, %v: f32, %o: f32):
    %low = arith.constant -1.0e9 : f32
    %s = arith.select %b, %v, %low : f32
    linalg.yield %s : f32
  } -> tensor<3x21xf32>
  return %r : tensor<3x21xf32>
}
func.func @k_turn(%c: tensor<3x21xi1>) -> tensor<21x3xi1> {
  %e = tensor.empty() : tensor<21x3xi1>
  %r = linalg.transpose ins(%c : tensor<3x21xi1>) outs(%e : tensor<21x3xi1>) permutation = [1, 0]
  return %r : tensor<21x3xi1>
}
)");
  ASSERT_TRUE(loaded.ok()) << loaded.diagnostics();
  std::vector<int64_t> x(63), y(21), selected(63);
  for (int i = 0; i < 63; ++i)
    x[i] = i * 7 % 13 - 6;
  for (int i = 0; i < 21; ++i)
    y[i] = i % 5 - 2;
  std::vector<uint8_t> less(63, 0xcc), turned(63, 0xcc);
  loaded.call(0, {x.data(), y.data(), less.data(), selected.data()});
  for (int i = 0; i < 63; ++i) {
    ASSERT_EQ(less[i], x[i] < y[i % 21]);
    ASSERT_EQ(selected[i], less[i] ? x[i] * (i % 21) : y[i % 21]);
  }
  auto values = randomFloats(63, 1);
  std::vector<float> result(63);
  loaded.call(1, {less.data(), values.data(), result.data()});
  for (int i = 0; i < 63; ++i)
    ASSERT_EQ(result[i], less[i] ? values[i] : -1e9f);
  loaded.call(2, {less.data(), turned.data()});
  for (int i = 0; i < 63; ++i)
    ASSERT_EQ(turned[i % 21 * 3 + i / 21], less[i]);
}

/// Slices, pads, reshapes and concatenation by insertion.
TEST(KernelLoops, Movement) {
  LoadedKernels loaded(R"(
func.func @k_cat(%x: tensor<4x6xf32>, %y: tensor<4x9xf32>) -> tensor<4x15xf32> {
  %e = tensor.empty() : tensor<4x15xf32>
  %a = tensor.insert_slice %x into %e[0, 0] [4, 6] [1, 1] : tensor<4x6xf32> into tensor<4x15xf32>
  %b = tensor.insert_slice %y into %a[0, 6] [4, 9] [1, 1] : tensor<4x9xf32> into tensor<4x15xf32>
  return %b : tensor<4x15xf32>
}
func.func @k_pad(%x: tensor<4x6xf32>) -> tensor<6x9xf32> {
  %c = arith.constant 2.5 : f32
  %y = tensor.pad %x low[1, 0] high[1, 3] {
  ^bb0(%i: index, %j: index):
    tensor.yield %c : f32
  } : tensor<4x6xf32> to tensor<6x9xf32>
  return %y : tensor<6x9xf32>
}
func.func @k_heads(%x: tensor<4x6xf32>) -> tensor<2x4x3xf32> {
  %v = tensor.expand_shape %x [[0], [1, 2]] output_shape [4, 2, 3] : tensor<4x6xf32> into tensor<4x2x3xf32>
  %e = tensor.empty() : tensor<2x4x3xf32>
  %y = linalg.transpose ins(%v : tensor<4x2x3xf32>) outs(%e : tensor<2x4x3xf32>) permutation = [1, 0, 2]
  return %y : tensor<2x4x3xf32>
}
func.func @k_flat(%x: tensor<4x6xf32>) -> tensor<24xf32> {
  %y = tensor.collapse_shape %x [[0, 1]] : tensor<4x6xf32> into tensor<24xf32>
  return %y : tensor<24xf32>
}
func.func @k_same(%x: tensor<4x6xf32>) -> (tensor<4x6xf32>, tensor<4x6xf32>) {
  return %x, %x : tensor<4x6xf32>, tensor<4x6xf32>
}
func.func @k_constant() -> tensor<2x2xf32> {
  %c = arith.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  return %c : tensor<2x2xf32>
}
func.func @k_scalar(%x: tensor<f32>, %y: tensor<f32>) -> tensor<f32> {
  %e = tensor.empty() : tensor<f32>
  %z = linalg.mul ins(%x, %y : tensor<f32>, tensor<f32>) outs(%e : tensor<f32>) -> tensor<f32>
  return %z : tensor<f32>
}
func.func @k_nothing(%x: tensor<0x5xf32>) -> tensor<0x5xf32> {
  %e = tensor.empty() : tensor<0x5xf32>
  %z = linalg.mul ins(%x, %x : tensor<0x5xf32>, tensor<0x5xf32>) outs(%e : tensor<0x5xf32>) -> tensor<0x5xf32>
  return %z : tensor<0x5xf32>
}
)");
  ASSERT_TRUE(loaded.ok()) << loaded.diagnostics();
  EXPECT_EQ(loaded.diagnostics(), "");
  auto x = randomFloats(24, 1), y = randomFloats(36, 2);
  std::vector<float> cat(60), pad(54), heads(24), flat(24), same(24), again(24), constant(4);
  loaded.call(0, {x.data(), y.data(), cat.data()});
  loaded.call(1, {x.data(), pad.data()});
  loaded.call(2, {x.data(), heads.data()});
  loaded.call(3, {x.data(), flat.data()});
  loaded.call(4, {x.data(), same.data(), again.data()});
  loaded.call(5, {constant.data()});
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 15; ++j)
      ASSERT_EQ(cat[i * 15 + j], j < 6 ? x[i * 6 + j] : y[i * 9 + j - 6]);
  for (int i = 0; i < 6; ++i)
    for (int j = 0; j < 9; ++j)
      ASSERT_EQ(pad[i * 9 + j], i >= 1 && i < 5 && j < 6 ? x[(i - 1) * 6 + j] : 2.5f);
  for (int h = 0; h < 2; ++h)
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 3; ++j)
        ASSERT_EQ(heads[(h * 4 + i) * 3 + j], x[i * 6 + h * 3 + j]);
  EXPECT_EQ(flat, x);
  EXPECT_EQ(same, x);
  EXPECT_EQ(again, x);
  EXPECT_EQ(constant, (std::vector<float>{1, 2, 3, 4}));
  float a = 3, b = 5, c = 0;
  loaded.call(6, {&a, &b, &c});
  EXPECT_EQ(c, 15);
  loaded.call(7, {&a, &b});
}

/// Parameters are updated in place; momentum is a second in-out argument.
TEST(KernelLoops, InPlace) {
  LoadedKernels loaded(R"(
func.func @k_sgd(%p: tensor<5x19xf32> {plumb.inout, plumb.result = 1}, %g: tensor<5x19xf32>,
                 %m: tensor<5x19xf32> {plumb.inout, plumb.result = 0}) -> (tensor<5x19xf32>, tensor<5x19xf32>) {
  %e = tensor.empty() : tensor<5x19xf32>
  %m1 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
                        iterator_types = ["parallel", "parallel"]}
      ins(%m, %g : tensor<5x19xf32>, tensor<5x19xf32>) outs(%e : tensor<5x19xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %mu = arith.constant 0.9 : f32
    %t = arith.mulf %a, %mu : f32
    %s = arith.addf %t, %b : f32
    linalg.yield %s : f32
  } -> tensor<5x19xf32>
  %p1 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
                        iterator_types = ["parallel", "parallel"]}
      ins(%p, %m1 : tensor<5x19xf32>, tensor<5x19xf32>) outs(%e : tensor<5x19xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %lr = arith.constant 0.1 : f32
    %t = arith.mulf %b, %lr : f32
    %s = arith.subf %a, %t : f32
    linalg.yield %s : f32
  } -> tensor<5x19xf32>
  return %m1, %p1 : tensor<5x19xf32>, tensor<5x19xf32>
})");
  ASSERT_TRUE(loaded.ok()) << loaded.diagnostics();
  EXPECT_EQ(loaded.kernels()[0].scratchBytes, 0);
  auto p = randomFloats(95, 1), g = randomFloats(95, 2), m = randomFloats(95, 3), p1 = p, m1 = m;
  for (int i = 0; i < 95; ++i) {
    m1[i] = 0.9f * m[i] + g[i];
    p1[i] = p[i] - 0.1f * m1[i];
  }
  loaded.call(0, {p.data(), g.data(), m.data()});
  expectClose(p, p1, 1e-6);
  expectClose(m, m1, 1e-6);
}

/// Diagonals of a table: an output that varies with both loops at once is summed up in memory.
TEST(KernelLoops, OverlappingOutputs) {
  int64_t n = 21, m = 40;
  std::string x = tensor({n, m}), y = tensor({n + m - 1});
  LoadedKernels loaded(
      "func.func @k_f(%x: " + x + ") -> " + y + " {\n" + filled("%init", y) +
      generic("%y", "; i, j", "i, j | i + j", {"%x"}, {x}, "%init", y,
              "\n  ^bb0(%v: f32, %s: f32):\n    %n = arith.addf %v, %s : f32\n    linalg.yield %n : f32\n") +
      "  return %y : " + y + "\n}");
  ASSERT_TRUE(loaded.ok()) << loaded.diagnostics();
  auto in = randomFloats(n * m, 1);
  std::vector<float> expected(n + m - 1), result(n + m - 1, NAN);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < m; ++j)
      expected[i + j] += in[i * m + j];
  loaded.call(0, {in.data(), result.data()});
  expectClose(result, expected);
}

/// A long body that reads one input across the lanes.
TEST(KernelLoops, TransposedInputOfALongBody) {
  int64_t n = 35, m = 21;
  std::string x = tensor({n, m}), y = tensor({m, n});
  LoadedKernels loaded("func.func @k_f(%x: " + x + ", %y: " + y + ") -> " + x + " {\n" + filled("%e", x) +
                       generic("%z", "i, j", "i, j | j, i | i, j", {"%x", "%y"}, {x, y}, "%e", x, R"(
  ^bb0(%a: f32, %b: f32, %o: f32):
    %c = arith.addf %a, %b : f32
    %d = arith.mulf %c, %b : f32
    %t = math.tanh %d : f32
    %f = arith.subf %t, %a : f32
    %g = arith.mulf %f, %f : f32
    linalg.yield %g : f32
)") +
                       "  return %z : " + x + "\n}");
  ASSERT_TRUE(loaded.ok()) << loaded.diagnostics();
  auto a = randomFloats(n * m, 1), b = randomFloats(n * m, 2);
  std::vector<float> expected, result(n * m, NAN);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < m; ++j) {
      float u = a[i * m + j], v = b[j * n + i], w = std::tanh((u + v) * v) - u;
      expected.push_back(w * w);
    }
  loaded.call(0, {a.data(), b.data(), result.data()});
  expectClose(result, expected);
}

/// A body with control flow has no vector form: right all the same, and said.
TEST(KernelLoops, ScalarFallback) {
  LoadedKernels loaded(R"(
func.func @k_f(%x: tensor<13xf32>) -> tensor<13xf32> {
  %e = tensor.empty() : tensor<13xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : tensor<13xf32>) outs(%e : tensor<13xf32>) {
  ^bb0(%v: f32, %o: f32):
    %zero = arith.constant 0.0 : f32
    %positive = arith.cmpf ogt, %v, %zero : f32
    %r = scf.if %positive -> (f32) {
      scf.yield %v : f32
    } else {
      %n = arith.negf %v : f32
      scf.yield %n : f32
    }
    linalg.yield %r : f32
  } -> tensor<13xf32>
  return %y : tensor<13xf32>
})");
  ASSERT_TRUE(loaded.ok()) << loaded.diagnostics();
  // On a GPU there are no vectors to miss.
  EXPECT_EQ(loaded.diagnostics().find("scalar loops") != std::string::npos,
            testOptions().target == KernelTarget::Host)
      << loaded.diagnostics();
  auto x = randomFloats(13, 1);
  std::vector<float> y(13);
  loaded.call(0, {x.data(), y.data()});
  for (int i = 0; i < 13; ++i)
    EXPECT_EQ(y[i], std::abs(x[i]));
}

} // namespace
