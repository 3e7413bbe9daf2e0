#include "plumb/Import/Functionalize.h"

#include "ViewRules.h"

#include <algorithm>
#include <unordered_set>

namespace plumb::pt2 {

namespace {

/// A tensor that shares the memory of another one.
struct View {
  size_t node;        ///< In the original list of nodes.
  std::string source; ///< The tensor that it is a view of.
  size_t result;      ///< Which of the node's results it is.
};

class Functionalizer {
public:
  Functionalizer(ExportedProgram &program, Diagnostics &diagnostics)
      : program_(program), graph_(program.graph), diagnostics_(diagnostics),
        old_(std::move(program.graph.nodes)) {}

  bool run() {
    for (size_t index = 0; index < old_.size() && !failed_; ++index)
      visit(index);
    graph_.nodes = std::move(nodes_);
    for (OutputSpec &output : program_.outputs)
      forEachTensor(output.value, [&](TensorRef &reference) { reference.name = resolve(reference.name); });
    for (Argument &output : graph_.outputs)
      forEachTensor(output, [&](TensorRef &reference) { reference.name = resolve(reference.name); });
    // Resolving the outputs may have rebuilt views.
    for (Node &node : nodes_)
      graph_.nodes.push_back(std::move(node));
    addMutations();
    return !failed_;
  }

private:
  //===-- Names -----------------------------------------------------------===//

  /// The tensor whose memory this one is.
  std::string rootOf(std::string name) const {
    for (auto view = views_.find(name); view != views_.end(); view = views_.find(name))
      name = view->second.source;
    return name;
  }

  std::string freshName(const std::string &like) {
    std::string name;
    do
      name = like + "_" + std::to_string(++counter_);
    while (graph_.tensors.contains(name));
    return name;
  }

  /// The name of the present value of a tensor. A view of what was written to since is made again.
  std::string resolve(const std::string &name) {
    auto view = views_.find(name);
    if (identities_.contains(name))
      return resolve(view->second.source);
    auto known = current_.find(name);
    if (view == views_.end() || writes_[rootOf(name)] == seen_[name])
      return known == current_.end() ? name : known->second;
    const Node &original = old_[view->second.node];
    Node again = original;
    again.name = freshName(original.name);
    setSelf(again, resolve(view->second.source));
    std::string source = view->second.source;
    size_t written = writes_[rootOf(name)];
    std::vector<std::string> names = resultNames(original);
    size_t index = 0;
    for (Argument &output : again.outputs)
      forEachTensor(output, [&](TensorRef &reference) {
        const std::string &of = names[index++];
        reference.name = freshName(of);
        graph_.tensors[reference.name] = graph_.tensors.at(of);
        current_[of] = reference.name;
        seen_[of] = written;
      });
    nodes_.push_back(std::move(again));
    return current_[name];
  }

  //===-- Nodes -----------------------------------------------------------===//

  void visit(size_t index) {
    const Node &original = old_[index];
    Node node = original;
    std::optional<std::string> written = writtenOperand(node);
    std::string self = written ? *written : std::string();
    for (NamedArgument &input : node.inputs)
      forEachTensor(input.value, [&](TensorRef &reference) { reference.name = resolve(reference.name); });
    if (isBatchNormInTraining(original)) {
      visitBatchNorm(original, std::move(node));
      return;
    }
    if (!written) {
      noteViews(original, index);
      nodes_.push_back(std::move(node));
      return;
    }
    // The result is the operand itself: another name for it.
    std::vector<std::string> names = resultNames(original);
    if (names.size() != 1)
      return refuse(original, "it has " + std::to_string(names.size()) + " results");
    std::string value = freshName(names[0]);
    graph_.tensors[value] = graph_.tensors.at(names[0]);
    node.outputs[0].data = TensorRef{value};
    for (Node &part :
         functionalForm(std::move(node), graph_, [&](const std::string &like) { return freshName(like); }))
      nodes_.push_back(std::move(part));
    write(original, self, value);
    // Chains of in-place operators all name the first operand.
    views_[names[0]] = {index, identities_.contains(self) ? views_[self].source : self, 0};
    identities_.insert(names[0]);
  }

