//===- HeaderReader.h - The JSON of a safetensors header --------------------===//

#ifndef PLUMB_RUNTIME_HEADERREADER_H
#define PLUMB_RUNTIME_HEADERREADER_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace plumb {

/// Reads the subset of JSON that a safetensors header consists of: objects, arrays, strings, non-negative
/// integers. Every deviation throws plumb::Failure with the byte offset in the header.
class HeaderReader {
public:
  explicit HeaderReader(std::string_view text) : text(text) {}

  /// Calls `member(key)` before each value of an object; `member` must read the value.
  template <class Member>
  void object(const Member &member) {
    expect('{');
    if (accept('}'))
      return;
    do {
      std::string key = string();
      expect(':');
      member(key);
    } while (accept(','));
    expect('}');
  }

  template <class Element>
  void array(const Element &element) {
    expect('[');
    if (accept(']'))
      return;
    do
      element();
    while (accept(','));
    expect(']');
  }

  std::string string();
  /// At most 2^63 - 1.
  std::int64_t integer();
  /// Only white space may follow.
  void end();

  [[noreturn]] void fail(const std::string &what) const;

private:
  void skipSpace();
  bool accept(char wanted);
  void expect(char wanted);
  char take();
  unsigned hex4();
  void appendEscape(std::string &result);
  void appendUtf8Sequence(std::string &result, unsigned char lead);

  std::string_view text;
  std::size_t position = 0;
};

} // namespace plumb

#endif // PLUMB_RUNTIME_HEADERREADER_H
