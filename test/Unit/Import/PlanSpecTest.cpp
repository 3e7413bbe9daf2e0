#include "plumb/Import/PlanSpec.h"

#include "plumb/Import/SpecSchema.h"

#include <functional>
#include <gtest/gtest.h>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

using namespace plumb;
using namespace plumb::spec;
using Json = nlohmann::json;

namespace {

std::optional<PlanSpec> parse(const std::string &text, Diagnostics &diagnostics) {
  return parsePlanSpec(std::make_shared<Source>("plan.json", text), diagnostics);
}

PlanSpec valid(const std::string &text) {
  Diagnostics diagnostics;
  std::optional<PlanSpec> plan = parse(text, diagnostics);
  EXPECT_TRUE(plan) << diagnostics.str();
  return plan.value_or(PlanSpec());
}

/// `line:column: message` of each error.
std::vector<std::string> errorsOf(const std::string &text) {
  Diagnostics diagnostics;
  EXPECT_FALSE(parse(text, diagnostics)) << text;
  std::vector<std::string> result;
  for (const Diagnostic &error : diagnostics.all())
    result.push_back(std::to_string(error.place.line) + ":" + std::to_string(error.place.column) + ": " +
                     error.message);
  return result;
}

std::string errorOf(const std::string &text) {
  std::vector<std::string> errors = errorsOf(text);
  EXPECT_EQ(errors.size(), 1u) << text;
  return errors.empty() ? "" : errors.front();
}

} // namespace

TEST(PlanSpec, AWholePlanIsRead) {
  std::string text = R"json({
  "mesh": {"pp": 2, "dp": 1, "tp": 2},
  "pipeline": {"axis": "pp", "schedule": "gpipe", "microbatches": 4, "stages_per_rank": 1,
               "split": {"h.2": "beginning", "ln_f": "end"}, "placement": "loop", "multi_use_parameters": "replicate"},
  "layouts": [
    {"match": "h.*.attn.c_attn", "style": "colwise", "blocks": 3},
    {"match": "h.*.mlp", "params": {"c_fc.weight": {"tp": "shard(0, blocks=2)"}, "c_proj.bias": {}}}
  ],
  "inputs": {"idx": {"dp": "shard(0)"}, "bias": "replicate", "x": {}},
  "loss": {"output": "loss", "reduce": "mean"},
  "optimizer": {"kind": "sgd", "lr": 0.1}
})json";
  PlanSpec plan = valid(text);
  ASSERT_EQ(plan.mesh.size(), 3u);
  EXPECT_EQ(plan.mesh[2].name.value, "tp");
  EXPECT_EQ(plan.mesh[2].size.value, 2);
  EXPECT_EQ(plan.pipeline.schedule.value, "gpipe");
  EXPECT_EQ(plan.pipeline.microbatches.value, 4);
  EXPECT_EQ(plan.pipeline.stagesPerRank->value, 1);
  ASSERT_EQ(plan.pipeline.split.size(), 2u);
  EXPECT_EQ(plan.pipeline.split[0].module.value, "h.2");
  EXPECT_FALSE(plan.pipeline.split[0].isEnd);
  EXPECT_TRUE(plan.pipeline.split[1].isEnd);
  ASSERT_EQ(plan.layouts.size(), 2u);
  EXPECT_EQ(plan.layouts[0].style->value, "colwise");
  EXPECT_EQ(plan.layouts[0].axis.value, "tp");
  EXPECT_EQ(plan.layouts[0].blocks->value, std::vector<int64_t>{3});
  ASSERT_EQ(plan.layouts[1].params->size(), 2u);
  EXPECT_EQ(plan.layouts[1].params->front().placements[0].placement.value.blocks, std::vector<int64_t>{2});
  ASSERT_EQ(plan.inputs.size(), 2u);
  EXPECT_EQ(plan.inputs[0].placements.size(), 1u);
  EXPECT_EQ(plan.inputs[1].name.value, "bias");
  EXPECT_TRUE(plan.inputs[1].placements.empty());
  EXPECT_EQ(std::get<std::string>(plan.loss->output.value), "loss");
  EXPECT_EQ(plan.loss->reduce->value, "mean");
  EXPECT_EQ(plan.optimizer->rate.value, 0.1);
  EXPECT_EQ(plan.place(plan.optimizer->rate.range).str(), "plan.json:11:38");
  EXPECT_EQ(plan.place(plan.layouts[0].match.range).str(), "plan.json:6:15");
}

TEST(PlanSpec, OnlyTheMeshIsNeeded) {
  PlanSpec plan = valid(R"json({"mesh": {"tp": 1}})json");
  EXPECT_EQ(plan.pipeline.axis.value, "pp");
  EXPECT_EQ(plan.pipeline.schedule.value, "1f1b");
  EXPECT_EQ(plan.pipeline.microbatches.value, 1);
  EXPECT_FALSE(plan.loss || plan.optimizer);
  EXPECT_EQ(errorOf("{}"), "1:1: the plan needs the key \"mesh\"");
}

