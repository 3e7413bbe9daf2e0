//===- LayoutTest.cpp - Layouts, their text and their elements ------------===//
#include "TestSupport.h"
#include "plumb/Redistribution/IndexSet.h"
#include <random>

using namespace plumb::redistribution;

namespace {

std::string parseError(const Mesh &mesh, llvm::StringRef text) {
  llvm::Expected<Layout> result = parseLayout(mesh, text);
  return result ? "accepted" : messageOf(result.takeError());
}

std::string checkError(const Mesh &mesh, llvm::StringRef text, llvm::StringRef sizes) {
  return messageOf(checkLayout(mesh, layout(mesh, text), shape(sizes)));
}

TEST(LayoutText, RoundTrips) {
  Mesh m = mesh("dp=2,tp=4,cp=3");
  for (llvm::StringRef text :
       {"[]", "[{},{}]", "[{dp},{tp}]", "[{dp,tp},{}] partial{cp}", "[{tp:(1)2},{tp:(2)2}]",
        "[{tp} blocks 3,{}]", "[{tp} blocks [64,32,32] unit 8]", "[{}] partial{dp,cp:avg}",
        "[{tp:(2)2}] partial{tp:(1)2:max,dp:max}"})
    EXPECT_EQ(toString(m, layout(m, text)), text);
  EXPECT_EQ(toString(m, layout(m, " [ { dp , tp } , { } ]  partial { cp : max } ")),
            "[{dp,tp},{}] partial{cp:max}");
  EXPECT_EQ(toString(m), "dp=2,tp=4,cp=3");
  EXPECT_TRUE(shape("").empty());
}

TEST(LayoutText, LocatesErrors) {
  Mesh m = mesh("dp=2,tp=4");
  EXPECT_EQ(parseError(m, "[{dq}]"), "column 3: the mesh dp=2,tp=4 has no axis 'dq'");
  EXPECT_EQ(parseError(m, "[{dp},{tp}"), "column 11: expected ']' after the last dimension, found the end");
  EXPECT_EQ(parseError(m, "[{dp}] x"), "column 8: unexpected 'x' after the end");
  EXPECT_EQ(parseError(m, "[{tp:(3)2}]"),
            "column 3: (3)2 is not a sub-axis of 'tp': 3·2 does not divide its size 4");
  EXPECT_EQ(parseError(m, "[{}] partial{dp:mean}"),
            "column 17: 'mean' is not a reduction; there are sum, avg, min, max and product");
  EXPECT_EQ(parseError(m, "[{dp} blocks 99999999999999999999]"),
            "column 14: 99999999999999999999 is too large for the number of blocks");
  EXPECT_EQ(messageOf(parseMesh("dp=2,dp=3").takeError()), "axis 'dp' is on the mesh twice");
  EXPECT_EQ(messageOf(parseMesh("dp=0").takeError()), "axis 'dp' has size 0; an axis has at least one rank");
  EXPECT_EQ(messageOf(parseMesh("dp=2000,tp=2000").takeError()), "the mesh has more than 1048576 ranks");
  EXPECT_EQ(messageOf(parseShape("4,,4").takeError()),
            "column 3: expected the size of a dimension, found ','");
}

TEST(LayoutText, SurvivesAnyText) {
  Mesh m = mesh("dp=2,tp=4");
  const std::string alphabet = "[]{}(),:=12 dptpartialblocksunit-";
  std::mt19937 random(7);
  for (int i = 0; i < 20000; ++i) {
    std::string text = i % 2 ? "[{dp},{tp:(1)2} blocks 3] partial{tp:(2)2:max}" : "";
    for (int edits = random() % 12; edits > 0; --edits) {
      size_t at = random() % (text.size() + 1);
      if (random() % 2 || at == text.size())
        text.insert(text.begin() + at, alphabet[random() % alphabet.size()]);
      else
        text.erase(at, 1);
    }
    llvm::Expected<Layout> parsed = parseLayout(m, text);
    if (!parsed) {
      EXPECT_FALSE(messageOf(parsed.takeError()).empty());
      continue;
    }
    EXPECT_EQ(layout(m, toString(m, *parsed)), *parsed) << text;
    llvm::consumeError(checkLayout(m, *parsed, {8, 8}));
  }
}

TEST(Layout, RejectsWhatIsNotOne) {
  Mesh m = mesh("dp=2,tp=4,one=1");
  EXPECT_EQ(checkError(m, "[{dp}]", "4,4"), "the layout [{dp}] has 1 dimensions, the tensor has 2: 4,4");
  EXPECT_EQ(checkError(m, "[{dp},{dp}]", "4,4"),
            "axis 'dp' is used twice; an axis shards one dimension or is partial, once");
  EXPECT_EQ(checkError(m, "[{dp},{}] partial{dp}", "4,4"),
            "axis 'dp' both shards a dimension and is partial");
  EXPECT_EQ(checkError(m, "[{tp},{tp:(1)2}]", "4,4"),
            "'tp:(1)2' and 'tp' overlap: they are not digits of one factorisation of axis 'tp' of size 4");
  EXPECT_EQ(checkError(m, "[{}] partial{dp,tp:max}", "4"),
            "partial(sum) over 'dp' and partial(max) over 'tp' in one layout: the result would depend on the "
            "order; "
            "only sum and avg mix");
  EXPECT_EQ(checkError(m, "[{tp} blocks 3]", "8"), "dimension 0: 8 elements are not 3 equal blocks");
  EXPECT_EQ(checkError(m, "[{tp} blocks [4,5]]", "8"),
            "dimension 0: the blocks do not add up to its 8 elements");
  EXPECT_EQ(checkError(m, "[{tp} unit 9]", "8"), "dimension 0: a unit of 9 does not fit its 8 elements");
  EXPECT_EQ(checkError(m, "[{dp,one},{tp}] partial{one}", "8,8"), ""); // an axis of size 1 does nothing
  EXPECT_EQ(checkError(m, "[{tp:(1)2},{tp:(2)2}] partial{dp}", "8,8"), "");
}

TEST(Layout, CanonicalFormsDecideEquality) {
  Mesh m = mesh("dp=2,tp=4,one=1");
  auto canonical = [&](llvm::StringRef text, llvm::StringRef sizes) {
    return toString(m, canonicalize(m, layout(m, text), shape(sizes)));
  };
  EXPECT_EQ(canonical("[{tp:(1)2,tp:(2)2}]", "8"), "[{tp}]");
  EXPECT_EQ(canonical("[{tp:(1)2,tp:(2)2}]", "6"), "[{tp:(1)2,tp:(2)2}]");
  EXPECT_EQ(canonical("[{tp:(2)2,tp:(1)2}]", "8"), "[{tp:(2)2,tp:(1)2}]");
  EXPECT_EQ(canonical("[{one,dp} blocks [4,4]]", "8"), "[{dp} blocks 2]");
  EXPECT_EQ(canonical("[{} blocks 2]", "8"), "[{}]");
  EXPECT_EQ(canonical("[{}] partial{tp:(2)2,dp,tp:(1)2}", "8"), "[{}] partial{dp,tp}");
}

TEST(IndexSet, FollowsTheRule) {
  Mesh m = mesh("x=4,y=2");
  auto sizes = [&](llvm::StringRef text, int64_t size) {
    std::string result;
    for (int64_t rank = 0; rank < 8; ++rank)
      result += std::to_string(localShape(m, layout(m, text), {size}, rank)[0]) + " ";
    return result;
  };
  EXPECT_EQ(sizes("[{x}]", 5), "2 2 2 2 1 1 0 0 ");
  EXPECT_EQ(sizes("[{x,y}]", 10), "2 1 2 1 2 1 1 0 ");
  EXPECT_EQ(sizes("[{y,x}]", 10), "2 2 2 2 1 1 0 0 ");
  EXPECT_EQ(sizes("[{x} blocks 2]", 16), "4 4 4 4 4 4 4 4 ");
  EXPECT_EQ(sizes("[{y} unit 4]", 12), "8 4 8 4 8 4 8 4 ");
  // Three blocks of 4: the second half of each.
  IndexSet set = localSet(m, layout(m, "[{y} blocks 3]"), {12}, {0, 1});
  EXPECT_EQ(set[0], (Intervals{{2, 4}, {6, 8}, {10, 12}}));
}

TEST(IndexSet, ShardsPartitionTheTensor) {
  Mesh m = mesh("x=2,y=3,z=2");
  for (const Layout &l : allLayouts(m, 2, false))
    for (auto sizes : {Index{7, 5}, Index{12, 1}, Index{0, 3}}) {
      std::vector<int> owners(sizes[0] * sizes[1], 0);
      for (int64_t rank = 0; rank < m.numRanks(); ++rank)
        for (const Box &box : boxesWithin(localSet(m, l, sizes, m.coordinates(rank)), globalSet(sizes)))
          for (int64_t i = 0; i < box.shape[0]; ++i)
            for (int64_t j = 0; j < box.shape[1]; ++j)
              ++owners[(box.offset[0] + i) * sizes[1] + box.offset[1] + j];
      int64_t copies = m.numRanks();
      for (const DimSharding &dim : l.dims)
        for (const AxisRef &axis : dim.axes)
          copies /= axis.size;
      for (int count : owners)
        ASSERT_EQ(count, copies) << toString(m, l);
    }
}

} // namespace
