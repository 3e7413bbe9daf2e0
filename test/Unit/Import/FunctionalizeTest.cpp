#include "Programs.h"

using namespace plumb;
using namespace plumb::test;

namespace {

Json number(double value) { return {{"as_float", value}}; }

TEST(Functionalize, ResultIsANewValue) {
  Program program({{{2, 3}}});
  program.node("exp.default", {{"self", tensor("x0")}}, {{{2, 3}}})
      .node("relu_.default", {{"self", tensor("n0_0")}}, {{{2, 3}}})
      .node("add.Tensor", {{"self", tensor("n0_0")}, {"other", tensor("n1_0")}}, {{{2, 3}}});
  EXPECT_EQ(built(program), "%1 = nn.exp %0 : (tensor<2x3xf32>) -> tensor<2x3xf32>\n"
                            "%2 = nn.relu %1 : (tensor<2x3xf32>) -> tensor<2x3xf32>\n"
                            "%3 = nn.add %2, %2 : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>\n");
}

TEST(Functionalize, WritesThroughViews) {
  Program program({{{2, 3}}});
  program.node("exp.default", {{"self", tensor("x0")}}, {{{2, 3}}})
      .node("t.default", {{"self", tensor("n0_0")}}, {{{3, 2}}})
      .node("mul_.Scalar", {{"self", tensor("n1_0")}, {"other", number(2)}}, {{{3, 2}}})
      .node("neg.default", {{"self", tensor("n0_0")}}, {{{2, 3}}});
  EXPECT_EQ(built(program), "%1 = nn.exp %0 : (tensor<2x3xf32>) -> tensor<2x3xf32>\n"
                            "%2 = nn.transpose %1 [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>\n"
                            "%3 = nn.scale %2 by 2.000000e+00 : (tensor<3x2xf32>) -> tensor<3x2xf32>\n"
                            "%4 = nn.transpose %3 [1, 0] : (tensor<3x2xf32>) -> tensor<2x3xf32>\n"
                            "%5 = nn.scale %4 by -1.000000e+00 : (tensor<2x3xf32>) -> tensor<2x3xf32>\n");
}

TEST(Functionalize, ViewsSeeLaterWrites) {
  Program program({{{2, 3}}});
  program.node("exp.default", {{"self", tensor("x0")}}, {{{2, 3}}})
      .node("t.default", {{"self", tensor("n0_0")}}, {{{3, 2}}})
      .node("neg_.default", {{"self", tensor("n0_0")}}, {{{2, 3}}})
      .node("relu.default", {{"self", tensor("n1_0")}}, {{{3, 2}}});
  std::string text = built(program);
  EXPECT_NE(text.find("%3 = nn.scale %1 by -1"), std::string::npos) << text;
  EXPECT_NE(text.find("%4 = nn.transpose %3 [1, 0]"), std::string::npos) << text;
  EXPECT_NE(text.find("nn.relu %4"), std::string::npos) << text;
}

TEST(Functionalize, PartsKeepTheRest) {
  Program program({{{2, 3}}});
  program.node("exp.default", {{"self", tensor("x0")}}, {{{2, 3}}})
      .node("select.int", {{"self", tensor("n0_0")}, {"dim", integer(1)}, {"index", integer(0)}}, {{{2}}})
      .node("fill_.Scalar", {{"self", tensor("n1_0")}, {"value", number(2)}}, {{{2}}})
      .node("neg.default", {{"self", tensor("n0_0")}}, {{{2, 3}}});
  std::string text = built(program);
  EXPECT_NE(text.find("nn.where"), std::string::npos) << text;
  EXPECT_NE(text.find("nn.fill 2.0"), std::string::npos) << text;
}

TEST(Functionalize, Refusals) {
  Program spread({{{1, 3}}});
  spread.node("exp.default", {{"self", tensor("x0")}}, {{{1, 3}}})
      .node("expand.default", {{"self", tensor("n0_0")}, {"size", integers({2, 3})}}, {{{2, 3}}})
      .node("neg_.default", {{"self", tensor("n1_0")}}, {{{2, 3}}});
  EXPECT_EQ(refused(spread), "it writes through torch.ops.aten.expand.default");

  Program input({{{2, 3}}});
  input.node("neg_.default", {{"self", tensor("x0")}}, {{{2, 3}}});
  Imported imported = import(input);
  EXPECT_FALSE(imported.module);
  EXPECT_NE(imported.errors.find("writes to its input \"x0\""), std::string::npos) << imported.errors;

  Program random({{{2, 3}}});
  random.node("exp.default", {{"self", tensor("x0")}}, {{{2, 3}}})
      .node("uniform_.default", {{"self", tensor("n0_0")}}, {{{2, 3}}});
  EXPECT_NE(import(random).errors.find("torch.ops.aten.uniform.default is not supported"), std::string::npos);

  Program nothing({{{2, 3}}});
  nothing.node("exp.default", {{"self", tensor("x0")}}, {{{2, 3}}})
      .node("copy_.default", {{"self", tensor("n0_0")}}, {{{2, 3}}});
  EXPECT_NE(import(nothing).errors.find("copy"), std::string::npos);
}

} // namespace
