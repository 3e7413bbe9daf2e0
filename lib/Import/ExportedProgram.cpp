#include "plumb/Import/ExportedProgram.h"

#include "plumb/Import/JsonCursor.h"
#include "plumb/Import/PyTree.h"

#include "ArgumentReader.h"

#include <algorithm>
#include <unordered_set>

namespace plumb::pt2 {

using json::Cursor;

static constexpr int64_t kSchemaMajor = 8;
static constexpr int64_t kNewestSchemaMinor = 20;

//===--------------------------------------------------------------------===//
// Nodes
//===--------------------------------------------------------------------===//

const Argument *Node::find(std::string_view argument) const {
  for (const NamedArgument &input : inputs)
    if (input.name == argument)
      return &input.value;
  return nullptr;
}

/// Old files write `aten.linear.default` where newer ones write `torch.ops.aten.linear.default`.
static std::string readTarget(const Cursor &cursor) {
  const std::string &target = cursor.string();
  return target.substr(0, 5) == "aten." ? "torch.ops." + target : target;
}

static Node readNode(const Cursor &cursor) {
  Node node;
  node.range = cursor.value().range;
  node.target = readTarget(cursor["target"]);
  for (const Cursor &input : cursor["inputs"].elements()) {
    std::optional<Cursor> kind = input.find("kind");
    node.inputs.push_back({input["name"].string(), readArgument(input["arg"]), kind && kind->integer() == 2});
  }
  for (const Cursor &output : cursor["outputs"].elements())
    node.outputs.push_back(readArgument(output));
  if (std::optional<Cursor> name = cursor.find("name"))
    node.name = name->string();
  else if (const TensorRef *first = node.outputs.empty() ? nullptr : node.outputs.front().as<TensorRef>())
    node.name = first->name;
  if (std::optional<Cursor> metadata = cursor.find("metadata")) {
    if (std::optional<Cursor> stack = metadata->find("nn_module_stack"))
      node.modules = parseModuleStack(stack->string());
    if (std::optional<Cursor> trace = metadata->find("stack_trace"))
      node.frame = userFrame(trace->string());
  }
  return node;
}

Graph readGraph(const Cursor &cursor) {
  Graph graph;
  for (const Cursor &input : cursor["inputs"].elements())
    graph.inputs.push_back(readArgument(input));
  for (const Cursor &output : cursor["outputs"].elements())
    graph.outputs.push_back(readArgument(output));
  for (const Cursor &node : cursor["nodes"].elements())
    graph.nodes.push_back(readNode(node));
  for (const auto &[name, meta] : cursor["tensor_values"].members())
    graph.tensors.emplace(*name, readTensorMeta(meta));
  return graph;
}

//===--------------------------------------------------------------------===//
// Signature
//===--------------------------------------------------------------------===//

static Argument tensorOf(const Cursor &spec) { return {TensorRef{spec["arg"]["name"].string()}}; }

static InputSpec readInputSpec(const Cursor &cursor) {
  auto [tag, spec] = cursor.tagged();
  if (*tag == "parameter")
    return {InputKind::Parameter, tensorOf(spec), spec["parameter_name"].string()};
  if (*tag == "buffer") {
    std::optional<Cursor> persistent = spec.find("persistent");
    return {InputKind::Buffer, tensorOf(spec), spec["buffer_name"].string(),
            !persistent || persistent->boolean()};
  }
  if (*tag == "tensor_constant")
    return {InputKind::TensorConstant, tensorOf(spec), spec["tensor_constant_name"].string()};
  if (*tag == "custom_obj")
    return {InputKind::CustomObject, tensorOf(spec), spec["custom_obj_name"].string()};
  if (*tag == "user_input")
    return {InputKind::UserInput, readArgument(spec["arg"]), ""};
  if (*tag == "constant_input")
    return {InputKind::UserInput, readArgument(spec["value"]), spec["name"].string()};
  if (*tag == "token")
    return {InputKind::Token, tensorOf(spec), ""};
  cursor.fail("unknown kind of input \"" + *tag + "\"");
}

static OutputSpec readOutputSpec(const Cursor &cursor) {
  auto [tag, spec] = cursor.tagged();
  if (*tag == "user_output")
    return {OutputKind::UserOutput, readArgument(spec["arg"]), ""};
  if (*tag == "loss_output")
    return {OutputKind::Loss, tensorOf(spec), ""};
  if (*tag == "buffer_mutation")
    return {OutputKind::BufferMutation, tensorOf(spec), spec["buffer_name"].string()};
  if (*tag == "parameter_mutation")
    return {OutputKind::ParameterMutation, tensorOf(spec), spec["parameter_name"].string()};
  if (*tag == "user_input_mutation")
    return {OutputKind::UserInputMutation, tensorOf(spec), spec["user_input_name"].string()};
  if (*tag == "gradient_to_parameter")
    return {OutputKind::GradientToParameter, tensorOf(spec), spec["parameter_name"].string()};
  if (*tag == "gradient_to_user_input")
    return {OutputKind::GradientToUserInput, tensorOf(spec), spec["user_input_name"].string()};
  if (*tag == "token")
    return {OutputKind::Token, tensorOf(spec), ""};
  cursor.fail("unknown kind of output \"" + *tag + "\"");
}

/// Gives the specs chosen by `isUser` the leaf paths of a tree, if their numbers agree.
template <typename Spec, typename IsUser>
static bool assignPaths(std::vector<Spec> &specs, const std::vector<std::string> &paths, IsUser isUser) {
  size_t count = std::count_if(specs.begin(), specs.end(), isUser);
  if (count != paths.size())
    return false;
  auto path = paths.begin();
  for (Spec &spec : specs)
    if (isUser(spec))
      spec.name = *path++;
  return true;
}

static bool isUserInput(const InputSpec &spec) { return spec.kind == InputKind::UserInput; }
static bool isUserOutput(const OutputSpec &spec) {
  return spec.kind == OutputKind::UserOutput || spec.kind == OutputKind::Loss;
}

/// The names that inputs and outputs have without a usable tree: those of the graph's values, and positions.
static void assignFallbackNames(ExportedProgram &program) {
  for (InputSpec &spec : program.inputs)
    if (const TensorRef *tensor = spec.value.as<TensorRef>(); tensor && isUserInput(spec))
      spec.name = tensor->name;
  size_t position = 0;
  for (OutputSpec &spec : program.outputs)
    if (isUserOutput(spec))
      spec.name = std::to_string(position++);
}

static NamedTupleFields readNamedTupleFields(const Cursor &graphModule) {
  NamedTupleFields fields;
  if (std::optional<Cursor> classes = graphModule.find("treespec_namedtuple_fields"))
    for (const auto &[name, entry] : classes->members()) {
      std::optional<Cursor> wrapped = entry.value().asObject() ? entry.find("field_names") : entry;
      if (wrapped)
        for (const Cursor &field : wrapped->elements())
          fields[*name].push_back(field.string());
    }
  return fields;
}

/// The root's entry in the module call graph describes the arguments and results of the whole model.
static void readNames(const Cursor &graphModule, const Cursor &signature, ExportedProgram &program) {
  NamedTupleFields fields = readNamedTupleFields(graphModule);
  std::vector<std::string> forwardNames;
  if (std::optional<Cursor> names = signature.find("forward_arg_names"))
    for (const Cursor &name : names->elements())
      forwardNames.push_back(name.string());
  if (std::optional<PyTree> tree = parsePyTree(signature["in_spec"].string(), fields))
    assignPaths(program.inputs, inputPaths(*tree, forwardNames), isUserInput);
  if (std::optional<PyTree> tree = parsePyTree(signature["out_spec"].string(), fields))
    assignPaths(program.outputs, leafPaths(*tree), isUserOutput);
}

static void readModules(const Cursor &graphModule, ExportedProgram &program) {
  assignFallbackNames(program);
  for (const Cursor &entry : graphModule["module_call_graph"].elements()) {
    ModuleCall module = parseModuleName(entry["fqn"].string());
    if (std::optional<Cursor> signature = entry.find("signature"); signature && module.fqn.empty())
      readNames(graphModule, *signature, program);
    program.modules.push_back({std::move(module.fqn), module.call});
  }
}

//===--------------------------------------------------------------------===//
// Program
//===--------------------------------------------------------------------===//

/// Every tensor that is mentioned must be described and defined before use, so that importers need not check
/// it.
static void checkReferences(const Graph &graph, const Cursor &cursor) {
  std::unordered_set<std::string_view> defined;
  auto define = [&](const Argument &argument, const Cursor &where) {
    forEachTensor(argument, [&](const TensorRef &tensor) {
      if (!graph.tensors.count(tensor.name))
        where.fail("the value \"" + tensor.name + "\" has no entry in tensor_values");
      if (!defined.insert(tensor.name).second)
        where.fail("the value \"" + tensor.name + "\" is defined twice");
    });
  };
  auto use = [&](const Argument &argument, const Cursor &where) {
    forEachTensor(argument, [&](const TensorRef &tensor) {
      if (!defined.count(tensor.name))
        where.fail("the value \"" + tensor.name + "\" is used before it is defined");
    });
  };
  Cursor nodes = cursor["nodes"];
  for (const Argument &input : graph.inputs)
    define(input, cursor["inputs"]);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    Cursor where(nodes.document(), (*nodes.value().asArray())[i]);
    for (const NamedArgument &input : graph.nodes[i].inputs)
      use(input.value, where["inputs"]);
    for (const Argument &output : graph.nodes[i].outputs)
      define(output, where["outputs"]);
  }
  for (const Argument &output : graph.outputs)
    use(output, cursor["outputs"]);
}

