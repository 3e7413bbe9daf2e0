//===- JsonReader.h - The JSON of files that hold tensors --------------------===//

#ifndef PLUMB_RUNTIME_JSONREADER_H
#define PLUMB_RUNTIME_JSONREADER_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace plumb {

/// Reads JSON from front to back, into what its caller expects. Every deviation throws plumb::Failure with
/// the byte offset.
class JsonReader {
public:
  /// `what` names the text in messages: "header".
  JsonReader(std::string what, std::string_view text) : what(std::move(what)), text(text) {}

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
  bool boolean();
  /// Whether the next value is null, which is read then.
  bool null();
  /// Whether an object comes next.
  bool isObject();
  /// Reads any value.
  void skip() { skip(0); }
  /// Only white space may follow.
  void end();

  [[noreturn]] void fail(const std::string &why) const;

private:
  void skip(int depth);
  void skipSpace();
  std::string_view word();
  bool accept(char wanted);
  void expect(char wanted);
  char take();
  unsigned hex4();
  void appendEscape(std::string &result);
  void appendUtf8Sequence(std::string &result, unsigned char lead);

  std::string what;
  std::string_view text;
  std::size_t position = 0;
};

} // namespace plumb

#endif // PLUMB_RUNTIME_JSONREADER_H
