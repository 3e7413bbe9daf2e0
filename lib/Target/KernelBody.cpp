#include "plumb/Target/KernelBody.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/AffineExpr.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace plumb::kernels {

/// Adds scale·expr to the coefficients of a linear function of the loops; false if it is none.
static bool addLinear(AffineExpr expr, int64_t scale, SmallVectorImpl<int64_t> &coefficients,
                      int64_t &constant) {
  if (auto dim = dyn_cast<AffineDimExpr>(expr)) {
    coefficients[dim.getPosition()] += scale;
    return true;
  }
  if (auto value = dyn_cast<AffineConstantExpr>(expr)) {
    constant += scale * value.getValue();
    return true;
  }
  auto binary = dyn_cast<AffineBinaryOpExpr>(expr);
  if (!binary)
    return false;
  if (binary.getKind() == AffineExprKind::Add)
    return addLinear(binary.getLHS(), scale, coefficients, constant) &&
           addLinear(binary.getRHS(), scale, coefficients, constant);
  auto factor = dyn_cast<AffineConstantExpr>(binary.getRHS());
  return binary.getKind() == AffineExprKind::Mul && factor &&
         addLinear(binary.getLHS(), scale * factor.getValue(), coefficients, constant);
}

static FailureOr<Access> buildAccess(ImplicitLocOpBuilder &b, Value operand, AffineMap map,
                                     ArrayRef<int64_t> sizes) {
  Access access;
  access.strides.assign(sizes.size(), 0);
  auto type = dyn_cast<MemRefType>(operand.getType());
  if (!type) // a scalar operand: the pointer slot holds the value itself
    return failure();
  access.element = type.getElementType();
  SmallVector<int64_t> strides;
  int64_t offset = 0, constant = 0;
  if (failed(type.getStridesAndOffset(strides, offset)) || llvm::any_of(strides, ShapedType::isDynamic))
    return failure();
  for (auto [expr, stride] : llvm::zip_equal(map.getResults(), strides))
    if (!addLinear(expr, stride, access.strides, constant))
      return failure();
  // A loop that runs once moves nothing.
  for (auto [stride, size] : llvm::zip_equal(access.strides, sizes))
    if (size == 1)
      stride = 0;
  access.pointer = addressOf(b, operand);
  if (constant != 0)
    access.pointer = advance(b, access, constantI64(b, constant));
  return access;
}

/// Whether all lanes of the op can be computed at once.
static bool hasVectorForm(Operation &op) {
  if (isa<linalg::IndexOp, linalg::YieldOp>(op))
    return true;
  if (auto load = dyn_cast<memref::LoadOp>(op)) {
    SmallVector<int64_t> strides;
    int64_t offset;
    return succeeded(load.getMemRefType().getStridesAndOffset(strides, offset)) &&
           llvm::none_of(strides, ShapedType::isDynamic);
  }
  return op.getNumResults() == 1 && op.getNumRegions() == 0 && isMemoryEffectFree(&op) &&
         (op.hasTrait<OpTrait::ConstantLike>() || OpTrait::hasElementwiseMappableTraits(&op)) &&
         (op.getResult(0).getType().isIntOrIndexOrFloat());
}

namespace {
/// The body of a structured op, ready to be copied to any point.
struct Body {
  Block *block = nullptr;
  unsigned numInputs = 0;
  /// The scalar operands, which have no access.
  SmallVector<Value> scalars;
  /// The address of the buffers read by loads in the body.
  DenseMap<Operation *, Value> loadBase;

  SmallVector<Value> operator()(ImplicitLocOpBuilder &b, const Point &point, ValueRange inputs,
                                ValueRange outputs) const;

private:
  Value index(ImplicitLocOpBuilder &b, const Point &point, int dim) const;
  Value gather(ImplicitLocOpBuilder &b, const Point &point, memref::LoadOp load,
               const IRMapping &values) const;
};
} // namespace

