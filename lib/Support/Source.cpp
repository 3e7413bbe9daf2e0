#include "plumb/Support/Source.h"

#include "plumb/Support/Diagnostic.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>

namespace plumb {

// Machine-written JSON is often one line of megabytes: only this many bytes around the position are shown.
static constexpr size_t kShownBefore = 60;
static constexpr size_t kShownAfter = 60;

std::string Place::str() const {
  std::string result = file;
  if (line != 0)
    result += ":" + std::to_string(line);
  if (line != 0 && column != 0)
    result += ":" + std::to_string(column);
  return result;
}

Source::Source(std::string name, std::string text, unsigned firstLine)
    : name_(std::move(name)), text_(std::move(text)), firstLine_(firstLine) {
  lineStarts_.push_back(0);
  for (size_t at = text_.find('\n'); at != std::string::npos; at = text_.find('\n', at + 1))
    lineStarts_.push_back(at + 1);
}

std::optional<Source> Source::open(const std::string &path, Diagnostics &diagnostics) {
  if (path == "-") {
    std::string text(std::istreambuf_iterator<char>(std::cin), {});
    return Source("<stdin>", std::move(text));
  }
  std::error_code failed;
  if (std::filesystem::is_directory(path, failed)) {
    diagnostics.error({path}, "cannot read this file: it is a directory");
    return std::nullopt;
  }
  std::ifstream file(path, std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(file), {});
  if (!file.is_open() || file.bad()) {
    diagnostics.error({path}, std::string("cannot read this file: ") + std::strerror(errno));
    return std::nullopt;
  }
  return Source(path, std::move(text));
}

static bool continuesCharacter(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

Place Source::place(Range range) const {
  size_t begin = std::min(range.begin, text_.size());
  auto next = std::upper_bound(lineStarts_.begin(), lineStarts_.end(), begin);
  size_t lineBegin = *std::prev(next);
  size_t lineEnd = next == lineStarts_.end() ? text_.size() : *next - 1;
  if (lineEnd > lineBegin && text_[lineEnd - 1] == '\r')
    --lineEnd;

  Place place;
  place.file = name_;
  place.line = static_cast<unsigned>(next - lineStarts_.begin()) + firstLine_ - 1;
  place.column = static_cast<unsigned>(begin - lineBegin + 1);

  size_t shownBegin = begin - std::min(begin - lineBegin, kShownBefore);
  size_t shownEnd = std::min(lineEnd, begin + kShownAfter);
  while (shownBegin > lineBegin && continuesCharacter(text_[shownBegin]))
    --shownBegin;
  while (shownEnd < lineEnd && continuesCharacter(text_[shownEnd]))
    ++shownEnd;
  if (shownBegin >= shownEnd) // Behind the last character of the line: the end of the input.
    shownEnd = std::max(shownBegin, lineEnd);
  std::string_view shown = std::string_view(text_).substr(shownBegin, shownEnd - shownBegin);
  std::string before = shownBegin > lineBegin ? "..." : "";
  place.text = before + std::string(shown) + (shownEnd < lineEnd ? "..." : "");
  place.caret = static_cast<unsigned>(before.size() + begin - shownBegin);
  size_t underlined = std::min(range.end, shownEnd);
  place.width = static_cast<unsigned>(underlined > begin ? underlined - begin : 1);
  return place;
}

} // namespace plumb
