//===- Source.h - Texts with line and column positions -----------*- C++ -*-===//
//
// A `Source` is a named text (a plan spec, a JSON record of an archive). Parsers keep byte ranges into it; a
// range becomes a `Place`, which is what a person reads, only when a diagnostic is made.
//
//===----------------------------------------------------------------------===//

#ifndef PLUMB_SUPPORT_SOURCE_H
#define PLUMB_SUPPORT_SOURCE_H

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plumb {

class Diagnostics;

/// A half-open range of bytes of a source.
struct Range {
  size_t begin = 0;
  size_t end = 0;
};

/// A position that stands for itself: it needs no source to be printed, so it can also name a line of a
/// Python file that is not on this machine.
struct Place {
  std::string file;
  unsigned line = 0;   ///< From 1; 0: the file as a whole.
  unsigned column = 0; ///< From 1, in bytes; 0: the line as a whole.
  std::string text{};  ///< The line, or a part of it where it is very long; may be empty.
  unsigned caret = 0;  ///< Index in `text` of the byte that `column` names.
  unsigned width = 1;  ///< Bytes of `text` that are underlined.

  /// `file`, `file:line` or `file:line:column`, whatever is known.
  std::string str() const;
};

class Source {
public:
  /// `firstLine` is the number of the text's first line, where it is a part of a file.
  Source(std::string name, std::string text, unsigned firstLine = 1);

  /// Reads a whole file, or standard input for `-`. Reports why it could not.
  static std::optional<Source> open(const std::string &path, Diagnostics &diagnostics);

  const std::string &name() const { return name_; }
  std::string_view text() const { return text_; }

  /// The place of a range. Positions behind the end are clamped to it. Logarithmic in the number of lines.
  Place place(Range range) const;

private:
  std::string name_;
  std::string text_;
  unsigned firstLine_;
  std::vector<size_t> lineStarts_;
};

} // namespace plumb

#endif // PLUMB_SUPPORT_SOURCE_H
