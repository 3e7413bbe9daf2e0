#include "plumb/Support/Suggest.h"

#include <algorithm>
#include <array>

namespace plumb {

size_t editDistance(std::string_view a, std::string_view b, size_t limit) {
  if (std::max(a.size(), b.size()) - std::min(a.size(), b.size()) > limit)
    return limit + 1;
  // Rows i-2, i-1 and i of the table of distances between prefixes.
  std::array<std::vector<size_t>, 3> rows;
  for (auto &row : rows)
    row.resize(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j)
    rows[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    auto &previous = rows[(i - 1) % 3];
    auto &current = rows[i % 3];
    current[0] = i;
    size_t least = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t substitute = previous[j - 1] + (a[i - 1] != b[j - 1]);
      current[j] = std::min({previous[j] + 1, current[j - 1] + 1, substitute});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        current[j] = std::min(current[j], rows[(i - 2) % 3][j - 2] + 1);
      least = std::min(least, current[j]);
    }
    if (least > limit)
      return limit + 1;
  }
  return std::min(rows[a.size() % 3][b.size()], limit + 1);
}

std::optional<std::string> nearest(std::string_view name, const std::vector<std::string> &candidates) {
  const std::string *best = nullptr;
  size_t bestDistance = 0;
  for (const std::string &candidate : candidates) {
    size_t limit = std::max<size_t>(1, std::max(name.size(), candidate.size()) / 3);
    if (best)
      limit = std::min(limit, bestDistance);
    size_t distance = editDistance(name, candidate, limit);
    bool sharesLetters = distance < std::max(name.size(), candidate.size());
    if (distance <= limit && sharesLetters && (!best || distance < bestDistance)) {
      best = &candidate;
      bestDistance = distance;
    }
  }
  return best ? std::optional(*best) : std::nullopt;
}

std::string didYouMean(std::string_view name, const std::vector<std::string> &candidates) {
  std::optional<std::string> candidate = nearest(name, candidates);
  return candidate ? "; did you mean \"" + *candidate + "\"?" : "";
}

} // namespace plumb