Value Body::index(ImplicitLocOpBuilder &b, const Point &point, int dim) const {
  Value first = point.indices[dim] ? point.indices[dim] : constantI64(b, 0);
  if (dim != point.lane || point.lanes == 1)
    return arith::IndexCastOp::create(b, b.getIndexType(), first);
  SmallVector<int64_t> iota = llvm::to_vector(llvm::seq<int64_t>(0, point.lanes));
  auto type = VectorType::get({point.lanes}, b.getI64Type());
  Value lanes = arith::ConstantOp::create(b, DenseElementsAttr::get(type, ArrayRef<int64_t>(iota)));
  Value sum = arith::AddIOp::create(b, broadcast(b, first, point.lanes), lanes);
  return arith::IndexCastOp::create(b, VectorType::get({point.lanes}, b.getIndexType()), sum);
}

/// A load whose indices are computed: one element for all lanes, neighbours, or any element per lane.
Value Body::gather(ImplicitLocOpBuilder &b, const Point &point, memref::LoadOp load,
                   const IRMapping &values) const {
  Type element = load.getMemRefType().getElementType();
  Access base{loadBase.lookup(load), element, {}};
  SmallVector<int64_t> strides;
  int64_t offset;
  (void)load.getMemRefType().getStridesAndOffset(strides, offset);

  // Along the lane loop, an index that is that loop's own index runs through neighbours.
  int64_t laneStride = 0;
  SmallVector<Value> uniform(strides.size()), varying(strides.size());
  auto toI64 = [&](Value index) -> Value {
    Type type = b.getI64Type();
    if (auto vector = dyn_cast<VectorType>(index.getType()))
      type = VectorType::get(vector.getShape(), type);
    return arith::IndexCastOp::create(b, type, index);
  };
  for (auto [i, operand] : llvm::enumerate(load.getIndices())) {
    auto loopIndex = operand.getDefiningOp<linalg::IndexOp>();
    Value value = values.lookupOrDefault(operand);
    if (loopIndex && static_cast<int>(loopIndex.getDim()) == point.lane && point.lanes > 1) {
      laneStride += strides[i];
      uniform[i] = point.indices[point.lane];
    } else if (isa<VectorType>(value.getType())) {
      varying[i] = toI64(value);
    } else {
      uniform[i] = toI64(value);
    }
  }
  Value pointer = advance(b, base, linearIndex(b, strides, uniform));
  bool anyVarying = llvm::any_of(varying, [](Value v) { return bool(v); });
  if (!anyVarying && laneStride == 0)
    return loadElement(b, element, pointer);
  if (!anyVarying && laneStride == 1)
    return loadVector(b, element, pointer, point.lanes, point.valid);

  Value vector = arith::ConstantOp::create(b, b.getZeroAttr(VectorType::get({point.lanes}, element)));
  for (int64_t lane = 0; lane < point.valid; ++lane) {
    SmallVector<Value> indices(strides.size());
    for (auto [index, all] : llvm::zip_equal(indices, varying))
      if (all)
        index = vector::ExtractOp::create(b, all, lane);
    Value moved = advance(b, {pointer, element, {}}, linearIndex(b, strides, indices, lane * laneStride));
    vector = vector::InsertOp::create(b, loadElement(b, element, moved), vector, lane);
  }
  return vector;
}

SmallVector<Value> Body::operator()(ImplicitLocOpBuilder &b, const Point &point, ValueRange inputs,
                                    ValueRange outputs) const {
  IRMapping values;
  for (auto [i, argument] : llvm::enumerate(block->getArguments().take_front(numInputs)))
    values.map(argument, scalars[i] ? scalars[i] : inputs[i]);
  for (auto [argument, value] : llvm::zip(block->getArguments().drop_front(numInputs), outputs))
    values.map(argument, value);
  for (Operation &op : block->without_terminator()) {
    Value result;
    if (auto indexOp = dyn_cast<linalg::IndexOp>(op)) {
      result = index(b, point, indexOp.getDim());
    } else if (auto load = dyn_cast<memref::LoadOp>(op)) {
      result = gather(b, point, load, values);
    } else {
      SmallVector<Value> operands;
      for (Value operand : op.getOperands())
        operands.push_back(values.lookupOrDefault(operand));
      result = applyLanewise(b, &op, operands, point.lanes);
    }
    values.map(op.getResult(0), result);
  }
  SmallVector<Value> results;
  for (Value yielded : block->getTerminator()->getOperands())
    results.push_back(values.lookupOrDefault(yielded));
  return results;
}

