//===- Suggest.h - "did you mean" -------------------------------*- C++ -*-===//

#ifndef PLUMB_SUPPORT_SUGGEST_H
#define PLUMB_SUPPORT_SUGGEST_H

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plumb {

/// The least number of insertions, deletions, substitutions and swaps of neighbours that turn `a` into `b`
/// (optimal string alignment), or `limit + 1` as soon as it is known to exceed `limit`.
size_t editDistance(std::string_view a, std::string_view b, size_t limit);

/// The candidate nearest to `name`, the first of equals; none if all differ in more than a third of their
/// letters.
std::optional<std::string> nearest(std::string_view name, const std::vector<std::string> &candidates);

/// `; did you mean "x"?` for the nearest candidate, or nothing.
std::string didYouMean(std::string_view name, const std::vector<std::string> &candidates);

} // namespace plumb

#endif // PLUMB_SUPPORT_SUGGEST_H
