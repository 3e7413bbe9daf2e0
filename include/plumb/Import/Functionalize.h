//===- Functionalize.h - In-place operators as functions --------*- C++ -*-===//

#ifndef PLUMB_IMPORT_FUNCTIONALIZE_H
#define PLUMB_IMPORT_FUNCTIONALIZE_H

#include "plumb/Import/ExportedProgram.h"

namespace plumb::pt2 {

/// Replaces operators that write to their operand (`add_`, `copy_`, `index_put_`, batch normalisation in
/// training) by those that give a new value, which all later readers of the tensor then read: under its own
/// name, through its views, and through the tensor that it is a view of. So `x[:, 0] = 2` becomes `x' =
/// select_scatter(x, 2, 1, 0)`. What was written to inputs of the graph becomes outputs of the kinds that a
/// functional export has
/// (`BufferMutation` and so on). Linear in the graph, but for views that are read again after a write.
///
/// Reports a write through a view that has no inverse, with its Python line, and returns false then.
bool functionalize(ExportedProgram &program, Diagnostics &diagnostics);

} // namespace plumb::pt2

#endif // PLUMB_IMPORT_FUNCTIONALIZE_H
