#include "Programs.h"

using namespace plumb;
using namespace plumb::test;

namespace {

const Json kMetadata = {{"nn_module_stack", "L__self__,,M;L__self__a.b,a.b,pkg.Part"},
                        {"stack_trace", "File \"/m/model.py\", line 7, in forward\n    y = f(x)"}};

Json argument(const Json &value) { return {{"name", ""}, {"arg", value}, {"kind", 1}}; }

Json marker() {
  return {{"target", "torch.ops.pippy._pipe_split.default"},
          {"name", "split"},
          {"inputs", Json::array()},
          {"outputs", Json::array()},
          {"metadata", kMetadata}};
}

/// Adds a node that runs `body` on one value, and answers the name of its result.
std::string addRegion(Program &program, const std::string &target, std::vector<Json> settings,
                      const Program &body, const std::string &operand, const Tensor &result) {
  std::string name = "region" + std::to_string(program.graph["nodes"].size());
  Json node = {{"target", "torch.ops.higher_order." + target}, {"name", name}, {"metadata", kMetadata}};
  node["inputs"] = Json::array();
  for (const Json &setting : settings)
    node["inputs"].push_back(argument(setting));
  node["inputs"].push_back(argument({{"as_graph", {{"name", "body"}, {"graph", body.graph}}}}));
  node["inputs"].push_back(argument(tensor(operand)));
  node["outputs"] = {tensor(name + "_0")};
  program.graph["nodes"].push_back(node);
  program.graph["tensor_values"][name + "_0"] = result.meta();
  program.graph["outputs"] = {tensor(name + "_0")};
  return name + "_0";
}

Json off() { return {{"as_bool", false}}; }
Json on() { return {{"as_bool", true}}; }

const Tensor kTensor{{4, 8}};

Program reluOfInput() {
  Program body({kTensor});
  body.node("relu.default", {{"self", tensor("x0")}}, {kTensor});
  return body;
}

} // namespace

TEST(InlineRegions, WhatRunsWithoutGradientsIsDetachedAndItsMarkersCount) {
  Program body = reluOfInput();
  body.graph["nodes"].push_back(marker());
  body.node("tanh.default", {{"self", tensor("n0_0")}}, {kTensor});
  Program program({kTensor});
  std::string result = addRegion(program, "wrap_with_set_grad_enabled", {off()}, body, "x0", kTensor);
  program.node("relu.default", {{"self", tensor(result)}}, {kTensor});
  Imported imported = import(program);
  EXPECT_EQ(count<PipeSplitOp>(*imported.module), 1);
  EXPECT_EQ(imported.text(), "%1 = nn.relu %0 : (tensor<4x8xf32>) -> tensor<4x8xf32>\n"
                             "%2 = nn.detach %1 : (tensor<4x8xf32>) -> tensor<4x8xf32>\n"
                             "%3 = nn.tanh %2 : (tensor<4x8xf32>) -> tensor<4x8xf32>\n"
                             "%4 = nn.detach %3 : (tensor<4x8xf32>) -> tensor<4x8xf32>\n"
                             "%5 = nn.relu %4 : (tensor<4x8xf32>) -> tensor<4x8xf32>\n");
}

TEST(InlineRegions, NestedRegionsHaveTheirOwnSetting) {
  Program body({kTensor});
  std::string inner = addRegion(body, "wrap_with_set_grad_enabled", {on()}, reluOfInput(), "x0", kTensor);
  body.node("tanh.default", {{"self", tensor(inner)}}, {kTensor});
  Program program({kTensor});
  addRegion(program, "wrap_with_set_grad_enabled", {off()}, body, "x0", kTensor);
  EXPECT_EQ(import(program).text(), "%1 = nn.relu %0 : (tensor<4x8xf32>) -> tensor<4x8xf32>\n"
                                    "%2 = nn.tanh %1 : (tensor<4x8xf32>) -> tensor<4x8xf32>\n"
                                    "%3 = nn.detach %2 : (tensor<4x8xf32>) -> tensor<4x8xf32>\n");
}

TEST(InlineRegions, ARegionMayPassItsOperandOn) {
  Program body({kTensor});
  body.graph["outputs"] = {tensor("x0")};
  Program program({kTensor});
  std::string result = addRegion(program, "wrap_with_set_grad_enabled", {off()}, body, "x0", kTensor);
  program.node("relu.default", {{"self", tensor(result)}}, {kTensor});
  EXPECT_EQ(import(program).text(), "%1 = nn.relu %0 : (tensor<4x8xf32>) -> tensor<4x8xf32>\n");
}

TEST(InlineRegions, DisabledAutocastIsInlined) {
  Program program({kTensor});
  std::vector<Json> settings = {{{"as_string", "cpu"}}, {{"as_none", true}}, off(), {{"as_none", true}}};
  addRegion(program, "wrap_with_autocast", settings, reluOfInput(), "x0", kTensor);
  EXPECT_EQ(import(program).text(), "%1 = nn.relu %0 : (tensor<4x8xf32>) -> tensor<4x8xf32>\n");
}

TEST(InlineRegions, EnabledAutocastIsRefusedAtItsLine) {
  Program program({kTensor});
  std::vector<Json> settings = {{{"as_string", "cpu"}}, {{"as_scalar_type", 13}}, on(), {{"as_none", true}}};
  addRegion(program, "wrap_with_autocast", settings, reluOfInput(), "x0", kTensor);
  Diagnostics diagnostics;
  EXPECT_FALSE(pt2::Pt2Archive::read("model.pt2", program.bytes(), diagnostics));
  EXPECT_NE(diagnostics.str().find("model.py:7: error: this region runs under torch.autocast"),
            std::string::npos)
      << diagnostics.str();
}

TEST(InlineRegions, BrokenRegionsAreRefused) {
  Program program({kTensor});
  addRegion(program, "wrap_with_set_grad_enabled", {}, reluOfInput(), "x0", kTensor);
  Diagnostics diagnostics;
  EXPECT_FALSE(pt2::Pt2Archive::read("model.pt2", program.bytes(), diagnostics));
  EXPECT_NE(diagnostics.str().find("does not say whether it is on"), std::string::npos) << diagnostics.str();
  Program operands({kTensor});
  addRegion(operands, "wrap_with_set_grad_enabled", {off()}, Program({kTensor, kTensor}), "x0", kTensor);
  Diagnostics more;
  EXPECT_FALSE(pt2::Pt2Archive::read("model.pt2", operands.bytes(), more));
  EXPECT_NE(more.str().find("operands that are no tensors, or too few"), std::string::npos) << more.str();
}
