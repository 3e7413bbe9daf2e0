// Times the kernels of a transformer block on one core: GFLOP/s of products, GB/s of the rest, and compile
// times.
//
//   tools/bench kernels [FILTER]
#include "KernelHarness.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <random>

using namespace plumb;
using namespace plumb::test;

namespace {

/// A kernel of f32 tensors, with the work of one call.
struct Benchmark {
  std::string name, arguments, results, body;
  std::vector<int64_t> sizes; // elements of each argument and result
  double flops = 0, bytes = 0;
};

std::string shape(std::initializer_list<int64_t> sizes) {
  std::string text = "tensor<";
  for (int64_t size : sizes)
    text += std::to_string(size) + "x";
  return text + "f32>";
}

std::string generic(const std::string &result, const std::string &maps, const std::string &iterators,
                    const std::string &ins, const std::string &outs, const std::string &type,
                    const std::string &body) {
  return "  " + result + " = linalg.generic {indexing_maps = [" + maps + "], iterator_types = [" + iterators +
         "]} ins(" + ins + ") outs(" + outs + ") {\n" + body + "  } -> " + type + "\n";
}

const char *kMultiplyAdd = R"(  ^bb0(%x: f32, %y: f32, %s: f32):
    %xy = arith.mulf %x, %y : f32
    %n = arith.addf %s, %xy : f32
    linalg.yield %n : f32
)";

std::string zeros(const std::string &name, const std::string &type) {
  return llvm::formatv(
             "  %zero_{0} = arith.constant 0.0 : f32\n  %e_{0} = tensor.empty() : {1}\n  %{0} = linalg.fill "
             "ins(%zero_{0} : f32) outs(%e_{0} : {1}) -> {1}\n",
             name, type)
      .str();
}

/// kind: "nn", "nt", "tn"; with an epilogue gelu(x + bias) + residual if asked for.
Benchmark product(const std::string &kind, int64_t m, int64_t n, int64_t k, bool epilogue) {
  std::string a = kind[0] == 't' ? shape({k, m}) : shape({m, k}),
              b = kind[1] == 't' ? shape({n, k}) : shape({k, n}), c = shape({m, n}), bias = shape({n});
  std::string maps = std::string("affine_map<(m, n, k) -> ") + (kind[0] == 't' ? "(k, m)" : "(m, k)") +
                     ">, affine_map<(m, n, k) -> " + (kind[1] == 't' ? "(n, k)" : "(k, n)") +
                     ">, affine_map<(m, n, k) -> (m, n)>";
  Benchmark result;
  result.name = llvm::formatv("{0}{1}_{2}x{3}x{4}", kind, epilogue ? "_gelu" : "", m, n, k).str();
  result.arguments = "%a: " + a + ", %b: " + b;
  result.results = c;
  result.sizes = {m * k, n * k};
  result.flops = 2.0 * m * n * k;
  result.body = zeros("init", c) + generic("%c", maps, R"("parallel", "parallel", "reduction")",
                                           "%a, %b : " + a + ", " + b, "%init : " + c, c, kMultiplyAdd);
  if (epilogue) {
    result.arguments += ", %bias: " + bias + ", %r: " + c;
    result.sizes.insert(result.sizes.end(), {n, m * n});
    result.body +=
        "  %e = tensor.empty() : " + c + "\n" +
        generic("%d",
                "affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (n)>, affine_map<(m, n) -> (m, n)>, "
                "affine_map<(m, n) -> (m, n)>",
                R"("parallel", "parallel")", "%c, %bias, %r : " + c + ", " + bias + ", " + c, "%e : " + c, c,
                R"(  ^bb0(%x: f32, %y: f32, %z: f32, %o: f32):
    %half = arith.constant 0.5 : f32
    %one = arith.constant 1.0 : f32
    %c0 = arith.constant 0.7978845608 : f32
    %c1 = arith.constant 0.044715 : f32
    %v = arith.addf %x, %y : f32
    %v2 = arith.mulf %v, %v : f32
    %v3 = arith.mulf %v2, %v : f32
    %w = arith.mulf %v3, %c1 : f32
    %u = arith.addf %w, %v : f32
    %t = arith.mulf %u, %c0 : f32
    %h = math.tanh %t : f32
    %g = arith.addf %h, %one : f32
    %q = arith.mulf %v, %half : f32
    %p = arith.mulf %q, %g : f32
    %s = arith.addf %p, %z : f32
    linalg.yield %s : f32
)");
  }
  result.body += std::string("  return ") + (epilogue ? "%d" : "%c") + " : " + c + "\n";
  result.sizes.push_back(m * n);
  return result;
}

