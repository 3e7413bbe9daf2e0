// How kernels are spread over threads: what is computed, and by how many.
#include "KernelHarness.h"
#include "KernelText.h"

#include "plumb/Target/KernelBufferize.h"
#include "plumb/Target/KernelGrid.h"
#include "plumb/Target/KernelNormalize.h"
#include "plumb/Target/KernelScratch.h"
#include "plumb/Target/KernelSource.h"
#include "plumb/Target/KernelThreads.h"

#include "mlir/Parser/Parser.h"

#include <functional>
#include <numeric>

using namespace mlir;
using namespace plumb;
using namespace plumb::kernels;
using namespace plumb::test;
using plumb::test::tensor;

namespace {

/// The blocks of each entry of a kernel.
std::vector<int64_t> gridOf(const std::string &text) {
  MLIRContext context(kernelDialects(), MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  auto module = parseSourceString<ModuleOp>(text, &context);
  if (!module)
    return {};
  auto function = *module->getOps<func::FuncOp>().begin();
  if (failed(normalizeKernel(function)) || failed(bufferizeKernel(function)) ||
      failed(spreadOverThreads(function)) || failed(assignScratch(function)))
    return {};
  auto entries = outlineEntries(function, "k");
  std::vector<int64_t> blocks;
  if (succeeded(entries))
    for (const GridEntry &entry : *entries)
      blocks.push_back(entry.blocks);
  return blocks;
}

using Grid = std::vector<int64_t>;

TEST(KernelThreads, AThreadForEachElement) {
  int64_t m = 90, n = 40, k = 13;
  std::string a = tensor({m, k}), b = tensor({n, k}), c = tensor({m, n});
  std::string text =
      "func.func @k_f(%a: " + a + ", %b: " + b + ") -> " + c + " {\n" + filled("%i", c) +
      generic("%c", "m, n; k", "m, k | n, k | m, n", {"%a", "%b"}, {a, b}, "%i", c, kMultiplyAdd) +
      "  return %c : " + c + "\n}";
  // A fill and a product; the last block has threads that are too many.
  EXPECT_EQ(gridOf(text), (Grid{15, 15}));
}

/// Σ x² over some of three dims, and the largest x.
std::string reductions(const std::string &loops, const std::string &result,
                       std::initializer_list<int64_t> shape) {
  std::string x = tensor({37, 300, 101}), r = tensor(shape);
  auto reduce = [&](const std::string &name, const std::string &init, const std::string &body) {
    return generic(name, loops, "i, j, k | " + result, {"%x"}, {x}, init, r,
                   "\n  ^bb0(%v: f32, %s: f32):\n" + body + "    linalg.yield %t : f32\n");
  };
  return "func.func @k_f(%x: " + x + ") -> (" + r + ", " + r + ") {\n" + filled("%zero", r, "3.0") +
         filled("%least", r, "-1.0e30") +
         reduce("%sum", "%zero", "    %q = arith.mulf %v, %v : f32\n    %t = arith.addf %s, %q : f32\n") +
         reduce("%most", "%least", "    %t = arith.maximumf %v, %s : f32\n") + "  return %sum, %most : " + r +
         ", " + r + "\n}";
}

TEST(KernelThreads, LongReductionsAreDoneInParts) {
  struct {
    std::string loops, result;
    std::vector<int64_t> shape;
    Grid grid;
  } cases[] = {
      // 1121100 elements to one: 17517 parts, 273 parts of those, and their sum; all twice.
      {"; i, j, k", "", {}, {1, 1, 69, 2, 1, 69, 2, 1}},
      // 30300 elements to each of 37 points.
      {"i; j, k", "i", {37}, {1, 1, 69, 1, 69, 1}},
      // 3737 elements to each of 300 points that are not next to each other.
      {"j; i, k", "j", {300}, {2, 2, 68, 2, 68, 2}},
      // 37 elements are few.
      {"j, k; i", "k, j", {101, 300}, {119, 119, 119, 119}},
  };
  auto x = randomFloats(37 * 300 * 101, 1);
  for (const auto &[loops, result, shape, grid] : cases) {
    SCOPED_TRACE(loops);
    std::string text = shape.empty()       ? reductions(loops, result, {})
                       : shape.size() == 1 ? reductions(loops, result, {shape[0]})
                                           : reductions(loops, result, {shape[0], shape[1]});
    Grid found = gridOf(text);
    EXPECT_EQ(found.size(), grid.size());
    EXPECT_EQ(found, grid);
    int64_t count = 1;
    for (int64_t size : shape)
      count *= size;
    std::vector<double> sum(count, 3.0);
    std::vector<float> most(count, -1e30f), actualSum(count, NAN), actualMost(count, NAN);
    for (int64_t i = 0, at = 0; i < 37; ++i)
      for (int64_t j = 0; j < 300; ++j)
        for (int64_t k = 0; k < 101; ++k, ++at) {
          int64_t point = result == "i" ? i : result == "j" ? j : result == "k, j" ? k * 300 + j : 0;
          sum[point] += double(x[at]) * x[at];
          most[point] = std::max(most[point], x[at]);
        }
    LoadedKernels loaded(text);
    ASSERT_TRUE(loaded.ok()) << loaded.diagnostics();
    loaded.call(0, {x.data(), actualSum.data(), actualMost.data()});
    expectClose(actualSum, std::vector<float>(sum.begin(), sum.end()), 1e-6);
    expectClose(actualMost, most, 0);
  }
}

TEST(KernelThreads, RowsAreReadByNeighbours) {
  std::string x = tensor({8192, 4096}), rows = tensor({8192}), columns = tensor({4096});
  auto sum = [&](const std::string &loops, const std::string &maps, const std::string &r) {
    return "func.func @k_f(%x: " + x + ", %init: " + r + " {plumb.inout, plumb.result = 0}) -> " + r +
           " {\n" +
           generic(
               "%y", loops, maps, {"%x"}, {x}, "%init", r,
               "\n  ^bb0(%v: f32, %s: f32):\n    %t = arith.addf %s, %v : f32\n    linalg.yield %t : f32\n") +
           "  return %y : " + r + "\n}";
  };
  // 32 threads take a row, and 16 keep a device busy with columns.
  EXPECT_EQ(gridOf(sum("i; j", "i, j | i", rows)), (Grid{1024, 32}));
  EXPECT_EQ(gridOf(sum("j; i", "i, j | j", columns)), (Grid{256, 16}));
}

TEST(KernelThreads, LargeProductsAreDoneInSquares) {
  struct Case {
    std::string loops, maps;
    std::vector<int64_t> a, b, c;
    int64_t blocks;
    /// Offsets in a and b of turn k of point i of the result.
    std::function<std::pair<int64_t, int64_t>(int64_t i, int64_t k)> at;
    int64_t turns;
  } cases[] = {
      // Squares of 8: 192 times 192 threads.
      {"m, n; k",
       "m, k | n, k | m, n",
       {1460, 5},
       {1450, 5},
       {1460, 1450},
       144,
       [](int64_t i, int64_t k) { return std::pair(i / 1450 * 5 + k, i % 1450 * 5 + k); },
       5},
      // The same, written across.
      {"m, n; k",
       "m, k | k, n | n, m",
       {1450, 5},
       {5, 1460},
       {1460, 1450},
       144,
       [](int64_t i, int64_t k) { return std::pair(i % 1450 * 5 + k, k * 1460 + i / 1450); },
       5},
      // Squares of 4: 3 times 112 times 112 threads.
      {"g, m, n; k",
       "g, k, m | g, k, n | g, m, n",
       {3, 7, 430},
       {3, 7, 430},
       {3, 430, 430},
       147,
       [](int64_t i, int64_t k) {
         int64_t g = i / 184900;
         return std::pair((g * 7 + k) * 430 + i / 430 % 430, (g * 7 + k) * 430 + i % 430);
       },
       7},
      // Squares of 2, of which a column is long: 16 times 100000 threads.
      {"m, n; k",
       "m, k | k, n | m, n",
       {20, 3},
       {3, 200000},
       {20, 200000},
       6250,
       [](int64_t i, int64_t k) { return std::pair(i / 200000 * 3 + k, k * 200000 + i % 200000); },
       3},
      // A convolution, in squares of 4 channels and columns: 2 times 16 times 64 times 16 threads.
      {"n, o, h, w; i, j",
       "n, h + i, w + j | o, i, j | n, o, h, w",
       {2, 66, 66},
       {64, 3, 3},
       {2, 64, 64, 64},
       128,
       [](int64_t i, int64_t k) {
         int64_t n = i >> 18, o = i >> 12 & 63, h = (i >> 6 & 63) + k / 3, w = (i & 63) + k % 3;
         return std::pair((n * 66 + h) * 66 + w, o * 9 + k);
       },
       9},
  };
  auto typeOf = [](const std::vector<int64_t> &shape) {
    std::string text = "tensor<";
    for (int64_t size : shape)
      text += std::to_string(size) + "x";
    return text + "f32>";
  };
  auto elements = [](const std::vector<int64_t> &shape) {
    return std::accumulate(shape.begin(), shape.end(), int64_t(1), std::multiplies<>());
  };
  for (const Case &each : cases) {
    SCOPED_TRACE(each.maps);
    std::string a = typeOf(each.a), b = typeOf(each.b), c = typeOf(each.c);
    std::string text = "func.func @k_f(%a: " + a + ", %b: " + b + ", %c: " + c +
                       " {plumb.inout, plumb.result = 0}) -> " + c + " {\n" +
                       generic("%r", each.loops, each.maps, {"%a", "%b"}, {a, b}, "%c", c, kMultiplyAdd) +
                       "  return %r : " + c + "\n}";
    EXPECT_EQ(gridOf(text), Grid{each.blocks});
    auto x = randomFloats(elements(each.a), 1), y = randomFloats(elements(each.b), 2),
         z = randomFloats(elements(each.c), 3);
    std::vector<float> expected = z;
    for (int64_t i = 0; i < int64_t(z.size()); ++i)
      for (int64_t k = 0; k < each.turns; ++k) {
        auto [left, right] = each.at(i, k);
        expected[i] += x[left] * y[right];
      }
    LoadedKernels loaded(text);
    ASSERT_TRUE(loaded.ok()) << loaded.diagnostics();
    loaded.call(0, {x.data(), y.data(), z.data()});
    expectClose(z, expected, 1e-6);
  }
}

/// Rows are added to rows of a table, or to its columns, that indices name.
std::string scatter(bool overlapping) {
  // Slices that overlap keep the order of the turns for all elements at once.
  std::string offset = overlapping ? "%row, %row" : "%row, 0", width = overlapping ? "290" : "300";
  return R"(
func.func @k_f(%table: tensor<37x300xf32> {plumb.inout, plumb.result = 0}, %index: tensor<11xi64>,
               %grad: tensor<11x)" +
         width + R"(xf32>) -> tensor<37x300xf32> {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %count = arith.constant 11 : index
  %r = scf.for %i = %zero to %count step %one iter_args(%t = %table) -> (tensor<37x300xf32>) {
    %at = tensor.extract %index[%i] : tensor<11xi64>
    %row = arith.index_cast %at : i64 to index
    %old = tensor.extract_slice %t[)" +
         offset + "] [1, " + width + "] [1, 1] : tensor<37x300xf32> to tensor<1x" + width + R"(xf32>
    %g = tensor.extract_slice %grad[%i, 0] [1, )" +
         width + "] [1, 1] : tensor<11x" + width + "xf32> to tensor<1x" + width + R"(xf32>
    %new = linalg.add ins(%old, %g : tensor<1x)" +
         width + "xf32>, tensor<1x" + width + "xf32>) outs(%old : tensor<1x" + width + "xf32>) -> tensor<1x" +
         width + R"(xf32>
    %next = tensor.insert_slice %new into %t[)" +
         offset + "] [1, " + width + "] [1, 1] : tensor<1x" + width + R"(xf32> into tensor<37x300xf32>
    scf.yield %next : tensor<37x300xf32>
  }
  return %r : tensor<37x300xf32>
})";
}

TEST(KernelThreads, ALoopOverSlicesIsSpreadOverTheirElements) {
  EXPECT_EQ(gridOf(scatter(false)), Grid{2});
  EXPECT_EQ(gridOf(scatter(true)), Grid{1});
  std::vector<int64_t> index = {3, 0, 6, 3, 3, 1, 5, 0, 2, 6, 4};
  for (bool overlapping : {false, true}) {
    int64_t width = overlapping ? 290 : 300;
    auto table = randomFloats(37 * 300, 1), grad = randomFloats(11 * width, 2), expected = table;
    for (int64_t i = 0; i < 11; ++i)
      for (int64_t j = 0; j < width; ++j)
        expected[index[i] * 300 + j + (overlapping ? index[i] : 0)] += grad[i * width + j];
    LoadedKernels loaded(scatter(overlapping));
    ASSERT_TRUE(loaded.ok()) << loaded.diagnostics();
    loaded.call(0, {table.data(), index.data(), grad.data()});
    expectClose(table, expected, 0);
  }
}

} // namespace
