#include "plumb/Support/Glob.h"

namespace plumb {

static std::vector<std::string> splitAtDots(std::string_view name) {
  std::vector<std::string> components;
  if (name.empty())
    return components;
  size_t begin = 0;
  for (size_t dot = name.find('.'); dot != std::string_view::npos; dot = name.find('.', begin)) {
    components.emplace_back(name.substr(begin, dot - begin));
    begin = dot + 1;
  }
  components.emplace_back(name.substr(begin));
  return components;
}

/// Matches `items` against `pattern`, whose elements either match one item or, where `isRun`, any number of
/// them. Greedy with one restart point, which suffices for a single kind of run.
template <typename Items, typename Pattern, typename IsRun, typename MatchesOne>
static bool matchRuns(const Items &items, const Pattern &pattern, IsRun isRun, MatchesOne matchesOne) {
  constexpr size_t none = static_cast<size_t>(-1);
  size_t item = 0, at = 0, run = none, runItem = 0;
  while (item < items.size()) {
    if (at < pattern.size() && isRun(pattern[at])) {
      run = at++;
      runItem = item;
    } else if (at < pattern.size() && matchesOne(items[item], pattern[at])) {
      ++item;
      ++at;
    } else if (run != none) {
      at = run + 1;
      item = ++runItem;
    } else {
      return false;
    }
  }
  while (at < pattern.size() && isRun(pattern[at]))
    ++at;
  return at == pattern.size();
}

static bool matchesComponent(std::string_view component, std::string_view pattern) {
  return matchRuns(
      component, pattern, [](char p) { return p == '*'; }, [](char c, char p) { return c == p; });
}

Glob::Glob(std::string pattern) : pattern_(std::move(pattern)) {
  components_ = pattern_ == "*" ? std::vector<std::string>{"**"} : splitAtDots(pattern_);
}

bool Glob::matches(std::string_view name) const {
  return matchRuns(
      splitAtDots(name), components_, [](const std::string &p) { return p == "**"; },
      [](const std::string &c, const std::string &p) { return matchesComponent(c, p); });
}

} // namespace plumb