TEST(PlanSpec, ThePlacementOfStagesFollowsTheSchedule) {
  auto placement = [](const std::string &pipeline) {
    std::optional<Located<std::string>> found =
        valid("{\"mesh\": {\"pp\": 2}, \"pipeline\": {" + pipeline + "}}").pipeline.placement;
    return found ? found->value : "";
  };
  EXPECT_EQ(placement(R"json("schedule": "zb-v")json"), "v");
  EXPECT_EQ(placement(R"json("schedule": "1f1b")json"), "");
  EXPECT_EQ(placement(R"json("schedule": "1f1b", "placement": "v")json"), "v");
}

TEST(PlanSpec, PlacementsAreRead) {
  EXPECT_EQ(parsePlacement("shard(0)")->str(), "shard(0)");
  EXPECT_EQ(parsePlacement("shard( -1 )")->str(), "shard(-1)");
  EXPECT_EQ(parsePlacement("shard(1,blocks = 3)")->str(), "shard(1, blocks=3)");
  EXPECT_EQ(parsePlacement("shard(1, blocks=1)")->str(), "shard(1)");
  EXPECT_EQ(parsePlacement("shard(0,blocks=[64,32, 32 ])")->str(), "shard(0, blocks=[64, 32, 32])");
  EXPECT_EQ(parsePlacement("shard(0, blocks=[8, 8])")->str(), "shard(0, blocks=2)");
  EXPECT_EQ(parsePlacement("replicate")->str(), "replicate");
  EXPECT_EQ(parsePlacement("partial( sum )")->str(), "partial(sum)");
  for (const char *text : {"", "shard", "shard()", "shard(x)", "shard(0, blocks=0)", "shard(0, blocks=[])",
                           "shard(0, blocks=[1,])", "partial", "partial(max)", "Shard(0)", " shard(0)",
                           "shard(99999999999999999999)"})
    EXPECT_FALSE(parsePlacement(text)) << text;
  EXPECT_FALSE(parsePlacement(std::string(100000, '(')));
}

TEST(PlanSpec, UnknownKeysSuggestTheNearest) {
  EXPECT_EQ(errorsOf(R"json({"mehs": {"tp": 2}})json"),
            (std::vector<std::string>{"1:2: unknown key \"mehs\" in the plan; did you mean \"mesh\"?",
                                      "1:1: the plan needs the key \"mesh\""}));
  EXPECT_EQ(errorOf("{\"mesh\": {\"tp\": 2},\n \"pipeline\": {\"microbatch\": 4}}"),
            "2:15: unknown key \"microbatch\" in \"pipeline\"; did you mean \"microbatches\"?");
  EXPECT_EQ(
      errorOf(
          R"json({"mesh": {"tp": 2}, "layouts": [{"match": "*", "stile": "rowwise", "style": "rowwise"}]})json"),
      "1:48: unknown key \"stile\" in an entry of \"layouts\"; did you mean \"style\"?");
}

TEST(PlanSpec, TypeErrorsSayWhatIsExpectedAndFound) {
  EXPECT_EQ(errorOf("[]"), "1:1: the plan must be an object, found an array");
  EXPECT_EQ(errorOf(R"json({"mesh": {"tp": "2"}})json"),
            "1:17: \"tp\" must be an integer from 1 to 2147483647, found the string \"2\"");
  EXPECT_EQ(errorOf(R"json({"mesh": {"tp": 0}})json"),
            "1:17: \"tp\" must be an integer from 1 to 2147483647, found the integer 0");
  EXPECT_EQ(errorOf(R"json({"mesh": {"tp": 2}, "layouts": {}})json"),
            "1:32: \"layouts\" must be an array, found an object");
  EXPECT_EQ(errorOf(R"json({"mesh": {"tp": 2}, "loss": {"output": 1.5}})json"),
            "1:40: \"output\" must be an integer from 0 to 2147483647, or a string, found the number 1.5");
  EXPECT_EQ(errorOf(R"json({"mesh": {"tp": 2}, "optimizer": {"kind": "sgd", "lr": -1}})json"),
            "1:56: \"lr\" must be a number from 0 to 1e+30, found the integer -1");
  EXPECT_EQ(errorOf(R"json({"mesh": {"tp": 2}, "inputs": {"x": {"tp": "shard"}}})json"),
            "1:44: \"tp\" must be a placement: \"shard(N)\", \"shard(N, blocks=B)\", \"replicate\" or "
            "\"partial(sum)\", "
            "found the string \"shard\"");
  EXPECT_EQ(errorOf(R"json({"mesh": {"tp": 2}, "optimizer": {"kind": "sgd"}})json"),
            "1:34: \"optimizer\" needs the key \"lr\"");
}

