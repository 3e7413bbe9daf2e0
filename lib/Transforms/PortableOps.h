//===- PortableOps.h - What is not bound to a stage -------------*- C++ -*-===//

#ifndef PLUMB_LIB_TRANSFORMS_PORTABLEOPS_H
#define PLUMB_LIB_TRANSFORMS_PORTABLEOPS_H

#include "mlir/IR/Block.h"
#include "llvm/ADT/DenseSet.h"

namespace plumb {

/// Inputs, loads, and what is computed from loads and constants alone: a stage that reads such a value has
/// its own, so that it is never sent, and it makes no stage.
llvm::DenseSet<mlir::Operation *> findPortableOps(mlir::Block &body);

} // namespace plumb

#endif // PLUMB_LIB_TRANSFORMS_PORTABLEOPS_H
