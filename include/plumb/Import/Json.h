//===- Json.h - JSON documents whose values know their place ----*- C++ -*-===//
//
// The tree that the importers read. It differs from a general JSON library in three ways: every value and key
// keeps its byte range in the source, objects keep their order and may not repeat a key, and nothing throws.
//
//===----------------------------------------------------------------------===//

#ifndef PLUMB_IMPORT_JSON_H
#define PLUMB_IMPORT_JSON_H

#include "plumb/Support/Diagnostic.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace plumb::json {

struct Member;
struct Value;
using Array = std::vector<Value>;
using Object = std::vector<Member>;

struct Value {
  /// Integers that do not fit 64 signed bits are doubles.
  std::variant<std::monostate, bool, int64_t, double, std::string, Array, Object> data;
  Range range;

  bool isNull() const { return std::holds_alternative<std::monostate>(data); }
  const bool *asBool() const { return std::get_if<bool>(&data); }
  const int64_t *asInteger() const { return std::get_if<int64_t>(&data); }
  /// The number as a double, whether it was written as an integer or not.
  std::optional<double> asNumber() const;
  const std::string *asString() const { return std::get_if<std::string>(&data); }
  const Array *asArray() const { return std::get_if<Array>(&data); }
  const Object *asObject() const { return std::get_if<Object>(&data); }

  /// The member of an object; null if this is no object or has no such key. Linear in the members.
  const Value *find(std::string_view key) const;

  /// What the value is, for messages: `an object`, `the number 1.5`, `the string "abc"`.
  std::string describe() const;
};

struct Member {
  std::string key;
  Range keyRange;
  Value value;
};

struct Document {
  std::shared_ptr<const Source> source;
  Value root;

  Place place(Range range) const { return source->place(range); }

  /// The JSON pointer (RFC 6901) of the innermost value that covers a range, empty for the root.
  std::string pointer(Range range) const;
};

/// Nesting beyond this is an error, so that recursion over a document is safe.
constexpr unsigned kMaxDepth = 200;

/// Parses a whole source (RFC 8259, UTF-8, a leading byte order mark is skipped). Reports a syntax error,
/// invalid UTF-8, a repeated key, trailing text or too deep nesting at its place, and returns nothing.
std::optional<Document> parse(std::shared_ptr<const Source> source, Diagnostics &diagnostics);

} // namespace plumb::json

#endif // PLUMB_IMPORT_JSON_H
