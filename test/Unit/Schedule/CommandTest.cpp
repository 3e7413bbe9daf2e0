#include "plumb/Schedule/Command.h"
#include "Fixtures.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

using namespace plumb::schedule;
using nlohmann::json;

TEST(Command, JSONHoldsTheNumbers) {
  GenerateRequest request{"1f1b", 4, 8, 1, "1,1,1,0", "1,0,-1", "", "json"};
  CommandOutput output = runGenerate(request);
  ASSERT_EQ(output.exitCode, 0) << output.diagnostics;
  json document = json::parse(output.output);
  EXPECT_EQ(document["makespan"], 33);
  EXPECT_NEAR(document["bubble"], 1 - 24.0 / 33, 1e-12);
  EXPECT_EQ(document["peak_activations"], json({4, 3, 2, 1}));
  EXPECT_EQ(document["actions"][3][1], "3B0");
}

TEST(Command, WhatItWritesValidates) {
  for (const char *kind : {"gpipe", "zb-h1", "zb-v", "v-min", "dualpipe-v"})
    for (const char *format : {"csv", "json"}) {
      CommandOutput list = runGenerate({kind, 2, 8, 0, "", "", "", format});
      ASSERT_EQ(list.exitCode, 0) << list.diagnostics;
      bool two = std::string(kind) == "zb-v" || kind[0] == 'v' || kind[0] == 'd';
      CommandOutput verdict =
          runValidate({"x", list.output, two ? 4 : 2, 8, 0, 0, two ? "0,1,1,0" : "", false, ""});
      EXPECT_EQ(verdict.exitCode, 0) << verdict.diagnostics;
    }
}

TEST(Command, TimelineShowsEveryAction) {
  CommandOutput text = runGenerate({"1f1b", 2, 2, 1, "1,1,1,0", "", "", "text"});
  EXPECT_NE(text.output.find("rank 0 |0F0 0F1 ........0B0---- ....0B1---- |\n"
                             "rank 1 |....1F0 1B0---- 1F1 1B1---- ........|\n"),
            std::string::npos)
      << text.output;
}

TEST(Command, RejectionsAreLocated) {
  CommandOutput verdict = runValidate({"a.csv", "0F0,0B0\n1F0,1X0\n", 2, 1, 0, 0, "", false, ""});
  EXPECT_EQ(verdict.exitCode, 3);
  EXPECT_EQ(verdict.output, "reject bad_action_text\n");
  EXPECT_EQ(verdict.diagnostics.rfind("a.csv:2:5: error: rank 1, cell 1, 1X0: ", 0), 0u)
      << verdict.diagnostics;
}

static CommandOutput ask(const std::string &kind, int ranks, int microbatches, int stagesPerRank = 0,
                         const std::string &costs = "", const std::string &memoryLimit = "") {
  return runGenerate({kind, ranks, microbatches, stagesPerRank, costs, "", memoryLimit, ""});
}

TEST(Command, WrongUsageIsExplained) {
  EXPECT_EQ(ask("1f1", 2, 2).exitCode, 2);
  EXPECT_NE(ask("1f1", 2, 2).diagnostics.find("did you mean '1f1b'"), std::string::npos);
  EXPECT_EQ(ask("1f1b", 0, 2).exitCode, 2);
  EXPECT_EQ(ask("1f1b", 2, 2, 1, "1,1,1").exitCode, 2);
  EXPECT_EQ(ask("1f1b", 2, 2, 1, "1,nan,1,0").exitCode, 2);
  EXPECT_EQ(ask("1f1b", 2, 2, 1, "1,-1,1,0").exitCode, 2);
  EXPECT_EQ(runValidate({"a.csv", "0F0\n", 1, 1, 0, 0, "", false, "magic"}).exitCode, 2);
  EXPECT_EQ(runValidate({"a.csv", "0F0\n", 1, 1, 0, 0, "0,x", false, ""}).exitCode, 2);
}

TEST(Command, UnmetPreconditionsAreRejections) {
  EXPECT_EQ(ask("dualpipe-v", 4, 7).exitCode, 1);
  EXPECT_EQ(ask("dualpipe", 3, 8).exitCode, 1);
  EXPECT_EQ(ask("interleaved-1f1b", 4, 7, 2).exitCode, 1);
  EXPECT_EQ(ask("zb-v", 4, 8, 3).exitCode, 1);
  EXPECT_EQ(ask("1f1b", 4, 8, 1, "", "2").exitCode, 1);
  EXPECT_EQ(ask("1f1b", 2000000000, 2000000000, 2000000000).exitCode, 1);
}

/// Every number is refused outside its range, by name; what is within it is computed without overflow.
TEST(Command, NumbersHaveRanges) {
  for (const char *number : {"1e308", "-1e308", "1e400", "nan", "inf", ""}) {
    std::string text = number, costs = "1," + text + ",1,0", change = "1,0," + text;
    EXPECT_EQ(ask("1f1b", 2, 4, 1, costs).exitCode, 2) << costs;
    EXPECT_NE(ask("1f1b", 2, 4, 1, costs).diagnostics.find("--costs " + costs + ": expected four numbers"),
              std::string::npos);
    EXPECT_EQ(runGenerate({"1f1b", 2, 4, 1, "", change, "", ""}).exitCode, 2) << change;
    if (!text.empty()) {
      EXPECT_EQ(ask("1f1b", 2, 4, 1, "", text).exitCode, 2) << text;
    }
  }
  for (const char *costs :
       {"1e12,1e12,1e12,1e12", "1e-308,1e-308,1e-308,0", "1e12,1e-308,0,1e-300", "0,0,0,0"})
    for (const char *kind : {"1f1b", "zb-1p", "zb-v", "auto"}) {
      CommandOutput output = runGenerate({kind, 2, 4, 0, costs, "1e15,-1e15,1e-300", "", ""});
      EXPECT_LE(output.exitCode, 1) << kind << " " << costs << output.diagnostics;
      EXPECT_EQ(output.output.find("inf"), std::string::npos) << output.output;
      EXPECT_EQ(output.output.find("nan"), std::string::npos) << output.output;
    }
  // As many stages as an integer counts: an answer, and at once.
  EXPECT_EQ(runValidate({"a.csv", "0F0\n", 2147483647, 1, 0, 0, "", false, ""}).exitCode, 1);
}

/// A kind keeps to a limit of its own, which is not the memory limit.
TEST(Command, TheLimitThatIsMissedIsNamed) {
  auto reason = [](const char *kind, const char *memoryLimit) {
    return runGenerate({kind, 4, 8, 0, "", "1,10,-11", memoryLimit, ""}).diagnostics;
  };
  for (const char *kind : {"zb-1p", "zb-2p", "zb-v", "v-half", "v-min"})
    EXPECT_NE(reason(kind, "").find(" activations, those of one microbatch"), std::string::npos)
        << reason(kind, "");
  EXPECT_NE(reason("zb-1p", "1e15").find(" activations, those of one microbatch"), std::string::npos);
}
