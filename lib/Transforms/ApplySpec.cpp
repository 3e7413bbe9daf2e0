//===- ApplySpec.cpp - Resolves the plan spec against the model ------------===//

#include "ApplySpec.h"
#include "plumb/Dialect/CCL/CCL.h"
#include "plumb/Dialect/NN/NN.h"
#include "plumb/Support/Bounds.h"
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

/// Reads `3` or `[64, 32, 32]` from the front of a text.
static LogicalResult consumeBlocks(StringRef &text, SmallVector<int64_t> &blocks) {
  int64_t number;
  if (!text.consume_front("[")) {
    if (text.consumeInteger(10, number) || number < 1)
      return failure();
    blocks = equalBlocks(number);
    return success();
  }
  SmallVector<int64_t> sizes;
  do {
    text = text.ltrim();
    if (text.consumeInteger(10, number) || number < 1)
      return failure();
    sizes.push_back(number);
    text = text.ltrim();
  } while (text.consume_front(","));
  blocks = blocksOfSizes(sizes);
  return success(text.consume_front("]"));
}

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
      if (!rest.consume_front("blocks=") || failed(consumeBlocks(rest, placement.blocks)))
        rest = "?";
    }
    if (rest.trim() == ")")
      return placement;
  }
  return emitError(op->getLoc()) << "\"" << text
                                 << "\" is no placement of a tensor that is stored; expected \"replicate\", "
                                    "\"shard(N)\", \"shard(N, blocks=B)\" or \"shard(N, blocks=[B, C])\"";
}

LayoutAttr plumb::shardDim(ModuleOp module, LayoutAttr layout, int64_t dim, StringRef axis,
                           ArrayRef<int64_t> blocks) {
  auto ref = AxisRefAttr::get(StringAttr::get(module.getContext(), axis));
  if (getAxisSize(module, ref) == 1)
    return layout;
  SmallVector<DimShardingAttr> dims(layout.getDims());
  SmallVector<AxisRefAttr> axes(dims[dim].getAxes());
  axes.push_back(ref);
  dims[dim] = DimShardingAttr::get(module.getContext(), axes, blocks);
  return LayoutAttr::get(module.getContext(), layout.getMesh(), dims, layout.getPartial());
}

std::string plumb::describeTooLarge(Operation *op) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  for (Value result : op->getResults())
    if (auto type = dyn_cast<RankedTensorType>(result.getType())) {
      double bytes = type.getElementTypeBitWidth() / 8.0;
      for (int64_t size : type.getShape())
        bytes *= static_cast<double>(size);
      if (bytes > bounds::kBytes.most && text.empty())
        stream << "makes a value of type '" << type << "', more than 2^50 bytes";
    }
  return text;
}

namespace {

/// Sizes can be counted, and multiplied by those of the mesh, from here on.
LogicalResult checkSizes(ModuleOp module, ProgramOp program) {
  for (Operation &op : *program.getBody().begin())
    if (std::string fault = describeTooLarge(&op); !fault.empty())
      return emitModelError(&op) << fault;
  return success();
}

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
    // What follows reads the parameters and sizes that these leave.
    for (auto apply : {applyAliasRules, checkSizes, applyBatchRule, addLossTarget})
      if (failed(apply(module, program)))
        return signalPassFailure();
    // What one kind of rule gets wrong does not hide what another does.
    bool isFine = succeeded(applyInputRules(module, program));
    if (isFine)
      for (auto apply : {applyBatchNormRule, applySeedRule})
        isFine &= succeeded(apply(module, program));
    for (auto apply :
         {applySplitRules, applyLayoutRules, applyStorageRules, applyLossRule, applyRecomputeRules})
      isFine &= succeeded(apply(module, program));
    if (!isFine || failed(applyAttentionRule(module, program)))
      signalPassFailure();
  }
};

} // namespace
