#include "plumb/Import/Json.h"

#include <array>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <random>

using namespace plumb;

namespace {

std::optional<json::Document> parse(const std::string &text, Diagnostics &diagnostics) {
  return json::parse(std::make_shared<Source>("f.json", text), diagnostics);
}

std::string errorsOf(const std::string &text) {
  Diagnostics diagnostics;
  EXPECT_FALSE(parse(text, diagnostics)) << text;
  EXPECT_EQ(diagnostics.errorCount(), 1u);
  return diagnostics.str().substr(0, diagnostics.str().find('\n'));
}

/// Each value's range must be exactly the text that denotes it.
void checkRanges(const json::Value &value, const std::string &text, const nlohmann::json &expected) {
  std::string own = text.substr(value.range.begin, value.range.end - value.range.begin);
  EXPECT_EQ(nlohmann::json::parse(own), expected) << own;
  if (const json::Array *array = value.asArray()) {
    ASSERT_EQ(array->size(), expected.size());
    for (size_t i = 0; i < array->size(); ++i)
      checkRanges((*array)[i], text, expected[i]);
  }
  if (const json::Object *object = value.asObject()) {
    ASSERT_EQ(object->size(), expected.size());
    for (const json::Member &member : *object) {
      Range key = member.keyRange;
      EXPECT_EQ(nlohmann::json::parse(text.substr(key.begin, key.end - key.begin)), member.key);
      checkRanges(member.value, text, expected.at(member.key));
    }
  }
}

void checkDocument(const std::string &text) {
  Diagnostics diagnostics;
  std::optional<json::Document> document = parse(text, diagnostics);
  ASSERT_TRUE(document) << diagnostics.str();
  checkRanges(document->root, text, nlohmann::json::parse(text));
}

struct Generator {
  std::mt19937 random;

  size_t below(size_t n) { return random() % n; }
  std::string blanks() { return std::array<const char *, 5>{"", " ", "\n", "\t ", "\r\n"}[below(5)]; }
  std::string string() {
    static const std::array<const char *, 8> pieces = {"a", "\\\"",    "\\\\",     ",",
                                                       ":", "\\u00e4", "\xC3\xB6", "}"};
    std::string result = "\"";
    for (size_t n = below(4); n > 0; --n)
      result += pieces[below(pieces.size())];
    return result + "\"";
  }
  std::string value(unsigned depth) {
    switch (below(depth ? 8 : 6)) {
    case 0:
      return "null";
    case 1:
      return below(2) ? "true" : "false";
    case 2:
      return std::to_string(static_cast<int>(below(2000)) - 1000);
    case 3:
      return "-1.5e+3";
    case 4:
      return "9223372036854775808";
    case 5:
      return string();
    default:
      return container(depth, below(2));
    }
  }
  std::string container(unsigned depth, bool isObject) {
    std::string result = isObject ? "{" : "[";
    for (size_t i = 0, n = below(4); i < n; ++i) {
      std::string key = isObject ? "\"k" + std::to_string(i) + "\"" + blanks() + ":" : "";
      result += (i ? "," : "") + blanks() + key + blanks() + value(depth - 1) + blanks();
    }
    return result + blanks() + (isObject ? "}" : "]");
  }
};

} // namespace

TEST(Json, RangesAreExact) {
  checkDocument(R"({"a": [1, -2.5e3, "x\"y", null], "b\\": {"c": true}, "d": {}})");
  checkDocument("  \"only\"\n");
  checkDocument("7");
  checkDocument("[[],[[]],{},\t[ {} ]]");
}

TEST(Json, RangesOfRandomDocumentsAreExact) {
  Generator generator;
  for (int i = 0; i < 2000; ++i)
    checkDocument(generator.blanks() + generator.value(5) + generator.blanks());
}

TEST(Json, AByteOrderMarkIsSkipped) {
  Diagnostics diagnostics;
  std::optional<json::Document> document = parse("\xEF\xBB\xBF[1]", diagnostics);
  ASSERT_TRUE(document);
  EXPECT_EQ(document->root.range.begin, 3u);
}

