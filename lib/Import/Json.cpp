#include "plumb/Import/Json.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <unordered_map>

namespace plumb::json {

std::optional<double> Value::asNumber() const {
  if (const auto *integer = std::get_if<int64_t>(&data))
    return static_cast<double>(*integer);
  if (const auto *number = std::get_if<double>(&data))
    return *number;
  return std::nullopt;
}

const Value *Value::find(std::string_view key) const {
  if (const Object *object = asObject())
    for (const Member &member : *object)
      if (member.key == key)
        return &member.value;
  return nullptr;
}

std::string Value::describe() const {
  if (isNull())
    return "null";
  if (const bool *boolean = asBool())
    return *boolean ? "true" : "false";
  if (const int64_t *integer = asInteger())
    return "the integer " + std::to_string(*integer);
  if (std::optional<double> number = asNumber())
    return "the number " + nlohmann::json(*number).dump();
  if (const std::string *string = asString())
    return string->size() <= 60 ? "the string \"" + *string + "\"" : "a long string";
  return asArray() ? "an array" : "an object";
}

static std::string escapedForPointer(std::string_view key) {
  std::string result;
  for (char c : key) {
    if (c == '~')
      result += "~0";
    else if (c == '/')
      result += "~1";
    else
      result += c;
  }
  return result;
}

std::string Document::pointer(Range range) const {
  auto covers = [&](const Value &value) {
    return value.range.begin <= range.begin && range.end <= value.range.end;
  };
  std::string result;
  const Value *value = &root;
  while (true) {
    const Value *child = nullptr;
    if (const Array *array = value->asArray()) {
      auto found = std::find_if(array->begin(), array->end(), covers);
      if (found != array->end()) {
        result += "/" + std::to_string(found - array->begin());
        child = &*found;
      }
    } else if (const Object *object = value->asObject()) {
      auto found =
          std::find_if(object->begin(), object->end(), [&](const Member &m) { return covers(m.value); });
      if (found != object->end()) {
        result += "/" + escapedForPointer(found->key);
        child = &found->value;
      }
    }
    if (!child)
      return result;
    value = child;
  }
}

namespace {

/// Receives the events of nlohmann's parser. They carry no positions, but between two tokens there are only
/// blanks, commas and colons, so a cursor that walks the text along with the events finds them again.
class Builder {
public:
  Builder(const Source &source, Diagnostics &diagnostics)
      : source_(source), text_(source.text()), diagnostics_(diagnostics) {
    if (text_.substr(0, 3) == "\xEF\xBB\xBF")
      at_ = 3;
  }

  bool null() { return add(std::monostate(), literal()); }
  bool boolean(bool value) { return add(value, literal()); }
  bool number_integer(int64_t value) { return add(value, number()); }
  bool number_unsigned(uint64_t value) {
    if (value > static_cast<uint64_t>(INT64_MAX))
      return add(static_cast<double>(value), number());
    return add(static_cast<int64_t>(value), number());
  }
  bool number_float(double value, const std::string &) { return add(value, number()); }
  bool string(std::string &value) { return add(std::move(value), quoted()); }
  bool binary(std::vector<uint8_t> &) { return false; }

  bool start_object(size_t) { return open(Object()); }
  bool start_array(size_t) { return open(Array()); }
  bool end_object() { return close() && checkUniqueKeys(std::get<Object>(lastClosed_->data)); }
  bool end_array() { return close(); }

  bool key(std::string &value) {
    std::get<Object>(stack_.back()->data).push_back({std::move(value), quoted(), {}});
    return true;
  }

  bool parse_error(size_t position, const std::string &text, const nlohmann::json::exception &problem) {
    constexpr int numberOverflow = 406;
    if (problem.id == numberOverflow) {
      diagnostics_.error(source_.place(number()),
                         "the number " + text + " is too large: the largest is 1.7e308");
      return false;
    }
    // The text after nlohmann's own position ("... column 5: ") is the part that helps.
    std::string what = problem.what();
    size_t colon = what.find(": ");
    std::string message = colon == std::string::npos ? what : what.substr(colon + 2);
    if (message.substr(0, 13) == "syntax error ")
      message = "invalid JSON " + message.substr(13);
    // The position counts the bytes read, the offending one included.
    size_t begin = position > 0 ? position - 1 : 0;
    diagnostics_.error(source_.place({begin, begin + 1}), message);
    return false;
  }

