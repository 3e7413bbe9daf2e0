// Functions that devices have no instructions for, against the C library.
#include "KernelHarness.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

using namespace plumb;
using namespace plumb::test;

namespace {

constexpr int64_t kCount = 4000;

/// y = op(x), or op(x, w).
std::string kernel(const std::string &op, const std::string &type, bool binary) {
  std::string tensor = "tensor<" + std::to_string(kCount) + "x" + type + ">", id = "affine_map<(i) -> (i)>";
  return "func.func @k_f(%x: " + tensor + ", %w: " + tensor + ") -> " + tensor +
         " {\n  %e = tensor.empty() : " + tensor + "\n  %y = linalg.generic {indexing_maps = [" + id + ", " +
         id + ", " + id + "], iterator_types = [\"parallel\"]} ins(%x, %w : " + tensor + ", " + tensor +
         ") outs(%e : " + tensor + ") {\n  ^bb0(%v: " + type + ", %u: " + type + ", %o: " + type +
         "):\n    %r = math." + op + " %v" + (binary ? ", %u" : "") + " : " + type +
         "\n    linalg.yield %r : " + type + "\n  } -> " + tensor + "\n  return %y : " + tensor + "\n}\n";
}

/// Values of all sizes and both signs, and what is special.
template <class T>
std::vector<T> arguments(unsigned seed, double least, double most) {
  std::mt19937_64 generator(seed);
  std::uniform_real_distribution<double> exponent(least, most);
  std::vector<T> values{T(0),
                        T(-0.0),
                        T(1),
                        T(-1),
                        T(2),
                        T(0.5),
                        T(-3),
                        std::numeric_limits<T>::infinity(),
                        -std::numeric_limits<T>::infinity(),
                        std::numeric_limits<T>::quiet_NaN()};
  while (values.size() < kCount)
    values.push_back(T(std::ldexp(1.0, int(exponent(generator))) * (generator() % 2 ? 1 : -1) *
                       (1 + (generator() % 1000003) / 1000003.0)));
  return values;
}

template <class T>
void expectFunction(const std::string &op, double (*unary)(double), double (*binary)(double, double),
                    double least, double most, double ulps) {
  SCOPED_TRACE(op);
  LoadedKernels loaded(kernel(op, sizeof(T) == 4 ? "f32" : "f64", binary != nullptr));
  ASSERT_TRUE(loaded.ok()) << loaded.diagnostics();
  std::vector<T> x = arguments<T>(1, least, most), w = arguments<T>(2, -3, 4), y(kCount);
  std::reverse(w.begin() + 10, w.end());
  loaded.call(0, {x.data(), w.data(), y.data()});
  for (int64_t i = 0; i < kCount; ++i) {
    T expected = T(binary ? binary(x[i], w[i]) : unary(x[i]));
    std::string where = std::to_string(x[i]) + (binary ? ", " + std::to_string(w[i]) : "");
    if (std::isnan(expected))
      ASSERT_TRUE(std::isnan(y[i])) << where << ": " << y[i];
    else if (std::isinf(expected))
      ASSERT_EQ(y[i], expected) << where;
    else
      ASSERT_NEAR(y[i], expected,
                  ulps * std::max<double>(std::abs(expected) * std::numeric_limits<T>::epsilon(),
                                          std::numeric_limits<T>::min()))
          << where;
  }
}

TEST(KernelMath, F32) {
  expectFunction<float>("sin", std::sin, nullptr, -20, 100, 4);
  expectFunction<float>("cos", std::cos, nullptr, -20, 100, 4);
  expectFunction<float>("powf", nullptr, std::pow, -10, 10, 16);
}

TEST(KernelMath, F64) {
  expectFunction<double>("sin", std::sin, nullptr, -40, 900, 4);
  expectFunction<double>("cos", std::cos, nullptr, -40, 900, 4);
  expectFunction<double>("exp", std::exp, nullptr, -30, 10, 4);
  expectFunction<double>("log", std::log, nullptr, -900, 900, 4);
  expectFunction<double>("tanh", std::tanh, nullptr, -30, 8, 8);
  expectFunction<double>("erf", std::erf, nullptr, -30, 4, 16);
  expectFunction<double>("powf", nullptr, std::pow, -10, 10, 16);
}

} // namespace
