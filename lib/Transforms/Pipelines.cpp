//===- Pipelines.cpp - The one way through ----------------------------------===//

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"
#include "plumb/Transforms/Passes.h"

using namespace mlir;

void plumb::buildCompilePipeline(OpPassManager &manager, const CompilePipelineOptions &options) {
  manager.addPass(createApplySpec());
  manager.addPass(createBoundInputs());
  manager.addPass(createSplitStages());
  manager.addPass(createSetPrecision());
  manager.addPass(createAssignOwnership());
  manager.addPass(createBuildBackward());
  // Two gradients of one op often begin with the same product.
  manager.addPass(createCSEPass());
  manager.addPass(createRecompute());
  manager.addPass(createBuildStep());
  manager.addPass(createPropagateLayouts());
  manager.addPass(createPlanBoundaries());
  manager.addPass(createPartition());
  manager.addPass(createLowerRedistributions());
  manager.addPass(createBucketCollectives());
  manager.addPass(createPrefetchGathers());
  manager.addPass(createFormKernels());
  if (options.kernels)
    manager.addPass(createCompileKernels({options.target, options.cpu, options.gpu, /*cache=*/""}));
  manager.addPass(createSchedule());
  manager.addPass(createAssignStreams());
  manager.addPass(createPlanMemory());
  manager.addPass(createVerifyPlan());
}

void plumb::registerPipelines() {
  PassPipelineRegistration<>("plumb-compile", "The whole chain from imported model to verified plan",
                             [](OpPassManager &manager) { buildCompilePipeline(manager); });
}