/// Specs stand in the order of the graph's inputs or outputs, and name the same values.
template <typename Spec>
static void checkSpecs(const std::vector<Spec> &specs, const std::vector<Argument> &values,
                       const Cursor &cursor) {
  if (specs.size() != values.size())
    cursor.fail("there are " + std::to_string(specs.size()) + " specs, but the graph has " +
                std::to_string(values.size()) + " values");
  for (size_t i = 0; i < specs.size(); ++i) {
    const TensorRef *spec = specs[i].value.template as<TensorRef>();
    const TensorRef *value = values[i].as<TensorRef>();
    if (spec && value && spec->name != value->name)
      cursor.elements()[i].fail("this spec names \"" + spec->name + "\", but the graph has \"" + value->name +
                                "\" there");
  }
}

/// A parameter that is no tensor in the graph would have no shape.
static void checkTensors(const std::vector<InputSpec> &specs, const Graph &graph, const Cursor &cursor) {
  for (size_t i = 0; i < specs.size(); ++i) {
    InputKind kind = specs[i].kind;
    bool mustBeTensor =
        kind == InputKind::Parameter || kind == InputKind::Buffer || kind == InputKind::TensorConstant;
    if (mustBeTensor && !graph.inputs[i].as<TensorRef>())
      cursor.elements()[i].fail("\"" + specs[i].name + "\" is not a tensor in the graph");
  }
}

