#include "plumb/Target/KernelScratch.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Interfaces/ViewLikeInterface.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace plumb::kernels {

namespace {
struct Temporary {
  memref::AllocOp alloc;
  int64_t bytes;
  /// Positions in the function's block between which it is in use.
  int64_t first, last;
  int64_t offset = 0;
};
} // namespace

/// Every op that uses the buffer, its views and what loops carry of it.
static void collectUsers(Value buffer, DenseSet<Value> &seen, SmallVectorImpl<Operation *> &users) {
  if (!seen.insert(buffer).second)
    return;
  for (OpOperand &use : buffer.getUses()) {
    users.push_back(use.getOwner());
    for (Value result : use.getOwner()->getResults())
      if (!isa<IntegerType, FloatType, IndexType, VectorType>(result.getType()))
        collectUsers(result, seen, users);
    for (Region &region : use.getOwner()->getRegions())
      for (Value argument : region.getArguments())
        if (isa<MemRefType>(argument.getType()))
          collectUsers(argument, seen, users);
    if (isa<RegionBranchTerminatorOpInterface>(use.getOwner()))
      for (Value result : use.getOwner()->getParentOp()->getResults())
        if (isa<MemRefType>(result.getType()))
          collectUsers(result, seen, users);
  }
}

FailureOr<int64_t> assignScratch(func::FuncOp function) {
  Block &body = function.getBody().front();
  DenseMap<Operation *, int64_t> position;
  for (auto [i, op] : llvm::enumerate(body))
    position[&op] = i;

  SmallVector<Temporary> temporaries;
  auto result = function.walk([&](memref::AllocOp alloc) {
    if (alloc->use_empty()) {
      alloc.erase();
      return WalkResult::advance();
    }
    MemRefType type = alloc.getType();
    if (!type.hasStaticShape() || !type.getLayout().isIdentity()) {
      alloc.emitError("a temporary of ") << type << " has no static size";
      return WalkResult::interrupt();
    }
    int64_t bytes = type.getNumElements() * llvm::divideCeil(type.getElementTypeBitWidth(), 8);
    int64_t first = position[body.findAncestorOpInBlock(*alloc)], last = first;
    DenseSet<Value> seen;
    SmallVector<Operation *> users;
    collectUsers(alloc, seen, users);
    for (Operation *user : users) {
      int64_t at = position[body.findAncestorOpInBlock(*user)];
      first = std::min(first, at);
      last = std::max(last, at);
    }
    temporaries.push_back(
        {alloc, static_cast<int64_t>(llvm::alignTo(std::max<int64_t>(bytes, 1), 64)), first, last});
    return WalkResult::advance();
  });
  if (result.wasInterrupted())
    return failure();
  if (temporaries.empty())
    return 0;

  // Largest first, each at the lowest offset free during its life.
  SmallVector<Temporary *> order = llvm::to_vector(llvm::make_pointer_range(temporaries));
  llvm::sort(order,
             [](Temporary *x, Temporary *y) { return std::pair(-x->bytes, x) < std::pair(-y->bytes, y); });
  int64_t total = 0;
  SmallVector<Temporary *> placed;
  for (Temporary *next : order) {
    for (Temporary *other : placed) // sorted by offset
      if (other->first <= next->last && next->first <= other->last &&
          other->offset < next->offset + next->bytes)
        next->offset = std::max(next->offset, other->offset + other->bytes);
    total = std::max(total, next->offset + next->bytes);
    placed.insert(
        llvm::upper_bound(placed, next, [](Temporary *x, Temporary *y) { return x->offset < y->offset; }),
        next);
  }

  OpBuilder builder(function.getContext());
  auto scratchType = MemRefType::get({total}, builder.getI8Type());
  unsigned last = function.getNumArguments();
  if (failed(function.insertArgument(last, scratchType, builder.getDictionaryAttr({}), function.getLoc())))
    return failure();
  for (Temporary &each : temporaries) {
    builder.setInsertionPoint(each.alloc);
    Value offset = arith::ConstantIndexOp::create(builder, each.alloc.getLoc(), each.offset);
    Value view = memref::ViewOp::create(builder, each.alloc.getLoc(), each.alloc.getType(),
                                        function.getArgument(last), offset, ValueRange{});
    each.alloc.replaceAllUsesWith(view);
    each.alloc.erase();
  }
  return total;
}

} // namespace plumb::kernels
