//===- ApplySpec.cpp - Resolves the plan spec against the model ------------===//

#include "ApplySpec.h"
#include "plumb/Dialect/CCL/CCL.h"
#include "plumb/Dialect/NN/NN.h"
#include "plumb/Support/Suggest.h"
#include "plumb/Transforms/Passes.h"
#include "plumb/Transforms/Utils.h"

using namespace mlir;

namespace plumb {
#define GEN_PASS_DEF_APPLYSPEC
#include "plumb/Transforms/Passes.h.inc"
} // namespace plumb

using namespace plumb;

//===----------------------------------------------------------------------===//
// Placements
//===----------------------------------------------------------------------===//

FailureOr<Placement> plumb::parsePlacement(Operation *op, StringRef text) {
  StringRef rest = text.trim();
  if (rest == "replicate")
    return Placement();
  Placement placement;
  int64_t dim;
  if (rest.consume_front("shard(") && !rest.consumeInteger(10, dim)) {
    placement.shardDim = dim;
    rest = rest.ltrim();
    if (rest.consume_front(",")) {
      rest = rest.ltrim();
      if (!rest.consume_front("blocks=") || rest.consumeInteger(10, placement.blocks))
        rest = "?";
    }
    if (rest.trim() == ")" && placement.blocks >= 1)
      return placement;
  }
  return emitError(op->getLoc()) << "\"" << text
                                 << "\" is no placement of a tensor that is stored; expected \"replicate\", "
                                    "\"shard(N)\" or \"shard(N, blocks=B)\"";
}

LayoutAttr plumb::shardDim(ModuleOp module, LayoutAttr layout, int64_t dim, StringRef axis, int64_t blocks) {
  auto ref = AxisRefAttr::get(StringAttr::get(module.getContext(), axis));
  if (getAxisSize(module, ref) == 1)
    return layout;
  SmallVector<DimShardingAttr> dims(layout.getDims());
  SmallVector<AxisRefAttr> axes(dims[dim].getAxes());
  axes.push_back(ref);
  dims[dim] = DimShardingAttr::get(module.getContext(), axes, blocks);
  return LayoutAttr::get(module.getContext(), layout.getMesh(), dims, layout.getPartial());
}

//===----------------------------------------------------------------------===//
// Split rules
//===----------------------------------------------------------------------===//

/// Whether only loads and inputs, which belong to no place, stand between `op` and a marker in front of it.
static bool followsMarker(Operation *op) {
  for (Operation *before = op->getPrevNode(); before; before = before->getPrevNode()) {
    if (isa<PipeSplitOp>(before))
      return true;
    if (!isa<LoadOp, InputOp>(before))
      return false;
  }
  return false;
}

static LogicalResult applySplitRules(ModuleOp module, ProgramOp program) {
  for (SplitRuleOp rule : llvm::make_early_inc_range(module.getOps<SplitRuleOp>())) {
    Operation *first = nullptr, *last = nullptr;
    for (Operation &op : *program.getBody().begin()) {
      auto path = op.getAttrOfType<StringAttr>(kModuleAttr);
      if (!path || !isInModule(path, rule.getMatch()))
        continue;
      first = first ? first : &op;
      last = &op;
    }
    if (!first) {
      std::vector<std::string> names;
      for (ModuleNameOp known : module.getOps<ModuleNameOp>())
        names.push_back(known.getSymName().str());
      return emitError(rule.getLoc())
             << "split point \"" << rule.getMatch() << "\" matches no module that computes"
             << didYouMean(rule.getMatch().str(), names);
    }
    // A split that repeats a marker of the graph is the same marker.
    Operation *successor = rule.getEnd() ? last->getNextNode() : first;
    if (!successor || !followsMarker(successor)) {
      OpBuilder builder(module.getContext());
      rule.getEnd() ? builder.setInsertionPointAfter(last) : builder.setInsertionPoint(first);
      auto marker = PipeSplitOp::create(builder, rule.getLoc());
      marker->setAttr(kModuleAttr, rule.getMatchAttr());
    }
    rule.erase();
  }
  return success();
}

namespace {

struct ApplySpecPass : plumb::impl::ApplySpecBase<ApplySpecPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto program = findOp<ProgramOp>(module);
    auto mesh = findOp<MeshOp>(module);
    if (!program || !mesh) {
      emitError(module.getLoc()) << "apply-spec needs a 'plumb.program' and a 'plumb.mesh'";
      return signalPassFailure();
    }
    if (!findOp<PipelineOp>(module)) {
      OpBuilder builder(module.getContext());
      builder.setInsertionPointAfter(mesh);
      PipelineOp::create(builder, mesh.getLoc(), "pp", "gpipe", 1, IntegerAttr(), StringAttr());
    }
    if (failed(applySplitRules(module, program)) || failed(applyInputRules(module, program)) ||
        failed(applyLayoutRules(module, program)) || failed(applyLossRule(module, program)))
      signalPassFailure();
  }
};

} // namespace
