#include "plumb/Import/SpecSchema.h"

#include "plumb/Support/Suggest.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <regex>

namespace plumb::spec {

/// Longer strings match no pattern; the library's regular expressions recurse once per character.
static constexpr size_t kLongestPatternText = 200;

//===--------------------------------------------------------------------===//
// Construction
//===--------------------------------------------------------------------===//

static Schema make(Schema::Kind kind, std::string description) {
  Schema schema;
  schema.kind = kind;
  schema.description = std::move(description);
  return schema;
}

Schema any(std::string description) { return make(Schema::Kind::Any, std::move(description)); }

Schema boolean(std::string description) { return make(Schema::Kind::Boolean, std::move(description)); }

Schema integer(std::string description, Bounds bounds) {
  Schema schema = make(Schema::Kind::Integer, std::move(description));
  schema.bounds = bounds;
  return schema;
}

Schema number(std::string description, Bounds bounds) {
  Schema schema = make(Schema::Kind::Number, std::move(description));
  schema.bounds = bounds;
  return schema;
}

Schema pattern(std::string description, std::string regex, std::string words) {
  Schema schema = make(Schema::Kind::Pattern, std::move(description));
  schema.pattern = std::move(regex);
  schema.words = std::move(words);
  return schema;
}

Schema text(std::string description) { return pattern(std::move(description), "", "a string"); }

Schema oneOfStrings(std::string description, std::vector<std::string> supported,
                    std::vector<std::string> unsupported) {
  Schema schema = make(Schema::Kind::Enum, std::move(description));
  for (std::string &value : supported)
    schema.choices.push_back({std::move(value), true});
  for (std::string &value : unsupported)
    schema.choices.push_back({std::move(value), false});
  return schema;
}

Schema array(std::string description, Schema element, size_t minimumSize) {
  Schema schema = make(Schema::Kind::Array, std::move(description));
  schema.minimumSize = minimumSize;
  schema.elements.push_back(std::move(element));
  return schema;
}

Schema map(std::string description, Schema element) {
  Schema schema = make(Schema::Kind::Map, std::move(description));
  schema.elements.push_back(std::move(element));
  return schema;
}

Schema object(std::string description, std::vector<Property> properties) {
  Schema schema = make(Schema::Kind::Object, std::move(description));
  schema.properties = std::move(properties);
  return schema;
}

Schema oneOf(std::string description, std::vector<Schema> alternatives) {
  Schema schema = make(Schema::Kind::OneOf, std::move(description));
  schema.elements = std::move(alternatives);
  return schema;
}

Schema named(std::string words, Schema schema) {
  schema.words = std::move(words);
  return schema;
}

Schema unsupported(Schema schema) {
  schema.isSupported = false;
  return schema;
}

//===--------------------------------------------------------------------===//
// Validation
//===--------------------------------------------------------------------===//

namespace {

std::string inQuotes(std::string_view text) { return "\"" + std::string(text) + "\""; }

/// `"a", "b" or "c"`.
std::string listed(const std::vector<std::string> &values) {
  std::string result;
  for (size_t i = 0; i < values.size(); ++i)
    result += (i == 0 ? "" : i + 1 == values.size() ? " or " : ", ") + inQuotes(values[i]);
  return result;
}

std::vector<std::string> supportedChoices(const Schema &schema) {
  std::vector<std::string> values;
  for (const Schema::Choice &choice : schema.choices)
    if (choice.isSupported)
      values.push_back(choice.value);
  return values;
}

std::string wordsFor(const Schema &schema) {
  if (!schema.words.empty())
    return schema.words;
  switch (schema.kind) {
  case Schema::Kind::Object:
  case Schema::Kind::Map:
    return "an object";
  case Schema::Kind::Array:
    return "an array";
  case Schema::Kind::Enum:
    return listed(supportedChoices(schema));
  case Schema::Kind::Integer:
    return "an integer" + schema.bounds.str();
  case Schema::Kind::Number:
    return "a number" + schema.bounds.str();
  case Schema::Kind::Boolean:
    return "true or false";
  case Schema::Kind::OneOf: {
    std::string result;
    for (const Schema &alternative : schema.elements)
      if (alternative.isSupported)
        result += (result.empty() ? "" : ", or ") + wordsFor(alternative);
    return result;
  }
  case Schema::Kind::Pattern:
  case Schema::Kind::Any:
    break;
  }
  return "any value";
}

class Validator {
public:
  Validator(const json::Document &document, Diagnostics &diagnostics)
      : document_(document), diagnostics_(diagnostics) {}

