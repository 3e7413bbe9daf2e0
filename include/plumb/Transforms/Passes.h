//===- Passes.h - The passes of Plumb, in the order they run ----*- C++ -*-===//
#ifndef PLUMB_TRANSFORMS_PASSES_H
#define PLUMB_TRANSFORMS_PASSES_H

#include "mlir/Pass/Pass.h"
#include <memory>

namespace mlir {
class OpPassManager;
} // namespace mlir

namespace plumb {

#define GEN_PASS_DECL
#include "plumb/Transforms/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "plumb/Transforms/Passes.h.inc"

/// The whole chain from imported model and plan to a verified plan, in the order of Passes.td.
void buildCompilePipeline(mlir::OpPassManager &manager);

/// Makes the chain available as the pass pipeline `plumb-compile`.
void registerPipelines();

} // namespace plumb

#endif // PLUMB_TRANSFORMS_PASSES_H
