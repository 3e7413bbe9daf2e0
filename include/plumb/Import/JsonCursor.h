//===- JsonCursor.h - Reading machine-written JSON --------------*- C++ -*-===//
//
// For records that another program wrote: the first thing that is not as it must be ends the reading. A
// cursor throws `Malformed`, which the entry function of a reader catches and reports; it never leaves a
// reader.
//
//===----------------------------------------------------------------------===//

#ifndef PLUMB_IMPORT_JSONCURSOR_H
#define PLUMB_IMPORT_JSONCURSOR_H

#include "plumb/Import/Json.h"

#include <exception>

namespace plumb::json {

class Malformed : public std::exception {
public:
  explicit Malformed(Diagnostic problem) : diagnostic(std::move(problem)) {}
  const char *what() const noexcept override { return diagnostic.message.c_str(); }
  Diagnostic diagnostic;
};

/// A value of a document. Cheap to copy; valid while the document lives.
class Cursor {
public:
  Cursor(const Document &document, const Value &value) : document_(&document), value_(&value) {}
  explicit Cursor(const Document &document) : Cursor(document, document.root) {}

  const Value &value() const { return *value_; }
  const Document &document() const { return *document_; }

  /// The member of an object, which must have it.
  Cursor operator[](std::string_view key) const;
  /// The member of an object; nothing if it is absent or null, as writers differ in how they leave a field
  /// out.
  std::optional<Cursor> find(std::string_view key) const;

  std::vector<Cursor> elements() const;
  std::vector<std::pair<const std::string *, Cursor>> members() const;

  int64_t integer() const;
  double number() const;
  bool boolean() const;
  const std::string &string() const;

  /// The one member of a tagged union, spelt `{"tag": …}`, `{"$type": "tag", "$value": …}`, or with all other
  /// tags null.
  std::pair<const std::string *, Cursor> tagged() const;

  /// Ends the reading: `MESSAGE, at JSON pointer …`.
  [[noreturn]] void fail(std::string message) const;

private:
  [[noreturn]] void expected(const char *what) const;

  const Document *document_;
  const Value *value_;
};

} // namespace plumb::json

#endif // PLUMB_IMPORT_JSONCURSOR_H