  /// `name` is what the value is called in messages, the key that it stands at.
  void check(const json::Value &value, const Schema &schema, const std::string &name) {
    if (!schema.isSupported)
      return error(value.range, name + " is not supported by this version");
    if (const std::string *string = value.asString(); string && !isPrintable(*string, value.range))
      return;
    switch (schema.kind) {
    case Schema::Kind::Any:
      return;
    case Schema::Kind::Object:
      return checkObject(value, schema, name);
    case Schema::Kind::Map:
      return checkMap(value, schema, name);
    case Schema::Kind::Array:
      return checkArray(value, schema, name);
    case Schema::Kind::Pattern:
      return checkPattern(value, schema, name);
    case Schema::Kind::Enum:
      return checkEnum(value, schema, name);
    case Schema::Kind::Integer:
    case Schema::Kind::Number: {
      bool hasType = schema.kind == Schema::Kind::Number || value.asInteger();
      std::optional<double> number = value.asNumber();
      if (!hasType || !number || !schema.bounds.contains(*number))
        mismatch(value, schema, name);
      return;
    }
    case Schema::Kind::Boolean:
      if (!value.asBool())
        mismatch(value, schema, name);
      return;
    case Schema::Kind::OneOf:
      return checkOneOf(value, schema, name);
    }
  }

private:
  void error(Range range, std::string message) {
    diagnostics_.error(document_.place(range), std::move(message));
  }

  /// Names go into messages, files and programs.
  bool isPrintable(const std::string &string, Range range) {
    auto isControl = [](unsigned char c) { return c < 0x20 || c == 0x7f; };
    auto found = std::find_if(string.begin(), string.end(), isControl);
    if (found == string.end())
      return true;
    char code[8];
    std::snprintf(code, sizeof(code), "U+%04X", static_cast<unsigned char>(*found));
    error(range, std::string("this string has the control character ") + code + ", which no name can have");
    return false;
  }

  void mismatch(const json::Value &value, const Schema &schema, const std::string &name) {
    error(value.range, name + " must be " + wordsFor(schema) + ", found " + value.describe());
  }

  void checkObject(const json::Value &value, const Schema &schema, const std::string &name) {
    const json::Object *members = value.asObject();
    if (!members)
      return mismatch(value, schema, name);
    std::vector<std::string> known;
    for (const Property &property : schema.properties)
      known.push_back(property.name);
    for (const json::Member &member : *members) {
      if (!isPrintable(member.key, member.keyRange))
        continue;
      auto property = std::find_if(schema.properties.begin(), schema.properties.end(),
                                   [&](const Property &p) { return p.name == member.key; });
      if (property == schema.properties.end() && schema.isOpen)
        continue;
      if (property == schema.properties.end())
        error(member.keyRange,
              "unknown key " + inQuotes(member.key) + " in " + name + didYouMean(member.key, known));
      else if (!property->schema.isSupported)
        error(member.keyRange, inQuotes(member.key) + " is not supported by this version");
      else
        check(member.value, property->schema, inQuotes(member.key));
    }
    for (const Property &property : schema.properties)
      if (property.isRequired && !value.find(property.name))
        error({value.range.begin, value.range.begin + 1}, name + " needs the key " + inQuotes(property.name));
  }

  void checkMap(const json::Value &value, const Schema &schema, const std::string &name) {
    const json::Object *members = value.asObject();
    if (!members)
      return mismatch(value, schema, name);
    for (const json::Member &member : *members) {
      if (!isPrintable(member.key, member.keyRange))
        continue;
      if (member.key.empty())
        error(member.keyRange, "a key of " + name + " must not be empty");
      check(member.value, schema.elements.front(), inQuotes(member.key));
    }
  }

  void checkArray(const json::Value &value, const Schema &schema, const std::string &name) {
    const json::Array *elements = value.asArray();
    if (!elements)
      return mismatch(value, schema, name);
    if (elements->size() < schema.minimumSize)
      error(value.range, name + " needs " + std::to_string(schema.minimumSize) + " or more elements, found " +
                             std::to_string(elements->size()));
    for (const json::Value &element : *elements)
      check(element, schema.elements.front(), "an entry of " + name);
  }

  void checkPattern(const json::Value &value, const Schema &schema, const std::string &name) {
    const std::string *string = value.asString();
    bool matches = string && !string->empty() &&
                   (schema.pattern.empty() || (string->size() <= kLongestPatternText &&
                                               std::regex_match(*string, std::regex(schema.pattern))));
    if (!matches)
      mismatch(value, schema, name);
  }

  void checkEnum(const json::Value &value, const Schema &schema, const std::string &name) {
    const std::string *string = value.asString();
    if (!string)
      return mismatch(value, schema, name);
    std::vector<std::string> supported = supportedChoices(schema);
    for (const Schema::Choice &choice : schema.choices) {
      if (choice.value != *string)
        continue;
      if (!choice.isSupported)
        error(value.range, name + " " + inQuotes(*string) + " is not supported by this version, only " +
                               listed(supported));
      return;
    }
    std::optional<std::string> near = nearest(*string, supported);
    error(value.range,
          "unknown value " + inQuotes(*string) + " of " + name +
              (near ? "; did you mean " + inQuotes(*near) + "?" : "; it can be " + listed(supported)));
  }

