//===- Glob.h - Patterns over module names ----------------------*- C++ -*-===//

#ifndef PLUMB_SUPPORT_GLOB_H
#define PLUMB_SUPPORT_GLOB_H

#include <string>
#include <string_view>
#include <vector>

namespace plumb {

/// A pattern over dotted names such as `h.*.attn`. A component is literal text in which `*` stands for any
/// run of characters, so `*` as a component is one whole component; `**` as a component is any number of
/// them, none included. The pattern `*` alone matches every name, as does `**`.
class Glob {
public:
  explicit Glob(std::string pattern);

  const std::string &pattern() const { return pattern_; }

  /// Time is proportional to the product of the lengths at worst; there is no backtracking blow-up.
  bool matches(std::string_view name) const;

private:
  std::string pattern_;
  std::vector<std::string> components_;
};

} // namespace plumb

#endif // PLUMB_SUPPORT_GLOB_H
