//===- ModelUnits.h - The pieces of a model that a policy does not cut -*- C++ -*-===//
//
// The modules of a model are a tree. A *layer* is a module with a number for a name that lies in no other
// such module (`h.3`, `model.layers.7`); modules that contain layers are no units, their other descendants
// are (`model.embed_tokens`, `ln_f`). What runs outside of all units, such as the sum of two embeddings or
// the loss, belongs to the unit before it, or to the first one.
//
//===----------------------------------------------------------------------===//

#ifndef PLUMB_LIB_TRANSFORMS_MODELUNITS_H
#define PLUMB_LIB_TRANSFORMS_MODELUNITS_H

#include "mlir/IR/BuiltinOps.h"
#include "plumb/Dialect/NN/NN.h"
#include "plumb/Dialect/Plumb/Plumb.h"

namespace plumb {

struct ModelUnit {
  llvm::StringRef module; ///< With the number of the call if it is not the first: `block@1`.
  bool isLayer = false;
  llvm::SmallVector<nn::TensorOpInterface> ops; ///< In program order, not empty.
};

/// The units in the order in which they run; a module that runs in several places is several of them. If that
/// makes fewer than `atLeast`, units are divided into their children, level by level, until there are enough
/// or nothing is left to divide. What makes no stage by itself is no unit of its own.
llvm::SmallVector<ModelUnit, 0> findModelUnits(mlir::ModuleOp module, ProgramOp program, size_t atLeast = 0);

} // namespace plumb

#endif // PLUMB_LIB_TRANSFORMS_MODELUNITS_H
