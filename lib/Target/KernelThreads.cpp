#include "plumb/Target/KernelThreads.h"

#include "plumb/Target/KernelBody.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/Linalg/Utils/Utils.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

using namespace mlir;

namespace plumb::kernels {

/// A reduction shorter than this is walked over by one thread; of a longer one each thread takes no fewer
/// elements than kChunk, and as many threads as keep a device busy.
static constexpr int64_t kShortReduction = 512, kChunk = 64, kBusy = 65536;

static Value constant(ImplicitLocOpBuilder &b, int64_t value) {
  return arith::ConstantIndexOp::create(b, value);
}

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

namespace {
/// The scalar code of one structured op.
class PointEmitter {
public:
  PointEmitter(ImplicitLocOpBuilder &b, linalg::LinalgOp op);

  int64_t points() const { return numberOf(parallel); }
  int64_t turns() const { return numberOf(reduction); }
  SmallVector<int64_t> parallelSizes() const { return sizesOf(parallel); }

  /// Computes the point with this number.
  void emit(Value point);
  /// Computes every `parts`-th turn of the reduction, from `part` on, and stores what the outputs get of it
  /// at the point and the part of `partials`.
  void emitPart(Value point, Value part, int64_t parts, ArrayRef<Operation *> combiners, ValueRange partials);

private:
  int64_t numberOf(ArrayRef<unsigned> loops) const { return ShapedType::getNumElements(sizesOf(loops)); }
  SmallVector<int64_t> sizesOf(ArrayRef<unsigned> loops) const {
    return llvm::map_to_vector(loops, [&](unsigned loop) { return sizes[loop]; });
  }
  void setIndices(ArrayRef<unsigned> loops, Value number);
  SmallVector<Value> subscripts(OpOperand &operand);
  SmallVector<Value> evaluate(ValueRange outputs);
  SmallVector<Value> reduce(ArrayRef<unsigned> loops, ValueRange outputs);

  ImplicitLocOpBuilder &b;
  linalg::LinalgOp op;
  SmallVector<int64_t> sizes;
  SmallVector<unsigned> parallel, reduction;
  SmallVector<Value> indices;
};
} // namespace

PointEmitter::PointEmitter(ImplicitLocOpBuilder &b, linalg::LinalgOp op)
    : b(b), op(op), sizes(op.getStaticLoopRanges()), indices(sizes.size()) {
  op.getParallelDims(parallel);
  op.getReductionDims(reduction);
}

/// The indices of some loops at the turn with this number, the last loop running fastest.
void PointEmitter::setIndices(ArrayRef<unsigned> loops, Value number) {
  for (unsigned loop : llvm::reverse(loops)) {
    Value size = constant(b, sizes[loop]);
    indices[loop] = loop == loops.front() ? number : arith::RemUIOp::create(b, number, size);
    number = arith::DivUIOp::create(b, number, size);
  }
}

SmallVector<Value> PointEmitter::subscripts(OpOperand &operand) {
  AffineMap map = op.getMatchingIndexingMap(&operand);
  SmallVector<Value> result;
  for (AffineExpr expr : map.getResults())
    result.push_back(affine::AffineApplyOp::create(b, AffineMap::get(map.getNumDims(), 0, expr), indices));
  return result;
}

/// The body at the current indices.
SmallVector<Value> PointEmitter::evaluate(ValueRange outputs) {
  IRMapping values;
  for (OpOperand *input : op.getDpsInputOperands())
    values.map(op.getMatchingBlockArgument(input),
               op.isScalar(input) ? input->get()
                                  : memref::LoadOp::create(b, input->get(), subscripts(*input)).getResult());
  for (auto [argument, value] : llvm::zip_equal(op.getRegionOutputArgs(), outputs))
    values.map(argument, value);
  for (Operation &inner : op.getBlock()->without_terminator()) {
    if (auto index = dyn_cast<linalg::IndexOp>(inner))
      values.map(index.getResult(), indices[index.getDim()]);
    else
      b.clone(inner, values);
  }
  SmallVector<Value> results;
  for (Value yielded : op.getBlock()->getTerminator()->getOperands())
    results.push_back(values.lookupOrDefault(yielded));
  return results;
}

/// The body over all turns of the reduction loops.
SmallVector<Value> PointEmitter::reduce(ArrayRef<unsigned> loops, ValueRange outputs) {
  if (loops.empty())
    return evaluate(outputs);
  auto loop =
      scf::ForOp::create(b, constant(b, 0), constant(b, sizes[loops.front()]), constant(b, 1), outputs);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(loop.getBody());
  indices[loops.front()] = loop.getInductionVar();
  scf::YieldOp::create(b, reduce(loops.drop_front(), loop.getRegionIterArgs()));
  return SmallVector<Value>(loop.getResults());
}

void PointEmitter::emit(Value point) {
  setIndices(parallel, point);
  // Subscripts of outputs do not ask for the reduction loops; any index will do for those.
  for (unsigned loop : reduction)
    indices[loop] = constant(b, 0);
  SmallVector<Value> outputs;
  SmallVector<SmallVector<Value>> places;
  for (OpOperand &output : op.getDpsInitsMutable()) {
    places.push_back(subscripts(output));
    outputs.push_back(memref::LoadOp::create(b, output.get(), places.back()));
  }
  SmallVector<Value> results = reduce(reduction, outputs);
  for (auto [output, place, result] : llvm::zip_equal(op.getDpsInits(), places, results))
    memref::StoreOp::create(b, result, output, place);
}

void PointEmitter::emitPart(Value point, Value part, int64_t parts, ArrayRef<Operation *> combiners,
                            ValueRange partials) {
  setIndices(parallel, point);
  SmallVector<Value> neutral;
  for (Operation *combiner : combiners)
    neutral.push_back(arith::ConstantOp::create(b, *arith::getNeutralElement(combiner)));
  auto loop = scf::ForOp::create(b, part, constant(b, turns()), constant(b, parts), neutral);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToEnd(loop.getBody());
    setIndices(reduction, loop.getInductionVar());
    scf::YieldOp::create(b, evaluate(loop.getRegionIterArgs()));
  }
  SmallVector<Value> place = llvm::map_to_vector(parallel, [&](unsigned loop) { return indices[loop]; });
  place.push_back(part);
  for (auto [partial, result] : llvm::zip_equal(partials, loop.getResults()))
    memref::StoreOp::create(b, result, partial, place);
}

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

