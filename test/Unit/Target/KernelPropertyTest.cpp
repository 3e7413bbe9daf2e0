// Random structured ops against an evaluation point by point: any loops, orders, broadcasts, reductions and
// slices.
#include "KernelHarness.h"
#include "KernelText.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <functional>
#include <numeric>

using namespace plumb;
using namespace plumb::test;

namespace {

/// out[map] = fold over the reduction loops of body(inputs), where every operand is indexed by some of the
/// loops.
struct RandomOp {
  std::vector<int64_t> sizes;
  unsigned parallel = 0; // the first loops
  std::vector<std::vector<unsigned>> inputs;
  std::vector<unsigned> output;
  /// Inputs are slices of larger tensors.
  bool slices = false;
  int combination = 0; // of the inputs: sum of products, or a maximum
  int folding = 0;     // sum, maximum

  std::string text(const std::string &name) const;
  std::vector<float> evaluate(const std::vector<std::vector<float>> &values,
                              const std::vector<float> &init) const;
  int64_t elements(const std::vector<unsigned> &loops, int64_t extra = 0) const {
    int64_t count = 1;
    for (unsigned loop : loops)
      count *= sizes[loop] + extra;
    return count;
  }
};

std::string typeOf(const RandomOp &op, const std::vector<unsigned> &loops, int64_t extra = 0) {
  std::string type = "tensor<";
  for (unsigned loop : loops)
    type += std::to_string(op.sizes[loop] + extra) + "x";
  return type + "f32>";
}

std::string list(const std::vector<unsigned> &loops) {
  std::vector<std::string> names;
  for (unsigned loop : loops)
    names.push_back("d" + std::to_string(loop));
  return llvm::join(names, ", ");
}

std::string RandomOp::text(const std::string &name) const {
  std::string arguments, ops, maps, block;
  std::vector<std::string> operands, types;
  int64_t extra = slices ? 2 : 0;
  for (auto [i, loops] : llvm::enumerate(inputs)) {
    arguments += llvm::formatv("%a{0}: {1}, ", i, typeOf(*this, loops, extra));
    operands.push_back("%a" + std::to_string(i));
    types.push_back(typeOf(*this, loops));
    if (slices && !loops.empty()) {
      std::vector<std::string> offsets(loops.size(), "1"), counts;
      for (unsigned loop : loops)
        counts.push_back(std::to_string(sizes[loop]));
      ops += llvm::formatv("  %s{0} = tensor.extract_slice %a{0}[{1}] [{2}] [{1}] : {3} to {4}\n", i,
                           llvm::join(offsets, ", "), llvm::join(counts, ", "), typeOf(*this, loops, extra),
                           types.back());
      operands.back() = "%s" + std::to_string(i);
    }
    maps += list(loops) + " | ";
    block += llvm::formatv("%v{0}: f32, ", i);
  }
  std::string body = "\n  ^bb0(" + block + "%acc: f32):\n    %r0 = arith.mulf %v0, %v0 : f32\n";
  for (size_t i = 1; i < inputs.size(); ++i)
    body += combination == 0
                ? llvm::formatv(
                      "    %m{0} = arith.mulf %v{0}, %r{1} : f32\n    %r{0} = arith.addf %m{0}, %v0 : f32\n",
                      i, i - 1)
                      .str()
                : llvm::formatv("    %r{0} = arith.maximumf %v{0}, %r{1} : f32\n", i, i - 1).str();
  body += llvm::formatv("    %n = arith.{0} %acc, %r{1} : f32\n    linalg.yield %n : f32\n",
                        folding == 0 ? "addf" : "maximumf", inputs.size() - 1);
  std::vector<unsigned> all(sizes.size());
  std::iota(all.begin(), all.end(), 0);
  std::string loops =
      list({all.begin(), all.begin() + parallel}) + ";" + list({all.begin() + parallel, all.end()});
  std::string type = typeOf(*this, output);
  return "func.func @k_" + name + "(" + arguments + "%init: " + type + ") -> " + type + " {\n" + ops +
         generic("%y", loops, maps + list(output), operands, types, "%init", type, body) +
         "  return %y : " + type + "\n}\n";
}

std::vector<float> RandomOp::evaluate(const std::vector<std::vector<float>> &values,
                                      const std::vector<float> &init) const {
  std::vector<double> result(init.begin(), init.end());
  std::vector<int64_t> at(sizes.size(), 0);
  auto offset = [&](const std::vector<unsigned> &loops, int64_t extra) {
    int64_t sum = 0;
    for (unsigned loop : loops)
      sum = sum * (sizes[loop] + extra) + at[loop] + extra / 2;
    return sum;
  };
  for (bool more = true; more;) {
    double first = values[0][offset(inputs[0], slices ? 2 : 0)], value = first * first;
    for (size_t i = 1; i < inputs.size(); ++i) {
      double next = values[i][offset(inputs[i], slices ? 2 : 0)];
      value = combination == 0 ? next * value + first : std::max(next, value);
    }
    double &slot = result[offset(output, 0)];
    slot = folding == 0 ? slot + value : std::max(slot, value);
    more = false;
    for (size_t loop = sizes.size(); loop-- > 0 && !more;) {
      more = ++at[loop] < sizes[loop];
      if (!more)
        at[loop] = 0;
    }
  }
  return {result.begin(), result.end()};
}

RandomOp randomOp(std::mt19937 &generator) {
  auto below = [&](unsigned bound) { return generator() % bound; };
  RandomOp op;
  static constexpr int64_t kSizes[] = {1, 2, 3, 4, 5, 8, 16, 17, 21, 33, 48};
  unsigned loops = 1 + below(4);
  for (unsigned i = 0; i < loops; ++i)
    op.sizes.push_back(kSizes[below(loops > 3 ? 9 : 11)]);
  op.parallel = below(loops + 1);
  for (unsigned i = 0; i < op.parallel; ++i)
    op.output.push_back(i);
  std::shuffle(op.output.begin(), op.output.end(), generator);
  // The first input is indexed by all loops, which defines their sizes; others broadcast along some.
  std::vector<unsigned> all(loops);
  std::iota(all.begin(), all.end(), 0);
  for (unsigned i = 0, count = 1 + below(3); i < count; ++i) {
    std::shuffle(all.begin(), all.end(), generator);
    op.inputs.push_back(i == 0 ? all : std::vector<unsigned>(all.begin(), all.begin() + below(loops + 1)));
  }
  op.slices = below(3) == 0;
  op.combination = below(2);
  op.folding = below(2);
  return op;
}

void checkRandomOps(unsigned seed, size_t count, const std::string &cpu) {
  std::mt19937 generator(seed);
  std::vector<RandomOp> ops;
  std::string text;
  for (size_t i = 0; i < count; ++i) {
    ops.push_back(randomOp(generator));
    text += ops.back().text(std::to_string(i));
  }
  KernelOptions options = testOptions();
  options.cpu = cpu;
  LoadedKernels loaded(text, options);
  ASSERT_TRUE(loaded.ok()) << loaded.diagnostics();
  EXPECT_EQ(loaded.diagnostics(), "");
  for (auto [i, op] : llvm::enumerate(ops)) {
    SCOPED_TRACE(op.text("f"));
    std::vector<std::vector<float>> values;
    std::vector<void *> pointers;
    for (const auto &loops : op.inputs)
      values.push_back(randomFloats(op.elements(loops, op.slices ? 2 : 0), generator()));
    for (auto &each : values)
      pointers.push_back(each.data());
    std::vector<float> init = randomFloats(op.elements(op.output), generator()), result(init.size(), NAN);
    pointers.push_back(init.data());
    pointers.push_back(result.data());
    std::vector<float> before = init;
    loaded.call(i, pointers);
    EXPECT_EQ(init, before);
    expectClose(result, op.evaluate(values, init), 2e-5);
  }
}

TEST(KernelProperties, RandomOps) { checkRandomOps(1, 120, "native"); }

/// A graph of ops on square matrices and rows, in which anything may be used several times, returned, or
/// written into an argument: what fusion and sharing of buffers must keep apart.
struct RandomGraph {
  static constexpr int64_t kSize = 20;
  std::string text;
  std::vector<std::vector<float>> values; // arguments, then what each op computes
  std::vector<bool> isRow;
  std::vector<size_t> results;
  std::vector<int> argumentOfResult;

