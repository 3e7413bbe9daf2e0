#include "ViewRules.h"

#include <algorithm>
#include <unordered_map>

namespace plumb::pt2 {

//===----------------------------------------------------------------------===//
// Nodes
//===----------------------------------------------------------------------===//

void forEachTensor(Argument &argument, const std::function<void(TensorRef &)> &visit) {
  if (auto *reference = std::get_if<TensorRef>(&argument.data))
    visit(*reference);
  else if (auto *list = std::get_if<Tensors>(&argument.data))
    for (TensorRef &reference : *list)
      visit(reference);
  else if (auto *optionals = std::get_if<std::vector<std::optional<TensorRef>>>(&argument.data))
    for (std::optional<TensorRef> &reference : *optionals) {
      if (reference)
        visit(*reference);
    }
  else if (auto *lists = std::get_if<std::vector<Tensors>>(&argument.data))
    for (Tensors &inner : *lists)
      for (TensorRef &reference : inner)
        visit(reference);
}

std::vector<std::string> resultNames(const Node &node) {
  std::vector<std::string> names;
  for (const Argument &output : node.outputs) {
    if (const auto *reference = output.as<TensorRef>())
      names.push_back(reference->name);
    else if (const auto *list = output.as<Tensors>())
      for (const TensorRef &reference : *list)
        names.push_back(reference.name);
  }
  return names;
}

void setSelf(Node &node, const std::string &name) {
  for (NamedArgument &input : node.inputs)
    if (input.name == "self" || input.name == "input")
      input.value.data = TensorRef{name};
}

static const std::string prefix = "torch.ops.aten.";

/// `add_` of `torch.ops.aten.add_.Tensor`.
static std::string_view operatorOf(const Node &node) {
  std::string_view target = node.target;
  if (!target.starts_with(prefix))
    return {};
  target.remove_prefix(prefix.size());
  return target.substr(0, target.find('.'));
}

static const TensorRef *selfOf(const Node &node) {
  const Argument *self = node.find("self");
  self = self ? self : node.find("input");
  return self ? self->as<TensorRef>() : nullptr;
}

static bool flag(const Node &node, std::string_view name) {
  const Argument *argument = node.find(name);
  const bool *value = argument ? argument->as<bool>() : nullptr;
  return value && *value;
}

static int64_t integer(const Node &node, std::string_view name, int64_t otherwise) {
  const Argument *argument = node.find(name);
  const int64_t *value = argument ? argument->as<int64_t>() : nullptr;
  return value ? *value : otherwise;
}

//===----------------------------------------------------------------------===//
// Writes
//===----------------------------------------------------------------------===//

std::optional<std::string> writtenOperand(const Node &node) {
  std::string_view name = operatorOf(node);
  // `__and__` ends in two; `detach_` changes no value.
  if (!name.ends_with('_') || name.ends_with("__") || name == "detach_")
    return std::nullopt;
  const TensorRef *self = selfOf(node);
  return self ? std::optional(self->name) : std::nullopt;
}

bool isBatchNormInTraining(const Node &node) {
  auto isTensor = [&](const char *name) {
    const Argument *argument = node.find(name);
    return argument && argument->as<TensorRef>();
  };
  return operatorOf(node) == "batch_norm" && flag(node, "training") && isTensor("running_mean") &&
         isTensor("running_var") && resultNames(node).size() == 1;
}

static void rename(Node &node, std::string_view from, const char *to) {
  for (NamedArgument &input : node.inputs)
    if (input.name == from)
      input.name = to;
}

std::vector<Node> functionalForm(Node node, Graph &graph,
                                 const std::function<std::string(const std::string &)> &freshName) {
  std::string_view name = operatorOf(node);
  if (name == "fill_" && node.target.ends_with(".Scalar")) {
    rename(node, "value", "fill_value");
    node.target = prefix + "full_like.default";
    return {std::move(node)};
  }
  if (name == "zero_") {
    node.target = prefix + "zeros_like.default";
    return {std::move(node)};
  }
  const Argument *value = node.find(name == "copy_" ? "src" : "value");
  if ((name == "copy_" || name == "fill_") && value && value->as<TensorRef>()) {
    // The source in the type, then in the shape of what it is written to.
    std::string result = resultNames(node).front(), source = value->as<TensorRef>()->name;
    TensorMeta meta = graph.tensors.at(source);
    meta.dtype = graph.tensors.at(result).dtype;
    Node convert = node, expand = node;
    std::string converted = freshName(result);
    graph.tensors[converted] = meta;
    convert.name = converted;
    convert.target = prefix + "to.dtype";
    convert.inputs = {{"self", {TensorRef{source}}}};
    convert.outputs = {{TensorRef{converted}}};
    expand.target = prefix + "expand_as.default";
    expand.inputs = {{"self", {TensorRef{converted}}}, {"other", {TensorRef{selfOf(node)->name}}}};
    return {std::move(convert), std::move(expand)};
  }
  node.target.erase(prefix.size() + name.size() - 1, 1);
  return {std::move(node)};
}

//===----------------------------------------------------------------------===//
// Views
//===----------------------------------------------------------------------===//

namespace {
enum class ViewKind {
  Same,      ///< The operand itself, under a condition.
  Reshape,   ///< The same elements in the same order.
  SwapsBack, ///< A permutation that is its own inverse.
  Permute,
  Movedim,
  Select,
  Slice,
  Narrow,
  Pieces, ///< Parts of a dim, one after the other.
  Unbind,
  NoInverse,
};
} // namespace

static std::optional<ViewKind> kindOf(std::string_view name) {
  static const std::unordered_map<std::string_view, ViewKind> kinds = {
      {"alias", ViewKind::Same},
      {"contiguous", ViewKind::Same},
      {"to", ViewKind::Same},
      {"type_as", ViewKind::Same},
      {"dropout", ViewKind::Same},
      {"detach", ViewKind::NoInverse},
      {"view", ViewKind::Reshape},
      {"reshape", ViewKind::Reshape},
      {"flatten", ViewKind::Reshape},
      {"unflatten", ViewKind::Reshape},
      {"squeeze", ViewKind::Reshape},
      {"unsqueeze", ViewKind::Reshape},
      {"view_as", ViewKind::Reshape},
      {"reshape_as", ViewKind::Reshape},
      {"ravel", ViewKind::Reshape},
      {"atleast_1d", ViewKind::Reshape},
      {"atleast_2d", ViewKind::Reshape},
      {"_unsafe_view", ViewKind::Reshape},
      {"transpose", ViewKind::SwapsBack},
      {"t", ViewKind::SwapsBack},
      {"mT", ViewKind::SwapsBack},
      {"adjoint", ViewKind::SwapsBack},
      {"numpy_T", ViewKind::SwapsBack},
      {"swapaxes", ViewKind::SwapsBack},
      {"permute", ViewKind::Permute},
      {"movedim", ViewKind::Movedim},
      {"select", ViewKind::Select},
      {"slice", ViewKind::Slice},
      {"narrow", ViewKind::Narrow},
      {"split", ViewKind::Pieces},
      {"split_with_sizes", ViewKind::Pieces},
      {"chunk", ViewKind::Pieces},
      {"tensor_split", ViewKind::Pieces},
      {"unbind", ViewKind::Unbind},
      {"expand", ViewKind::NoInverse},
      {"expand_as", ViewKind::NoInverse},
      {"diagonal", ViewKind::NoInverse},
      {"unfold", ViewKind::NoInverse},
  };
  auto found = kinds.find(name);
  return found == kinds.end() ? std::nullopt : std::optional(found->second);
}

static bool isContiguous(const TensorMeta &meta) {
  int64_t expected = 1;
  if (meta.strides.size() != meta.sizes.size())
    return false;
  for (size_t dim = meta.sizes.size(); dim-- > 0;) {
    if (meta.sizes[dim].value != 1 && meta.strides[dim].value != expected)
      return false;
    expected *= meta.sizes[dim].value;
  }
  return true;
}

bool isView(const Node &node, const Graph &graph) {
  std::string_view name = operatorOf(node);
  std::optional<ViewKind> kind = kindOf(name);
  const TensorRef *self = selfOf(node);
  std::vector<std::string> results = resultNames(node);
  if (!kind || !self || results.empty() || !graph.tensors.contains(self->name))
    return false;
  const TensorMeta &from = graph.tensors.at(self->name), &to = graph.tensors.at(results.front());
  if (name == "contiguous")
    return isContiguous(from);
  if (name == "to" || name == "type_as")
    return from.dtype == to.dtype && !flag(node, "copy");
  if (name == "dropout")
    return !flag(node, "train");
  // These copy where the elements do not lie in order.
  if (name == "reshape" || name == "flatten" || name == "reshape_as" || name == "ravel")
    return isContiguous(from);
  return true;
}

static Argument sizesOf(const TensorMeta &meta) {
  std::vector<int64_t> sizes;
  for (const Dimension &size : meta.sizes)
    sizes.push_back(size.value);
  return {sizes};
}

/// Where piece `result` begins along the dim.
static int64_t offsetOf(const Node &view, size_t result, size_t dim, const Graph &graph) {
  int64_t offset = 0;
  std::vector<std::string> names = resultNames(view);
  for (size_t i = 0; i < result; ++i)
    offset += graph.tensors.at(names[i]).sizes.at(dim).value;
  return offset;
}

std::optional<Node> inverseOf(const Node &view, size_t result, const std::string &before,
                              const std::string &value, const Graph &graph) {
  const TensorMeta &source = graph.tensors.at(selfOf(view)->name);
  int64_t rank = static_cast<int64_t>(source.sizes.size());
  auto node = [](const char *target, std::vector<NamedArgument> inputs) {
    Node inverse;
    inverse.target = prefix + target;
    inverse.inputs = std::move(inputs);
    return inverse;
  };
  NamedArgument written{"self", {TensorRef{value}}}, self{"self", {TensorRef{before}}},
      src{"src", {TensorRef{value}}};
  auto copied = [&](const char *name) {
    return NamedArgument{name, view.find(name) ? *view.find(name) : Argument{}};
  };
  int64_t dim = integer(view, "dim", 0);
  dim = dim < 0 ? dim + rank : dim;
  auto slice = [&](int64_t start, int64_t end) {
    return node("slice_scatter.default", {self, src, {"dim", {dim}}, {"start", {start}}, {"end", {end}}});
  };
  switch (*kindOf(operatorOf(view))) {
  case ViewKind::Same:
    return node("alias.default", {written});
  case ViewKind::Reshape:
    return node("view.default", {written, {"size", sizesOf(source)}});
  case ViewKind::SwapsBack: {
    Node inverse = view;
    setSelf(inverse, value);
    return inverse;
  }
  case ViewKind::Permute: {
    const Argument *argument = view.find("dims");
    const auto *dims = argument ? argument->as<std::vector<int64_t>>() : nullptr;
    if (!dims || static_cast<int64_t>(dims->size()) != rank)
      return std::nullopt;
    std::vector<int64_t> inverse(dims->size());
    for (size_t i = 0; i < dims->size(); ++i) {
      int64_t of = (*dims)[i] < 0 ? (*dims)[i] + rank : (*dims)[i];
      if (of < 0 || of >= rank)
        return std::nullopt;
      inverse[of] = static_cast<int64_t>(i);
    }
    return node("permute.default", {written, {"dims", {inverse}}});
  }
  case ViewKind::Movedim: {
    Node inverse = view;
    setSelf(inverse, value);
    for (NamedArgument &input : inverse.inputs)
      input.name = input.name == "source"        ? "destination"
                   : input.name == "destination" ? "source"
                                                 : input.name;
    return inverse;
  }
  case ViewKind::Select:
    return node("select_scatter.default", {self, src, copied("dim"), copied("index")});
  case ViewKind::Slice:
    return node(
        "slice_scatter.default",
        {self, src, {"dim", {dim}}, copied("start"), copied("end"), {"step", {integer(view, "step", 1)}}});
  case ViewKind::Narrow: {
    int64_t start = integer(view, "start", 0);
    start = start < 0 && dim >= 0 && dim < rank ? start + source.sizes[dim].value : start;
    return slice(start, start + integer(view, "length", 0));
  }
  case ViewKind::Pieces: {
    if (dim < 0 || dim >= rank)
      return std::nullopt;
    int64_t start = offsetOf(view, result, dim, graph);
    return slice(start, start + graph.tensors.at(resultNames(view)[result]).sizes[dim].value);
  }
  case ViewKind::Unbind:
    return node("select_scatter.default",
                {self, src, {"dim", {dim}}, {"index", {static_cast<int64_t>(result)}}});
  case ViewKind::NoInverse:
    return std::nullopt;
  }
  return std::nullopt;
}

} // namespace plumb::pt2
