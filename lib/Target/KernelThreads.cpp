#include "plumb/Target/KernelThreads.h"

#include "plumb/Target/KernelBody.h"
#include "plumb/Target/KernelPoint.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/Linalg/Utils/Utils.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

using namespace mlir;

namespace plumb::kernels {

/// A reduction shorter than this is walked over by one thread; of a longer one each thread takes no fewer
/// elements than kChunk, and as many threads as keep a device busy. A row of memory is read by a warp.
static constexpr int64_t kShortReduction = 512, kChunk = 64, kBusy = 65536, kWarp = 32;

/// A loop over threads; what is built next is its body.
static Value beginThreads(ImplicitLocOpBuilder &b, int64_t threads) {
  auto loop =
      scf::ForallOp::create(b, ArrayRef<OpFoldResult>{b.getIndexAttr(threads)}, ValueRange{}, std::nullopt);
  b.setInsertionPointToStart(loop.getBody());
  return loop.getInductionVar(0);
}

//===----------------------------------------------------------------------===//
// Structured ops
//===----------------------------------------------------------------------===//

/// Whether every point of the parallel loops has outputs of its own.
static bool hasIndependentPoints(linalg::LinalgOp op) {
  return llvm::all_of(op.getDpsInitsMutable(), [&](OpOperand &output) {
    AffineMap map = op.getMatchingIndexingMap(&output);
    SmallVector<unsigned> parallel;
    op.getParallelDims(parallel);
    return map.isProjectedPermutation() && map.getNumResults() == parallel.size() &&
           llvm::all_of(parallel, [&](unsigned loop) { return map.isFunctionOfDim(loop); });
  });
}

/// What folds a value into each output; empty if some output is not of this form.
static SmallVector<Operation *> combinersOf(linalg::LinalgOp op) {
  SmallVector<Operation *> combiners;
  for (OpOperand &output : op.getDpsInitsMutable()) {
    Operation *combiner =
        matchCombiner(op.getMatchingBlockArgument(&output), op.getMatchingYieldValue(&output)->get());
    if (!combiner)
      return {};
    combiners.push_back(combiner);
  }
  return combiners;
}

/// The op that folds partial results, the last dim of each, into the outputs of `op`.
static linalg::LinalgOp combine(ImplicitLocOpBuilder &b, linalg::LinalgOp op, ArrayRef<Operation *> combiners,
                                ValueRange partials) {
  SmallVector<unsigned> parallel;
  op.getParallelDims(parallel);
  unsigned loops = parallel.size() + 1;
  SmallVector<AffineMap> maps(partials.size(), b.getMultiDimIdentityMap(loops));
  for (OpOperand &output : op.getDpsInitsMutable()) {
    SmallVector<AffineExpr> results;
    for (AffineExpr result : op.getMatchingIndexingMap(&output).getResults())
      results.push_back(b.getAffineDimExpr(llvm::find(parallel, cast<AffineDimExpr>(result).getPosition()) -
                                           parallel.begin()));
    maps.push_back(AffineMap::get(loops, 0, results, b.getContext()));
  }
  SmallVector<utils::IteratorType> iterators(loops, utils::IteratorType::parallel);
  iterators.back() = utils::IteratorType::reduction;
  auto body = [&](OpBuilder &builder, Location loc, ValueRange values) {
    SmallVector<Value> results;
    for (auto [i, combiner] : llvm::enumerate(combiners)) {
      Operation *copy = builder.clone(*combiner);
      copy->setOperands({values[combiners.size() + i], values[i]});
      results.push_back(copy->getResult(0));
    }
    linalg::YieldOp::create(builder, loc, results);
  };
  return linalg::GenericOp::create(b, partials, op.getDpsInits(), maps, iterators, body);
}

/// Whether a thread that walks over the reduction loops runs along the memory of some input, its neighbours
/// being far away.
static bool readsRows(linalg::LinalgOp op) {
  SmallVector<unsigned> reduction;
  op.getReductionDims(reduction);
  return llvm::any_of(op.getDpsInputOperands(), [&](OpOperand *input) {
    AffineMap map = op.getMatchingIndexingMap(input);
    return map.getNumResults() != 0 && llvm::any_of(reduction, [&](unsigned loop) {
             return map.getResults().back().isFunctionOfDim(loop);
           });
  });
}

/// The threads for each point; a tile has all of its points to itself.
static int64_t partsOf(linalg::LinalgOp op, const PointEmitter &emitter) {
  if (emitter.turns() < kShortReduction || combinersOf(op).empty())
    return 1;
  int64_t wanted = llvm::divideCeil(kBusy, std::max<int64_t>(emitter.points(), 1));
  return std::min(emitter.turns() / kChunk, std::max(wanted, readsRows(op) ? kWarp : 1));
}

/// Gives the op its threads and erases it; `ops` gets what is still to be spread.
static void spread(linalg::LinalgOp op, SmallVectorImpl<linalg::LinalgOp> &ops) {
  ImplicitLocOpBuilder b(op.getLoc(), op);
  PointEmitter emitter(b, op);
  std::optional<Tile> tile = chooseTile(op);
  int64_t points = emitter.points(), parts = tile ? 1 : partsOf(op, emitter);
  if (parts == 1) {
    if (tile)
      emitter.emitTile(beginThreads(b, tile->threads), *tile);
    else
      emitter.emit(beginThreads(b, points));
    op.erase();
    return;
  }
  SmallVector<Operation *> combiners = combinersOf(op);
  SmallVector<int64_t> shape = emitter.parallelSizes();
  shape.push_back(parts);
  SmallVector<Value> partials;
  for (Operation *combiner : combiners)
    partials.push_back(memref::AllocOp::create(b, MemRefType::get(shape, combiner->getResult(0).getType())));
  ops.push_back(combine(b, op, combiners, partials));
  b.setInsertionPoint(ops.back());
  Value thread = beginThreads(b, points * parts), size = arith::ConstantIndexOp::create(b, parts);
  Value point = arith::DivUIOp::create(b, thread, size), part = arith::RemUIOp::create(b, thread, size);
  emitter.emitPart(point, part, parts, combiners, partials);
  op.erase();
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

namespace {
/// How an operand reaches into the buffer behind it.
struct View {
  Value root;
  /// The dims of the root that a point of the view has its own place in; the others have one place.
  SmallVector<bool> spread;
};
} // namespace

/// Whether a buffer is no view of another.
static bool isRoot(Value buffer) {
  return isa<BlockArgument>(buffer) || isa<memref::AllocOp, memref::GetGlobalOp>(buffer.getDefiningOp());
}

/// The view, if each point of it lies in dims of the root at its own indices.
static std::optional<View> viewOf(Value buffer) {
  auto subview = buffer.getDefiningOp<memref::SubViewOp>();
  View view{subview ? subview.getSource() : buffer, {}};
  if (!isRoot(view.root))
    return std::nullopt;
  auto whole = cast<MemRefType>(view.root.getType()).getShape();
  if (!subview) {
    for (int64_t size : whole)
      view.spread.push_back(size != 1);
    return view;
  }
  if (!subview.hasUnitStride() || subview.getType().getRank() != subview.getSourceType().getRank())
    return std::nullopt;
  for (auto [size, all, offset] :
       llvm::zip_equal(subview.getStaticSizes(), whole, subview.getStaticOffsets())) {
    if (size != 1 && (size != all || offset != 0))
      return std::nullopt;
    view.spread.push_back(size != 1);
  }
  return view;
}

/// The structured ops of a loop that may be spread over threads of its turns: every op runs over the same
/// points, and a point reads of what the loop writes only what the same point has written, in any turn.
/// Empty if the loop is of another form.
static SmallVector<linalg::LinalgOp> independentOps(scf::ForOp loop) {
  SmallVector<linalg::LinalgOp> ops;
  DenseMap<Value, SmallVector<bool>> written;
  if (loop.getNumResults() != 0)
    return {};
  for (Operation &inner : loop.getBody()->without_terminator()) {
    auto op = dyn_cast<linalg::LinalgOp>(inner);
    if (!op && !isMemoryEffectFree(&inner) && !isa<memref::LoadOp, memref::AllocOp>(inner))
      return {};
    if (!op)
      continue;
    if (op.getNumReductionLoops() != 0 || !hasIndependentPoints(op) ||
        (!ops.empty() && op.getStaticLoopRanges() != ops.front().getStaticLoopRanges()))
      return {};
    ops.push_back(op);
    for (Value output : op.getDpsInits()) {
      std::optional<View> view = viewOf(output);
      if (!view || written.insert({view->root, view->spread}).first->second != view->spread)
        return {};
    }
  }
  // Whatever else reaches a buffer that is written must reach it in the same way.
  auto isApart = [&](Value buffer) {
    while (auto subview = buffer.getDefiningOp<memref::SubViewOp>())
      buffer = subview.getSource();
    return isRoot(buffer) && !written.contains(buffer);
  };
  WalkResult loads = loop.walk([&](memref::LoadOp load) {
    return isApart(load.getMemRef()) ? WalkResult::advance() : WalkResult::interrupt();
  });
  if (loads.wasInterrupted())
    return {};
  for (linalg::LinalgOp op : ops)
    for (OpOperand &operand : op->getOpOperands()) {
      if (!isa<MemRefType>(operand.get().getType()) || isApart(operand.get()))
        continue;
      std::optional<View> view = viewOf(operand.get());
      if (!view || !written.contains(view->root) || written[view->root] != view->spread ||
          !op.getMatchingIndexingMap(&operand).isIdentity())
        return {};
    }
  return ops;
}

/// Lowers the structured ops inside of `op` for a single thread.
static LogicalResult lowerToScalarLoops(Operation *op) {
  SmallVector<linalg::LinalgOp> structured;
  op->walk([&](linalg::LinalgOp inner) { structured.push_back(inner); });
  IRRewriter rewriter(op->getContext());
  for (linalg::LinalgOp inner : structured) {
    rewriter.setInsertionPoint(inner);
    if (failed(linalg::linalgOpToLoops(rewriter, inner)))
      return inner->emitError("cannot be lowered to loops");
    rewriter.eraseOp(inner);
  }
  return success();
}

/// Gives a loop, or anything else that is no structured op of independent points, its threads.
static LogicalResult spreadOther(Operation *op) {
  auto loop = dyn_cast<scf::ForOp>(op);
  SmallVector<linalg::LinalgOp> ops;
  if (loop)
    ops = independentOps(loop);
  ImplicitLocOpBuilder b(op->getLoc(), op);
  Value thread =
      beginThreads(b, ops.empty() ? 1 : ShapedType::getNumElements(ops.front().getStaticLoopRanges()));
  op->moveBefore(b.getInsertionBlock(), b.getInsertionPoint());
  if (ops.empty())
    return lowerToScalarLoops(thread.getParentBlock()->getParentOp());
  for (linalg::LinalgOp inner : ops) {
    b.setInsertionPoint(inner);
    PointEmitter(b, inner).emit(thread);
    inner.erase();
  }
  return success();
}

LogicalResult spreadOverThreads(func::FuncOp kernel) {
  SmallVector<memref::CopyOp> copies;
  kernel.walk([&](memref::CopyOp copy) { copies.push_back(copy); });
  for (memref::CopyOp copy : copies) {
    OpBuilder builder(copy);
    linalg::makeMemRefCopyOp(builder, copy.getLoc(), copy.getSource(), copy.getTarget());
    copy.erase();
  }
  SmallVector<linalg::LinalgOp> ops;
  for (Operation &op : llvm::make_early_inc_range(kernel.getBody().front().without_terminator())) {
    auto structured = dyn_cast<linalg::LinalgOp>(op);
    if (structured && hasIndependentPoints(structured))
      ops.push_back(structured);
    else if (isa<linalg::LinalgOp, scf::ForOp, memref::StoreOp>(op) && failed(spreadOther(&op)))
      return failure();
  }
  while (!ops.empty())
    spread(ops.pop_back_val(), ops);
  return success();
}

} // namespace plumb::kernels