static void readVersions(const Cursor &root, ExportedProgram &program, Diagnostics &diagnostics) {
  Cursor version = root["schema_version"];
  int64_t major = version["major"].integer(), minor = version["minor"].integer();
  if (std::optional<Cursor> torch = root.find("torch_version"))
    program.torchVersion = torch->string();
  std::string writer = program.torchVersion.empty() ? "" : ", by PyTorch " + program.torchVersion;
  std::string found = std::to_string(major) + "." + std::to_string(minor);
  if (major != kSchemaMajor)
    version.fail("this program was written with version " + found + " of torch.export's schema" + writer +
                 ", but Plumb reads version 8; export it again with PyTorch 2.9 or newer");
  if (minor > kNewestSchemaMinor)
    diagnostics.warning(root.document().place(version.value().range),
                        "this program was written with version " + found + " of torch.export's schema" +
                            writer + ", but Plumb knows it up to 8.20; what is new in it is ignored");
  program.schemaMinor = static_cast<unsigned>(std::clamp<int64_t>(minor, 0, INT32_MAX));
}

static ExportedProgram readProgram(const Cursor &root, Diagnostics &diagnostics) {
  ExportedProgram program;
  program.source = root.document().source;
  readVersions(root, program, diagnostics);
  Cursor graphModule = root["graph_module"];
  program.graph = readGraph(graphModule["graph"]);
  checkReferences(program.graph, graphModule["graph"]);
  Cursor signature = graphModule["signature"];
  for (const Cursor &spec : signature["input_specs"].elements())
    program.inputs.push_back(readInputSpec(spec));
  for (const Cursor &spec : signature["output_specs"].elements())
    program.outputs.push_back(readOutputSpec(spec));
  checkSpecs(program.inputs, program.graph.inputs, signature["input_specs"]);
  checkSpecs(program.outputs, program.graph.outputs, signature["output_specs"]);
  checkTensors(program.inputs, program.graph, signature["input_specs"]);
  readModules(graphModule, program);
  return program;
}

std::optional<ExportedProgram> parseExportedProgram(const json::Document &document,
                                                    Diagnostics &diagnostics) {
  try {
    return readProgram(Cursor(document), diagnostics);
  } catch (const json::Malformed &malformed) {
    diagnostics.add(malformed.diagnostic);
    return std::nullopt;
  }
}

} // namespace plumb::pt2
