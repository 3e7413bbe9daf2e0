//===- Ownership.cpp - What sharing a parameter costs -------------------------===//

#include "plumb/Transforms/Ownership.h"
#include "plumb/Transforms/Buffers.h"

using namespace mlir;
using namespace plumb;

SharingCosts plumb::getSharingCosts(int64_t bytes, int64_t ranks, bool isTrained, int64_t optimizerStates) {
  int64_t copies = ranks - 1, trained = isTrained ? 1 : 0;
  return {{trained * 2 * bytes * copies / ranks, copies * bytes * (1 + trained * (1 + optimizerStates))},
          {copies * bytes, copies * bytes * (1 + trained)}};
}

/// Tensors of the size of a parameter that the optimizer keeps for it.
static int64_t countOptimizerStates(ModuleOp module) {
  auto optimizer = findOp<OptimizerOp>(module);
  if (!optimizer)
    return 0;
  if (optimizer.getKind() == "sgd")
    return optimizer.getMomentum() && !optimizer.getMomentum()->isZero() ? 1 : 0;
  return 2;
}

SharingCosts plumb::getSharingCosts(ModuleOp module, ParameterOp parameter, int64_t ranks) {
  auto type = cast<RankedTensorType>(parameter.getType());
  if (LayoutAttr layout = parameter.getLayoutAttr())
    type = getLocalType(module, type, layout);
  return getSharingCosts(getByteSize(type), ranks, parameter.getTrainable(), countOptimizerStates(module));
}

int64_t plumb::getFirstStage(ModuleOp module, int64_t coordinate) {
  auto pipeline = findOp<PipelineOp>(module);
  int64_t stages =
      getPipelineSize(module) * static_cast<int64_t>(pipeline ? pipeline.getStagesPerRank().value_or(1) : 1);
  for (int64_t stage = 0; stage < stages; ++stage)
    if (getPipelineCoordinate(module, stage) == coordinate)
      return stage;
  llvm_unreachable("every coordinate has a stage");
}

StateOp plumb::findCopy(ModuleOp module, ParameterOp parameter) {
  for (StateOp state : module.getOps<StateOp>())
    if (state.getKind() == "copy" && state.getOf() == parameter.getSymName())
      return state;
  return {};
}
