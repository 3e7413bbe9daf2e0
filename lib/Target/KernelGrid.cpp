#include "plumb/Target/KernelGrid.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/Linalg/Utils/Utils.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

using namespace mlir;

namespace plumb::kernels {

namespace {
/// The scalar code of one structured op at the points of one thread.
class PointEmitter {
public:
  PointEmitter(ImplicitLocOpBuilder &b, linalg::LinalgOp op)
      : b(b), op(op), sizes(op.getStaticLoopRanges()) {}
  void emit(Value thread);

private:
  SmallVector<Value> subscripts(OpOperand &operand);
  SmallVector<Value> evaluate(ValueRange outputs);
  SmallVector<Value> reduce(ArrayRef<unsigned> loops, ValueRange outputs);

  ImplicitLocOpBuilder &b;
  linalg::LinalgOp op;
  SmallVector<int64_t> sizes;
  SmallVector<Value> indices;
};
} // namespace

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

/// The body over all points of the reduction loops.
SmallVector<Value> PointEmitter::reduce(ArrayRef<unsigned> loops, ValueRange outputs) {
  if (loops.empty())
    return evaluate(outputs);
  Value zero = arith::ConstantIndexOp::create(b, 0), one = arith::ConstantIndexOp::create(b, 1);
  auto loop =
      scf::ForOp::create(b, zero, arith::ConstantIndexOp::create(b, sizes[loops.front()]), one, outputs);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(loop.getBody());
  indices[loops.front()] = loop.getInductionVar();
  scf::YieldOp::create(b, reduce(loops.drop_front(), loop.getRegionIterArgs()));
  return SmallVector<Value>(loop.getResults());
}

void PointEmitter::emit(Value thread) {
  SmallVector<unsigned> parallel, reduction;
  op.getParallelDims(parallel);
  op.getReductionDims(reduction);
  indices.assign(sizes.size(), Value());
  for (unsigned loop : llvm::reverse(parallel)) {
    Value size = arith::ConstantIndexOp::create(b, sizes[loop]);
    indices[loop] = arith::RemUIOp::create(b, thread, size);
    thread = arith::DivUIOp::create(b, thread, size);
  }
  // Subscripts of outputs do not ask for the reduction loops; any index will do for those.
  Value zero = arith::ConstantIndexOp::create(b, 0);
  for (unsigned loop : reduction)
    indices[loop] = zero;
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

/// Copies the op and, before it, what computes its operands.
static Operation *cloneWithOperands(OpBuilder &builder, Operation *op, IRMapping &values) {
  SetVector<Value> outside;
  op->walk([&](Operation *inner) {
    for (Value operand : inner->getOperands()) {
      Operation *definition = operand.getDefiningOp();
      if (definition && !op->isAncestor(definition))
        outside.insert(operand);
    }
  });
  for (Value value : outside)
    if (!values.contains(value))
      cloneWithOperands(builder, value.getDefiningOp(), values);
  return builder.clone(*op, values);
}

/// Lowers the structured ops inside of `op`, itself one or a loop around some, for a single thread.
static LogicalResult lowerToScalarLoops(Operation *op) {
  SmallVector<linalg::LinalgOp> structured;
  SmallVector<memref::CopyOp> copies;
  op->walk([&](memref::CopyOp copy) { copies.push_back(copy); });
  for (memref::CopyOp copy : copies) {
    OpBuilder builder(copy);
    linalg::makeMemRefCopyOp(builder, copy.getLoc(), copy.getSource(), copy.getTarget());
    copy.erase();
  }
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

/// An entry with the work of `op`.
static FailureOr<GridEntry> addEntry(func::FuncOp kernel, Operation *op, const std::string &name,
                                     ModuleOp module) {
  ImplicitLocOpBuilder b(op->getLoc(), OpBuilder::atBlockEnd(module.getBody()));
  auto entry = func::FuncOp::create(b, name, kernel.getFunctionType());
  b.setInsertionPointToStart(entry.addEntryBlock());
  func::ReturnOp::create(b);
  b.setInsertionPointToStart(&entry.getBody().front());
  IRMapping values;
  values.map(kernel.getArguments(), entry.getArguments());

  auto structured = dyn_cast<linalg::LinalgOp>(op);
  bool spread = structured && hasIndependentPoints(structured);
  int64_t points = 1;
  if (spread)
    for (auto [size, iterator] :
         llvm::zip_equal(structured.getStaticLoopRanges(), structured.getIteratorTypesArray()))
      points *= iterator == utils::IteratorType::parallel ? size : 1;

  auto index = [&](auto id) -> Value {
    return arith::IndexCastUIOp::create(b, b.getIndexType(), id.getResult());
  };
  Value block = index(NVVM::BlockIdXOp::create(b, b.getI32Type()));
  Value thread = arith::AddIOp::create(
      b, arith::MulIOp::create(b, block, arith::ConstantIndexOp::create(b, GridEntry::kThreads)),
      index(NVVM::ThreadIdXOp::create(b, b.getI32Type())));
  Value inside =
      arith::CmpIOp::create(b, arith::CmpIPredicate::ult, thread, arith::ConstantIndexOp::create(b, points));
  auto branch = scf::IfOp::create(b, inside, /*withElseRegion=*/false);
  b.setInsertionPoint(branch.thenBlock()->getTerminator());
  Operation *copy = cloneWithOperands(b, op, values);
  if (spread) {
    b.setInsertionPoint(copy);
    PointEmitter(b, cast<linalg::LinalgOp>(copy)).emit(thread);
    copy->erase();
  } else if (failed(lowerToScalarLoops(branch))) {
    return failure();
  }
  return GridEntry{name, std::max<int64_t>(1, llvm::divideCeil(points, GridEntry::kThreads))};
}

FailureOr<SmallVector<GridEntry>> mapToGrid(func::FuncOp kernel, StringRef name, ModuleOp module) {
  SmallVector<memref::CopyOp> copies(kernel.getBody().front().getOps<memref::CopyOp>());
  for (memref::CopyOp copy : copies) {
    OpBuilder builder(copy);
    linalg::makeMemRefCopyOp(builder, copy.getLoc(), copy.getSource(), copy.getTarget());
    copy.erase();
  }
  SmallVector<GridEntry> entries;
  for (Operation &op : kernel.getBody().front().without_terminator()) {
    if (isMemoryEffectFree(&op) || isa<memref::LoadOp>(op))
      continue;
    if (!isa<linalg::LinalgOp, scf::ForOp>(op))
      return op.emitError("has no form on a device");
    auto entry = addEntry(kernel, &op, (name + "_" + Twine(entries.size())).str(), module);
    if (failed(entry))
      return failure();
    entries.push_back(*entry);
  }
  return entries;
}

} // namespace plumb::kernels