TEST(Json, IntegersBeyond64BitsAreNumbers) {
  Diagnostics diagnostics;
  std::optional<json::Document> document =
      parse("[9223372036854775807, 9223372036854775808, 1e3]", diagnostics);
  const json::Array &array = *document->root.asArray();
  EXPECT_EQ(*array[0].asInteger(), INT64_MAX);
  EXPECT_EQ(array[1].asInteger(), nullptr);
  EXPECT_EQ(*array[1].asNumber(), 9223372036854775808.0);
  EXPECT_EQ(array[2].asInteger(), nullptr);
}

TEST(Json, PointersLeadToValues) {
  std::string text = R"({"a/b": {"~": [10, {"x": 20}]}})";
  Diagnostics diagnostics;
  json::Document document = *parse(text, diagnostics);
  auto pointer = [&](const char *of) {
    size_t at = text.find(of);
    return document.pointer({at, at + std::string(of).size()});
  };
  EXPECT_EQ(pointer("20"), "/a~1b/~0/1/x");
  EXPECT_EQ(pointer("10"), "/a~1b/~0/0");
  EXPECT_EQ(document.pointer(document.root.range), "");
  nlohmann::json same = nlohmann::json::parse(text);
  EXPECT_EQ(same[nlohmann::json::json_pointer(pointer("20"))], 20);
}

TEST(Json, SyntaxErrorsHaveTheirPlace) {
  EXPECT_EQ(errorsOf("{\"a\": 1,\n \"b\": }").substr(0, 27), "f.json:2:7: error: invalid ");
  EXPECT_EQ(errorsOf("[1, 2").substr(0, 27), "f.json:1:6: error: invalid ");
  EXPECT_EQ(errorsOf("").substr(0, 27), "f.json:1:1: error: invalid ");
  EXPECT_EQ(errorsOf("[01]").substr(0, 12), "f.json:1:3: ");
  EXPECT_EQ(errorsOf("{'a': 1}").substr(0, 12), "f.json:1:2: ");
  EXPECT_EQ(errorsOf("[1e999]").substr(0, 7), "f.json:");
  errorsOf("nul");
  errorsOf("{\"a\" 1}");
  errorsOf("[1,]");
  errorsOf("// c\n1");
}

TEST(Json, TrailingTextIsAnError) {
  EXPECT_EQ(errorsOf("{} x").substr(0, 12), "f.json:1:4: ");
  EXPECT_EQ(errorsOf("1 2").substr(0, 12), "f.json:1:3: ");
  EXPECT_EQ(errorsOf(std::string("{}\0{", 4)),
            "f.json:1:3: error: unexpected text after the end of the JSON value");
}

TEST(Json, InvalidUtf8IsAnError) {
  EXPECT_NE(errorsOf("\"\xC3\"").find("f.json:1:3: error: invalid JSON"), std::string::npos);
  errorsOf("\"\xED\xA0\x80\"");
  errorsOf("\"\\ud800\"");
  errorsOf("\"\x01\"");
}

TEST(Json, RepeatedKeysAreAnError) {
  Diagnostics diagnostics;
  EXPECT_FALSE(parse("{\"a\": 1,\n \"a\": 2}", diagnostics));
  EXPECT_EQ(diagnostics.str(), "f.json:2:2: error: the key \"a\" appears twice in this object\n"
                               "   2 |  \"a\": 2}\n"
                               "     |  ^~~\n"
                               "f.json:1:2: note: it was given first here\n"
                               "   1 | {\"a\": 1,\n"
                               "     |  ^~~\n");
}

TEST(Json, NestingIsLimited) {
  std::string fits = std::string(json::kMaxDepth, '[') + std::string(json::kMaxDepth, ']');
  Diagnostics diagnostics;
  EXPECT_TRUE(parse(fits, diagnostics));
  EXPECT_EQ(errorsOf("[" + fits + "]"),
            "f.json:1:201: error: this value is nested more than 200 levels deep");
  errorsOf(std::string(1000000, '['));
}

TEST(Json, NoPrefixOfADocumentIsOneOrCrashes) {
  std::string text = R"({"a": [1, -2.5e3, "x\"\u00e4y", null], "b": {"c": true}})";
  for (size_t length = 0; length < text.size(); ++length)
    errorsOf(text.substr(0, length));
}
