#include "plumb/Target/KernelEmit.h"

#include "plumb/Target/KernelBody.h"
#include "plumb/Target/KernelLoops.h"
#include "plumb/Target/KernelProduct.h"

#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/Linalg/Utils/Utils.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/ViewLikeInterface.h"
#include "mlir/Transforms/RegionUtils.h"

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

/// Whether two buffers may share memory. Distinct allocations and arguments never do.
static bool mayAlias(Value x, Value y) {
  Value rootX = rootOf(x), rootY = rootOf(y);
  return !rootX || !rootY || rootX == rootY;
}

/// Whether an op leaves the buffer alone: does not write it, nor read it if `reads` matter.
static bool leavesAlone(Operation *op, Value buffer, bool reads) {
  if (isMemoryEffectFree(op) || isa<memref::AllocOp>(op))
    return true;
  auto structured = dyn_cast<linalg::LinalgOp>(op);
  if (!structured)
    return false;
  for (OpOperand &operand : op->getOpOperands())
    if (isa<MemRefType>(operand.get().getType()) && (reads || structured.isDpsInit(&operand)) &&
        mayAlias(operand.get(), buffer))
      return false;
  // The body may load from buffers captured by it.
  return !reads || structured.getBlock()->getOps<memref::LoadOp>().empty();
}

namespace {
class KernelEmitter {
public:
  KernelEmitter(func::FuncOp function, const VectorTarget &target) : function(function), target(target) {}
  LogicalResult run();

private:
  LogicalResult emit(linalg::LinalgOp op);
  bool emitWithProduct(linalg::LinalgOp op);
  void absorb(Operation *op);

  func::FuncOp function;
  const VectorTarget &target;
  SetVector<Operation *> pending;
};
} // namespace

/// Erases an op whose work another one does.
void KernelEmitter::absorb(Operation *op) {
  pending.remove(op);
  op->erase();
}

/// The fill that sets the output of `op` to zero, with nothing in between that touches it.
static linalg::FillOp findZeroFill(linalg::LinalgOp op) {
  Value output = op.getDpsInits()[0];
  for (Operation *before = op->getPrevNode(); before; before = before->getPrevNode()) {
    auto fill = dyn_cast<linalg::FillOp>(before);
    if (fill && fill.getOutputs()[0] == output) {
      Value value = fill.getInputs()[0];
      return matchPattern(value, m_AnyZeroFloat()) || matchPattern(value, m_Zero()) ? fill : nullptr;
    }
    if (!leavesAlone(before, output, /*reads=*/true))
      return nullptr;
  }
  return nullptr;
}

/// The op that writes `buffer`, between which and `reader` the work of the writer may be put off: nothing in
/// between touches what it reads or writes.
static linalg::LinalgOp findDeferrableWriter(linalg::LinalgOp reader, Value buffer) {
  linalg::LinalgOp writer;
  for (Operation *user : buffer.getUsers())
    if (auto op = dyn_cast<linalg::LinalgOp>(user);
        op && op->getBlock() == reader->getBlock() && op->isBeforeInBlock(reader) &&
        op.getNumDpsInits() == 1 && op.getDpsInits()[0] == buffer && !isa<linalg::FillOp>(user) &&
        (!writer || writer->isBeforeInBlock(op)))
      writer = op;
  if (!writer)
    return nullptr;
  for (Operation *between = writer->getNextNode(); between != reader; between = between->getNextNode()) {
    if (!leavesAlone(between, buffer, /*reads=*/true))
      return nullptr;
    for (Value input : writer.getDpsInputs())
      if (isa<MemRefType>(input.getType()) && !leavesAlone(between, input, /*reads=*/false))
        return nullptr;
  }
  return writer;
}

/// Whether the reader may run tile by tile while the writer goes on: what it writes is no input of the
/// writer, and what it reads of its own outputs and of the writer's, through `operand` or others, is the
/// element at hand.
static bool mayInterleave(linalg::LinalgOp writer, linalg::LinalgOp reader, OpOperand *operand) {
  auto isBuffer = [](Value value) { return isa<MemRefType>(value.getType()); };
  auto clashes = [&](OpOperand &x, OpOperand &y) {
    return mayAlias(x.get(), y.get()) &&
           (x.get() != y.get() || reader.getMatchingIndexingMap(&x) != reader.getMatchingIndexingMap(&y));
  };
  for (OpOperand &other : reader->getOpOperands())
    if (isBuffer(other.get()) && clashes(other, *operand))
      return false;
  for (OpOperand &output : reader.getDpsInitsMutable()) {
    for (Value input : writer.getDpsInputs())
      if (isBuffer(input) && mayAlias(input, output.get()))
        return false;
    for (OpOperand *input : reader.getDpsInputOperands())
      if (isBuffer(input->get()) && clashes(*input, output))
        return false;
  }
  return reader.getBlock()->getOps<memref::LoadOp>().empty();
}