Operation *matchCombiner(BlockArgument accumulator, Value yielded) {
  Operation *combiner = yielded.getDefiningOp();
  if (!combiner || combiner->getNumOperands() != 2 || !accumulator.hasOneUse() ||
      *accumulator.user_begin() != combiner)
    return nullptr;
  return linalg::getCombinerOpKind(combiner) && arith::getNeutralElement(combiner) ? combiner : nullptr;
}

/// Marks the loops that a value of the body varies with.
static void markDependence(const LoopNest &nest, Value value, SmallVectorImpl<int64_t> &strides) {
  Block *block = nest.block;
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    if (argument.getOwner() != block || argument.getArgNumber() >= nest.inputs.size())
      return;
    for (auto [stride, mark] : llvm::zip_equal(nest.inputs[argument.getArgNumber()].strides, strides))
      if (stride != 0)
        mark = kIrregular;
    return;
  }
  Operation *op = value.getDefiningOp();
  if (auto index = dyn_cast<linalg::IndexOp>(op))
    strides[index.getDim()] = kIrregular;
  if (op->getBlock() == block)
    for (Value operand : op->getOperands())
      markDependence(nest, operand, strides);
}

static SmallVector<int64_t> gatherStrides(const LoopNest &nest, memref::LoadOp load) {
  SmallVector<int64_t> result(nest.loops(), 0), strides;
  int64_t offset;
  (void)load.getMemRefType().getStridesAndOffset(strides, offset);
  for (auto [stride, index] : llvm::zip_equal(strides, load.getIndices())) {
    auto loopIndex = index.getDefiningOp<linalg::IndexOp>();
    if (!loopIndex)
      markDependence(nest, index, result);
    else if (result[loopIndex.getDim()] != kIrregular)
      result[loopIndex.getDim()] += stride;
  }
  return result;
}

FailureOr<LoopNest> buildNest(ImplicitLocOpBuilder &b, linalg::LinalgOp op) {
  LoopNest nest;
  nest.block = op.getBlock();
  nest.sizes = op.getStaticLoopRanges();
  if (llvm::any_of(nest.sizes, ShapedType::isDynamic) || !llvm::all_of(*op.getBlock(), hasVectorForm))
    return failure();
  for (utils::IteratorType iterator : op.getIteratorTypesArray())
    nest.reduction.push_back(iterator == utils::IteratorType::reduction);

  Body body;
  body.block = op.getBlock();
  body.numInputs = op.getNumDpsInputs();
  for (OpOperand *operand : op.getDpsInputOperands()) {
    bool scalar = op.isScalar(operand);
    body.scalars.push_back(scalar ? operand->get() : Value());
    nest.readsInput.push_back(!scalar && op.payloadUsesValueFromOperand(operand));
    if (scalar) {
      nest.inputs.push_back(Access{Value(), operand->get().getType(), SmallVector<int64_t>(nest.loops(), 0)});
      continue;
    }
    auto access = buildAccess(b, operand->get(), op.getMatchingIndexingMap(operand), nest.sizes);
    if (failed(access))
      return failure();
    nest.inputs.push_back(*access);
  }
  for (OpOperand &operand : op.getDpsInitsMutable()) {
    auto access = buildAccess(b, operand.get(), op.getMatchingIndexingMap(&operand), nest.sizes);
    if (failed(access))
      return failure();
    BlockArgument argument = op.getMatchingBlockArgument(&operand);
    Value yielded = op.getMatchingYieldValue(&operand)->get();
    nest.readsOutput.push_back(!argument.use_empty());
    nest.combiners.push_back(matchCombiner(argument, yielded));
    nest.outputs.push_back(*access);
  }
  for (Operation &inner : op.getBlock()->without_terminator()) {
    if (auto load = dyn_cast<memref::LoadOp>(inner)) {
      body.loadBase[load] = addressOf(b, load.getMemRef());
      nest.gathers.push_back(gatherStrides(nest, load));
    }
    nest.usesIndices |= isa<linalg::IndexOp>(inner);
    nest.bodyOps += !inner.hasTrait<OpTrait::ConstantLike>();
  }
  nest.body = std::move(body);
  return nest;
}

} // namespace plumb::kernels
