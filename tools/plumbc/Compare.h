//===- Compare.h - Compares a split run with the unsplit model --*- C++ -*-===//
#ifndef PLUMB_TOOLS_PLUMBC_COMPARE_H
#define PLUMB_TOOLS_PLUMBC_COMPARE_H

#include <ostream>
#include <string>

namespace plumb {

/// The tolerance of `run --check`: max|a - b| <= (kTolerance + rounding) * max|b| + noise * max|c|, where
/// `rounding` is that of a type with a short mantissa in which the tensor is, or all that leads to it: eight
/// units of the last place of the largest value. What cancels to zero, as the gradient of a key bias, is
/// rounding noise of the values that it is made of; no more than `noise` of the largest value among all
/// tensors c of its kind (outputs, losses, gradients, trained parameters) passes for that: kNoise, or
/// 1/256 of `rounding`, or, of a parameter whose steps do not depend on the size of its gradient, kTolerance.
inline constexpr double kTolerance = 2e-4, kNoise = 1e-6, kRoundingBF16 = 0x1p-5, kRoundingF16 = 0x1p-8;

struct CompareOptions {
  /// The optimizer divides gradients by their own size, as Adam does: a note says what differences of
  /// parameters alone may be.
  bool scalesGradients = false;
  /// Products are computed in bf16.
  bool computesInBF16 = false;
};

/// Compares every tensor of `reference` with the same in `result`, printing a line per tensor with the
/// largest difference. Answers whether all are there and within the tolerance. Unreadable files throw
/// plumb::Failure.
bool compareRuns(const std::string &result, const std::string &reference, const CompareOptions &options,
                 std::ostream &os);

} // namespace plumb

#endif // PLUMB_TOOLS_PLUMBC_COMPARE_H
