//===- SpecSchema.h - Tables that describe JSON written by people -*- C++ -*-===//
//
// One table per language: `validate` checks a document against it and `toJsonSchema` prints it for editors,
// so what the parser takes and what the published schema says are the same thing.
//
//===----------------------------------------------------------------------===//

#ifndef PLUMB_IMPORT_SPECSCHEMA_H
#define PLUMB_IMPORT_SPECSCHEMA_H

#include "plumb/Import/Json.h"
#include "plumb/Support/Bounds.h"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

namespace plumb::spec {

struct Property;

/// What a value may be. Build one with the functions below.
struct Schema {
  enum class Kind { Any, Object, Map, Array, Pattern, Enum, Integer, Number, Boolean, OneOf };
  struct Choice {
    std::string value;
    bool isSupported = true;
  };

  Kind kind = Kind::Any;
  std::string description;
  std::vector<Property> properties; ///< Object.
  std::vector<Schema> elements;     ///< The one element type of Map and Array; the alternatives of OneOf.
  std::vector<Choice> choices;      ///< Enum.
  std::string pattern;              ///< Pattern: an ECMAScript regular expression for the whole string.
  std::string words;                ///< What such a value is called in messages; empty: by its kind.
  Bounds bounds;                    ///< Integer and Number.
  size_t minimumSize = 0;           ///< Array.
  bool isOpen = false;              ///< Object: other properties are ignored.
  bool isSupported = true;          ///< Known, described, and refused by this version.
};

struct Property {
  std::string name;
  Schema schema;
  bool isRequired = false;
};

Schema any(std::string description);
Schema boolean(std::string description);
Schema integer(std::string description, Bounds bounds = {});
Schema number(std::string description, Bounds bounds = {});
Schema pattern(std::string description, std::string regex, std::string words);
/// Any string that is not empty.
Schema text(std::string description);
/// One of the supported strings, or one of those known but not supported by this version.
Schema oneOfStrings(std::string description, std::vector<std::string> supported,
                    std::vector<std::string> unsupported = {});
Schema array(std::string description, Schema element, size_t minimumSize = 0);
/// An object with free keys.
Schema map(std::string description, Schema element);
Schema object(std::string description, std::vector<Property> properties);
/// Alternatives that differ in the JSON type of the value. An object that has a property of one of several
/// object alternatives is taken for that one.
Schema oneOf(std::string description, std::vector<Schema> alternatives);
/// The schema under a name of its own for messages, such as `a policy`.
Schema named(std::string words, Schema schema);
Schema unsupported(Schema schema);

/// Reports everything in the document that the schema does not allow, each at its place, and strings with
/// control characters. `name` is what the whole document is called in messages.
bool validate(const json::Document &document, const Schema &schema, Diagnostics &diagnostics,
              const std::string &name = "the plan");

/// The schema in the vocabulary of JSON Schema, draft 2020-12. What is not supported is described, and
/// matches nothing.
nlohmann::ordered_json toJsonSchema(const Schema &schema);

} // namespace plumb::spec

#endif // PLUMB_IMPORT_SPECSCHEMA_H
