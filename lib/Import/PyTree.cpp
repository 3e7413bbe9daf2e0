#include "plumb/Import/PyTree.h"

namespace plumb::pt2 {

namespace {

std::optional<json::Document> parseText(const std::string &text) {
  Diagnostics ignored;
  return json::parse(std::make_shared<Source>("", text), ignored);
}

/// Keys may be strings or numbers, as in any Python dict.
std::string keyText(const json::Value &value) {
  if (const std::string *string = value.asString())
    return *string;
  if (const int64_t *integer = value.asInteger())
    return std::to_string(*integer);
  return "";
}

std::vector<std::string> keysOf(const json::Value &context) {
  std::vector<std::string> keys;
  if (const json::Array *list = context.asArray())
    for (const json::Value &key : *list)
      keys.push_back(keyText(key));
  return keys;
}

/// The names of the children of a node, from its context: a JSON string whose form depends on the type. A
/// dict lists its keys; a defaultdict wraps such a list; a named tuple names its class.
std::vector<std::string> childNames(const std::string &type, const json::Value *context,
                                    const NamedTupleFields &fields) {
  const std::string *text = context ? context->asString() : nullptr;
  std::optional<json::Document> parsed = text ? parseText(*text) : std::nullopt;
  if (type == "collections.namedtuple") {
    const std::string *name = parsed ? parsed->root.asString() : text;
    if (const json::Value *nested = parsed ? parsed->root.find("class_fqn") : nullptr)
      name = nested->asString();
    auto found = name ? fields.find(*name) : fields.end();
    return found == fields.end() ? std::vector<std::string>() : found->second;
  }
  if (!parsed)
    return {};
  if (const json::Value *wrapped = parsed->root.find("dict_context")) {
    const std::string *inner = wrapped->asString();
    std::optional<json::Document> keys = inner ? parseText(*inner) : std::nullopt;
    return keysOf(keys ? keys->root : *wrapped);
  }
  return keysOf(parsed->root);
}

std::optional<PyTree> build(const json::Value &value, const NamedTupleFields &fields) {
  const json::Value *type = value.find("type");
  if (!type)
    return std::nullopt;
  PyTree tree;
  if (type->isNull())
    return tree;
  const json::Value *children = value.find("children_spec");
  if (!type->asString() || type->asString()->empty() || !children || !children->asArray())
    return std::nullopt;
  tree.type = *type->asString();
  for (const json::Value &child : *children->asArray()) {
    std::optional<PyTree> subtree = build(child, fields);
    if (!subtree)
      return std::nullopt;
    tree.children.push_back(std::move(*subtree));
  }
  tree.keys = childNames(tree.type, value.find("context"), fields);
  if (tree.keys.size() != tree.children.size()) {
    tree.keys.clear();
    for (size_t i = 0; i < tree.children.size(); ++i)
      tree.keys.push_back(std::to_string(i));
  }
  return tree;
}

void collect(const PyTree &tree, const std::string &path, std::vector<std::string> &paths) {
  if (tree.isLeaf())
    paths.push_back(path);
  for (size_t i = 0; i < tree.children.size(); ++i)
    collect(tree.children[i], path.empty() ? tree.keys[i] : path + "." + tree.keys[i], paths);
}

} // namespace

std::optional<PyTree> parsePyTree(const std::string &text, const NamedTupleFields &fields) {
  std::optional<json::Document> document = parseText(text);
  const json::Array *protocol = document ? document->root.asArray() : nullptr;
  if (!protocol || protocol->size() != 2)
    return std::nullopt;
  return build((*protocol)[1], fields);
}

std::vector<std::string> leafPaths(const PyTree &tree) {
  std::vector<std::string> paths;
  collect(tree, "", paths);
  return paths;
}

std::vector<std::string> inputPaths(const PyTree &tree, const std::vector<std::string> &forwardNames) {
  std::vector<std::string> paths;
  if (tree.children.size() != 2)
    return leafPaths(tree);
  const PyTree &positional = tree.children[0];
  for (size_t i = 0; i < positional.children.size(); ++i)
    collect(positional.children[i], i < forwardNames.size() ? forwardNames[i] : positional.keys[i], paths);
  collect(tree.children[1], "", paths);
  return paths;
}

} // namespace plumb::pt2
