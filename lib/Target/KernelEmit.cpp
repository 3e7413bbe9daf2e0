#include "plumb/Target/KernelEmit.h"

#include "plumb/Target/KernelBody.h"
#include "plumb/Target/KernelLoops.h"
#include "plumb/Target/KernelProduct.h"

#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/Linalg/Utils/Utils.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/ViewLikeInterface.h"

using namespace mlir;

namespace plumb::kernels {

/// The allocation, argument or constant that a view is of; null if control flow decides.
static Value rootOf(Value buffer) {
  while (auto view = buffer.getDefiningOp<ViewLikeOpInterface>())
    buffer = view.getViewSource();
  if (auto argument = dyn_cast<BlockArgument>(buffer))
    return isa<func::FuncOp>(argument.getOwner()->getParentOp()) ? buffer : Value();
  return isa<memref::AllocOp, memref::GetGlobalOp>(buffer.getDefiningOp()) ? buffer : Value();
}

/// The fill that sets the output of `op` to zero, with nothing in between that might touch it.
static linalg::FillOp findZeroFill(linalg::LinalgOp op) {
  Value output = op.getDpsInits()[0], root = rootOf(output);
  for (Operation *before = op->getPrevNode(); before; before = before->getPrevNode()) {
    if (isMemoryEffectFree(before) || isa<memref::AllocOp>(before))
      continue;
    auto fill = dyn_cast<linalg::FillOp>(before);
    if (!fill)
      return nullptr;
    Value value = fill.getInputs()[0];
    if (fill.getOutputs()[0] == output)
      return matchPattern(value, m_AnyZeroFloat()) || matchPattern(value, m_Zero()) ? fill : nullptr;
    Value other = rootOf(fill.getOutputs()[0]);
    if (!root || !other || other == root)
      return nullptr;
  }
  return nullptr;
}

/// Emits one op. A fill that it makes needless is left to the caller in `absorbed`.
static LogicalResult emitOp(linalg::LinalgOp op, const VectorTarget &target, Operation *&absorbed) {
  ImplicitLocOpBuilder b(op.getLoc(), op);
  FailureOr<LoopNest> nest = buildNest(b, op);
  if (failed(nest)) {
    op->emitRemark("has no vector form and runs as scalar loops");
    IRRewriter rewriter(b);
    if (failed(linalg::linalgOpToLoops(rewriter, op)))
      return op->emitError("cannot be lowered to loops");
    return success();
  }
  LoopNest *all[] = {&*nest};
  mergeLoops(all);
  if (auto product = matchProduct(*nest)) {
    if (linalg::FillOp fill = findZeroFill(op)) {
      product->overwrites = true;
      absorbed = fill;
    }
    emitProduct(b, *product, target);
  } else {
    emitLoops(b, *nest, target);
  }
  return success();
}

LogicalResult emitKernelLoops(func::FuncOp function, const VectorTarget &target) {
  SmallVector<memref::CopyOp> copies;
  function.walk([&](memref::CopyOp copy) { copies.push_back(copy); });
  for (memref::CopyOp copy : copies) {
    OpBuilder builder(copy);
    linalg::makeMemRefCopyOp(builder, copy.getLoc(), copy.getSource(), copy.getTarget());
    copy.erase();
  }
  // Last op first: a product takes the fill before it along.
  llvm::SetVector<Operation *> ops;
  function.walk([&](linalg::LinalgOp op) { ops.insert(op); });
  while (!ops.empty()) {
    Operation *op = ops.pop_back_val(), *absorbed = nullptr;
    if (failed(emitOp(cast<linalg::LinalgOp>(op), target, absorbed)))
      return failure();
    op->erase();
    if (absorbed) {
      ops.remove(absorbed);
      absorbed->erase();
    }
  }
  return success();
}

} // namespace plumb::kernels