TEST(PlanSpec, LayoutsOfPortsTemplatesAndStorage) {
  PlanSpec plan = valid(R"json({"mesh": {"dp": 2, "tp": 2}, "layouts": [
      {"match": "mlp", "params": {"w": {"tp": "shard(0)"}}, "in_src": {"input.0": {"tp": "shard(1)"}},
       "in_dst": {"input.0": {}}, "out_dst": {"y": "keep", "z": {"tp": "keep"}}, "out_names": ["y", "z"], "unit": 16,
       "override": true, "communication": "mesh"},
      {"template": "llama", "sequence_parallel": true},
      {"template": {"layers.*.q_proj": "colwise", "layers.*.o_proj": "rowwise", "norm": "sequence_parallel",
                    "lm_head": "colwise_rep", "mlp.gate_up_proj": "local_packed_rowwise"}}],
      "storage": {"axis": "dp", "gather": "step"}, "optimizer": {"kind": "sgd", "lr": 1, "state": {"dp": "shard(0)"}}})json");
  ASSERT_EQ(plan.layouts.size(), 7u);
  const LayoutEntry &ports = plan.layouts[0];
  EXPECT_EQ(ports.inSource->front().placements.front().placement.value.str(), "shard(1)");
  EXPECT_TRUE(ports.inTarget->front().placements.empty());
  EXPECT_TRUE(ports.outTarget->front().isKept);
  EXPECT_TRUE(ports.outTarget->back().placements.front().isKept);
  EXPECT_EQ(ports.outNames, (std::vector<std::string>{"y", "z"}));
  EXPECT_EQ(ports.unit->value, 16);
  EXPECT_TRUE(ports.isOverride);
  EXPECT_EQ(ports.communication->value, "mesh");
  EXPECT_EQ(plan.layouts[1].templateName->value, "llama");
  EXPECT_TRUE(plan.layouts[1].sequenceParallel);
  EXPECT_EQ(plan.layouts[2].match.value, "**.layers.*.q_proj");
  EXPECT_EQ(plan.layouts[2].style->value, "colwise");
  EXPECT_EQ(plan.layouts[4].style->value, "sequence");
  EXPECT_TRUE(plan.layouts[5].outTarget->front().placements.empty());
  EXPECT_EQ(plan.layouts[6].style->value, "rowwise");
  EXPECT_EQ(plan.layouts[6].blocks->value, std::vector<int64_t>{2});
  ASSERT_EQ(plan.storage.size(), 1u);
  EXPECT_EQ(plan.storage[0].gather, "step");
  EXPECT_EQ(plan.optimizer->state.front().axis.value, "dp");
  EXPECT_EQ(errorOf(R"json({"mesh": {"tp": 2}, "storage": {}})json"),
            "1:32: the mesh has no axis \"dp\"; did you mean \"tp\"?");
  EXPECT_EQ(
      errorOf(
          R"json({"mesh": {"tp": 2}, "layouts": [{"match": "a", "in_dst": {"x": {"tpp": "keep"}}}]})json"),
      "1:65: the mesh has no axis \"tpp\"; did you mean \"tp\"?");
}

TEST(PlanSpec, Optimizers) {
  PlanSpec plan =
      valid(R"json({"mesh": {"tp": 2}, "optimizer": {"kind": "adamw", "lr": 0.1, "betas": [0.9, 0.95],
      "clip_norm": 1, "schedule": {"kind": "cosine", "warmup": 2, "steps": 10}}})json");
  EXPECT_EQ(plan.optimizer->betas->value, (std::array<double, 2>{0.9, 0.95}));
  EXPECT_EQ(plan.optimizer->decay->value, 0.01); // the default of adamw
  EXPECT_EQ(plan.optimizer->steps->value, 10);
  auto errorOfOptimizer = [](const std::string &keys) {
    return errorOf("{\"mesh\": {\"tp\": 2}, \"optimizer\": {\"lr\": 1, " + keys + "}}");
  };
  EXPECT_EQ(errorOfOptimizer(R"json("kind": "adam", "momentum": 0.9)json"),
            "1:72: \"momentum\" belongs to sgd, but the kind is \"adam\"");
  EXPECT_EQ(errorOfOptimizer(R"json("kind": "sgd", "eps": 0.1)json"),
            "1:66: \"eps\" belongs to adam and adamw, but the kind is \"sgd\"");
  EXPECT_EQ(errorOfOptimizer(R"json("kind": "sgd", "nesterov": true)json"),
            "1:34: \"nesterov\" needs a \"momentum\" above 0 and no \"dampening\"");
  EXPECT_EQ(errorOfOptimizer(R"json("kind": "adam", "betas": [0.9])json"),
            "1:69: \"betas\" must be two numbers of at least 0 and below 1");
  EXPECT_EQ(errorOfOptimizer(R"json("kind": "sgd", "clip_norm": 0)json"),
            "1:72: \"clip_norm\" must be above 0; leave it out to clip nothing");
  EXPECT_EQ(errorOfOptimizer(R"json("kind": "sgd", "schedule": {"kind": "linear"})json"),
            "1:80: the schedule \"linear\" needs the key \"steps\"");
  EXPECT_EQ(
      errorOfOptimizer(R"json("kind": "sgd", "schedule": {"kind": "linear", "warmup": 5, "steps": 5})json"),
      "1:112: 5 steps leave nothing after the warm-up, which has 5");
}