  RandomGraph(unsigned seed, const std::string &name);

private:
  size_t add(const std::string &maps, std::vector<size_t> operands, bool row, const std::string &body,
             const std::function<float(int64_t, int64_t)> &evaluate, const std::string &loops = "i, j");
  std::string ops;
  std::string type(size_t value) const { return isRow[value] ? tensor({kSize}) : tensor({kSize, kSize}); }
};

size_t RandomGraph::add(const std::string &maps, std::vector<size_t> operands, bool row,
                        const std::string &body, const std::function<float(int64_t, int64_t)> &evaluate,
                        const std::string &loops) {
  size_t index = values.size();
  std::string name = "%v" + std::to_string(index);
  isRow.push_back(row);
  std::vector<std::string> names, types;
  for (size_t operand : operands) {
    names.push_back("%v" + std::to_string(operand));
    types.push_back(type(operand));
  }
  ops += filled("%init" + std::to_string(index), type(index)) +
         generic(name, loops, maps + (row ? " | i" : " | i, j"), names, types,
                 "%init" + std::to_string(index), type(index), body);
  std::vector<float> result;
  for (int64_t i = 0; i < kSize; ++i)
    for (int64_t j = 0; j < (row ? 1 : kSize); ++j)
      result.push_back(evaluate(i, j));
  values.push_back(result);
  return index;
}

RandomGraph::RandomGraph(unsigned seed, const std::string &name) {
  std::mt19937 generator(seed);
  auto below = [&](unsigned bound) { return generator() % bound; };
  unsigned arguments = 2 + below(3);
  for (unsigned i = 0; i < arguments; ++i) {
    isRow.push_back(i == 1);
    values.push_back(randomFloats(isRow.back() ? kSize : kSize * kSize, generator()));
  }
  auto pick = [&](bool row) {
    std::vector<size_t> candidates;
    for (size_t i = 0; i < values.size(); ++i)
      if (isRow[i] == row)
        candidates.push_back(i);
    return candidates[below(candidates.size())];
  };
  auto at = [&](size_t value, int64_t i, int64_t j) -> float {
    return values[value][isRow[value] ? i : i * kSize + j];
  };
  for (unsigned step = 0, steps = 2 + below(7); step < steps; ++step) {
    size_t x = pick(false), y = pick(false), r = pick(true);
    switch (below(7)) {
    case 0:
      add("i, j | i, j", {x, y}, false, R"(
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.subf %a, %b : f32
    %t = math.tanh %s : f32
    linalg.yield %t : f32
)",
          [&](int64_t i, int64_t j) { return std::tanh(at(x, i, j) - at(y, i, j)); });
      break;
    case 1:
      add("i, j | i", {x, r}, false, R"(
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.mulf %a, %b : f32
    linalg.yield %s : f32
)",
          [&](int64_t i, int64_t j) { return at(x, i, j) * at(r, i, 0); });
      break;
    case 2:
      add("j, i", {x}, false, "\n  ^bb0(%a: f32, %o: f32):\n    linalg.yield %a : f32\n",
          [&](int64_t i, int64_t j) { return at(x, j, i); });
      break;
    case 3:
      add(
          "i, j", {x}, true,
          "\n  ^bb0(%a: f32, %o: f32):\n    %s = arith.maximumf %o, %a : f32\n    linalg.yield %s : f32\n",
          [&](int64_t i, int64_t) {
            float most = 0;
            for (int64_t j = 0; j < kSize; ++j)
              most = std::max(most, at(x, i, j));
            return most;
          },
          "i; j");
      break;
    case 4: {
      // The two halves of the rows change places: views, and insertions into them.
      size_t index = values.size();
      isRow.push_back(false);
      std::string half = tensor({kSize / 2, kSize}), whole = type(x);
      ops += llvm::formatv(R"(  %h{0} = tensor.empty() : {2}
  %low{0} = tensor.extract_slice %v{1}[0, 0] [10, 20] [1, 1] : {2} to {3}
  %high{0} = tensor.extract_slice %v{1}[10, 0] [10, 20] [1, 1] : {2} to {3}
  %half{0} = tensor.insert_slice %high{0} into %h{0}[0, 0] [10, 20] [1, 1] : {3} into {2}
  %v{0} = tensor.insert_slice %low{0} into %half{0}[10, 0] [10, 20] [1, 1] : {3} into {2}
)",
                           index, x, whole, half)
                 .str();
      std::vector<float> swapped = values[x];
      std::rotate(swapped.begin(), swapped.begin() + kSize * kSize / 2, swapped.end());
      values.push_back(swapped);
      break;
    }
    default: {
      // The mean over k of a product, transposed or not.
      bool transposed = below(2);
      size_t product = add(
          transposed ? "i, k | j, k" : "i, k | k, j", {x, y}, false, kMultiplyAdd,
          [&](int64_t i, int64_t j) {
            double sum = 0;
            for (int64_t k = 0; k < kSize; ++k)
              sum += double(at(x, i, k)) * (transposed ? at(y, j, k) : at(y, k, j));
            return sum;
          },
          "i, j; k");
      size_t other = pick(false);
      add("i, j | i, j", {product, other}, false, R"(
  ^bb0(%a: f32, %b: f32, %o: f32):
    %c = arith.constant 0.05 : f32
    %s = arith.mulf %a, %c : f32
    %t = arith.addf %s, %b : f32
    linalg.yield %t : f32
)",
          [&](int64_t i, int64_t j) { return 0.05f * at(product, i, j) + at(other, i, j); });
      break;
    }
    }
  }
  std::vector<bool> taken(arguments, false);
  for (unsigned i = 0, count = 1 + below(3); i < count; ++i) {
    size_t result = values.size() - 1 - below(values.size() - arguments);
    results.push_back(result);
    argumentOfResult.push_back(-1);
    unsigned argument = below(arguments);
    if (below(2) && !taken[argument] && isRow[argument] == isRow[result]) {
      taken[argument] = true;
      argumentOfResult.back() = argument;
    }
  }
  std::vector<std::string> parameters, returned, types;
  for (unsigned i = 0; i < arguments; ++i) {
    parameters.push_back("%v" + std::to_string(i) + ": " + type(i));
    for (auto [k, argument] : llvm::enumerate(argumentOfResult))
      if (argument == static_cast<int>(i))
        parameters.back() += " {plumb.inout, plumb.result = " + std::to_string(k) + "}";
  }
  for (size_t result : results) {
    returned.push_back("%v" + std::to_string(result));
    types.push_back(type(result));
  }
  text = "func.func @k_" + name + "(" + llvm::join(parameters, ", ") + ") -> (" + llvm::join(types, ", ") +
         ") {\n" + ops + "  return " + llvm::join(returned, ", ") + " : " + llvm::join(types, ", ") + "\n}\n";
}

