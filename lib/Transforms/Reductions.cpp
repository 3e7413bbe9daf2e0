//===- Reductions.cpp - When the sums of a step are completed -----------------===//

#include "plumb/Transforms/Reductions.h"
#include "plumb/Dialect/CCL/CCL.h"
#include "llvm/ADT/StringSet.h"
#include <map>

using namespace mlir;
using namespace plumb;

namespace {

/// What the part `reduce` of a stage does, as far as its place is concerned.
struct StageSums {
  llvm::StringSet<> loaded;
  bool exists = false, spansPipeline = false;
};

} // namespace

/// Whether ranks with other programs take part.
static bool spansPipeline(Operation &op, ModuleOp module) {
  auto symbol = op.getAttrOfType<FlatSymbolRefAttr>("communicator");
  auto communicator = symbol ? module.lookupSymbol<ccl::CommunicatorOp>(symbol) : ccl::CommunicatorOp();
  return communicator && !communicator.getPipeline().empty();
}

SmallVector<Reduction> plumb::getReductions(const Pipeline &pipeline, int64_t coordinate,
                                            ArrayRef<schedule::Action> actions) {
  std::map<std::pair<int64_t, Part>, SmallVector<StringRef>> stored; // by stage and part
  std::map<int64_t, StageSums> sums;                                 // by stage
  SmallVector<int64_t> stages = pipeline.stagesOf(coordinate);
  for (int64_t stage : stages)
    for (Operation &op : StageOp(pipeline.stages[stage]).getBody().front()) {
      if (auto store = dyn_cast<StoreOp>(op))
        stored[{stage, getPart(store)}].push_back(store.getSymbol());
      if (getPart(&op).kind != PartKind::Reduce)
        continue;
      sums[stage].exists = true;
      sums[stage].spansPipeline |= spansPipeline(op, pipeline.module);
      if (auto load = dyn_cast<LoadOp>(op))
        sums[stage].loaded.insert(load.getSymbol());
    }
  std::map<std::pair<int64_t, Part>, size_t> last; // the actions up to the last that runs a part
  for (auto [index, action] : llvm::enumerate(actions))
    for (const Step &step : getSteps(pipeline, action))
      last[{step.stage, step.part}] = index + 1;
  SmallVector<Reduction> reductions;
  for (int64_t stage : stages) {
    const StageSums &own = sums[stage];
    if (!own.exists)
      continue;
    Reduction reduction{stage, 0};
    for (const auto &[part, symbols] : stored)
      if (llvm::any_of(symbols, [&](StringRef symbol) { return own.loaded.contains(symbol); }))
        reduction.after = std::max(reduction.after, last[part]);
    // What another stage of the rank has completed before.
    for (const Reduction &other : reductions)
      if (llvm::any_of(stored[{other.stage, {PartKind::Reduce}}],
                       [&](StringRef symbol) { return own.loaded.contains(symbol); }))
        reduction.after = std::max(reduction.after, other.after);
    if (own.spansPipeline)
      reduction.after = actions.size();
    auto *place = std::ranges::upper_bound(reductions, reduction.after, {}, &Reduction::after);
    reductions.insert(place, reduction);
  }
  return reductions;
}