TEST(PlanSpec, SplitPolicies) {
  PlanSpec plan = valid(R"json({"mesh": {"pp": 2}, "pipeline": {
      "split": {"policy": "balanced", "stages": 4, "by": "time"}}})json");
  ASSERT_TRUE(plan.pipeline.policy);
  EXPECT_EQ(plan.pipeline.policy->kind, "balanced");
  EXPECT_EQ(plan.pipeline.policy->stages, 4);
  EXPECT_EQ(plan.pipeline.policy->by, "time");
  plan = valid(R"json({"mesh": {"pp": 2}, "pipeline": {"split": {"policy": "layers", "list": [4, 5]}}})json");
  EXPECT_EQ(plan.pipeline.policy->list, (std::vector<int64_t>{4, 5}));
  plan = valid(R"json({"mesh": {"pp": 2}, "pipeline": {"split": {"policy": "each", "of": "layers"}}})json");
  EXPECT_EQ(plan.pipeline.policy->of, "layers");
  plan = valid(R"json({"mesh": {"pp": 2}, "pipeline": {"split": "Et|tL"}})json");
  EXPECT_EQ(plan.pipeline.policy->kind, "layout");
  EXPECT_EQ(plan.pipeline.policy->of, "Et|tL");
  plan = valid(R"json({"mesh": {"pp": 2}, "pipeline": {"split": [["a", "b"], ["c"]]}})json");
  EXPECT_EQ(plan.pipeline.policy->kind, "modules");
  EXPECT_EQ(plan.pipeline.policy->modules, (std::vector<std::vector<std::string>>{{"a", "b"}, {"c"}}));
  EXPECT_EQ(
      errorsOf(R"json({"mesh": {"pp": 2}, "pipeline": {"split": {"policy": "layers", "by": "time"}}})json"),
      (std::vector<std::string>{"1:43: \"by\" belongs to the policy \"balanced\", not to \"layers\"",
                                "1:43: the policy \"layers\" needs the key \"list\""}));
  EXPECT_EQ(errorOf(R"json({"mesh": {"pp": 2}, "pipeline": {"split": {"policy": "each"}}})json"),
            "1:43: the policy \"each\" needs the key \"of\"");
}

TEST(PlanSpec, SharingOfParameters) {
  PlanSpec plan = valid(R"json({"mesh": {"pp": 2}, "pipeline": {"multi_use_parameters": "auto"}})json");
  ASSERT_EQ(plan.pipeline.sharing.size(), 1u);
  EXPECT_EQ(plan.pipeline.sharing[0].match.value, "*");
  EXPECT_EQ(plan.pipeline.sharing[0].choice, "auto");
  plan = valid(R"json({"mesh": {"pp": 2}, "pipeline": {
      "multi_use_parameters": {"*": "replicate", "wte.weight": "transmit"}}})json");
  ASSERT_EQ(plan.pipeline.sharing.size(), 2u);
  EXPECT_EQ(plan.pipeline.sharing[1].match.value, "wte.weight");
  EXPECT_EQ(plan.pipeline.sharing[1].choice, "transmit");
}

TEST(PlanSpec, BatchAliasesAndInitialValues) {
  PlanSpec plan = valid(R"json({"mesh": {"dp": 2}, "batch": {"of": "replica", "size": 32},
      "aliases": [["wte.weight", "lm_head.weight"]],
      "init": {"*": "normal", "*.bias": "zeros", "wpe.*": "normal(0.01)"}})json");
  ASSERT_TRUE(plan.batch);
  EXPECT_EQ(plan.batch->of, "replica");
  EXPECT_EQ(plan.batch->size, 32);
  ASSERT_EQ(plan.aliases.size(), 1u);
  EXPECT_EQ(plan.aliases[0][1].value, "lm_head.weight");
  ASSERT_EQ(plan.init.size(), 3u);
  EXPECT_EQ(plan.init[0].kind, "normal");
  EXPECT_EQ(plan.init[0].deviation, 0.02);
  EXPECT_EQ(plan.init[1].kind, "zeros");
  EXPECT_EQ(plan.init[2].deviation, 0.01);
  EXPECT_EQ(
      errorOf(R"json({"mesh": {"dp": 2}, "init": {"*": "uniform"}})json"),
      "1:35: \"*\" must be \"zeros\", \"ones\", \"normal\" or such as \"normal(0.02)\", found the string "
      "\"uniform\"");
}