  /// Nlohmann takes a NUL byte for the end of the input.
  bool checkEnd() {
    skip();
    if (at_ >= text_.size())
      return true;
    diagnostics_.error(source_.place({at_, at_ + 1}), "unexpected text after the end of the JSON value");
    return false;
  }

  Value takeRoot() { return std::move(root_); }

private:
  static bool isBlank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

  void skip() {
    while (at_ < text_.size() && (isBlank(text_[at_]) || text_[at_] == ',' || text_[at_] == ':'))
      ++at_;
  }
  template <typename Continues>
  Range token(Continues continues) {
    size_t begin = at_;
    while (at_ < text_.size() && continues(text_[at_]))
      ++at_;
    return {begin, at_};
  }
  Range literal() {
    skip();
    return token([](char c) { return c >= 'a' && c <= 'z'; });
  }
  Range number() {
    skip();
    return token(
        [](char c) { return (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.' || (c | 32) == 'e'; });
  }
  Range quoted() {
    skip();
    size_t begin = at_++;
    while (at_ < text_.size() && text_[at_] != '"')
      at_ += text_[at_] == '\\' ? 2 : 1;
    at_ = std::min(at_ + 1, text_.size());
    return {begin, at_};
  }

  template <typename Data>
  bool add(Data data, Range range) {
    slot() = {std::move(data), range};
    return true;
  }

  /// Where the next value goes.
  Value &slot() {
    if (stack_.empty())
      return root_;
    if (auto *object = std::get_if<Object>(&stack_.back()->data))
      return object->back().value;
    return std::get<Array>(stack_.back()->data).emplace_back();
  }

  template <typename Container>
  bool open(Container container) {
    skip();
    if (stack_.size() >= kMaxDepth) {
      diagnostics_.error(source_.place({at_, at_ + 1}),
                         "this value is nested more than " + std::to_string(kMaxDepth) + " levels deep");
      return false;
    }
    Value &value = slot();
    value = {std::move(container), {at_, at_ + 1}};
    stack_.push_back(&value);
    ++at_;
    return true;
  }

  bool close() {
    skip();
    lastClosed_ = stack_.back();
    lastClosed_->range.end = ++at_;
    stack_.pop_back();
    return true;
  }

  bool checkUniqueKeys(const Object &object) {
    std::unordered_map<std::string_view, const Member *> seen;
    seen.reserve(object.size());
    for (const Member &member : object) {
      auto [first, isNew] = seen.emplace(member.key, &member);
      if (isNew)
        continue;
      diagnostics_
          .error(source_.place(member.keyRange),
                 "the key \"" + member.key + "\" appears twice in this object")
          .note(source_.place(first->second->keyRange), "it was given first here");
      return false;
    }
    return true;
  }

  const Source &source_;
  std::string_view text_;
  Diagnostics &diagnostics_;
  size_t at_ = 0;
  Value root_;
  // An open container does not move: its parent grows only after it was closed.
  std::vector<Value *> stack_;
  Value *lastClosed_ = nullptr;
};

} // namespace

std::optional<Document> parse(std::shared_ptr<const Source> source, Diagnostics &diagnostics) {
  Builder builder(*source, diagnostics);
  std::string_view text = source->text();
  bool parsed =
      nlohmann::json::sax_parse(text.begin(), text.end(), &builder, nlohmann::json::input_format_t::json,
                                /*strict=*/true, /*ignore_comments=*/false);
  if (!parsed || !builder.checkEnd())
    return std::nullopt;
  Value root = builder.takeRoot();
  return Document{std::move(source), std::move(root)};
}

} // namespace plumb::json
