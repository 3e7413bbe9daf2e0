//===- AssignOwnership.cpp - One owner per parameter, replicas where needed ===//

#include "plumb/Dialect/CCL/CCL.h"
#include "plumb/Dialect/NN/NN.h"
#include "plumb/Transforms/Passes.h"
#include "plumb/Transforms/Utils.h"
#include <set>

using namespace mlir;

namespace plumb {
#define GEN_PASS_DEF_ASSIGNOWNERSHIP
#include "plumb/Transforms/Passes.h.inc"
} // namespace plumb

using namespace plumb;

namespace {

struct AssignOwnershipPass : plumb::impl::AssignOwnershipBase<AssignOwnershipPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto program = findOp<ProgramOp>(module);
    if (!program)
      return;
    llvm::StringMap<std::set<int64_t>> readers;
    for (LoadOp load : program.getBody().getOps<LoadOp>())
      readers[load.getSymbol()].insert(getStage(load));

    Builder builder(module.getContext());
    for (ParameterOp parameter : module.getOps<ParameterOp>()) {
      auto found = readers.find(parameter.getSymName());
      if (found == readers.end())
        continue;
      SmallVector<int64_t> holders;
      std::set<int64_t> coordinates;
      for (int64_t stage : found->second)
        if (coordinates.insert(getPipelineCoordinate(module, stage)).second)
          holders.push_back(stage);
      parameter.setOwner(holders.front());
      parameter.setHolders(holders);
    }
  }
};

} // namespace