TEST(PlanSpec, CrossEntropyHasATarget) {
  PlanSpec plan = valid(R"json({"mesh": {"dp": 2}, "loss": {"output": "logits", "reduce": "cross_entropy",
      "target": {"name": "labels", "dtype": "i32"}, "ignore_index": -1}})json");
  EXPECT_EQ(plan.loss->target->value, "labels");
  EXPECT_EQ(plan.loss->targetType, "i32");
  EXPECT_EQ(plan.loss->ignoreIndex->value, -1);
  EXPECT_EQ(errorOf(R"json({"mesh": {"dp": 2}, "loss": {"output": 0, "reduce": "cross_entropy"}})json")
                .substr(0, 35),
            "1:53: \"cross_entropy\" needs \"target");
  EXPECT_EQ(errorOf(R"json({"mesh": {"dp": 2}, "loss": {"output": 0, "target": {"name": "y"}}})json"),
            "1:62: \"target\" belongs to \"reduce\": \"cross_entropy\"");
}

TEST(PlanSpec, TopologiesAreKeptAsTextAndChecked) {
  EXPECT_EQ(errorOf(R"json({"mesh": {"tp": 2}, "topology": {"node_size": -1}})json"),
            "1:47: \"node_size\" must be an integer from 0 to 2147483647, found the integer -1");
  EXPECT_EQ(errorOf(R"json({"mesh": {"tp": 2}, "topology": {"axes": {"dp": {}}}})json"),
            "1:33: topology: axes names 'dp', which is not on the mesh tp=2");
  EXPECT_EQ(errorOf(R"json({"mesh": {"tp": 2}, "topology": {"network": {"bandwidth": 0}}})json"),
            "1:59: \"bandwidth\" must be a number from 1000 to 1e+15, found the integer 0");
}

TEST(PlanSpec, WhatThisVersionCannotHonourIsRefusedAtItsPlace) {
  for (const char *key : {"bounds"})
    EXPECT_EQ(errorOf("{\"mesh\": {\"tp\": 2}, \"" + std::string(key) + "\": {}}"),
              "1:21: \"" + std::string(key) + "\" is not supported by this version");
  EXPECT_EQ(errorOf(R"json({"mesh": {"pp": 2}, "pipeline": {"schedule": "custom"}})json"),
            "1:46: the schedule \"custom\" needs the key \"actions\": its CSV file");
}

TEST(PlanSpec, PrecisionAndRecomputation) {
  Diagnostics diagnostics;
  auto plan = parsePlanSpec(
      std::make_shared<Source>(
          "plan.json",
          R"json({"mesh": {"tp": 2}, "recompute": ["h.*"], "precision": {"compute": "bf16"}})json"),
      diagnostics);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->compute->value, "bf16");
  ASSERT_EQ(plan->recompute.size(), 1u);
  EXPECT_EQ(plan->recompute[0].value, "h.*");
  EXPECT_EQ(errorOf(R"json({"mesh": {"tp": 2}, "precision": {"compute": "f16"}})json"),
            "1:46: \"compute\" \"f16\" is not supported by this version, only \"f32\" or \"bf16\"");
}

TEST(PlanSpec, MisspeltValuesSuggestTheNearest) {
  EXPECT_EQ(errorOf(R"json({"mesh": {"pp": 2}, "pipeline": {"schedule": "1f1B"}})json"),
            "1:46: unknown value \"1f1B\" of \"schedule\"; did you mean \"1f1b\"?");
  EXPECT_EQ(errorOf(R"json({"mesh": {"tp": 2}, "optimizer": {"kind": "fast", "lr": 1}})json"),
            "1:43: unknown value \"fast\" of \"kind\"; it can be \"sgd\", \"adam\" or \"adamw\"");
}

TEST(PlanSpec, AxesMustExist) {
  EXPECT_EQ(
      errorOf(
          R"json({"mesh": {"tp": 2}, "layouts": [{"match": "*", "style": "colwise", "axis": "tpp"}]})json"),
      "1:76: the mesh has no axis \"tpp\"; did you mean \"tp\"?");
  EXPECT_EQ(errorOf(R"json({"mesh": {"dp": 2}, "layouts": [{"match": "*", "style": "colwise"}]})json"),
            "1:57: the style \"colwise\" uses the axis \"tp\" if \"axis\" is not given, but the mesh has no "
            "such axis");
  EXPECT_EQ(errorOf(R"json({"mesh": {"tp": 2}, "inputs": {"x": {"dp": "shard(0)"}}})json"),
            "1:38: the mesh has no axis \"dp\"; did you mean \"tp\"?");
  EXPECT_EQ(errorOf(R"json({"mesh": {"tp": 2}, "pipeline": {"axis": "stages"}})json"),
            "1:42: the mesh has no axis \"stages\"");
  EXPECT_EQ(
      errorOf(
          R"json({"mesh": {"pp": 2}, "layouts": [{"match": "*", "params": {"w": {"pp": "shard(0)"}}}]})json"),
      "1:65: \"pp\" is the pipeline axis, which holds stages and cannot lay out a tensor");
  valid(R"json({"mesh": {"tp": 2}, "inputs": {"x": {"microbatch": "shard(1)"}}})json");
}

