//===- JsonReader.cpp - The JSON of files that hold tensors ------------------===//

#include "plumb/Runtime/JsonReader.h"

#include "plumb/Runtime/Failure.h"

#include <charconv>
#include <system_error>

namespace plumb {

void JsonReader::fail(const std::string &why) const {
  throw Failure(what + ", byte " + std::to_string(position) + ": " + why);
}

void JsonReader::skipSpace() {
  while (position < text.size() && std::string_view(" \t\n\r").find(text[position]) != std::string_view::npos)
    ++position;
}

bool JsonReader::accept(char wanted) {
  skipSpace();
  if (position >= text.size() || text[position] != wanted)
    return false;
  ++position;
  return true;
}

void JsonReader::expect(char wanted) {
  if (!accept(wanted))
    fail(std::string("expected '") + wanted + "'");
}

char JsonReader::take() {
  if (position >= text.size())
    fail("a string does not end");
  return text[position++];
}

void JsonReader::end() {
  skipSpace();
  if (position != text.size())
    fail("something follows the object");
}

std::int64_t JsonReader::integer() {
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

/// What may be a literal or a number.
std::string_view JsonReader::word() {
  skipSpace();
  std::size_t begin = position;
  auto isPart = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == 'E' || c == '+' || c == '-' || c == '.';
  };
  while (position < text.size() && isPart(text[position]))
    ++position;
  return text.substr(begin, position - begin);
}

bool JsonReader::boolean() {
  std::string_view value = word();
  if (value != "true" && value != "false")
    fail("expected true or false");
  return value == "true";
}

bool JsonReader::null() {
  std::size_t begin = position;
  bool found = word() == "null";
  if (!found)
    position = begin;
  return found;
}

bool JsonReader::isObject() {
  skipSpace();
  return position < text.size() && text[position] == '{';
}

void JsonReader::skip(int depth) {
  constexpr int kDeepest = 100;
  if (depth > kDeepest)
    fail("values are nested more than " + std::to_string(kDeepest) + " deep");
  if (isObject())
    return object([&](const std::string &) { skip(depth + 1); });
  char first = position < text.size() ? text[position] : '\0';
  if (first == '[')
    return array([&] { skip(depth + 1); });
  if (first == '"')
    return static_cast<void>(string());
  std::string_view value = word();
  double number = 0;
  auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  bool isNumber = std::string_view("-0123456789").find(first) != std::string_view::npos &&
                  error != std::errc::invalid_argument && end == value.data() + value.size();
  if (!isNumber && value != "true" && value != "false" && value != "null")
    fail("expected a value");
}

//===----------------------------------------------------------------------===//
// Strings
//===----------------------------------------------------------------------===//

unsigned JsonReader::hex4() {
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

void JsonReader::appendEscape(std::string &result) {
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
void JsonReader::appendUtf8Sequence(std::string &result, unsigned char lead) {
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

std::string JsonReader::string() {
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
