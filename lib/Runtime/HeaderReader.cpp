//===- HeaderReader.cpp - The JSON of a safetensors header ------------------===//

#include "plumb/Runtime/HeaderReader.h"

#include "plumb/Runtime/Failure.h"

namespace plumb {

void HeaderReader::fail(const std::string &what) const {
  throw Failure("header, byte " + std::to_string(position) + ": " + what);
}

void HeaderReader::skipSpace() {
  while (position < text.size() && std::string_view(" \t\n\r").find(text[position]) != std::string_view::npos)
    ++position;
}

bool HeaderReader::accept(char wanted) {
  skipSpace();
  if (position >= text.size() || text[position] != wanted)
    return false;
  ++position;
  return true;
}

void HeaderReader::expect(char wanted) {
  if (!accept(wanted))
    fail(std::string("expected '") + wanted + "'");
}

char HeaderReader::take() {
  if (position >= text.size())
    fail("a string does not end");
  return text[position++];
}

void HeaderReader::end() {
  skipSpace();
  if (position != text.size())
    fail("something follows the object");
}

std::int64_t HeaderReader::integer() {
  skipSpace();
  std::size_t begin = position;
  std::int64_t value = 0;
  for (; position < text.size() && text[position] >= '0' && text[position] <= '9'; ++position) {
    int digit = text[position] - '0';
    if (value > (INT64_MAX - digit) / 10)
      fail("a number exceeds 2^63 - 1");
    value = value * 10 + digit;
  }
  if (position == begin)
    fail("expected a non-negative integer");
  if (text[begin] == '0' && position - begin > 1)
    fail("a number begins with 0");
  if (position < text.size() && std::string_view(".eE").find(text[position]) != std::string_view::npos)
    fail("a number is not an integer");
  return value;
}

//===----------------------------------------------------------------------===//
// Strings
//===----------------------------------------------------------------------===//

unsigned HeaderReader::hex4() {
  unsigned value = 0;
  for (int i = 0; i < 4; ++i) {
    auto digit = std::string_view("0123456789abcdefABCDEF").find(take());
    if (digit == std::string_view::npos)
      fail("\\u needs four hexadecimal digits");
    value = value * 16 + static_cast<unsigned>(digit < 16 ? digit : digit - 6);
  }
  return value;
}

static void appendCodePoint(std::string &result, unsigned code) {
  auto byte = [&](unsigned value) { result += static_cast<char>(value); };
  if (code < 0x80) {
    byte(code);
  } else if (code < 0x800) {
    byte(0xC0 | code >> 6);
    byte(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    byte(0xE0 | code >> 12);
    byte(0x80 | (code >> 6 & 0x3F));
    byte(0x80 | (code & 0x3F));
  } else {
    byte(0xF0 | code >> 18);
    byte(0x80 | (code >> 12 & 0x3F));
    byte(0x80 | (code >> 6 & 0x3F));
    byte(0x80 | (code & 0x3F));
  }
}

void HeaderReader::appendEscape(std::string &result) {
  char kind = take();
  if (kind != 'u') {
    constexpr std::string_view names = "\"\\/bfnrt", values = "\"\\/\b\f\n\r\t";
    auto index = names.find(kind);
    if (index == std::string_view::npos)
      fail("unknown escape in a string");
    result += values[index];
    return;
  }
  unsigned code = hex4();
  if (code >= 0xD800 && code < 0xDC00) {
    if (take() != '\\' || take() != 'u')
      fail("half a surrogate pair");
    unsigned low = hex4();
    if (low < 0xDC00 || low >= 0xE000)
      fail("half a surrogate pair");
    code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
  } else if (code >= 0xDC00 && code < 0xE000) {
    fail("half a surrogate pair");
  }
  appendCodePoint(result, code);
}

/// Checks that the bytes are UTF-8: no stray or missing continuation, no overlong form, no surrogate.
void HeaderReader::appendUtf8Sequence(std::string &result, unsigned char lead) {
  int more = lead >= 0xF0 && lead < 0xF5   ? 3
             : lead >= 0xE0 && lead < 0xF0 ? 2
             : lead >= 0xC2 && lead < 0xE0 ? 1
                                           : 0;
  if (more == 0)
    fail("a string is not UTF-8");
  unsigned code = lead & (0x3Fu >> more);
  for (int i = 0; i < more; ++i) {
    auto next = static_cast<unsigned char>(take());
    if ((next & 0xC0) != 0x80)
      fail("a string is not UTF-8");
    code = code << 6 | (next & 0x3Fu);
  }
  constexpr unsigned smallest[] = {0, 0x80, 0x800, 0x10000};
  if (code < smallest[more] || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000))
    fail("a string is not UTF-8");
  appendCodePoint(result, code);
}

std::string HeaderReader::string() {
  expect('"');
  std::string result;
  for (;;) {
    auto byte = static_cast<unsigned char>(take());
    if (byte == '"')
      return result;
    if (byte < 0x20)
      fail("a control character in a string");
    if (byte == '\\')
      appendEscape(result);
    else if (byte < 0x80)
      result += static_cast<char>(byte);
    else
      appendUtf8Sequence(result, byte);
  }
}

} // namespace plumb