TEST(PlanSpec, MeshesMustBePossible) {
  EXPECT_EQ(errorOf(R"json({"mesh": {}})json"), "1:10: the mesh has no axis; a single rank is {\"tp\": 1}");
  EXPECT_EQ(errorOf(R"json({"mesh": {"a": 2147483647, "b": 2147483647}})json").substr(0, 40),
            "1:33: the mesh has more than 2^31 ranks");
  EXPECT_EQ(errorOf(R"json({"mesh": {"microbatch": 2}})json").substr(0, 42),
            "1:11: \"microbatch\" cannot be a mesh axis: ");
}

TEST(PlanSpec, EntriesMustMakeSense) {
  EXPECT_EQ(
      errorOf(R"json({"mesh": {"tp": 2}, "layouts": [{"match": "*"}]})json"),
      "1:33: this entry changes nothing: it needs \"style\", \"template\", \"params\" or layouts of ports");
  EXPECT_EQ(errorOf(R"json({"mesh": {"tp": 2}, "layouts": [{"style": "colwise"}]})json"),
            "1:33: this entry needs \"match\", the modules that it lays out");
  EXPECT_EQ(
      errorOf(
          R"json({"mesh": {"tp": 2}, "layouts": [{"match": "*", "style": "colwise", "params": {}}]})json"),
      "1:33: this entry has both \"style\" and \"params\", but a style lays out the parameters itself");
  EXPECT_EQ(
      errorOf(
          R"json({"mesh": {"tp": 2}, "layouts": [{"match": "*", "params": {"w": {"tp": "partial(sum)"}}}]})json"),
      "1:71: the parameter \"w\" cannot be partial: its value is stored, not still to be summed");
  EXPECT_EQ(errorOf(R"json({"mesh": {"tp": 2}, "layouts": [{"match": "*", "params": {}, "blocks": 3}]})json"),
            "1:72: \"blocks\" belongs to a style; in \"params\" write \"shard(0, blocks=3)\"");
}

TEST(PlanSpec, SeveralErrorsAreReportedAtOnce) {
  EXPECT_EQ(
      errorsOf("{\"mesh\": {\"tp\": 0},\n\"seed\": {},\n\"loss\": {\"output\": true},\n\"xyz\": 1}").size(),
      4u);
}

namespace {

/// The part of JSON Schema that planSchema uses.
bool accepts(const Json &schema, const Json &value) {
  if (schema.contains("not"))
    return false;
  if (schema.contains("anyOf"))
    return std::any_of(schema["anyOf"].begin(), schema["anyOf"].end(),
                       [&](const Json &s) { return accepts(s, value); });
  if (!schema.contains("type"))
    return true;
  std::string type = schema["type"];
  if (type == "object") {
    if (!value.is_object())
      return false;
    for (const Json &key : schema.value("required", Json::array()))
      if (!value.contains(key.get<std::string>()))
        return false;
    for (const auto &[key, member] : value.items()) {
      const Json &rest = schema["additionalProperties"];
      if (schema.contains("properties") && schema["properties"].contains(key)) {
        if (!accepts(schema["properties"][key], member))
          return false;
      } else if (rest.is_boolean() || !accepts(rest, member)) {
        return false;
      }
    }
    return true;
  }
  if (type == "array")
    return value.is_array() && value.size() >= schema.value("minItems", size_t{0}) &&
           std::all_of(value.begin(), value.end(),
                       [&](const Json &v) { return accepts(schema["items"], v); });
  if (type == "integer" || type == "number")
    return (type == "integer" ? value.is_number_integer() : value.is_number()) &&
           (!schema.contains("minimum") || value.get<double>() >= schema["minimum"].get<double>()) &&
           (!schema.contains("maximum") || value.get<double>() <= schema["maximum"].get<double>());
  if (type == "boolean")
    return value.is_boolean();
  if (!value.is_string() || value.get<std::string>().empty())
    return false;
  if (schema.contains("enum"))
    return std::find(schema["enum"].begin(), schema["enum"].end(), value) != schema["enum"].end();
  static std::map<std::string, std::regex> compiled;
  if (!schema.contains("pattern"))
    return true;
  std::string pattern = schema["pattern"];
  return std::regex_match(value.get<std::string>(), compiled.try_emplace(pattern, pattern).first->second);
}

} // namespace