/// Gives the op its threads and erases it; `ops` gets what is still to be spread.
static void spread(linalg::LinalgOp op, SmallVectorImpl<linalg::LinalgOp> &ops) {
  ImplicitLocOpBuilder b(op.getLoc(), op);
  PointEmitter emitter(b, op);
  int64_t points = emitter.points(), turns = emitter.turns();
  int64_t parts = std::min<int64_t>(turns / kChunk, llvm::divideCeil(kBusy, std::max<int64_t>(points, 1)));
  SmallVector<Operation *> combiners = combinersOf(op);
  if (turns < kShortReduction || parts < 2 || combiners.empty()) {
    emitter.emit(beginThreads(b, points));
    op.erase();
    return;
  }
  SmallVector<int64_t> shape = emitter.parallelSizes();
  shape.push_back(parts);
  SmallVector<Value> partials;
  for (Operation *combiner : combiners)
    partials.push_back(memref::AllocOp::create(b, MemRefType::get(shape, combiner->getResult(0).getType())));
  ops.push_back(combine(b, op, combiners, partials));
  b.setInsertionPoint(ops.back());
  Value thread = beginThreads(b, points * parts), size = constant(b, parts);
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

/// The view, if each point of it lies in dims of the root at its own indices.
static std::optional<View> viewOf(Value buffer) {
  View view{buffer, {}};
  auto subview = buffer.getDefiningOp<memref::SubViewOp>();
  if (!subview) {
    if (!isa<BlockArgument>(buffer) && !buffer.getDefiningOp<memref::AllocOp>())
      return std::nullopt;
    for (int64_t size : cast<MemRefType>(buffer.getType()).getShape())
      view.spread.push_back(size != 1);
    return view;
  }
  view.root = subview.getSource();
  if (!subview.hasUnitStride() || subview.getType().getRank() != subview.getSourceType().getRank())
    return std::nullopt;
  for (auto [size, whole, offset] : llvm::zip_equal(
           subview.getStaticSizes(), subview.getSourceType().getShape(), subview.getStaticOffsets())) {
    if (size != 1 && (size != whole || offset != 0))
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
    return (isa<BlockArgument>(buffer) || buffer.getDefiningOp<memref::AllocOp>() ||
            buffer.getDefiningOp<memref::GetGlobalOp>()) &&
           !written.contains(buffer);
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