TEST(KernelProperties, RandomGraphs) {
  std::vector<RandomGraph> graphs;
  std::string text;
  for (unsigned seed = 0; seed < 90; ++seed) {
    graphs.emplace_back(seed, std::to_string(seed));
    text += graphs.back().text;
  }
  LoadedKernels loaded(text);
  ASSERT_TRUE(loaded.ok()) << loaded.diagnostics();
  EXPECT_EQ(loaded.diagnostics(), "");
  for (auto [index, graph] : llvm::enumerate(graphs)) {
    SCOPED_TRACE(graph.text);
    std::vector<std::vector<float>> buffers;
    size_t arguments = std::count(graph.text.begin(), graph.text.begin() + graph.text.find(") ->"), '%');
    for (size_t i = 0; i < arguments; ++i)
      buffers.push_back(graph.values[i]);
    std::vector<size_t> place;
    for (auto [result, argument] : llvm::zip_equal(graph.results, graph.argumentOfResult)) {
      place.push_back(argument >= 0 ? argument : buffers.size());
      if (argument < 0)
        buffers.emplace_back(graph.values[result].size(), NAN);
    }
    std::vector<void *> pointers;
    for (auto &buffer : buffers)
      pointers.push_back(buffer.data());
    loaded.call(index, pointers);
    for (auto [result, at] : llvm::zip_equal(graph.results, place))
      expectClose(buffers[at], graph.values[result], 1e-4);
    for (size_t i = 0; i < arguments; ++i)
      if (!llvm::is_contained(graph.argumentOfResult, static_cast<int>(i)))
        EXPECT_EQ(buffers[i], graph.values[i]);
  }
}

#if defined(__x86_64__)
/// Narrower vectors and fewer registers.
TEST(KernelProperties, RandomOpsOnOtherCpus) {
  checkRandomOps(2, 40, "x86-64");
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    checkRandomOps(3, 40, "haswell");
}
#endif

} // namespace
