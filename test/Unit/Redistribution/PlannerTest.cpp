//===- PlannerTest.cpp - What plans look like -----------------------------===//
#include "TestSupport.h"
#include "plumb/Redistribution/Lowering.h"

using namespace plumb::redistribution;

namespace {

std::string labelOf(llvm::StringRef meshText, llvm::StringRef sizes, llvm::StringRef from,
                    llvm::StringRef to) {
  Mesh m = mesh(meshText);
  auto plan = planned(m, shape(sizes), layout(m, from), layout(m, to));
  return plan ? plan->label().str() : "";
}

TEST(Plan, IsLabelledByItsSteps) {
  EXPECT_EQ(labelOf("dp=2,tp=2", "8,8", "[{tp},{}]", "[{tp},{}]"), "identity");
  EXPECT_EQ(labelOf("dp=2,tp=2", "8,8", "[{},{}]", "[{tp},{dp}]"), "local");
  EXPECT_EQ(labelOf("dp=2,tp=2", "8,8", "[{},{}]", "[{},{}] partial{tp}"), "local");
  EXPECT_EQ(labelOf("dp=2,tp=2", "8,8", "[{dp},{tp}]", "[{},{}]"), "all_gather");
  EXPECT_EQ(labelOf("dp=2,tp=2", "8,8", "[{},{}] partial{dp,tp}", "[{},{}]"), "all_reduce");
  EXPECT_EQ(labelOf("dp=2,tp=2", "8,8", "[{},{}] partial{tp}", "[{},{tp}]"), "reduce_scatter");
  EXPECT_EQ(labelOf("dp=2,tp=2", "8,8", "[{tp},{}]", "[{},{tp}]"), "all_to_all");
  EXPECT_EQ(labelOf("dp=2,tp=2", "8,8", "[{tp},{}]", "[{dp},{}]"), "permute");
  EXPECT_EQ(labelOf("dp=2,tp=2", "8,8", "[{dp},{}] partial{tp}", "[{},{}]"), "mixed");
}

TEST(Plan, ExecutesEveryReduction) {
  Mesh m = mesh("x=2,y=3");
  for (llvm::StringRef reduction : {"sum", "avg", "min", "max", "product"})
    for (llvm::StringRef sizes : {"6,6", "5,4"})
      for (llvm::StringRef to : {"[{},{}]", "[{x},{y}]", "[{y,x},{}]", "[{},{x}] partial{y:R}", "[{y},{}]"}) {
        std::string target = to.str(), source = "[{},{}] partial{x:R,y:R}";
        for (std::string *text : {&target, &source})
          for (size_t at; (at = text->find(":R")) != std::string::npos;)
            text->replace(at, 2, ":" + reduction.str());
        planned(m, shape(sizes), layout(m, source), layout(m, target));
        planned(m, shape(sizes), layout(m, "[{},{x}]"), layout(m, target));
      }
  planned(m, {6, 6}, layout(m, "[{},{}] partial{x,y:avg}"), layout(m, "[{y},{x}]"));
  planned(m, {6, 6}, layout(m, "[{},{}] partial{x:max}"), layout(m, "[{},{}] partial{y}"));
}

TEST(Plan, CutsBlocksAndUnits) {
  Mesh m = mesh("tp=4");
  for (llvm::StringRef from :
       {"[{tp} blocks 3,{}]", "[{tp} blocks [8,2,2],{}]", "[{tp} unit 2,{}]", "[{tp},{}]"})
    for (llvm::StringRef to : {"[{},{}]", "[{},{tp}]", "[{tp},{}]", "[{tp} blocks 3,{}]"})
      for (bool exchange : {false, true}) {
        PlanOptions options;
        options.exchange = exchange;
        planned(m, {12, 4}, layout(m, from), layout(m, to), options);
      }
}

/// Ranks along an axis that nothing is cut over may take parts of a sum off each other, unless they hold
/// something else.
TEST(Plan, LeavesForeignAxesAlone) {
  Mesh m = mesh("pp=8,dp=4");
  auto uses = [&](const PlanOptions &options) {
    auto plan = planned(m, {64, 64}, layout(m, "[{},{}] partial{dp}"), layout(m, "[{},{}]"), options);
    return plan && llvm::any_of(plan->steps, [](const Step &step) {
             return llvm::any_of(step.axes, [](const AxisRef &axis) { return axis.axis == 0; });
           });
  };
  PlanOptions options;
  EXPECT_TRUE(uses(options));
  options.foreign = {0};
  EXPECT_FALSE(uses(options));
}

// The work must not grow with the arrangements of the factors of an axis, or with pairs of ranks.
TEST(Plan, IsBoundedOnLargeMeshes) {
  for (int64_t size : {8, 1000, 4095, 16384}) {
    Mesh m = mesh("dp=" + std::to_string(size) + ",tp=8");
    for (bool exchange : {false, true}) {
      PlanOptions options;
      options.topology = Topology();
      options.exchange = exchange;
      options.uneven = false;
      options.maxMoves = 20'000;
      for (auto [from, to] :
           {std::pair("[{dp},{}]", "[{},{}]"), std::pair("[{dp},{tp}]", "[{dp,tp},{}]"),
            std::pair("[{},{tp}] partial{dp}", "[{dp},{tp}]"), std::pair("[{},{}] partial{dp}", "[{},{}]")})
        planned(m, {size * 8, 64}, layout(m, from), layout(m, to), options);
    }
  }
}

TEST(Plan, SplitsAnAxisInIncompatibleWays) {
  Mesh m = mesh("x=6,y=2");
  auto plan = planned(m, {12, 12}, layout(m, "[{x:(1)2},{}]"), layout(m, "[{},{x:(1)3}]"));
  ASSERT_TRUE(plan);
  EXPECT_FALSE(plan->optimal);
}

TEST(Plan, KeepsToTheMemoryLimit) {
  Mesh m = mesh("x=4,y=4");
  Layout from = layout(m, "[{x},{}]"), to = layout(m, "[{},{x}]");
  auto free = planned(m, {64, 64}, from, to);
  ASSERT_TRUE(free);
  PlanOptions options;
  options.memoryLimit = free->peakMemory - 1;
  auto bounded = planned(m, {64, 64}, from, to, options);
  ASSERT_TRUE(bounded);
  EXPECT_LE(bounded->peakMemory, *options.memoryLimit);
  options.memoryLimit = 100;
  EXPECT_EQ(messageOf(planRedistribution(m, {64, 64}, 4, from, to, options).takeError()),
            "no plan for [{x},{}] -> [{},{x}] on x=4,y=4 needs at most 100 bytes on a rank; raise the memory "
            "limit or "
            "choose layouts with smaller shards");
}

TEST(Plan, AvoidsTheSlowAxis) {
  // An idle axis within a node makes an all-reduce over it cheaper; one between nodes does not.
  Mesh m = mesh("outer=8,inner=8");
  Layout from = layout(m, "[{},{}] partial{inner}"), to = layout(m, "[{},{}]");
  PlanOptions options;
  options.topology.emplace();
  options.topology->nodeSize = 8;
  auto plan = planned(m, {4096, 4096}, from, to, options);
  ASSERT_TRUE(plan);
  EXPECT_EQ(stepsOf(*plan), "all_reduce{inner} [{},{}] partial{inner} -> [{},{}]; ");
}

TEST(Plan, SaysWhenItIsNotProven) {
  Mesh m = mesh("a=8,b=8,c=8");
  PlanOptions options;
  options.exchange = false;
  options.maxMoves = 3000;
  auto plan = planned(m, {512, 512, 512}, layout(m, "[{a,b},{c},{}]"), layout(m, "[{c},{},{b,a}]"), options);
  ASSERT_TRUE(plan);
  EXPECT_FALSE(plan->optimal);
  EXPECT_GT(plan->provenCost, 0);
  EXPECT_LT(plan->provenCost, plan->cost);
}

TEST(Plan, RefusesWhatItCannotCount) {
  Mesh m = mesh("x=2");
  Layout r = Layout::replicated(3);
  EXPECT_EQ(messageOf(planRedistribution(m, {1 << 30, 1 << 30, 1 << 30}, 4, r, r).takeError()),
            "a tensor of shape 1073741824,1073741824,1073741824 on 2 ranks is too large to count its bytes");
  EXPECT_EQ(
      messageOf(planRedistribution(m, {4}, 0, Layout::replicated(1), Layout::replicated(1)).takeError()),
      "an element of 0 bytes");
  EXPECT_EQ(
      messageOf(planRedistribution(m, {4, 4}, 4, Layout::replicated(1), Layout::replicated(2)).takeError()),
      "source layout [{}]: the layout [{}] has 1 dimensions, the tensor has 2: 4,4");
}

TEST(Lowering, PacksOnlyWhereItMust) {
  Mesh m = mesh("x=4");
  auto first = [&](llvm::StringRef sizes, llvm::StringRef from, llvm::StringRef to) {
    auto plan = planned(m, shape(sizes), layout(m, from), layout(m, to));
    return lowerStep(m, shape(sizes), plan->steps.front(), 1);
  };
  RankStep leading = first("8,8", "[{x},{}]", "[{},{}]");
  EXPECT_TRUE(leading.sendsInPlace && leading.receivesInPlace);
  EXPECT_EQ(leading.count, 16);
  RankStep trailing = first("8,8", "[{},{x}]", "[{},{}]");
  EXPECT_TRUE(trailing.sendsInPlace);
  EXPECT_FALSE(trailing.receivesInPlace);
  RankStep uneven = first("6,8", "[{x},{}]", "[{},{}]");
  EXPECT_EQ(uneven.count, 16);
  EXPECT_TRUE(first("8,8", "[{},{}] partial{x}", "[{x},{}]").sendsInPlace);
  EXPECT_FALSE(first("8,8", "[{},{}] partial{x}", "[{},{x}]").sendsInPlace);
}

TEST(Interpreter, FindsWrongPlans) {
  Mesh m = mesh("x=2,y=2");
  auto plan = planned(m, {4, 4}, layout(m, "[{},{}] partial{x}"), layout(m, "[{},{x}]"));
  ASSERT_TRUE(plan);
  Plan wrong = *plan;
  wrong.steps[0].axes[0].axis = 1; // reduces over the wrong communicator
  EXPECT_NE(messageOf(verifyPlan(wrong)), "");
  wrong = *plan;
  wrong.steps[0].reduction = Reduction::Max;
  EXPECT_NE(messageOf(verifyPlan(wrong)), "");
  wrong = *plan;
  wrong.steps.push_back(wrong.steps[0]);
  EXPECT_NE(messageOf(verifyPlan(wrong)), "");
  wrong = *plan;
  wrong.steps.clear();
  EXPECT_NE(messageOf(verifyPlan(wrong)), "");
}

TEST(Interpreter, ShrinksLargeTensors) {
  Mesh m = mesh("x=4,y=2");
  planned(m, {50257, 4096}, layout(m, "[{x,y},{}]"), layout(m, "[{y},{x}]"));
  planned(m, {1 << 20, 4096}, layout(m, "[{},{}] partial{x}"), layout(m, "[{},{y}]"));
}

TEST(Interpreter, ShrinksLargeMeshes) {
  PlanOptions collectives;
  collectives.exchange = false;
  Mesh m = mesh("x=2,y=4,z=8");
  auto plan = planned(m, {64, 64, 64}, layout(m, "[{y},{z},{x}]"), layout(m, "[{},{y},{z,x}]"), collectives);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->steps.front().kind, StepKind::Permute);
  m = mesh("x=4,y=4,z=8");
  planned(m, {128, 128, 128}, layout(m, "[{},{x,y},{z}]"), layout(m, "[{},{},{y,x}]"), collectives);
  // What is wrong is found there too.
  plan->steps.front().after = layout(plan->mesh, "[{z:(2)2,x},{y,z:(4)2},{z:(1)2}]");
  EXPECT_NE(messageOf(verifyPlan(*plan)), "");
}

} // namespace
