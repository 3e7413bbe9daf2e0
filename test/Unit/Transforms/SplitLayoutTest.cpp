#include "SplitLayout.h"

#include <gtest/gtest.h>

using namespace plumb;

namespace {

std::vector<std::string> read(llvm::StringRef text) {
  auto stages = parseSplitLayout(text);
  if (stages)
    return *stages;
  return {"error", llvm::toString(stages.takeError())};
}

std::string errorOf(llvm::StringRef text) {
  auto stages = parseSplitLayout(text);
  return stages ? "none" : llvm::toString(stages.takeError());
}

} // namespace

TEST(SplitLayout, LettersOfEachStage) {
  EXPECT_EQ(read("Et|tL"), (std::vector<std::string>{"Et", "tL"}));
  EXPECT_EQ(read(" E, t*3 | t,t,L "), (std::vector<std::string>{"Ettt", "ttL"}));
  EXPECT_EQ(read("E|(t|)*3L"), (std::vector<std::string>{"E", "t", "t", "t", "L"}));
  EXPECT_EQ(read("E(t*2|)*2((t|)*2)*2m|L").size(), 8u);
}

TEST(SplitLayout, TheExampleOfMegatron) {
  std::vector<std::string> stages = read("Et*3|(tt|)*29,m|L");
  ASSERT_EQ(stages.size(), 32u);
  EXPECT_EQ(stages[0], "Ettt");
  EXPECT_EQ(stages[29], "tt");
  EXPECT_EQ(stages[30], "m");
  EXPECT_EQ(stages[31], "L");
}

TEST(SplitLayout, ErrorsNameTheCharacter) {
  EXPECT_EQ(errorOf("Et|x|L"),
            "the layout string \"Et|x|L\" has 'x'; expected E, t, m, L, |, ( or a comma, at character 4");
  EXPECT_EQ(errorOf("E(tt|L"), "the layout string \"E(tt|L\" has a '(' without its ')', at character 7");
  EXPECT_EQ(errorOf("Ett)L"), "the layout string \"Ett)L\" has a ')' without its '(', at character 4");
  EXPECT_EQ(errorOf("Et*|L"),
            "the layout string \"Et*|L\" has '*' without a number of times, at character 4");
  EXPECT_EQ(errorOf("Et||L"), "the layout string \"Et||L\" has an empty stage, the one with the number 1");
  for (llvm::StringRef text : {"", "tt|L", "Ett", "ELt", "EtmtL", "EtLL", "EEtL", "|"})
    EXPECT_NE(errorOf(text).find("must be one E, then layers t"), std::string::npos) << text.str();
}

TEST(SplitLayout, LongStringsAreRefusedBeforeTheyGrow) {
  EXPECT_NE(errorOf("Et*999999999L").find("more than 100000 layers"), std::string::npos);
  EXPECT_NE(errorOf("E((((t*1000)*1000)*1000)*1000)L").find("more than 100000 layers"), std::string::npos);
  EXPECT_NE(errorOf(std::string(1000, '(')).find("nested too deeply"), std::string::npos);
}
