#include "plumb/Import/PythonTrace.h"

#include <gtest/gtest.h>

using namespace plumb::pt2;

TEST(PythonTrace, FramesAreReadWithTheirCode) {
  std::vector<PythonFrame> frames =
      parseStackTrace("File \"/m/gpt.py\", line 48, in forward\n    x = b(x)\n"
                      "  File \"/m/with \"quote\".py\", line 7, in <lambda>\n    y = 1\n    ^^^^^");
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_EQ(frames[0].str(), "/m/gpt.py:48");
  EXPECT_EQ(frames[0].function, "forward");
  EXPECT_EQ(frames[0].code, "x = b(x)");
  EXPECT_EQ(frames[1].file, "/m/with \"quote\".py");
  EXPECT_EQ(frames[1].function, "<lambda>");
  EXPECT_EQ(frames[1].code, "y = 1");
  EXPECT_EQ(frames[1].place().str(), "/m/with \"quote\".py:7");
}

TEST(PythonTrace, TextThatIsNoFrameIsSkipped) {
  EXPECT_TRUE(parseStackTrace("").empty());
  EXPECT_TRUE(
      parseStackTrace("Traceback (most recent call last):\nFile \"x\", line , in f\nFile \"x").empty());
  EXPECT_TRUE(parseStackTrace("File \"x\", line 99999999999999999999, in f").empty());
  EXPECT_FALSE(userFrame("nothing"));
}

TEST(PythonTrace, TheUserFrameIsTheInnermostOutsideTorch) {
  auto line = [](std::vector<std::string> files) {
    std::string trace;
    for (size_t i = 0; i < files.size(); ++i)
      trace += "File \"" + files[i] + "\", line " + std::to_string(i + 1) + ", in f\n  code\n";
    return userFrame(trace)->line;
  };
  EXPECT_EQ(line({"/m/a.py", "/m/b.py", "/usr/lib/python3/dist-packages/torch/nn/modules/linear.py"}), 2u);
  EXPECT_EQ(line({"/m/a.py", "/x/site-packages/torch/distributed/pipelining/_IR.py"}), 1u);
  EXPECT_EQ(line({"/m/a.py", "/home/me/pytorch/torch/nn/functional.py"}), 1u);
  EXPECT_EQ(line({"/x/site-packages/transformers/models/gpt2.py", "/x/site-packages/torch/_ops.py"}), 1u);
  EXPECT_EQ(line({"/m/a.py", "/home/me/torch/model.py"}), 2u);
  EXPECT_EQ(line({"/x/site-packages/torch/a.py", "/x/site-packages/torch/b.py"}), 2u);
}

TEST(PythonTrace, ModuleStacksAreRead) {
  std::vector<ModuleCall> stack = parseModuleStack(
      "L__self__,,m.GPT;L__self__h.0,h.0,m.f.<locals>.Block[a, b];L__self__h.0.attn@2,h.0.attn,m.Attn");
  ASSERT_EQ(stack.size(), 3u);
  EXPECT_EQ(stack[0].fqn, "");
  EXPECT_EQ(stack[0].type, "m.GPT");
  EXPECT_EQ(stack[1].fqn, "h.0");
  EXPECT_EQ(stack[1].type, "m.f.<locals>.Block[a, b]");
  EXPECT_EQ(stack[1].str(), "h.0");
  EXPECT_EQ(stack[2].fqn, "h.0.attn");
  EXPECT_EQ(stack[2].call, 2u);
  EXPECT_EQ(stack[2].str(), "h.0.attn@2");
  EXPECT_EQ(parseModuleStack("k,sub@1,T").front().str(), "sub@1");
  EXPECT_TRUE(parseModuleStack("").empty());
  EXPECT_EQ(parseModuleStack("garbage").front().fqn, "");
}

TEST(PythonTrace, OnlyAWholeNumberIsACall) {
  EXPECT_EQ(parseModuleName("a@b").fqn, "a@b");
  EXPECT_EQ(parseModuleName("a@1x").fqn, "a@1x");
  EXPECT_EQ(parseModuleName("a@").fqn, "a@");
  EXPECT_EQ(parseModuleName("a@3").call, 3u);
}
