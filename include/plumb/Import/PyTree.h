//===- PyTree.h - Names of the leaves of torch pytrees ----------*- C++ -*-===//

#ifndef PLUMB_IMPORT_PYTREE_H
#define PLUMB_IMPORT_PYTREE_H

#include "plumb/Import/Json.h"

#include <map>

namespace plumb::pt2 {

/// Field names of the named tuple classes that a program uses, by class name.
using NamedTupleFields = std::map<std::string, std::vector<std::string>>;

/// The structure of a model's inputs or outputs: torch.utils._pytree.TreeSpec, as serialised into a JSON
/// string.
struct PyTree {
  std::string type; ///< `builtins.dict`; empty for a leaf.
  std::vector<std::string>
      keys; ///< Names of the children, as many as there are; indices where it has no names.
  std::vector<PyTree> children;

  bool isLeaf() const { return type.empty(); }
};

/// Parses a serialised TreeSpec (protocol 1). Returns nothing if the text is not one: names are a
/// convenience, and no reason to refuse a program.
std::optional<PyTree> parsePyTree(const std::string &text, const NamedTupleFields &fields);

/// Paths of all leaves in order, components joined by dots: `logits`, `cache.0.key`. The path of a tree that
/// is a leaf itself is empty.
std::vector<std::string> leafPaths(const PyTree &tree);

/// Paths of the inputs of a model, given the tree `(positional tuple, keyword dict)`: the first component of
/// a positional one is its name in `forward`, that of a keyword its key.
std::vector<std::string> inputPaths(const PyTree &tree, const std::vector<std::string> &forwardNames);

} // namespace plumb::pt2

#endif // PLUMB_IMPORT_PYTREE_H
