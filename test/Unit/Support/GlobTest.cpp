#include "plumb/Support/Glob.h"

#include <functional>
#include <gtest/gtest.h>

using namespace plumb;

static bool matches(const char *pattern, const char *name) { return Glob(pattern).matches(name); }

TEST(Glob, AStarIsOneComponent) {
  EXPECT_TRUE(matches("h.*.attn", "h.0.attn"));
  EXPECT_FALSE(matches("h.*.attn", "h.attn"));
  EXPECT_FALSE(matches("h.*.attn", "h.0.x.attn"));
  EXPECT_FALSE(matches("h.*", "h"));
  EXPECT_FALSE(matches("h.*", "h.0.attn"));
}

TEST(Glob, AStarMayBeAPartOfAComponent) {
  EXPECT_TRUE(matches("layers.*.q_*", "layers.3.q_proj"));
  EXPECT_FALSE(matches("layers.*.q_*", "layers.3.k_proj"));
  EXPECT_TRUE(matches("*_proj", "up_proj"));
  EXPECT_FALSE(matches("*_proj", "mlp.up_proj"));
}

TEST(Glob, TwoStarsAreAnyNumberOfComponents) {
  EXPECT_TRUE(matches("h.**.weight", "h.weight"));
  EXPECT_TRUE(matches("h.**.weight", "h.0.attn.weight"));
  EXPECT_TRUE(matches("**.mlp", "mlp"));
  EXPECT_TRUE(matches("**.mlp", "h.1.mlp"));
  EXPECT_TRUE(matches("h.**", "h"));
  EXPECT_FALSE(matches("h.**", "g.0"));
}

TEST(Glob, AStarAloneIsEverything) {
  for (const char *name : {"", "h", "h.0.attn.c_attn"}) {
    EXPECT_TRUE(matches("*", name));
    EXPECT_TRUE(matches("**", name));
  }
}

TEST(Glob, NamesWithoutStarsMatchThemselves) {
  EXPECT_TRUE(matches("fc1", "fc1"));
  EXPECT_FALSE(matches("fc1", "fc10"));
  EXPECT_FALSE(matches("fc1", "fc1.x"));
  EXPECT_TRUE(matches("", ""));
  EXPECT_FALSE(matches("", "a"));
}

namespace {

/// The definition, by recursion over the text of both.
bool matchesComponent(std::string_view pattern, std::string_view text) {
  if (pattern.empty())
    return text.empty();
  if (pattern[0] == '*')
    return matchesComponent(pattern.substr(1), text) ||
           (!text.empty() && matchesComponent(pattern, text.substr(1)));
  return !text.empty() && text[0] == pattern[0] && matchesComponent(pattern.substr(1), text.substr(1));
}

using Names = std::vector<std::string>;

bool matchesNames(const Names &pattern, size_t p, const Names &name, size_t n) {
  if (p == pattern.size())
    return n == name.size();
  if (pattern[p] == "**")
    return matchesNames(pattern, p + 1, name, n) ||
           (n < name.size() && matchesNames(pattern, p, name, n + 1));
  return n < name.size() && matchesComponent(pattern[p], name[n]) &&
         matchesNames(pattern, p + 1, name, n + 1);
}

void forEachName(const Names &alphabet, size_t longest,
                 const std::function<void(const Names &, const std::string &)> &visit) {
  std::vector<std::pair<Names, std::string>> level;
  for (const std::string &component : alphabet)
    level.push_back({{component}, component});
  for (size_t length = 1; length <= longest; ++length) {
    std::vector<std::pair<Names, std::string>> next;
    for (const auto &[names, text] : level) {
      visit(names, text);
      for (const std::string &component : alphabet) {
        next.push_back({names, text + "." + component});
        next.back().first.push_back(component);
      }
    }
    level = std::move(next);
  }
}

} // namespace

TEST(Glob, AgreesWithItsDefinitionOnAllShortPatterns) {
  forEachName({"*", "**", "a", "b*", "*a*"}, 4, [](const Names &pattern, const std::string &patternText) {
    if (patternText == "*")
      return;
    Glob glob(patternText);
    forEachName({"a", "b", "ba"}, 3, [&](const Names &name, const std::string &text) {
      EXPECT_EQ(glob.matches(text), matchesNames(pattern, 0, name, 0)) << patternText << " on " << text;
    });
  });
}

TEST(Glob, ManyStarsDoNotBlowUp) {
  std::string pattern, name;
  for (int i = 0; i < 200; ++i) {
    pattern += "**.a*a*a*.";
    name += "aaaaaaaaaaaaaaaa.";
  }
  EXPECT_FALSE(Glob(pattern + "b").matches(name + "c"));
}
