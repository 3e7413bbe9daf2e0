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

/// Fuses the producer of an operand into its consumer, the op that is returned. What else uses the producer
/// then uses the fused op, if it comes later; else the producer stays, and must be trivial.
static linalg::GenericOp fuse(RewriterBase &rewriter, OpOperand &operand) {
  auto producer = operand.get().getDefiningOp<linalg::GenericOp>();
  auto consumer = cast<linalg::GenericOp>(operand.getOwner());
  if (!producer || producer->getBlock() != consumer->getBlock() ||
      !linalg::areElementwiseOpsFusable(&operand))
    return nullptr;
  bool trivial = isTrivial(producer) && producer->getNumOperands() == 2;
  bool shares = usesEachOnce(operand) && othersComeLater(producer, consumer);
  if (!trivial && !shares)
    return nullptr;
  rewriter.setInsertionPoint(consumer);
  FailureOr<linalg::ElementwiseOpFusionResult> fused = linalg::fuseElementwiseOps(rewriter, &operand);
  if (failed(fused))
    return nullptr;
  for (linalg::GenericOp replaced : {consumer, producer})
    if (replaced == consumer || shares)
      for (Value result : replaced->getResults())
        if (Value replacement = fused->replacements.lookup(result))
          rewriter.replaceUsesWithIf(result, replacement, [&](OpOperand &use) {
            // The fused op may still read the producer through another operand.
            return use.getOwner() != consumer && use.getOwner() != fused->fusedOp;
          });
  rewriter.eraseOp(consumer);
  if (producer->use_empty())
    rewriter.eraseOp(producer);
  return cast<linalg::GenericOp>(fused->fusedOp);
}

/// Fuses as long as possible, from the first consumer to the last. Every step takes an op or a use away.
static void fuseElementwiseOps(func::FuncOp function) {
  IRRewriter rewriter(function.getContext());
  SmallVector<linalg::GenericOp> consumers;
  function.walk([&](linalg::GenericOp op) { consumers.push_back(op); });
  for (linalg::GenericOp consumer : consumers) {
    for (unsigned i = 0; i < consumer.getNumDpsInputs();) {
      linalg::GenericOp fused = fuse(rewriter, consumer->getOpOperand(i));
      consumer = fused ? fused : consumer;
      i = fused ? 0 : i + 1;
    }
  }
}

/// The liberties that arithmetic gets: within a reduction a product may be contracted into a sum, and the
/// larger of two zeros of different sign is either (which saves half of the instructions of a maximum that
/// respects NaN). What an elementwise op gives must not depend on what it is fused with: its products are
/// not contracted, and rounding to a narrow type stays.
static void relaxArithmetic(func::FuncOp function) {
  function.walk([](arith::ArithFastMathInterface op) {
    bool isExtremum = isa<arith::MaximumFOp, arith::MinimumFOp>(op.getOperation());
    auto nest = op->getParentOfType<linalg::LinalgOp>();
    bool isReduction = nest && nest.getNumReductionLoops() > 0;
    if (isa<arith::ExtFOp, arith::TruncFOp>(op.getOperation()) || !(isExtremum || isReduction))
      return;
    auto flags =
        op.getFastMathFlagsAttr() ? op.getFastMathFlagsAttr().getValue() : arith::FastMathFlags::none;
    flags = flags | (isExtremum ? arith::FastMathFlags::nsz : arith::FastMathFlags::contract);
    op->setAttr(op.getFastMathAttrName(), arith::FastMathFlagsAttr::get(op->getContext(), flags));
  });
}

/// Lets an elementwise op write over an input that nobody reads after it, so that a chain of ops needs one
/// buffer. The output of a product is left alone: it is to exist as tiles only.
static void reuseInputs(func::FuncOp function) {
  function.walk([](linalg::GenericOp op) {
    for (OpOperand &init : op.getDpsInitsMutable()) {
      AffineMap map = op.getMatchingIndexingMap(&init);
      if (!init.get().getDefiningOp<tensor::EmptyOp>() || !map.isPermutation())
        continue;
      for (OpOperand *input : op.getDpsInputOperands()) {
        auto producer = input->get().getDefiningOp<linalg::GenericOp>();
        if (producer && producer->getBlock() == op->getBlock() && input->get().hasOneUse() &&
            input->get().getType() == init.get().getType() && op.getMatchingIndexingMap(input) == map &&
            !linalg::isaContractionOpInterface(cast<linalg::LinalgOp>(producer.getOperation()))) {
          init.set(input->get());
          break;
        }
      }
    }
  });
}

LogicalResult normalizeKernel(func::FuncOp function) {
  generalizeNamedOps(function);
  relaxArithmetic(function);
  MLIRContext *context = function.getContext();
  RewritePatternSet patterns(context);
  linalg::populateDecomposePadPatterns(patterns);
  tensor::populateDecomposeTensorConcatPatterns(patterns);
  if (failed(applyPatternsGreedily(function, std::move(patterns))))
    return function.emitError("pads and concatenations cannot be decomposed");
  RewritePatternSet fusion(context);
  // Constants are folded into bodies here, and outputs that are not read become empty.
  linalg::populateElementwiseOpsFusionPatterns(fusion, [](OpOperand *) { return false; });
  linalg::populateFoldReshapeOpsByExpansionPatterns(fusion, [](OpOperand *) { return true; });
  linalg::GenericOp::getCanonicalizationPatterns(fusion, context);
  tensor::ExpandShapeOp::getCanonicalizationPatterns(fusion, context);
  tensor::CollapseShapeOp::getCanonicalizationPatterns(fusion, context);
  if (failed(applyPatternsGreedily(function, std::move(fusion))))
    return function.emitError("reshapes cannot be folded");
  fuseElementwiseOps(function);
  RewritePatternSet cleanup(context);
  linalg::GenericOp::getCanonicalizationPatterns(cleanup, context);
  linalg::populateEraseUnusedOperandsAndResultsPatterns(cleanup);
  (void)applyPatternsGreedily(function, std::move(cleanup));
  reuseInputs(function);
  return success();
}

} // namespace plumb::kernels
