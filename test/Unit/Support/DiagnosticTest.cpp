#include "plumb/Support/Diagnostic.h"

#include <gtest/gtest.h>

using namespace plumb;

TEST(Source, PlacesCountLinesAndColumnsFromOne) {
  Source source("plan.json", "ab\ncde\r\n\nf");
  EXPECT_EQ(source.place({0, 1}).str(), "plan.json:1:1");
  EXPECT_EQ(source.place({5, 6}).str(), "plan.json:2:3");
  EXPECT_EQ(source.place({5, 6}).text, "cde");
  EXPECT_EQ(source.place({9, 10}).str(), "plan.json:4:1");
}

TEST(Source, PlacesBehindTheEndAreClamped) {
  Source source("f", "ab\nc");
  EXPECT_EQ(source.place({100, 200}).str(), "f:2:2");
  EXPECT_EQ(source.place({100, 200}).text, "c");
  EXPECT_EQ(Source("e", "").place({0, 1}).str(), "e:1:1");
  EXPECT_EQ(Source("e", "\n").place({1, 2}).str(), "e:2:1");
}

TEST(Source, EveryOffsetOfATextHasTheRightPlace) {
  std::string text = "a\n\nbc\tde\n\xC3\xA4\xC3\xB6 f\n";
  Source source("f", text);
  unsigned line = 1, column = 1;
  for (size_t offset = 0; offset <= text.size(); ++offset) {
    Place place = source.place({offset, offset + 1});
    EXPECT_EQ(place.line, line);
    EXPECT_EQ(place.column, column);
    if (place.caret < place.text.size())
      EXPECT_EQ(place.text[place.caret], text[offset]);
    bool ends = offset < text.size() && text[offset] == '\n';
    line += ends;
    column = ends ? 1 : column + 1;
  }
}

TEST(Source, LongLinesAreClippedAroundThePosition) {
  std::string text(100000, 'x');
  text[50000] = 'y';
  Place place = Source("f", text).place({50000, 50001});
  EXPECT_LT(place.text.size(), 200u);
  EXPECT_EQ(place.text[place.caret], 'y');
  EXPECT_EQ(place.column, 50001u);
}

TEST(Source, MissingFilesAndDirectoriesAreReported) {
  Diagnostics diagnostics;
  EXPECT_FALSE(Source::open("/nonexistent/plan.json", diagnostics));
  EXPECT_FALSE(Source::open("/", diagnostics));
  EXPECT_EQ(diagnostics.str(),
            "/nonexistent/plan.json: error: cannot read this file: No such file or directory\n"
            "/: error: cannot read this file: it is a directory\n");
}

TEST(Diagnostic, PrintsSnippetCaretAndNotes) {
  Source source("plan.json", "{\"mesh\": {\"tp\": 2},\n\t\"axis\": \"tpp\"}");
  Diagnostics diagnostics;
  diagnostics.error(source.place({29, 34}), "the mesh has no axis \"tpp\"")
      .note(source.place({9, 18}), "the mesh is declared here")
      .note("a note without a place");
  EXPECT_EQ(diagnostics.str(), "plan.json:2:10: error: the mesh has no axis \"tpp\"\n"
                               "   2 | \t\"axis\": \"tpp\"}\n"
                               "     | \t        ^~~~~\n"
                               "plan.json:1:10: note: the mesh is declared here\n"
                               "   1 | {\"mesh\": {\"tp\": 2},\n"
                               "     |          ^~~~~~~~~\n"
                               "note: a note without a place\n");
  EXPECT_TRUE(diagnostics.hasErrors());
}

TEST(Diagnostic, CharactersOfSeveralBytesTakeOneColumnOfTheSnippet) {
  Source source("f", "\xC3\xA4\xC3\xB6 x");
  Diagnostics diagnostics;
  diagnostics.warning(source.place({5, 6}), "w");
  EXPECT_EQ(diagnostics.str(), "f:1:6: warning: w\n   1 | \xC3\xA4\xC3\xB6 x\n     |    ^\n");
  EXPECT_FALSE(diagnostics.hasErrors());
}

TEST(Diagnostic, PlacesNeedNoSource) {
  Diagnostics diagnostics;
  diagnostics.error({"model.py", 21, 0, "x = f(x)"}, "unknown operator");
  diagnostics.error({}, "no place");
  EXPECT_EQ(diagnostics.str(), "model.py:21: error: unknown operator\n  21 | x = f(x)\nerror: no place\n");
}

TEST(Diagnostic, ControlCharactersOfTheInputDoNotReachTheTerminal) {
  Source source("f", "a\x1B[31mb");
  Diagnostics diagnostics;
  diagnostics.error(source.place({0, 1}), "bad \x1B[0m text");
  EXPECT_EQ(diagnostics.str().find('\x1B'), std::string::npos);
}