  static bool hasJsonType(const json::Value &value, const Schema &schema) {
    switch (schema.kind) {
    case Schema::Kind::Object:
    case Schema::Kind::Map:
      return value.asObject();
    case Schema::Kind::Array:
      return value.asArray();
    case Schema::Kind::Pattern:
    case Schema::Kind::Enum:
      return value.asString();
    case Schema::Kind::Integer:
      return value.asInteger();
    case Schema::Kind::Number:
      return value.asNumber().has_value();
    case Schema::Kind::Boolean:
      return value.asBool();
    case Schema::Kind::Any:
    case Schema::Kind::OneOf:
      break;
    }
    return true;
  }

  void checkOneOf(const json::Value &value, const Schema &schema, const std::string &name) {
    const Schema *chosen = nullptr;
    for (const Schema &alternative : schema.elements) {
      if (!hasJsonType(value, alternative))
        continue;
      bool isNamed = std::any_of(alternative.properties.begin(), alternative.properties.end(),
                                 [&](const Property &property) { return value.find(property.name); });
      if (!chosen || isNamed)
        chosen = &alternative;
    }
    if (!chosen)
      return mismatch(value, schema, name);
    if (!chosen->isSupported)
      return error(value.range, name + " as " + wordsFor(*chosen) +
                                    " is not supported by this version; it must be " + wordsFor(schema));
    check(value, *chosen, name);
  }

  const json::Document &document_;
  Diagnostics &diagnostics_;
};

} // namespace

bool validate(const json::Document &document, const Schema &schema, Diagnostics &diagnostics,
              const std::string &name) {
  size_t before = diagnostics.errorCount();
  Validator(document, diagnostics).check(document.root, schema, name);
  return diagnostics.errorCount() == before;
}

//===--------------------------------------------------------------------===//
// JSON Schema
//===--------------------------------------------------------------------===//

static void addObject(const Schema &schema, nlohmann::ordered_json &json) {
  json["type"] = "object";
  nlohmann::ordered_json properties = nlohmann::ordered_json::object();
  nlohmann::ordered_json required = nlohmann::ordered_json::array();
  for (const Property &property : schema.properties) {
    properties[property.name] = toJsonSchema(property.schema);
    if (property.isRequired)
      required.push_back(property.name);
  }
  json["properties"] = std::move(properties);
  if (!required.empty())
    json["required"] = std::move(required);
  json["additionalProperties"] = schema.isOpen;
}

static void addBounds(const Bounds &bounds, nlohmann::ordered_json &json) {
  auto add = [&](const char *key, double number) {
    if (std::isfinite(number) && number == std::floor(number) && std::abs(number) < 0x1p53)
      json[key] = static_cast<int64_t>(number);
    else if (std::isfinite(number))
      json[key] = number;
  };
  add("minimum", bounds.least);
  add("maximum", bounds.most);
}

nlohmann::ordered_json toJsonSchema(const Schema &schema) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (!schema.description.empty())
    json["description"] = schema.description;
  if (!schema.isSupported) {
    json["description"] = schema.description + " Not supported by this version.";
    json["not"] = nlohmann::ordered_json::object();
    return json;
  }
  switch (schema.kind) {
  case Schema::Kind::Any:
    break;
  case Schema::Kind::Object:
    addObject(schema, json);
    break;
  case Schema::Kind::Map:
    json["type"] = "object";
    json["propertyNames"] = {{"minLength", 1}};
    json["additionalProperties"] = toJsonSchema(schema.elements.front());
    break;
  case Schema::Kind::Array:
    json["type"] = "array";
    json["items"] = toJsonSchema(schema.elements.front());
    if (schema.minimumSize > 0)
      json["minItems"] = schema.minimumSize;
    break;
  case Schema::Kind::Pattern:
    json["type"] = "string";
    json["minLength"] = 1;
    if (!schema.pattern.empty()) {
      json["maxLength"] = kLongestPatternText;
      json["pattern"] = "^(?:" + schema.pattern + ")$";
    }
    break;
  case Schema::Kind::Enum:
    json["type"] = "string";
    json["enum"] = supportedChoices(schema);
    break;
  case Schema::Kind::Integer:
  case Schema::Kind::Number:
    json["type"] = schema.kind == Schema::Kind::Integer ? "integer" : "number";
    addBounds(schema.bounds, json);
    break;
  case Schema::Kind::Boolean:
    json["type"] = "boolean";
    break;
  case Schema::Kind::OneOf:
    json["anyOf"] = nlohmann::ordered_json::array();
    for (const Schema &alternative : schema.elements)
      json["anyOf"].push_back(toJsonSchema(alternative));
    break;
  }
  return json;
}

} // namespace plumb::spec
