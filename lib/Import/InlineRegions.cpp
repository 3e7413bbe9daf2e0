#include "plumb/Import/InlineRegions.h"

#include <algorithm>
#include <unordered_map>

namespace plumb::pt2 {

namespace {

using Names = std::unordered_map<std::string, std::string>;

constexpr const char *kSetGradient = "torch.ops.higher_order.wrap_with_set_grad_enabled";
constexpr const char *kAutocast = "torch.ops.higher_order.wrap_with_autocast";

/// Calls `visit` on each tensor that an argument refers to.
template <typename Visit>
void forEachTensor(Argument &argument, Visit visit) {
  if (auto *tensor = std::get_if<TensorRef>(&argument.data))
    visit(*tensor);
  else if (auto *list = std::get_if<Tensors>(&argument.data))
    std::for_each(list->begin(), list->end(), visit);
  else if (auto *optional = std::get_if<std::vector<std::optional<TensorRef>>>(&argument.data)) {
    for (std::optional<TensorRef> &entry : *optional)
      if (entry)
        visit(*entry);
  } else if (auto *nested = std::get_if<std::vector<Tensors>>(&argument.data)) {
    for (Tensors &entry : *nested)
      std::for_each(entry.begin(), entry.end(), visit);
  }
}

class Inliner {
public:
  Inliner(ExportedProgram &program, Diagnostics &diagnostics)
      : program_(program), diagnostics_(diagnostics) {}

  bool run() {
    Names names;
    bool isFine = append(program_.graph, names, "", /*hasGradient=*/true);
    for (OutputSpec &output : program_.outputs)
      rename(output.value, names);
    for (Argument &output : program_.graph.outputs)
      rename(output, names);
    program_.graph.nodes = std::move(nodes_);
    return isFine;
  }

private:
  bool error(const Node &node, const std::string &message) {
    diagnostics_.error(node.frame ? node.frame->place() : program_.place(node), message);
    return false;
  }

  static void rename(Argument &argument, const Names &names) {
    forEachTensor(argument, [&](TensorRef &tensor) {
      if (auto found = names.find(tensor.name); found != names.end())
        tensor.name = found->second;
    });
  }

  /// Appends the nodes of a graph. `names` maps its names to those in the whole program: those of its inputs
  /// at first, then also those of its results, which get a prefix.
  bool append(const Graph &graph, Names &names, const std::string &prefix, bool hasGradient) {
    bool isFine = true;
    for (const Node &original : graph.nodes) {
      Node node = original;
      for (NamedArgument &input : node.inputs)
        rename(input.value, names);
      if (node.target == kSetGradient || node.target == kAutocast) {
        isFine &= appendRegion(node, names, hasGradient);
        continue;
      }
      node.hasGradient = hasGradient;
      node.name = prefix + node.name;
      if (!prefix.empty())
        for (Argument &output : node.outputs)
          forEachTensor(output, [&](TensorRef &tensor) {
            std::string inner = tensor.name;
            tensor.name = names[inner] = prefix + inner;
            if (auto meta = graph.tensors.find(inner); meta != graph.tensors.end())
              program_.graph.tensors.try_emplace(tensor.name, meta->second);
          });
      nodes_.push_back(std::move(node));
    }
    return isFine;
  }

  /// The node's arguments are the settings, the region, and the region's operands.
  bool appendRegion(const Node &node, Names &names, bool hasGradient) {
    auto isRegion = [](const NamedArgument &argument) { return argument.value.as<Subgraph>() != nullptr; };
    auto region = std::find_if(node.inputs.begin(), node.inputs.end(), isRegion);
    if (region == node.inputs.end())
      return error(node, node.target + " has no region");
    bool isAutocast = node.target == kAutocast;
    size_t setting = isAutocast ? 2 : 0; // Before it: the kind of device, and the type to compute in.
    const bool *isOn = setting < node.inputs.size() ? node.inputs[setting].value.as<bool>() : nullptr;
    if (!isOn)
      return error(node, node.target + " does not say whether it is on");
    if (isAutocast && *isOn)
      return error(node,
                   "this region runs under torch.autocast, which is not supported; convert to the types that "
                   "are meant, or disable it");
    const Graph &graph = *region->value.as<Subgraph>()->graph;
    Names inner;
    if (static_cast<size_t>(node.inputs.end() - region) - 1 != graph.inputs.size() ||
        !bind(graph.inputs, region + 1, inner))
      return error(node, node.target + " has operands that are no tensors, or too few of them");
    std::string prefix = "region" + std::to_string(regions_++) + ".";
    if (!append(graph, inner, prefix, isAutocast ? hasGradient : *isOn))
      return false;
    return bindResults(node, graph, inner, names) ||
           error(node, node.target + " has results that are no tensors, or too few of them");
  }

  static bool bind(const std::vector<Argument> &inputs, std::vector<NamedArgument>::const_iterator operand,
                   Names &inner) {
    for (const Argument &input : inputs) {
      const auto *name = input.as<TensorRef>(), *value = (operand++)->value.as<TensorRef>();
      if (!name || !value)
        return false;
      inner[name->name] = value->name;
    }
    return true;
  }

  /// The results of the node are those of the region.
  static bool bindResults(const Node &node, const Graph &graph, const Names &inner, Names &names) {
    std::vector<std::string> results;
    for (Argument output : node.outputs)
      forEachTensor(output, [&](TensorRef &tensor) { results.push_back(tensor.name); });
    std::vector<std::string> values;
    for (Argument output : graph.outputs) {
      rename(output, inner);
      forEachTensor(output, [&](TensorRef &tensor) { values.push_back(tensor.name); });
    }
    if (results.size() != values.size())
      return false;
    for (size_t index = 0; index < results.size(); ++index)
      names[results[index]] = values[index];
    return true;
  }

  ExportedProgram &program_;
  Diagnostics &diagnostics_;
  std::vector<Node> nodes_;
  size_t regions_ = 0;
};

} // namespace

bool inlineRegions(ExportedProgram &program, Diagnostics &diagnostics) {
  return Inliner(program, diagnostics).run();
}

} // namespace plumb::pt2