  /// Running statistics are operands that are written to, which the functional form gives as results.
  void visitBatchNorm(const Node &original, Node node) {
    std::string output = resultNames(original).at(0);
    node.target = "torch.ops.aten._native_batch_norm_legit_functional.default";
    std::erase_if(node.inputs, [](const NamedArgument &input) { return input.name == "cudnn_enabled"; });
    auto result = [&](const std::string &like, const TensorMeta &meta) {
      std::string name = freshName(like);
      graph_.tensors[name] = meta;
      node.outputs.push_back({TensorRef{name}});
      return name;
    };
    node.outputs = {{TensorRef{output}}};
    TensorMeta statistic = graph_.tensors.at(original.find("running_mean")->as<TensorRef>()->name);
    result("save_mean", statistic);
    result("save_rstd", statistic);
    std::vector<std::pair<std::string, std::string>> updates;
    for (const char *name : {"running_mean", "running_var"}) {
      std::string operand = original.find(name)->as<TensorRef>()->name;
      updates.emplace_back(operand, result(operand, graph_.tensors.at(operand)));
    }
    nodes_.push_back(std::move(node));
    for (const auto &[operand, value] : updates)
      write(original, operand, value);
  }

  void noteViews(const Node &original, size_t index) {
    const Argument *self = original.find("self");
    self = self ? self : original.find("input");
    const TensorRef *source = self ? self->as<TensorRef>() : nullptr;
    if (!source || !isView(original, graph_))
      return;
    std::vector<std::string> names = resultNames(original);
    for (size_t result = 0; result < names.size(); ++result) {
      views_[names[result]] = {index, source->name, result};
      seen_[names[result]] = writes_[rootOf(source->name)];
    }
  }

  /// The tensor `name` has the value `value` from here on, and with it all that share its memory.
  void write(const Node &writer, const std::string &name, const std::string &value) {
    auto view = views_.find(name);
    if (view == views_.end()) {
      ++writes_[name];
      current_[name] = value;
      return;
    }
    if (identities_.contains(name))
      return write(writer, view->second.source, value);
    std::string before = resolve(view->second.source);
    std::optional<Node> inverse =
        inverseOf(old_[view->second.node], view->second.result, before, value, graph_);
    if (!inverse)
      return refuse(writer, "it writes through " + old_[view->second.node].target);
    std::string updated = freshName(view->second.source);
    graph_.tensors[updated] = graph_.tensors.at(view->second.source);
    inverse->name = updated;
    inverse->outputs = {{TensorRef{updated}}};
    inverse->modules = writer.modules;
    inverse->frame = writer.frame;
    inverse->range = writer.range;
    nodes_.push_back(std::move(*inverse));
    write(writer, view->second.source, updated);
    current_[name] = value;
    seen_[name] = writes_[rootOf(name)];
  }

  //===-- What is left ----------------------------------------------------===//

  void addMutations() {
    for (const InputSpec &input : program_.inputs) {
      const TensorRef *reference = input.value.as<TensorRef>();
      auto written = reference ? current_.find(reference->name) : current_.end();
      if (written == current_.end())
        continue;
      OutputKind kind = input.kind == InputKind::Buffer      ? OutputKind::BufferMutation
                        : input.kind == InputKind::Parameter ? OutputKind::ParameterMutation
                        : input.kind == InputKind::UserInput ? OutputKind::UserInputMutation
                                                             : OutputKind::BufferMutation;
      Argument value{TensorRef{written->second}};
      graph_.outputs.push_back(value);
      program_.outputs.push_back({kind, value, input.name});
    }
  }

  void refuse(const Node &node, const std::string &reason) {
    failed_ = true;
    diagnostics_.error(node.frame ? node.frame->place() : program_.place(node),
                       node.target + " writes to its operand, which is not supported here: " + reason);
  }

  ExportedProgram &program_;
  Graph &graph_;
  Diagnostics &diagnostics_;
  std::vector<Node> old_, nodes_;
  std::unordered_map<std::string, View> views_;
  std::unordered_map<std::string, std::string> current_; ///< Names of present values, where they are others.
  std::unordered_map<std::string, size_t> writes_;       ///< To a root.
  std::unordered_map<std::string, size_t> seen_; ///< Writes to its root that the value of a view has in it.
  std::unordered_set<std::string> identities_;   ///< Views that are their source under another name.
  size_t counter_ = 0;
  bool failed_ = false;
};

} // namespace

bool functionalize(ExportedProgram &program, Diagnostics &diagnostics) {
  bool writes = std::any_of(program.graph.nodes.begin(), program.graph.nodes.end(), [](const Node &node) {
    return writtenOperand(node) || isBatchNormInTraining(node);
  });
  return !writes || Functionalizer(program, diagnostics).run();
}

} // namespace plumb::pt2
