#include "plumb/Import/ExportedProgram.h"

#include <cmath>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

using namespace plumb;
using namespace plumb::pt2;
using Json = nlohmann::json;

namespace {

Json tensor(const char *name) { return {{"as_tensor", {{"name", name}}}}; }

Json meta(std::vector<int> sizes) {
  Json result = {
      {"dtype", 7}, {"sizes", Json::array()}, {"strides", Json::array()}, {"requires_grad", false}};
  for (int size : sizes) {
    result["sizes"].push_back({{"as_int", size}});
    result["strides"].push_back({{"as_int", 1}});
  }
  return result;
}

/// y = f(x, argument).
Json program(const Json &argument = {{"as_int", 3}}) {
  Json node = {{"target", "torch.ops.aten.f.default"},
               {"name", "y"},
               {"inputs",
                {{{"name", "self"}, {"arg", tensor("x")}, {"kind", 1}},
                 {{"name", "n"}, {"arg", argument}, {"kind", 2}}}},
               {"outputs", {tensor("y")}},
               {"metadata", {{"nn_module_stack", "L__self__,,M;L__self__a,a,A"}}}};
  Json graph = {{"inputs", {tensor("x")}},
                {"outputs", {tensor("y")}},
                {"nodes", {node}},
                {"tensor_values", {{"x", meta({2})}, {"y", meta({2})}}}};
  Json signature = {{"input_specs", {{{"user_input", {{"arg", tensor("x")}}}}}},
                    {"output_specs", {{{"user_output", {{"arg", tensor("y")}}}}}}};
  Json calls = {{{"fqn", ""}, {"signature", nullptr}}, {{"fqn", "a"}, {"signature", nullptr}}};
  return {{"graph_module", {{"graph", graph}, {"signature", signature}, {"module_call_graph", calls}}},
          {"schema_version", {{"major", 8}, {"minor", 20}}},
          {"torch_version", "2.14.1"}};
}

std::optional<ExportedProgram> parse(const Json &json, Diagnostics &diagnostics) {
  std::optional<json::Document> document =
      json::parse(std::make_shared<Source>("m.json", json.dump()), diagnostics);
  return parseExportedProgram(*document, diagnostics);
}

Argument::Data parseArgument(const Json &argument) {
  Diagnostics diagnostics;
  std::optional<ExportedProgram> parsed = parse(program(argument), diagnostics);
  EXPECT_TRUE(parsed) << argument << diagnostics.str();
  return parsed ? parsed->graph.nodes[0].find("n")->data : Argument::Data(None{});
}

std::string errorOf(const Json &json) {
  Diagnostics diagnostics;
  EXPECT_FALSE(parse(json, diagnostics));
  EXPECT_EQ(diagnostics.errorCount(), 1u);
  EXPECT_EQ(diagnostics.all().front().place.file, "m.json");
  return diagnostics.all().front().message;
}

std::string argumentError(const Json &argument) { return errorOf(program(argument)); }

} // namespace

TEST(ExportedProgram, ASmallProgramIsRead) {
  Diagnostics diagnostics;
  std::optional<ExportedProgram> parsed = parse(program(), diagnostics);
  ASSERT_TRUE(parsed) << diagnostics.str();
  EXPECT_EQ(parsed->torchVersion, "2.14.1");
  const Node &node = parsed->graph.nodes[0];
  EXPECT_EQ(node.target, "torch.ops.aten.f.default");
  EXPECT_FALSE(node.inputs[0].isKeyword);
  EXPECT_TRUE(node.inputs[1].isKeyword);
  EXPECT_EQ(node.find("self")->as<TensorRef>()->name, "x");
  EXPECT_EQ(node.find("missing"), nullptr);
  EXPECT_EQ(node.modules.back().fqn, "a");
  EXPECT_FALSE(node.frame);
  EXPECT_EQ(parsed->modules.size(), 2u);
  EXPECT_EQ(parsed->inputs[0].name, "x");
  EXPECT_EQ(parsed->outputs[0].name, "0");
  EXPECT_EQ(parsed->graph.tensors.at("x").str(), "float32[2]");
}

