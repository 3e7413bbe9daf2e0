#include "plumb/Target/KernelNormalize.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Tensor/Transforms/Transforms.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

namespace plumb::kernels {

static void generalizeNamedOps(func::FuncOp function) {
  SmallVector<linalg::LinalgOp> named;
  function.walk([&](linalg::LinalgOp op) {
    if (!isa<linalg::GenericOp, linalg::FillOp>(op))
      named.push_back(op);
  });
  IRRewriter rewriter(function.getContext());
  for (linalg::LinalgOp op : named) {
    rewriter.setInsertionPoint(op);
    (void)linalg::generalizeNamedOp(rewriter, op);
  }
}

/// Whether the body only moves or converts elements.
static bool isTrivial(linalg::GenericOp op) {
  return llvm::all_of(op.getBody()->without_terminator(),
                      [](Operation &inner) { return isa<CastOpInterface>(inner); });
}

/// Whether every element of the operand is used at one point of the loops.
static bool usesEachOnce(OpOperand &operand) {
  auto consumer = cast<linalg::GenericOp>(operand.getOwner());
  return consumer.getMatchingIndexingMap(&operand).isPermutation();
}

/// Whether all users of the producer but `consumer` come after it, as they must when it yields what they use.
static bool othersComeLater(Operation *producer, Operation *consumer) {
  return llvm::all_of(producer->getUsers(), [&](Operation *user) {
    return user == consumer || (user->getBlock() == consumer->getBlock() && consumer->isBeforeInBlock(user));
  });
}

static bool shouldFuse(OpOperand *operand) {
  auto producer = operand->get().getDefiningOp<linalg::GenericOp>();
  auto consumer = dyn_cast<linalg::GenericOp>(operand->getOwner());
  if (!producer || !consumer || producer->getBlock() != consumer->getBlock())
    return false;
  if (!usesEachOnce(*operand))
    return isTrivial(producer) && producer->getNumOperands() == 2;
  return producer->hasOneUse() || isTrivial(producer) || othersComeLater(producer, consumer);
}

/// Contraction of products into sums is the one liberty that all arithmetic gets.
static void allowFusedMultiplyAdd(func::FuncOp function) {
  function.walk([](arith::ArithFastMathInterface op) {
    auto flags = op.getFastMathFlagsAttr() ? op.getFastMathFlagsAttr().getValue() : arith::FastMathFlags::none;
    op->setAttr(op.getFastMathAttrName(),
                arith::FastMathFlagsAttr::get(op->getContext(), flags | arith::FastMathFlags::contract));
  });
}

LogicalResult normalizeKernel(func::FuncOp function) {
  generalizeNamedOps(function);
  allowFusedMultiplyAdd(function);
  MLIRContext *context = function.getContext();
  RewritePatternSet patterns(context);
  linalg::populateDecomposePadPatterns(patterns);
  if (failed(applyPatternsGreedily(function, std::move(patterns))))
    return function.emitError("pads cannot be decomposed");
  RewritePatternSet fusion(context);
  linalg::populateElementwiseOpsFusionPatterns(fusion, shouldFuse);
  linalg::populateFoldReshapeOpsByExpansionPatterns(fusion, shouldFuse);
  linalg::GenericOp::getCanonicalizationPatterns(fusion, context);
  tensor::ExpandShapeOp::getCanonicalizationPatterns(fusion, context);
  tensor::CollapseShapeOp::getCanonicalizationPatterns(fusion, context);
  if (failed(applyPatternsGreedily(function, std::move(fusion))))
    return function.emitError("elementwise fusion does not end");
  return success();
}

} // namespace plumb::kernels