/// A plan with every key that holds numbers.
constexpr const char *kNumbers = R"json({
  "mesh": {"pp": 2, "tp": 2},
  "pipeline": {"split": {"a": "end"}, "microbatches": 2, "stages_per_rank": 1},
  "layouts": [{"match": "a", "style": "colwise", "blocks": 3, "unit": 2}, {"match": "c", "style": "sequence", "dim": 1},
              {"match": "a", "style": "colwise", "blocks": [3, 2]}, {"match": "b", "params": {"w": {"tp": "shard(0)"}}}],
  "inputs": {"x": "replicate", "y": {"tp": "shard(0)"}},
  "batch": {"of": "global", "size": 8},
  "loss": {"output": 0, "reduce": "cross_entropy", "target": {"name": "labels"}, "ignore_index": -1},
  "storage": [{"axis": "tp", "prefetch": 1}],
  "memory_limit": 1000, "bucket_bytes": 100, "seed": 7,
  "costs": {"stages": [{"F": 1, "I": 1.5, "W": 0}], "transfer": 0.5},
  "topology": {"node_size": 8, "node": {"bandwidth": 1e9, "latency": 1e-6, "message_latency": 1e-6},
               "axes": {"tp": {"bandwidth": 1e9}}},
  "optimizer": {"kind": "sgd", "lr": 1, "momentum": 0.9, "dampening": 0.5, "weight_decay": 0.1, "clip_norm": 2,
                "schedule": {"kind": "linear", "warmup": 1, "steps": 10, "final": 0.1}}})json";

TEST(PlanSpec, NumbersOutOfTheirRangeAreNamedWithIt) {
  Json plan = Json::parse(kNumbers);
  int numbers = 0;
  const Json flat = plan.flatten();
  for (const auto &[path, original] : flat.items()) {
    Json::json_pointer pointer(path);
    std::string key = pointer.back();
    if (!original.is_number())
      continue;
    ++numbers;
    // Seeds and what is a float may be as large as the integer.
    bool takesLarge =
        std::set<std::string>{"seed", "lr", "momentum", "dampening", "final", "weight_decay", "clip_norm"}
            .contains(key);
    for (std::string text : {"1e308", "-1e308", "4611686018427387904", "1e400"}) {
      Json changed = plan;
      changed[pointer] = "@";
      std::string json = changed.dump();
      size_t at = json.find("\"@\"");
      json.replace(at, 3, text);
      Diagnostics diagnostics;
      bool isParsed = parse(json, diagnostics).has_value();
      EXPECT_EQ(isParsed, takesLarge && text[0] == '4') << json;
      if (isParsed)
        continue;
      ASSERT_FALSE(diagnostics.all().empty());
      const Diagnostic &error = diagnostics.all().front();
      EXPECT_EQ(error.place.column, at + 1) << error.message;
      std::string expected = text == "1e400" ? "the number 1e400 is too large" : " must be a";
      EXPECT_NE(error.message.find(expected), std::string::npos) << error.message;
      bool isElement = key.find_first_not_of("0123456789") == std::string::npos;
      if (text != "1e400" && !isElement) {
        EXPECT_EQ(error.message.rfind("\"" + key + "\" must be", 0), 0u) << error.message;
        EXPECT_NE(error.message.find(", found the "), std::string::npos) << error.message;
      }
    }
  }
  EXPECT_EQ(numbers, 33);
}

TEST(PlanSpec, NamesAreText) {
  // A control character anywhere that a string stands, as a key or as a value.
  Json plan =
      Json::parse(R"json({"mesh": {"pp": 2, "tp": 2}, "recompute": ["a"], "inputs": {"x": "replicate"},
    "layouts": [{"match": "a", "style": "colwise"}], "init": {"w": "ones"}, "aliases": [["v", "w"]]})json");
  std::string text = plan.dump();
  for (size_t at = text.find('"'); at != std::string::npos; at = text.find('"', at + 1)) {
    size_t end = text.find('"', at + 1);
    for (const char *escape : {"\\u0000", "\\u001f", "\\u007f", "\\n"}) {
      std::string changed = text.substr(0, end) + escape + text.substr(end);
      std::string first = errorsOf(changed).front();
      EXPECT_EQ(first.rfind("1:" + std::to_string(at + 1) + ": this string has the control character U+", 0),
                0u)
          << first << changed;
    }
    at = end;
  }
}

TEST(PlanSpec, ListsThatSayNothingAreErrors) {
  EXPECT_EQ(errorOf(R"json({"mesh": {"tp": 2}, "aliases": [["a"]]})json"),
            "1:33: an entry of \"aliases\" needs 2 or more elements, found 1");
  EXPECT_EQ(errorOf(R"json({"mesh": {"tp": 2}, "storage": []})json"),
            "1:32: \"storage\" needs 1 or more elements, found 0");
}

