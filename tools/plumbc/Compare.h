//===- Compare.h - Compares a split run with the unsplit model --*- C++ -*-===//
#ifndef PLUMB_TOOLS_PLUMBC_COMPARE_H
#define PLUMB_TOOLS_PLUMBC_COMPARE_H

#include <ostream>
#include <string>

namespace plumb {

/// The tolerance of `run --check`: max|a - b| <= kTolerance * max(1, max|b|).
inline constexpr double kTolerance = 2e-4;

/// Compares every tensor of `reference` with the same in `result`, printing a line per tensor with the
/// largest difference. Answers whether all are there and within the tolerance. With an optimizer that
/// `scalesGradients`, as Adam does, a note says what differences of parameters alone may be. Unreadable files
/// throw plumb::Failure.
bool compareRuns(const std::string &result, const std::string &reference, bool scalesGradients,
                 std::ostream &os);

} // namespace plumb

#endif // PLUMB_TOOLS_PLUMBC_COMPARE_H