/// Attention scores and values of b batches, h heads in the layout (b, t, h, d).
Benchmark attention(bool scores, int64_t b, int64_t h, int64_t t, int64_t d) {
  std::string x = shape({b, t, h, d}), s = shape({b, h, t, t});
  Benchmark result;
  result.name = llvm::formatv("attention_{0}_{1}x{2}x{3}x{4}", scores ? "qk" : "pv", b, h, t, d).str();
  result.flops = 2.0 * b * h * t * t * d;
  std::string left = scores ? x : s, out = scores ? s : x;
  result.arguments = "%a: " + left + ", %b: " + x;
  result.results = out;
  result.sizes = {scores ? b * t * h * d : b * h * t * t, b * t * h * d,
                  scores ? b * h * t * t : b * t * h * d};
  std::string maps =
      scores ? "affine_map<(b, h, t, s, d) -> (b, t, h, d)>, affine_map<(b, h, t, s, d) -> (b, s, h, d)>, "
               "affine_map<(b, h, t, s, d) -> (b, h, t, s)>"
             : "affine_map<(b, h, t, d, s) -> (b, h, t, s)>, affine_map<(b, h, t, d, s) -> (b, s, h, d)>, "
               "affine_map<(b, h, t, d, s) -> (b, t, h, d)>";
  result.body = zeros("init", out) +
                generic("%c", maps, R"("parallel", "parallel", "parallel", "parallel", "reduction")",
                        "%a, %b : " + left + ", " + x, "%init : " + out, out, kMultiplyAdd) +
                "  return %c : " + out + "\n";
  return result;
}

Benchmark softmax(int64_t rows, int64_t columns) {
  std::string x = shape({rows, columns}), r = shape({rows});
  Benchmark result;
  result.name = llvm::formatv("softmax_{0}x{1}", rows, columns).str();
  result.arguments = "%x: " + x;
  result.results = x;
  result.sizes = {rows * columns, rows * columns};
  result.bytes = 8.0 * rows * columns;
  const char *reduce = "affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>";
  const char *rowwise =
      "affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>";
  result.body =
      "  %inf = arith.constant 0xFF800000 : f32\n  %er = tensor.empty() : " + r +
      "\n  %ex = tensor.empty() : " + x + "\n  %mi = linalg.fill ins(%inf : f32) outs(%er : " + r + ") -> " +
      r + "\n" +
      generic(
          "%m", reduce, R"("parallel", "reduction")", "%x : " + x, "%mi : " + r, r,
          "  ^bb0(%v: f32, %s: f32):\n    %n = arith.maximumf %v, %s : f32\n    linalg.yield %n : f32\n") +
      generic("%p", rowwise, R"("parallel", "parallel")", "%x, %m : " + x + ", " + r, "%ex : " + x, x,
              "  ^bb0(%v: f32, %s: f32, %o: f32):\n    %d = arith.subf %v, %s : f32\n    %n = math.exp %d : "
              "f32\n    linalg.yield %n : f32\n") +
      zeros("si", r) +
      generic("%sum", reduce, R"("parallel", "reduction")", "%p : " + x, "%si : " + r, r,
              "  ^bb0(%v: f32, %s: f32):\n    %n = arith.addf %v, %s : f32\n    linalg.yield %n : f32\n") +
      generic("%y", rowwise, R"("parallel", "parallel")", "%p, %sum : " + x + ", " + r, "%ex : " + x, x,
              "  ^bb0(%v: f32, %s: f32, %o: f32):\n    %n = arith.divf %v, %s : f32\n    linalg.yield %n : "
              "f32\n") +
      "  return %y : " + x + "\n";
  return result;
}

