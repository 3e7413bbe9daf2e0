//===- ArgumentReader.h - Tagged unions of an ExportedProgram ---*- C++ -*-===//

#ifndef PLUMB_LIB_IMPORT_ARGUMENTREADER_H
#define PLUMB_LIB_IMPORT_ARGUMENTREADER_H

#include "plumb/Import/ExportedProgram.h"
#include "plumb/Import/JsonCursor.h"

#include <functional>

namespace plumb::pt2 {

/// These throw json::Malformed.
Argument readArgument(const json::Cursor &cursor);
TensorMeta readTensorMeta(const json::Cursor &cursor);
Graph readGraph(const json::Cursor &cursor);

/// Visits the tensors that an argument refers to, in order; not those of a subgraph, which has its own names.
void forEachTensor(const Argument &argument, const std::function<void(const TensorRef &)> &visit);

} // namespace plumb::pt2

#endif // PLUMB_LIB_IMPORT_ARGUMENTREADER_H
