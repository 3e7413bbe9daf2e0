#include "plumb/Support/Suggest.h"

#include <algorithm>
#include <gtest/gtest.h>

using namespace plumb;

namespace {

/// Optimal string alignment by its recurrence, without a table.
size_t distanceByDefinition(std::string_view a, std::string_view b) {
  if (a.empty() || b.empty())
    return a.size() + b.size();
  auto drop = [](std::string_view text, size_t n) { return text.substr(0, text.size() - n); };
  size_t best = std::min({distanceByDefinition(drop(a, 1), b) + 1, distanceByDefinition(a, drop(b, 1)) + 1,
                          distanceByDefinition(drop(a, 1), drop(b, 1)) + (a.back() != b.back())});
  if (a.size() > 1 && b.size() > 1 && a.back() == b[b.size() - 2] && b.back() == a[a.size() - 2])
    best = std::min(best, distanceByDefinition(drop(a, 2), drop(b, 2)) + 1);
  return best;
}

} // namespace

TEST(Suggest, DistanceAgreesWithItsDefinition) {
  std::vector<std::string> words = {""};
  for (size_t i = 0; words[i].size() < 4; ++i)
    for (char c : {'a', 'b'})
      words.push_back(words[i] + c);
  for (const std::string &a : words)
    for (const std::string &b : words)
      for (size_t limit : {0, 1, 2, 9})
        EXPECT_EQ(editDistance(a, b, limit), std::min(distanceByDefinition(a, b), limit + 1))
            << a << " " << b;
}

TEST(Suggest, TheNearestCandidateIsFound) {
  std::vector<std::string> keys = {"mesh", "pipeline", "layouts", "inputs"};
  EXPECT_EQ(nearest("mehs", keys), "mesh");
  EXPECT_EQ(nearest("layout", keys), "layouts");
  EXPECT_EQ(nearest("input", keys), "inputs");
  EXPECT_EQ(nearest("zzz", keys), std::nullopt);
  EXPECT_EQ(nearest("", keys), std::nullopt);
  EXPECT_EQ(didYouMean("pipelin", keys), "; did you mean \"pipeline\"?");
  EXPECT_EQ(didYouMean("x", keys), "");
}

TEST(Suggest, TheFirstOfEqualCandidatesIsTaken) { EXPECT_EQ(nearest("fc4", {"fc1", "fc2"}), "fc1"); }