/// The nest of an elementwise op in the loops of the product whose output it reads through `operand`.
static LoopNest inLoopsOf(const LoopNest &product, linalg::LinalgOp writer, LoopNest nest,
                          linalg::LinalgOp reader, OpOperand *operand) {
  // Both maps are permutations of loops, of the parallel ones in the case of the product.
  AffineMap written = writer.getMatchingIndexingMap(writer.getDpsInitOperand(0));
  AffineMap read = reader.getMatchingIndexingMap(operand);
  SmallVector<std::pair<unsigned, unsigned>> loops;
  for (auto [to, from] : llvm::zip_equal(written.getResults(), read.getResults()))
    loops.emplace_back(cast<AffineDimExpr>(to).getPosition(), cast<AffineDimExpr>(from).getPosition());
  auto move = [&](const auto &from, auto initial) {
    SmallVector<decltype(initial)> result(product.loops(), initial);
    for (auto [to, at] : loops)
      result[to] = from[at];
    return result;
  };
  nest.sizes = move(nest.sizes, int64_t(1));
  nest.reduction = product.reduction;
  for (Access &access : llvm::concat<Access>(nest.inputs, nest.outputs))
    access.strides = move(access.strides, int64_t(0));
  return nest;
}

/// If `op` is elementwise work on the output of a product, emits both as one.
bool KernelEmitter::emitWithProduct(linalg::LinalgOp op) {
  if (op.getNumReductionLoops() != 0 || !isa<linalg::GenericOp>(op))
    return false;
  for (OpOperand *operand : op.getDpsInputOperands()) {
    Value buffer = operand->get();
    if (!isa<MemRefType>(buffer.getType()) || !op.getMatchingIndexingMap(operand).isPermutation())
      continue;
    linalg::LinalgOp writer = findDeferrableWriter(op, buffer);
    if (!writer || !writer.getMatchingIndexingMap(writer.getDpsInitOperand(0)).isProjectedPermutation() ||
        !mayInterleave(writer, op, operand))
      continue;
    linalg::FillOp fill = findZeroFill(writer);
    bool consumes =
        fill && buffer.getDefiningOp<memref::AllocOp>() && llvm::count(op->getOperands(), buffer) == 1 &&
        llvm::all_of(buffer.getUsers(),
                     [&](Operation *user) { return user == fill || user == writer || user == op; });
    ImplicitLocOpBuilder b(op.getLoc(), op);
    FailureOr<LoopNest> product = buildNest(b, writer), nest = buildNest(b, op);
    if (failed(product) || failed(nest) || nest->usesIndices)
      continue;
    LoopNest epilogue = inLoopsOf(*product, writer, *nest, op, operand);
    LoopNest *both[] = {&*product, &epilogue};
    mergeLoops(both);
    auto matched = matchProduct(*product);
    if (!matched)
      continue;
    matched->overwrites = bool(fill);
    matched->epilogue = Epilogue{epilogue, operand->getOperandNumber(), consumes};
    emitProduct(b, *matched, target);
    absorb(op);
    absorb(writer);
    if (fill)
      absorb(fill);
    return true;
  }
  return false;
}

LogicalResult KernelEmitter::emit(linalg::LinalgOp op) {
  if (emitWithProduct(op))
    return success();
  ImplicitLocOpBuilder b(op.getLoc(), op);
  FailureOr<LoopNest> nest = buildNest(b, op);
  if (failed(nest)) {
    op->emitRemark("has no vector form and runs as scalar loops");
    IRRewriter rewriter(b);
    if (failed(linalg::linalgOpToLoops(rewriter, op)))
      return op->emitError("cannot be lowered to loops");
    absorb(op);
    return success();
  }
  LoopNest *all[] = {&*nest};
  mergeLoops(all);
  if (auto product = matchProduct(*nest)) {
    linalg::FillOp fill = findZeroFill(op);
    product->overwrites = bool(fill);
    emitProduct(b, *product, target);
    if (fill)
      absorb(fill);
  } else {
    emitLoops(b, *nest, target);
  }
  absorb(op);
  return success();
}

LogicalResult KernelEmitter::run() {
  SmallVector<memref::CopyOp> copies;
  function.walk([&](memref::CopyOp copy) { copies.push_back(copy); });
  for (memref::CopyOp copy : copies) {
    OpBuilder builder(copy);
    linalg::makeMemRefCopyOp(builder, copy.getLoc(), copy.getSource(), copy.getTarget());
    copy.erase();
  }
  // Last op first, so that an op finds those whose work it may take along.
  function.walk([&](linalg::LinalgOp op) { pending.insert(op); });
  while (!pending.empty())
    if (failed(emit(cast<linalg::LinalgOp>(pending.back()))))
      return failure();
  // Addresses of ops that were taken along, and buffers that only exist as tiles now.
  IRRewriter rewriter(function.getContext());
  (void)runRegionDCE(rewriter, function->getRegions());
  return success();
}

LogicalResult emitKernelLoops(func::FuncOp function, const VectorTarget &target) {
  return KernelEmitter(function, target).run();
}

} // namespace plumb::kernels
