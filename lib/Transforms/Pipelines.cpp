//===- Pipelines.cpp - The one way through ----------------------------------===//

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "plumb/Transforms/Passes.h"

using namespace mlir;

void plumb::buildCompilePipeline(OpPassManager &manager) {
  manager.addPass(createApplySpec());
  manager.addPass(createSplitStages());
  manager.addPass(createAssignOwnership());
  manager.addPass(createBuildBackward());
  manager.addPass(createBuildStep());
  manager.addPass(createPropagateLayouts());
  manager.addPass(createPlanBoundaries());
  manager.addPass(createPartition());
  manager.addPass(createLowerRedistributions());
}

void plumb::registerPipelines() {
  PassPipelineRegistration<>("plumb-compile", "The whole chain from imported model to verified plan",
                             buildCompilePipeline);
}