Benchmark layerNorm(int64_t rows, int64_t columns) {
  std::string x = shape({rows, columns}), r = shape({rows}), w = shape({columns});
  Benchmark result;
  result.name = llvm::formatv("layer_norm_{0}x{1}", rows, columns).str();
  result.arguments = "%x: " + x + ", %w: " + w + ", %b: " + w;
  result.results = x;
  result.sizes = {rows * columns, columns, columns, rows * columns};
  result.bytes = 8.0 * rows * columns;
  const char *reduce = "affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>";
  std::string count = llvm::formatv("{0}.0", columns).str();
  result.body =
      zeros("z", r) +
      generic("%sum", reduce, R"("parallel", "reduction")", "%x : " + x, "%z : " + r, r,
              "  ^bb0(%v: f32, %s: f32):\n    %n = arith.addf %v, %s : f32\n    linalg.yield %n : f32\n") +
      "  %er = tensor.empty() : " + r + "\n  %ex = tensor.empty() : " + x + "\n" +
      generic("%mean", "affine_map<(i) -> (i)>, affine_map<(i) -> (i)>", R"("parallel")", "%sum : " + r,
              "%er : " + r, r,
              "  ^bb0(%v: f32, %o: f32):\n    %c = arith.constant " + count +
                  " : f32\n    %n = arith.divf %v, %c : f32\n    linalg.yield %n : f32\n") +
      generic("%vs", "affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i)>",
              R"("parallel", "reduction")", "%x, %mean : " + x + ", " + r, "%z : " + r, r,
              "  ^bb0(%v: f32, %m: f32, %s: f32):\n    %d = arith.subf %v, %m : f32\n    %q = arith.mulf %d, "
              "%d : f32\n   "
              " %n = arith.addf %q, %s : f32\n    linalg.yield %n : f32\n") +
      generic("%y",
              "affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i)>, "
              "affine_map<(i, j) -> "
              "(j)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>",
              R"("parallel", "parallel")",
              "%x, %mean, %vs, %w, %b : " + x + ", " + r + ", " + r + ", " + w + ", " + w, "%ex : " + x, x,
              "  ^bb0(%v: f32, %m: f32, %q: f32, %g: f32, %h: f32, %o: f32):\n    %c = arith.constant " +
                  count +
                  " : f32\n    %eps = arith.constant 1.0e-5 : f32\n    %var = arith.divf %q, %c : f32\n    "
                  "%ve = arith.addf "
                  "%var, %eps : f32\n    %rs = math.rsqrt %ve : f32\n    %d = arith.subf %v, %m : f32\n    "
                  "%n = arith.mulf "
                  "%d, %rs : f32\n    %k = arith.mulf %n, %g : f32\n    %y1 = arith.addf %k, %h : f32\n    "
                  "linalg.yield %y1 : "
                  "f32\n") +
      "  return %y : " + x + "\n";
  return result;
}

Benchmark permute(int64_t b, int64_t t, int64_t h, int64_t d, const std::string &to) {
  auto size = [&](char c) { return c == 'b' ? b : c == 't' ? t : c == 'h' ? h : d; };
  std::string x = shape({b, t, h, d}), y = shape({size(to[0]), size(to[1]), size(to[2]), size(to[3])});
  Benchmark result;
  result.name = llvm::formatv("permute_{0}_{1}x{2}x{3}x{4}", to, b, t, h, d).str();
  result.arguments = "%x: " + x;
  result.results = y;
  result.sizes = {b * t * h * d, b * t * h * d};
  result.bytes = 8.0 * b * t * h * d;
  result.body =
      "  %e = tensor.empty() : " + y + "\n" +
      generic("%y",
              "affine_map<(b, t, h, d) -> (b, t, h, d)>, affine_map<(b, t, h, d) -> (" +
                  llvm::join(llvm::map_range(to, [](char c) { return std::string(1, c); }), ", ") + ")>",
              R"("parallel", "parallel", "parallel", "parallel")", "%x : " + x, "%e : " + y, y,
              "  ^bb0(%v: f32, %o: f32):\n    linalg.yield %v : f32\n") +
      "  return %y : " + y + "\n";
  return result;
}

