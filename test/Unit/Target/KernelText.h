// Pieces of MLIR text, and values to run kernels on.
#ifndef PLUMB_TEST_UNIT_TARGET_KERNELTEXT_H
#define PLUMB_TEST_UNIT_TARGET_KERNELTEXT_H

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <string>
#include <vector>

namespace plumb::test {

/// "tensor<2x3xf32>"
inline std::string tensor(std::initializer_list<int64_t> sizes, const std::string &element = "f32") {
  std::string text = "tensor<";
  for (int64_t size : sizes)
    text += std::to_string(size) + "x";
  return text + element + ">";
}

/// A structured op. `maps` lists the indices of every operand, "i, j | i | i, j", over the loops `loops`, of
/// which those after a semicolon are reductions: "i, j; k". `operands` and `types` go together.
std::string generic(const std::string &result, const std::string &loops, const std::string &maps,
                    const std::vector<std::string> &inputs, const std::vector<std::string> &inputTypes,
                    const std::string &init, const std::string &type, const std::string &body);

/// `name` = a tensor filled with a constant.
std::string filled(const std::string &name, const std::string &type, const std::string &value = "0.0",
                   const std::string &element = "f32");

inline const char *kMultiplyAdd = R"(
  ^bb0(%left: f32, %right: f32, %sum: f32):
    %product = arith.mulf %left, %right : f32
    %next = arith.addf %sum, %product : f32
    linalg.yield %next : f32
)";

std::vector<float> randomFloats(size_t count, unsigned seed);

/// Each element within `tolerance` of the expected one, relative to its size and to 1.
void expectClose(const std::vector<float> &actual, const std::vector<float> &expected,
                 float tolerance = 1e-5);

} // namespace plumb::test

#endif // PLUMB_TEST_UNIT_TARGET_KERNELTEXT_H
