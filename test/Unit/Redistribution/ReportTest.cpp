//===- ReportTest.cpp - Text, JSON, batches, caching ----------------------===//
#include "plumb/Redistribution/Report.h"
#include "TestSupport.h"
#include <nlohmann/json.hpp>

using namespace plumb::redistribution;
using Json = nlohmann::ordered_json;

namespace {

TEST(Report, TextShowsStepsBoundsAndShards) {
  Mesh m = mesh("dp=2,tp=2");
  auto plan = planned(m, {6, 4}, layout(m, "[{dp},{}] partial{tp}"), layout(m, "[{},{tp}]"));
  ASSERT_TRUE(plan);
  EXPECT_EQ(planText(*plan), R"([{dp},{}] partial{tp} -> [{},{tp}] on dp=2,tp=2, shape [6,4]: mixed
  1. reduce_scatter{tp} [{dp},{}] partial{tp} -> [{dp},{tp}]  24 bytes
  2. all_gather{dp} [{dp},{tp}] -> [{},{tp}]  24 bytes
cost 48 bytes; lower bound 48 bytes (ratio 1.000)
peak memory 120 bytes per rank
optimal: no plan of these kinds of steps costs less
  rank 0: shape [6,2] at [0,0]
  rank 1: shape [6,2] at [0,2]
  rank 2: shape [6,2] at [0,0]
  rank 3: shape [6,2] at [0,2]
)");
}

TEST(Report, WhyNamesAlternatives) {
  Mesh m = mesh("x=2,y=2");
  auto plan = planned(m, {8, 8}, layout(m, "[{x},{}]"), layout(m, "[{},{x}]"));
  ASSERT_TRUE(plan);
  std::vector<Alternative> alternatives = alternativesTo(*plan, {});
  ASSERT_EQ(alternatives.size(), 3u);
  EXPECT_EQ(alternatives[0].description, "without all_to_all");
  EXPECT_EQ(alternatives[1].description, "by exchange");
  EXPECT_EQ(alternatives[2].description, "through the replicated tensor");
  for (const Alternative &alternative : alternatives) {
    ASSERT_TRUE(alternative.plan);
    EXPECT_GE(alternative.plan->cost, plan->cost);
    EXPECT_EQ(messageOf(verifyPlan(*alternative.plan)), "");
  }
  EXPECT_NE(alternativesText(*plan, alternatives).find("rejected, through the replicated tensor: 128 bytes"),
            std::string::npos);
}

TEST(Report, BatchAnswersEveryLine) {
  PlanCache cache;
  BatchAnswer answer = answerBatchRow(
      R"({"id":"a","mesh":{"x":2,"y":2},"shape":[4,5],"src":[["x"],[]],"partial":["y"],"dst":[[],["y"]],"dst_partial":[]})",
      {}, cache);
  EXPECT_EQ(answer.error, "");
  Json json = Json::parse(answer.json);
  EXPECT_EQ(json["id"], "a");
  EXPECT_EQ(json["local_shapes"], Json::parse("[[4,3],[4,2],[4,3],[4,2]]"));
  EXPECT_EQ(json["offsets"], Json::parse("[[0,0],[0,3],[0,0],[0,3]]"));
  for (const char *key : {"bytes_fraction", "bound_fraction", "peak_fraction", "steps"})
    EXPECT_TRUE(json.contains(key)) << key;
  for (llvm::StringRef bad :
       {"", "{", "[]", "7", R"({"id":1})", R"({"mesh":{"x":2},"shape":[4],"src":[["y"]],"dst":[[]]})",
        R"({"mesh":{"x":0},"shape":[4],"src":[[]],"dst":[[]]})",
        R"({"mesh":{"x":2},"shape":[-4],"src":[[]],"dst":[[]]})",
        R"({"mesh":{"x":2},"shape":[4],"src":[["x"]],"partial":["x"],"dst":[[]]})", "{\"mesh\":\"\xff\"}"}) {
    BatchAnswer refused = answerBatchRow(bad, {}, cache);
    EXPECT_NE(refused.error, "") << bad.str();
    EXPECT_TRUE(Json::parse(refused.json).contains("error"));
  }
}

TEST(PlanCache, PlansRepeatedLayersOnce) {
  Mesh m = mesh("dp=2,tp=4");
  PlanCache cache;
  const Plan *first = nullptr;
  for (int layer = 0; layer < 10'000; ++layer) {
    const Plan *plan =
        llvm::cantFail(cache.get(m, {64, 64}, 4, layout(m, "[{dp},{}] partial{tp}"), layout(m, "[{},{tp}]")));
    if (layer == 0)
      first = plan;
    ASSERT_EQ(plan, first);
  }
  EXPECT_EQ(cache.size(), 1u);
  PlanOptions options;
  options.exchange = false;
  llvm::cantFail(
      cache.get(m, {64, 64}, 4, layout(m, "[{dp},{}] partial{tp}"), layout(m, "[{},{tp}]"), options));
  EXPECT_EQ(cache.size(), 2u);
}

TEST(Topology, ReadsAndRefuses) {
  Mesh m = mesh("dp=4,tp=8");
  Topology topology = llvm::cantFail(parseTopology(
      m, R"({"node_size": 8, "network": {"bandwidth": 25e9}, "axes": {"tp": {"latency": 1e-6}}})"));
  EXPECT_EQ(topology.link(m, wholeAxis(m, 0)).bandwidth, 25e9);
  EXPECT_EQ(topology.link(m, wholeAxis(m, 1)).bandwidth, topology.node.bandwidth);
  EXPECT_EQ(topology.link(m, wholeAxis(m, 1)).latency, 1e-6);
  auto error = [&](llvm::StringRef text) { return messageOf(parseTopology(m, text).takeError()); };
  EXPECT_EQ(error(R"({"nodes": 8})"),
            "topology: unknown key 'nodes'; there are node_size, node, network and axes");
  EXPECT_EQ(error(R"({"axes": {"pp": {}}})"),
            "topology: axes names 'pp', which is not on the mesh dp=4,tp=8");
  EXPECT_EQ(error(R"({"node": {"bandwidth": 0}})"),
            "topology: bandwidth must be a number from 1000 to 1e+15, not 0");
  EXPECT_NE(error("{").find("topology: "), std::string::npos);
  EXPECT_NE(error(R"({"node": {"latency": 1e400}})").find("topology: "), std::string::npos);
}

} // namespace