std::vector<Benchmark> benchmarks() {
  std::vector<Benchmark> all;
  for (const char *kind : {"nn", "nt", "tn"}) {
    for (auto [m, n, k] : {std::tuple<int64_t, int64_t, int64_t>{512, 512, 512},
                           {512, 1152, 768},
                           {512, 768, 384},
                           {512, 1536, 768},
                           {512, 768, 1536},
                           {512, 3072, 768},
                           {64, 192, 64},
                           {64, 256, 64},
                           {64, 64, 256},
                           {32, 96, 64},
                           {30, 156, 52},
                           {30, 52, 208},
                           {1, 768, 768},
                           {4, 768, 768}})
      all.push_back(product(kind, m, n, k, false));
  }
  for (auto [m, n, k] : {std::tuple<int64_t, int64_t, int64_t>{512, 1536, 768}, {64, 256, 64}, {30, 208, 52}})
    all.push_back(product("nt", m, n, k, true));
  for (bool scores : {true, false}) {
    all.push_back(attention(scores, 2, 12, 256, 64));
    all.push_back(attention(scores, 4, 4, 16, 16));
    all.push_back(attention(scores, 2, 4, 15, 13));
  }
  all.push_back(softmax(512, 512));
  all.push_back(softmax(64, 16));
  all.push_back(softmax(30, 52));
  all.push_back(layerNorm(512, 768));
  all.push_back(layerNorm(64, 64));
  all.push_back(layerNorm(30, 52));
  for (const char *to : {"bhtd", "bhdt", "dhtb"})
    all.push_back(permute(2, 128, 12, 64, to));
  return all;
}

/// Time of this thread, so that other load on the machine matters less.
double seconds() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return time.tv_sec + 1e-9 * time.tv_nsec;
}

} // namespace

int main(int argc, char **argv) {
  std::string filter = argc > 1 ? argv[1] : "";
  double compile = 0;
  int count = 0;
  for (const Benchmark &each : benchmarks()) {
    if (each.name.find(filter) == std::string::npos)
      continue;
    std::string text = "func.func @k_" + each.name + "(" + each.arguments + ") -> " + each.results + " {\n" +
                       each.body + "}\n";
    KernelOptions options;
    options.useCache = false;
    std::clock_t before = std::clock();
    LoadedKernels loaded(text, options);
    double compileSeconds = double(std::clock() - before) / CLOCKS_PER_SEC;
    if (!loaded.ok()) {
      std::fprintf(stderr, "%s\n%s", loaded.diagnostics().c_str(), text.c_str());
      return 1;
    }
    std::mt19937 generator(1);
    std::uniform_real_distribution<float> distribution(-1, 1);
    std::vector<std::vector<float>> buffers;
    std::vector<void *> pointers;
    for (int64_t size : each.sizes) {
      buffers.emplace_back(size + 16);
      for (float &value : buffers.back())
        value = distribution(generator);
      // Cache-line aligned, as the arena of a program is.
      uintptr_t address = reinterpret_cast<uintptr_t>(buffers.back().data());
      pointers.push_back(reinterpret_cast<void *>((address + 63) / 64 * 64));
    }
    auto call = loaded.prepare(0, pointers);
    std::vector<double> times;
    for (double until = seconds() + 0.3; times.size() < 5 || seconds() < until;) {
      int repeat = std::max(1, int(1e5 / (each.flops / 100 + each.bytes)));
      double start = seconds();
      for (int j = 0; j < repeat; ++j)
        call();
      times.push_back((seconds() - start) / repeat);
    }
    // The clock of a virtual machine may jump, so that the very least is not to be trusted.
    std::nth_element(times.begin(), times.begin() + times.size() / 10, times.end());
    double best = times[times.size() / 10];
    std::printf("%-34s %9.1f us  %7.1f %s  compiled in %4.0f ms, %lld bytes of scratch\n", each.name.c_str(),
                best * 1e6, (each.flops ? each.flops : each.bytes) / best / 1e9,
                each.flops ? "GFLOP/s" : "GB/s   ", compileSeconds * 1e3,
                static_cast<long long>(loaded.kernels()[0].scratchBytes));
    std::fflush(stdout);
    compile += compileSeconds;
    ++count;
  }
  std::printf("%d kernels compiled in %.2f s\n", count, compile);
}
