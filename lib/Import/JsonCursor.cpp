#include "plumb/Import/JsonCursor.h"

namespace plumb::json {

void Cursor::fail(std::string message) const {
  std::string pointer = document_->pointer(value_->range);
  message += " (at " + (pointer.empty() ? "the root" : pointer) + ")";
  throw Malformed({Severity::Error, document_->place(value_->range), std::move(message), {}});
}

void Cursor::expected(const char *what) const {
  fail(std::string("expected ") + what + ", found " + value_->describe());
}

std::optional<Cursor> Cursor::find(std::string_view key) const {
  if (!value_->asObject())
    expected("an object");
  const Value *member = value_->find(key);
  if (!member || member->isNull())
    return std::nullopt;
  return Cursor(*document_, *member);
}

Cursor Cursor::operator[](std::string_view key) const {
  if (!value_->asObject())
    expected("an object");
  const Value *member = value_->find(key);
  if (!member)
    fail("the key \"" + std::string(key) + "\" is missing");
  return {*document_, *member};
}

std::vector<Cursor> Cursor::elements() const {
  const Array *array = value_->asArray();
  if (!array)
    expected("an array");
  std::vector<Cursor> result;
  result.reserve(array->size());
  for (const Value &element : *array)
    result.emplace_back(*document_, element);
  return result;
}

std::vector<std::pair<const std::string *, Cursor>> Cursor::members() const {
  const Object *object = value_->asObject();
  if (!object)
    expected("an object");
  std::vector<std::pair<const std::string *, Cursor>> result;
  result.reserve(object->size());
  for (const Member &member : *object)
    result.emplace_back(&member.key, Cursor(*document_, member.value));
  return result;
}

int64_t Cursor::integer() const {
  if (const int64_t *integer = value_->asInteger())
    return *integer;
  expected("an integer");
}

double Cursor::number() const {
  if (std::optional<double> number = value_->asNumber())
    return *number;
  expected("a number");
}

bool Cursor::boolean() const {
  if (const bool *boolean = value_->asBool())
    return *boolean;
  expected("true or false");
}

const std::string &Cursor::string() const {
  if (const std::string *string = value_->asString())
    return *string;
  expected("a string");
}

std::pair<const std::string *, Cursor> Cursor::tagged() const {
  const Object *object = value_->asObject();
  if (!object)
    expected("an object with one tag");
  if (value_->find("$type"))
    return {&(*this)["$type"].string(), (*this)["$value"]};
  const Member *only = nullptr;
  for (const Member &member : *object) {
    if (member.value.isNull())
      continue;
    if (only)
      fail("expected an object with one tag, found both \"" + only->key + "\" and \"" + member.key + "\"");
    only = &member;
  }
  if (!only && object->size() == 1)
    only = &object->front();
  if (!only)
    fail("expected an object with one tag, found none");
  return {&only->key, Cursor(*document_, only->value)};
}

} // namespace plumb::json
