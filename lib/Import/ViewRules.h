//===- ViewRules.h - Which ATen operators share memory ----------*- C++ -*-===//

#ifndef PLUMB_LIB_IMPORT_VIEWRULES_H
#define PLUMB_LIB_IMPORT_VIEWRULES_H

#include "plumb/Import/ExportedProgram.h"

#include <functional>

namespace plumb::pt2 {

/// Visits the tensors that an argument names, to rename them.
void forEachTensor(Argument &argument, const std::function<void(TensorRef &)> &visit);
/// The names of all results, those of a list in order.
std::vector<std::string> resultNames(const Node &node);
void setSelf(Node &node, const std::string &name);

/// The name of the tensor that an in-place operator (`add_.Tensor`) writes to; nothing for other operators.
std::optional<std::string> writtenOperand(const Node &node);
bool isBatchNormInTraining(const Node &node);

/// The nodes that compute the value that an in-place node writes, the last of them under the node's result.
std::vector<Node> functionalForm(Node node, Graph &graph,
                                 const std::function<std::string(const std::string &)> &freshName);

/// Whether the results share the memory of the operand `self` (or `input`).
bool isView(const Node &node, const Graph &graph);

/// The node that gives the source of a view after the view got the value `value`; `before` is the source's
/// value until then. Nothing where a view has no inverse. Name and results are the caller's to set.
std::optional<Node> inverseOf(const Node &view, size_t result, const std::string &before,
                              const std::string &value, const Graph &graph);

} // namespace plumb::pt2

#endif // PLUMB_LIB_IMPORT_VIEWRULES_H