TEST(ExportedProgram, ConstantsOfAllKindsAreRead) {
  EXPECT_TRUE(std::holds_alternative<None>(parseArgument({{"as_none", true}})));
  EXPECT_EQ(std::get<int64_t>(parseArgument({{"as_int", -4}})), -4);
  EXPECT_EQ(std::get<std::vector<int64_t>>(parseArgument({{"as_ints", {1, 2}}})),
            (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(
      std::get<std::vector<std::vector<int64_t>>>(parseArgument({{"as_int_lists", {{1}, {2, 3}}}}))[1].size(),
      2u);
  EXPECT_EQ(std::get<double>(parseArgument({{"as_float", 1}})), 1.0);
  EXPECT_EQ(std::get<std::vector<double>>(parseArgument({{"as_floats", {0.5, 2}}})),
            (std::vector<double>{0.5, 2}));
  EXPECT_EQ(std::get<bool>(parseArgument({{"as_bool", true}})), true);
  EXPECT_EQ(std::get<std::vector<bool>>(parseArgument({{"as_bools", {true, false}}})).size(), 2u);
  EXPECT_EQ(std::get<std::string>(parseArgument({{"as_string", "tanh"}})), "tanh");
  EXPECT_EQ(std::get<std::vector<std::string>>(parseArgument({{"as_strings", {"a"}}})).front(), "a");
  EXPECT_EQ(std::get<std::complex<double>>(parseArgument({{"as_complex", {{"real", 1}, {"imag", -2}}}})),
            std::complex<double>(1, -2));
  EXPECT_EQ(std::get<DType>(parseArgument({{"as_scalar_type", 13}})), DType::BF16);
  EXPECT_EQ(std::get<MemoryFormat>(parseArgument({{"as_memory_format", 2}})), MemoryFormat::ChannelsLast);
  EXPECT_EQ(std::get<MemoryLayout>(parseArgument({{"as_layout", 7}})), MemoryLayout::Strided);
  EXPECT_EQ(std::get<Device>(parseArgument({{"as_device", {{"type", "cuda"}, {"index", 1}}}})).index, 1);
  EXPECT_EQ(std::get<Device>(parseArgument({{"as_device", {{"type", "cpu"}, {"index", nullptr}}}})).index,
            std::nullopt);
  EXPECT_EQ(std::get<CustomObject>(parseArgument({{"as_custom_obj", {{"name", "o"}, {"class_fqn", "C"}}}}))
                .classFqn,
            "C");
  EXPECT_EQ(std::get<Operator>(parseArgument({{"as_operator", "aten.add"}})).name, "aten.add");
  EXPECT_EQ(std::get<NamedArguments>(parseArgument({{"as_string_to_argument", {{"k", {{"as_int", 1}}}}}}))
                .entries.size(),
            1u);
}

TEST(ExportedProgram, NonFiniteFloatsAreStrings) {
  EXPECT_TRUE(std::isnan(std::get<double>(parseArgument({{"as_float", "NaN"}}))));
  EXPECT_EQ(std::get<double>(parseArgument({{"as_float", "Infinity"}})), INFINITY);
  EXPECT_EQ(std::get<double>(parseArgument({{"as_float", "-Infinity"}})), -INFINITY);
  EXPECT_NE(argumentError({{"as_float", "many"}}).find("expected a number, found the string \"many\""),
            std::string::npos);
}

TEST(ExportedProgram, TensorsOfAllKindsAreRead) {
  Json x = {{"name", "x"}};
  EXPECT_EQ(std::get<TensorRef>(parseArgument(tensor("x"))).name, "x");
  EXPECT_EQ(std::get<Tensors>(parseArgument({{"as_tensors", {x, x}}})).size(), 2u);
  auto optionals = std::get<std::vector<std::optional<TensorRef>>>(
      parseArgument({{"as_optional_tensors", {{{"as_tensor", x}}, {{"as_none", true}}}}}));
  EXPECT_TRUE(optionals[0] && !optionals[1]);
  EXPECT_EQ(std::get<TensorRef>(parseArgument({{"as_optional_tensor", {{"as_tensor", x}}}})).name, "x");
  EXPECT_TRUE(std::holds_alternative<None>(parseArgument({{"as_optional_tensor", {{"as_none", true}}}})));
  EXPECT_EQ(
      std::get<std::vector<Tensors>>(parseArgument({{"as_nested_tensors", {{x}, Json::array()}}}))[0].size(),
      1u);
}

TEST(ExportedProgram, SymbolsAreKeptAndTheirConstantsMadePlain) {
  EXPECT_EQ(std::get<int64_t>(parseArgument({{"as_sym_int", {{"as_int", 5}}}})), 5);
  EXPECT_EQ(std::get<SymInt>(parseArgument({{"as_sym_int", {{"as_name", "s0"}}}})).name, "s0");
  EXPECT_EQ(
      std::get<std::vector<int64_t>>(parseArgument({{"as_sym_ints", {{{"as_int", 5}}, {{"as_int", 6}}}}})),
      (std::vector<int64_t>{5, 6}));
  EXPECT_EQ(std::get<std::vector<SymInt>>(
                parseArgument({{"as_sym_ints", {{{"as_int", 5}}, {{"as_name", "s"}}}}}))[0]
                .value,
            5);
  EXPECT_EQ(std::get<bool>(parseArgument({{"as_sym_bool", {{"as_bool", true}}}})), true);
  EXPECT_EQ(std::get<SymBool>(parseArgument({{"as_sym_bool", {{"as_name", "b"}}}})).name, "b");
  EXPECT_EQ(std::get<double>(parseArgument({{"as_sym_float", {{"as_float", 0.5}}}})), 0.5);
  EXPECT_EQ(std::get<SymFloat>(parseArgument({{"as_sym_float", {{"as_name", "f"}}}})).name, "f");
  EXPECT_EQ(std::get<std::vector<bool>>(parseArgument({{"as_sym_bools", {{{"as_bool", true}}}}})).size(), 1u);
  EXPECT_EQ(std::get<std::vector<SymFloat>>(parseArgument({{"as_sym_floats", {{{"as_name", "f"}}}}})).size(),
            1u);
}

TEST(ExportedProgram, OlderSpellingsOfUnionsAreRead) {
  EXPECT_EQ(std::get<int64_t>(parseArgument({{"$type", "as_int"}, {"$value", 7}})), 7);
  EXPECT_EQ(std::get<int64_t>(parseArgument({{"as_int", 7}, {"as_none", nullptr}, {"as_float", nullptr}})),
            7);
  EXPECT_TRUE(std::holds_alternative<None>(parseArgument({{"as_none", nullptr}})));
  EXPECT_NE(argumentError({{"as_int", 7}, {"as_float", 1}}).find("found both \"as_float\" and \"as_int\""),
            std::string::npos);
  EXPECT_NE(argumentError({{"as_int", nullptr}, {"as_float", nullptr}}).find("found none"),
            std::string::npos);
}

TEST(ExportedProgram, SubgraphsAreRead) {
  Json graph = program()["graph_module"]["graph"];
  Argument::Data data = parseArgument({{"as_graph", {{"name", "body"}, {"graph", graph}}}});
  EXPECT_EQ(std::get<Subgraph>(data).graph->nodes.size(), 1u);
}

TEST(ExportedProgram, OlderSpellingsOfTensorsAndNodesAreRead) {
  Json json = program();
  Json &graph = json["graph_module"]["graph"];
  graph["tensor_values"]["x"]["storage_offset"] = 3;
  graph["tensor_values"]["y"] = {{"meta", meta({4, 5})}};
  graph["nodes"][0].erase("name");
  graph["nodes"][0]["inputs"][1].erase("kind");
  graph["nodes"][0]["target"] = "aten.f.default";
  Diagnostics diagnostics;
  std::optional<ExportedProgram> parsed = parse(json, diagnostics);
  ASSERT_TRUE(parsed) << diagnostics.str();
  EXPECT_EQ(parsed->graph.tensors.at("x").storageOffset.value, 3);
  EXPECT_EQ(parsed->graph.tensors.at("y").str(), "float32[4, 5]");
  EXPECT_EQ(parsed->graph.nodes[0].name, "y");
  EXPECT_EQ(parsed->graph.nodes[0].target, "torch.ops.aten.f.default");
}

TEST(ExportedProgram, SymbolicSizesKeepTheirExpression) {
  Json json = program();
  json["graph_module"]["graph"]["tensor_values"]["x"]["sizes"][0] = {
      {"as_expr", {{"expr_str", "s0"}, {"hint", {{"as_int", 4}}}}}};
  Diagnostics diagnostics;
  std::optional<ExportedProgram> parsed = parse(json, diagnostics);
  ASSERT_TRUE(parsed) << diagnostics.str();
  const TensorMeta &meta = parsed->graph.tensors.at("x");
  EXPECT_FALSE(meta.isStatic());
  EXPECT_EQ(meta.sizes[0].value, 4);
  EXPECT_EQ(meta.str(), "float32[s0]");
}

TEST(ExportedProgram, SpecsOfAllKindsAreRead) {
  Json json = program();
  Json &module = json["graph_module"];
  Json &graph = module["graph"];
  Json x = {{"name", "x"}}, y = {{"name", "y"}};
  auto specs = [&](Json input, Json output) -> std::pair<InputSpec, OutputSpec> {
    module["signature"]["input_specs"][0] = std::move(input);
    module["signature"]["output_specs"][0] = std::move(output);
    Diagnostics diagnostics;
    std::optional<ExportedProgram> parsed = parse(json, diagnostics);
    EXPECT_TRUE(parsed) << diagnostics.str();
    return parsed ? std::pair(parsed->inputs[0], parsed->outputs[0]) : std::pair(InputSpec(), OutputSpec());
  };
  auto [p, bm] = specs({{"parameter", {{"arg", x}, {"parameter_name", "a.w"}}}},
                       {{"buffer_mutation", {{"arg", y}, {"buffer_name", "b"}}}});
  EXPECT_EQ(p.kind, InputKind::Parameter);
  EXPECT_EQ(p.name, "a.w");
  EXPECT_EQ(bm.kind, OutputKind::BufferMutation);
  EXPECT_EQ(bm.name, "b");
  auto [b, um] = specs({{"buffer", {{"arg", x}, {"buffer_name", "b"}, {"persistent", false}}}},
                       {{"user_input_mutation", {{"arg", y}, {"user_input_name", "x"}}}});
  EXPECT_FALSE(b.persistent);
  EXPECT_EQ(um.kind, OutputKind::UserInputMutation);
  auto [t, loss] = specs({{"tensor_constant", {{"arg", x}, {"tensor_constant_name", "c"}}}},
                         {{"loss_output", {{"arg", y}}}});
  EXPECT_EQ(t.kind, InputKind::TensorConstant);
  EXPECT_EQ(loss.kind, OutputKind::Loss);
  auto [u, gp] = specs({{"user_input", {{"arg", tensor("x")}}}},
                       {{"gradient_to_parameter", {{"arg", y}, {"parameter_name", "w"}}}});
  EXPECT_EQ(gp.kind, OutputKind::GradientToParameter);
  graph["inputs"] = {tensor("x"), {{"as_none", true}}, {{"as_int", 2}}};
  module["signature"]["input_specs"] = {{{"user_input", {{"arg", tensor("x")}}}},
                                        {{"user_input", {{"arg", {{"as_none", true}}}}}},
                                        {{"constant_input", {{"name", "n"}, {"value", {{"as_int", 2}}}}}}};
  Diagnostics diagnostics;
  std::optional<ExportedProgram> parsed = parse(json, diagnostics);
  ASSERT_TRUE(parsed) << diagnostics.str();
  EXPECT_TRUE(parsed->inputs[1].value.isNone());
  EXPECT_EQ(parsed->inputs[2].name, "n");
}

TEST(ExportedProgram, InputsAndOutputsTakeTheirNamesFromTheTrees) {
  Json json = program();
  Json leaf = {{"type", nullptr}, {"context", nullptr}, {"children_spec", Json::array()}};
  auto tree = [](const char *type, Json context, Json children) -> Json {
    return {{"type", type}, {"context", context.dump()}, {"children_spec", children}};
  };
  Json in = tree("builtins.tuple", nullptr,
                 {tree("builtins.tuple", nullptr, Json::array()), tree("builtins.dict", {"mask"}, {leaf})});
  Json out = tree("builtins.dict", {"logits"}, {leaf});
  json["graph_module"]["module_call_graph"][0]["signature"] = {
      {"in_spec", Json({1, in}).dump()}, {"out_spec", Json({1, out}).dump()}, {"forward_arg_names", {"x"}}};
  Diagnostics diagnostics;
  std::optional<ExportedProgram> parsed = parse(json, diagnostics);
  ASSERT_TRUE(parsed) << diagnostics.str();
  EXPECT_EQ(parsed->inputs[0].name, "mask");
  EXPECT_EQ(parsed->outputs[0].name, "logits");
}

TEST(ExportedProgram, ErrorsNameTheJsonPointer) {
  Json json = program();
  json["graph_module"]["graph"]["nodes"][0]["inputs"][1]["arg"] = {{"as_int", "three"}};
  EXPECT_EQ(errorOf(json), "expected an integer, found the string \"three\" "
                           "(at /graph_module/graph/nodes/0/inputs/1/arg/as_int)");
  EXPECT_EQ(argumentError({{"as_rocket", 1}}), "unknown kind of argument \"as_rocket\" "
                                               "(at /graph_module/graph/nodes/0/inputs/1/arg)");
  json = program();
  json["graph_module"].erase("graph");
  EXPECT_EQ(errorOf(json), "the key \"graph\" is missing (at /graph_module)");
}

TEST(ExportedProgram, InconsistentGraphsAreRefused) {
  Json json = program();
  json["graph_module"]["graph"]["nodes"][0]["inputs"][0]["arg"] = tensor("z");
  EXPECT_NE(errorOf(json).find("the value \"z\" is used before it is defined"), std::string::npos);
  json = program();
  json["graph_module"]["graph"]["nodes"][0]["outputs"][0] = tensor("x");
  EXPECT_NE(errorOf(json).find("the value \"x\" is defined twice"), std::string::npos);
  json = program();
  json["graph_module"]["graph"]["tensor_values"].erase("y");
  EXPECT_NE(errorOf(json).find("the value \"y\" has no entry in tensor_values"), std::string::npos);
  json = program();
  json["graph_module"]["signature"]["input_specs"].clear();
  EXPECT_NE(errorOf(json).find("there are 0 specs, but the graph has 1 values"), std::string::npos);
  json = program();
  json["graph_module"]["signature"]["output_specs"][0] = {{"user_output", {{"arg", tensor("x")}}}};
  EXPECT_NE(errorOf(json).find("this spec names \"x\", but the graph has \"y\" there"), std::string::npos);
}

TEST(ExportedProgram, ImpossibleTensorsAreRefused) {
  auto withSizes = [](Json sizes, Json strides) {
    Json json = program();
    json["graph_module"]["graph"]["tensor_values"]["x"]["sizes"] = std::move(sizes);
    json["graph_module"]["graph"]["tensor_values"]["x"]["strides"] = std::move(strides);
    return errorOf(json);
  };
  Json big = {{"as_int", int64_t(1) << 40}}, one = {{"as_int", 1}};
  EXPECT_NE(withSizes({big, big}, {one, one}).find("has more than 2^63 bytes"), std::string::npos);
  EXPECT_NE(withSizes({{{"as_int", -1}}}, {one}).find("negative size"), std::string::npos);
  EXPECT_NE(withSizes({one, one}, {one}).find("has 2 sizes but 1 strides"), std::string::npos);
  Json json = program();
  json["graph_module"]["graph"]["tensor_values"]["x"]["dtype"] = 99;
  EXPECT_NE(errorOf(json).find("unknown element type 99"), std::string::npos);
}

TEST(ExportedProgram, VersionsAreChecked) {
  Json json = program();
  json["schema_version"]["major"] = 7;
  EXPECT_NE(errorOf(json).find("version 7.20 of torch.export's schema, by PyTorch 2.14.1"),
            std::string::npos);
  json["schema_version"] = {{"major", 8}, {"minor", 21}};
  Diagnostics diagnostics;
  EXPECT_TRUE(parse(json, diagnostics));
  EXPECT_FALSE(diagnostics.hasErrors());
  ASSERT_EQ(diagnostics.all().size(), 1u);
  EXPECT_EQ(diagnostics.all().front().severity, Severity::Warning);
}

TEST(ExportedProgram, UnknownFieldsAreIgnored) {
  Json json = program();
  json["something_new"] = 1;
  json["graph_module"]["graph"]["nodes"][0]["something_new"] = Json::array();
  Diagnostics diagnostics;
  EXPECT_TRUE(parse(json, diagnostics));
  EXPECT_TRUE(diagnostics.all().empty());
}