TEST(PlanSpec, TheSchemaAcceptsWhatTheParserAccepts) {
  Json schema = Json::parse(planSchema());
  EXPECT_EQ(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
  Json plan = Json::parse(kNumbers);
  Json values = {
      nullptr,          true,          0,  -1,         3,           0.5,   1e308,   1e-308,  int64_t{1} << 40,
      int64_t{1} << 62, UINT64_MAX,    "", "shard(0)", "replicate", "end", "gpipe", "zb-h1", "x",
      Json::array(),    Json::object()};
  Diagnostics ignored;
  EXPECT_TRUE(accepts(schema, plan));
  EXPECT_TRUE(parse(plan.dump(), ignored)) << ignored.str();
  // Each value of the plan is replaced by each of a list: the schema refuses exactly what `validate` refuses.
  Json flat = plan.flatten();
  for (const auto &[path, original] : flat.items()) {
    for (Json::json_pointer pointer(path); !pointer.empty(); pointer = pointer.parent_pointer())
      for (const Json &value : values) {
        Json changed = plan;
        changed[pointer] = value;
        Diagnostics diagnostics;
        bool isParsed = parse(changed.dump(), diagnostics).has_value();
        bool isCrossCheck =
            std::any_of(diagnostics.all().begin(), diagnostics.all().end(), [](const Diagnostic &d) {
              return d.message.find("axis") != std::string::npos || d.message.starts_with("topology: ") ||
                     d.message.find("leave nothing after") != std::string::npos ||
                     d.message.find("belongs to") != std::string::npos ||
                     d.message.find("needs \"target\"") != std::string::npos ||
                     d.message.find("\"clip_norm\" must be above 0") != std::string::npos ||
                     d.message.find("needs the key \"steps\"") != std::string::npos ||
                     d.message.find("more than 2^31 ranks") != std::string::npos ||
                     d.message.find("this entry") != std::string::npos;
            });
        if (!isCrossCheck)
          EXPECT_EQ(accepts(schema, changed), isParsed) << changed << diagnostics.str();
      }
  }
}

TEST(PlanSpec, EveryKeyOfTheSchemaIsDescribed) {
  std::function<void(const Json &)> check = [&](const Json &schema) {
    // items() refers to the object it is called on, which must outlive the loop.
    const Json properties = schema.value("properties", Json::object());
    for (const auto &[key, property] : properties.items()) {
      EXPECT_FALSE(property.value("description", "").empty()) << key;
      check(property);
    }
    for (const Json &alternative : schema.value("anyOf", Json::array()))
      check(alternative);
    if (schema.contains("items"))
      check(schema["items"]);
  };
  check(Json::parse(planSchema()));
}

TEST(PlanSpec, NoPrefixCrashes) {
  std::string text =
      R"json({"mesh": {"pp": 2, "tp": 2}, "pipeline": {"split": {"a": "end"}}, "loss": {"output": 0}})json";
  for (size_t length = 0; length < text.size(); ++length)
    EXPECT_FALSE(errorsOf(text.substr(0, length)).empty());
}

TEST(PlanSpec, APlacementMayBeAList) {
  EXPECT_EQ(
      valid(R"json({"mesh": {"pp": 2}, "pipeline": {"placement": [0, 1, 1, 0]}})json").pipeline.ranks->value,
      (std::vector<int64_t>{0, 1, 1, 0}));
  EXPECT_EQ(errorOf(R"json({"mesh": {"pp": 2}, "pipeline": {"placement": [0, 2]}})json"),
            "1:47: a stage is placed on rank 2, but the axis \"pp\" has the ranks 0 to 1");
  EXPECT_EQ(
      errorOf(R"json({"mesh": {"pp": 2}, "pipeline": {"schedule": "dualpipe", "placement": [0, 1]}})json"),
      "1:71: the schedule \"dualpipe\" places stage s and its copy itself, on rank s and on its mirror "
      "image");
}

TEST(PlanSpec, CostsAndTheMemoryLimitAreRead) {
  PlanSpec plan = valid(R"json({"mesh": {"pp": 2}, "memory_limit": 4096,
    "costs": {"stages": [{"F": 1, "I": 1.5, "W": 0.5}, {"F": 2, "I": 2, "W": 2}], "transfer": 0.25}})json");
  EXPECT_EQ(plan.memoryLimit, 4096);
  ASSERT_TRUE(plan.costs);
  ASSERT_EQ(plan.costs->stages.size(), 2u);
  EXPECT_EQ(plan.costs->stages[0].inputGrad, 1.5);
  EXPECT_EQ(plan.costs->transfer, 0.25);
  EXPECT_EQ(std::pair(plan.costs->place.line, plan.costs->place.column), std::pair(2u, 25u));
  EXPECT_EQ(errorOf(R"json({"mesh": {"pp": 2}, "costs": {"stages": [{"F": 1, "I": 1}]}})json"),
            "1:42: an entry of \"stages\" needs the key \"W\"");
}

TEST(PlanSpec, FilesThatAreNotThereAreReportedWhereTheyAreNamed) {
  PlanSpec plan = valid(R"json({"mesh": {"pp": 2},
  "pipeline": {"schedule": "custom", "actions": "no/such.csv"}, "costs": "/dev/zero"})json");
  Diagnostics diagnostics;
  EXPECT_FALSE(readReferencedFiles(plan, diagnostics));
  ASSERT_EQ(diagnostics.all().size(), 2u);
  EXPECT_EQ(diagnostics.all()[0].place.line, 2u);
  EXPECT_EQ(diagnostics.all()[0].message.substr(0, 39), "the file \"no/such.csv\" cannot be read: ");
  EXPECT_EQ(diagnostics.all()[1].message, "the file \"/dev/zero\" cannot be read");
}
