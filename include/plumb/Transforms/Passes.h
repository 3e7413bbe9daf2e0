//===- Passes.h - The passes of Plumb, in the order they run ----*- C++ -*-===//
#ifndef PLUMB_TRANSFORMS_PASSES_H
#define PLUMB_TRANSFORMS_PASSES_H

#include "mlir/Pass/Pass.h"
#include "plumb/Target/Kernels.h"
#include <memory>
#include <string>

namespace mlir {
class OpPassManager;
} // namespace mlir

namespace plumb {

#define GEN_PASS_DECL
#include "plumb/Transforms/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "plumb/Transforms/Passes.h.inc"

struct CompilePipelineOptions {
  KernelTarget target = KernelTarget::Host;
  /// The processor of the kernels: native, or a name that LLVM knows.
  std::string cpu = "native";
  /// For devices, the GPU.
  std::string gpu = "sm_90";
  /// Whether kernels are compiled to objects; without, memory for their scratch is not planned.
  bool kernels = true;
};

/// The whole chain from imported model and plan to a verified plan, in the order of Passes.td.
void buildCompilePipeline(mlir::OpPassManager &manager, const CompilePipelineOptions &options = {});

/// Makes the chain available as the pass pipeline `plumb-compile`.
void registerPipelines();

} // namespace plumb

#endif // PLUMB_TRANSFORMS_PASSES_H
