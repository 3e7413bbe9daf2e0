//===- Compare.h - Compares a split run with the unsplit model --*- C++ -*-===//
#ifndef PLUMB_TOOLS_PLUMBC_COMPARE_H
#define PLUMB_TOOLS_PLUMBC_COMPARE_H

#include <ostream>
#include <string>

namespace plumb {

/// The tolerance of `run --check`: max|a - b| <= kTolerance * max(1, max|b|) + rounding * max|b|, where
/// `rounding` is that of a type with a short mantissa in which the tensor is, or all that leads to it: eight
/// units of the last place of the largest value.
inline constexpr double kTolerance = 2e-4, kRoundingBF16 = 0x1p-5, kRoundingF16 = 0x1p-8;

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
