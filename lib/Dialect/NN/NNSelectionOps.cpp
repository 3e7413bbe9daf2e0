//===- NNSelectionOps.cpp - Parts of tensors, by place and by index -------===//

#include "Lowering.h"
#include "OpSupport.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace plumb::nn;

#define GET_OP_CLASSES
#include "plumb/Dialect/NN/NNSelectionOps.cpp.inc"

//===-- slice and pad -----------------------------------------------------===//

/// Checks that the indices `offset + i * stride` of the part lie in the whole.
static LogicalResult checkPart(Operation *op, Value part, Value whole, ArrayRef<int64_t> offsets,
                               ArrayRef<int64_t> strides) {
  RankedTensorType small = tensorType(part), large = tensorType(whole);
  if (small.getElementType() != large.getElementType())
    return op->emitOpError() << "cannot change element type "
                             << tensorType(op->getOperand(0)).getElementType();
  int64_t rank = large.getRank();
  if (small.getRank() != rank || static_cast<int64_t>(offsets.size()) != rank ||
      static_cast<int64_t>(strides.size()) != rank)
    return op->emitOpError() << "needs an offset and a stride for each dim of " << small << " and " << large;
  for (int64_t dim = 0; dim < rank; ++dim) {
    if (offsets[dim] < 0 || strides[dim] < 1)
      return op->emitOpError() << "dim " << dim << " has offset " << offsets[dim] << " and stride "
                               << strides[dim] << "; offsets are not negative and strides are positive";
    int64_t count = small.getDimSize(dim), size = large.getDimSize(dim);
    if (count > 0 && (offsets[dim] >= size || count - 1 > (size - 1 - offsets[dim]) / strides[dim]))
      return op->emitOpError() << "takes " << count << " elements, " << strides[dim] << " apart, from "
                               << offsets[dim] << " on in dim " << dim << ", which has " << size;
  }
  return success();
}

namespace {
struct PartRule {
  ShardingRule rule;
  ShardingRule::Tensor part, whole;
};
} // namespace

/// Dims that are taken as a whole move together; all others must be whole on both sides.
static PartRule partRule(ArrayRef<int64_t> part, ArrayRef<int64_t> whole) {
  PartRule result;
  for (auto [small, large] : llvm::zip_equal(part, whole)) {
    bool isWhole = small == large; // then the offset is 0 and the stride does not matter
    int factor = result.rule.addFactor(small, isWhole ? FactorKind::Parallel : FactorKind::Replicated);
    result.part.push_back({factor});
    result.whole.push_back({isWhole ? factor : result.rule.addFactor(large, FactorKind::Replicated)});
  }
  return result;
}

LogicalResult SliceOp::verify() {
  return checkPart(*this, getResult(), getInput(), getOffsets(), getStrides());
}

ShardingRule SliceOp::getShardingRule() {
  PartRule result = partRule(shapeOf(getResult()), shapeOf(getInput()));
  result.rule.operands.push_back(result.whole);
  result.rule.results.push_back(result.part);
  result.rule.linear.push_back({0});
  return result.rule;
}

SmallVector<Value> SliceOp::backward(OpBuilder &builder, ArrayRef<Value> cotangents, ArrayRef<bool> wanted) {
  return backwardOf(*this, builder, wanted, {[&] {
    return PadOp::create(builder, getLoc(), getInput().getType(), cotangents[0], APFloat(0.0), getOffsets(),
                         getStrides());
  }});
}

static SmallVector<OpFoldResult> indexAttrs(OpBuilder &builder, ArrayRef<int64_t> values) {
  return getAsIndexOpFoldResult(builder.getContext(), values);
}

SmallVector<Value> SliceOp::lower(OpBuilder &builder, ValueRange operands) {
  if (getType().getNumElements() == 0)
    return {emptyTensor(builder, getLoc(), getType())};
  return {tensor::ExtractSliceOp::create(
      builder, getLoc(), getType(), operands[0], indexAttrs(builder, getOffsets()),
      indexAttrs(builder, getType().getShape()), indexAttrs(builder, getStrides()))};
}

LogicalResult PadOp::verify() {
  return checkPart(*this, getInput(), getResult(), getOffsets(), getStrides());
}

ShardingRule PadOp::getShardingRule() {
  PartRule result = partRule(shapeOf(getInput()), shapeOf(getResult()));
  result.rule.operands.push_back(result.part);
  result.rule.results.push_back(result.whole);
  if (getValue().isZero())
    result.rule.linear.push_back({0});
  return result.rule;
}

SmallVector<Value> PadOp::backward(OpBuilder &builder, ArrayRef<Value> cotangents, ArrayRef<bool> wanted) {
  return backwardOf(*this, builder, wanted, {[&] {
    return SliceOp::create(builder, getLoc(), getInput().getType(), cotangents[0], getOffsets(),
                           getStrides());
  }});
}

SmallVector<Value> PadOp::lower(OpBuilder &builder, ValueRange operands) {
  Value whole = filled(builder, getLoc(), getType(), getValue().convertToDouble());
  if (getInput().getType().getNumElements() == 0)
    return {whole};
  return {tensor::InsertSliceOp::create(
      builder, getLoc(), operands[0], whole, indexAttrs(builder, getOffsets()),
      indexAttrs(builder, getInput().getType().getShape()), indexAttrs(builder, getStrides()))};
}

//===-- reverse -----------------------------------------------------------===//

LogicalResult ReverseOp::inferTypes(Adaptor adaptor, EmitError emitError, SmallVectorImpl<Type> &types) {
  for (int64_t dim : adaptor.getDims())
    if (failed(checkDim(dim, tensorType(adaptor.getInput()).getRank(), emitError)))
      return failure();
  types.push_back(adaptor.getInput().getType());
  return success();
}

ShardingRule ReverseOp::getShardingRule() {
  ShardingRule rule;
  ShardingRule::Tensor dims;
  for (auto [i, size] : llvm::enumerate(getType().getShape()))
    dims.push_back({rule.addFactor(size, llvm::is_contained(getDims(), static_cast<int64_t>(i))
                                             ? FactorKind::Replicated
                                             : FactorKind::Parallel)});
  rule.operands.push_back(dims);
  rule.results.push_back(dims);
  rule.linear.push_back({0});
  return rule;
}

SmallVector<Value> ReverseOp::backward(OpBuilder &builder, ArrayRef<Value> cotangents,
                                       ArrayRef<bool> wanted) {
  return backwardOf(*this, builder, wanted,
                    {[&] { return ReverseOp::create(builder, getLoc(), cotangents[0], getDims()); }});
}

SmallVector<Value> ReverseOp::lower(OpBuilder &builder, ValueRange operands) {
  Value input = operands[0];
  ArrayRef<int64_t> shape = getType().getShape();
  return {
      pointwise(builder, getLoc(), ValueRange(), getType(), [&](ScalarBuilder &scalars, ArrayRef<Scalar>) {
        ImplicitLocOpBuilder &body = scalars.builder;
        SmallVector<Value> place;
        for (auto [i, size] : llvm::enumerate(shape)) {
          place.push_back(linalg::IndexOp::create(body, i));
          if (llvm::is_contained(getDims(), static_cast<int64_t>(i)))
            place.back() =
                arith::SubIOp::create(body, arith::ConstantIndexOp::create(body, size - 1), place.back());
        }
        return elementAt(scalars, input, place);
      })};
}

//===-- gather and scatter ------------------------------------------------===//

/// Checks that the indices have the shape of the input except for `dim`, along which the input has an
/// element.
static LogicalResult checkIndexed(Value input, Value indices, int64_t dim, EmitError emitError) {
  RankedTensorType type = tensorType(input), indexType = tensorType(indices);
  if (failed(checkDim(dim, type.getRank(), emitError)))
    return failure();
  if (type.getDimSize(dim) == 0)
    return emitError() << "dim " << dim << " of " << type << " has no element that an index could name";
  SmallVector<int64_t> expected(type.getShape());
  if (indexType.getRank() == type.getRank())
    expected[dim] = indexType.getDimSize(dim);
  if (indexType.getShape() != ArrayRef<int64_t>(expected))
    return emitError() << "indices of type " << indexType << " may differ from " << type << " only in dim "
                       << dim;
  return success();
}

LogicalResult GatherOp::inferTypes(Adaptor adaptor, EmitError emitError, SmallVectorImpl<Type> &types) {
  types.push_back(withShape(tensorType(adaptor.getInput()), shapeOf(adaptor.getIndices())));
  return checkIndexed(adaptor.getInput(), adaptor.getIndices(), adaptor.getDim(), emitError);
}

/// The factors of the indices, whose dim `dim` is of the given kind, and the same with the input's own dim
/// there.
static std::pair<ShardingRule::Tensor, ShardingRule::Tensor>
indexedDims(ShardingRule &rule, Value input, Value indices, int64_t dim, FactorKind kind) {
  ShardingRule::Tensor dims;
  for (auto [i, size] : llvm::enumerate(shapeOf(indices)))
    dims.push_back({rule.addFactor(size, static_cast<int64_t>(i) == dim ? kind : FactorKind::Parallel)});
  ShardingRule::Tensor inputDims = dims;
  inputDims[dim] = {rule.addFactor(shapeOf(input)[dim], FactorKind::Replicated)};
  return {dims, inputDims};
}

IndexRange GatherOp::getIndexRange() { return {getIndices(), getInput().getType().getDimSize(getDim())}; }

ShardingRule GatherOp::getShardingRule() {
  ShardingRule rule;
  auto [dims, inputDims] = indexedDims(rule, getInput(), getIndices(), getDim(), FactorKind::Parallel);
  rule.operands = {inputDims, dims};
  rule.results.push_back(dims);
  rule.linear.push_back({0});
  return rule;
}

SmallVector<Value> GatherOp::backward(OpBuilder &builder, ArrayRef<Value> cotangents, ArrayRef<bool> wanted) {
  return backwardOf(*this, builder, wanted, {[&] {
    Value zeros = FillOp::create(builder, getLoc(), getInput().getType(), APFloat(0.0));
    return ScatterOp::create(builder, getLoc(), zeros, getIndices(), cotangents[0], getDim(), /*add=*/true);
  }});
}

SmallVector<Value> GatherOp::lower(OpBuilder &builder, ValueRange operands) {
  Value input = operands[0];
  int64_t dim = getDim(), size = getInput().getType().getDimSize(dim);
  return {
      pointwise(builder, getLoc(), operands[1], getType(), [&](ScalarBuilder &scalars, ArrayRef<Scalar> x) {
        SmallVector<Value> place;
        for (int64_t i = 0; i < getType().getRank(); ++i)
          place.push_back(i == dim ? indexInside(scalars.builder, getLoc(), x[0].value, size)
                                   : Value(linalg::IndexOp::create(scalars.builder, i)));
        return elementAt(scalars, input, place);
      })};
}

LogicalResult ScatterOp::inferTypes(Adaptor adaptor, EmitError emitError, SmallVectorImpl<Type> &types) {
  types.push_back(adaptor.getInput().getType());
  if (failed(checkElementTypes({adaptor.getInput(), adaptor.getSource()}, emitError)))
    return failure();
  if (shapeOf(adaptor.getSource()) != shapeOf(adaptor.getIndices()))
    return emitError() << "source of type " << adaptor.getSource().getType()
                       << " must have the shape of the indices, " << adaptor.getIndices().getType();
  return checkIndexed(adaptor.getInput(), adaptor.getIndices(), adaptor.getDim(), emitError);
}

IndexRange ScatterOp::getIndexRange() { return {getIndices(), getInput().getType().getDimSize(getDim())}; }

ShardingRule ScatterOp::getShardingRule() {
  ShardingRule rule;
  auto [dims, inputDims] = indexedDims(rule, getInput(), getIndices(), getDim(), FactorKind::Replicated);
  rule.operands = {inputDims, dims, dims};
  rule.results.push_back(inputDims);
  rule.linear.push_back({0, 2});
  return rule;
}

SmallVector<Value> ScatterOp::backward(OpBuilder &builder, ArrayRef<Value> cotangents,
                                       ArrayRef<bool> wanted) {
  auto ofInput = [&]() -> Value {
    if (getAdd())
      return cotangents[0];
    Value zeros = FillOp::create(builder, getLoc(), getSource().getType(), APFloat(0.0));
    return ScatterOp::create(builder, getLoc(), cotangents[0], getIndices(), zeros, getDim(), /*add=*/false);
  };
  auto ofSource = [&] { return GatherOp::create(builder, getLoc(), cotangents[0], getIndices(), getDim()); };
  return backwardOf(*this, builder, wanted, {ofInput, [] { return Value(); }, ofSource});
}

/// Walks over the sources in order; each turn updates one element of the carried tensor, which bufferises in
/// place.
SmallVector<Value> ScatterOp::lower(OpBuilder &builder, ValueRange operands) {
  Location loc = getLoc();
  RankedTensorType type = getType(), indexType = getIndices().getType();
  auto wide = RankedTensorType::get(type.getShape(), computeType(type.getElementType()));
  int64_t dim = getDim(), count = indexType.getNumElements(), size = type.getDimSize(dim);
  if (count == 0)
    return {operands[0]};
  int64_t inner = ShapedType::getNumElements(type.getShape().drop_front(dim + 1));
  int64_t outer = ShapedType::getNumElements(type.getShape().take_front(dim));
  Value into = reshape(builder, loc, convertTo(builder, loc, operands[0], wide), {outer, size, inner});
  Value sources = convertTo(builder, loc, operands[2], withShape(wide, indexType.getShape()));
  Value flat = reshape(builder, loc, sources, {count}), indices = reshape(builder, loc, operands[1], {count});
  auto step = [&](OpBuilder &body, Location, Value position, ValueRange carried) {
    ImplicitLocOpBuilder b(loc, body);
    auto index = [&](int64_t value) -> Value { return arith::ConstantIndexOp::create(b, value); };
    Value named = tensor::ExtractOp::create(b, indices, position),
          value = tensor::ExtractOp::create(b, flat, position);
    SmallVector<Value> place{arith::DivUIOp::create(b, position, index(count / outer)),
                             indexInside(b, loc, named, size),
                             arith::RemUIOp::create(b, position, index(inner))};
    if (getAdd())
      value = (Scalar{&b, tensor::ExtractOp::create(b, carried[0], place)} + Scalar{&b, value}).value;
    scf::YieldOp::create(b, ValueRange(tensor::InsertOp::create(b, value, carried[0], place)));
  };
  auto index = [&](int64_t value) -> Value { return arith::ConstantIndexOp::create(builder, loc, value); };
  Value result = scf::ForOp::create(builder, loc, index(0), index(count), index(1), into, step).getResult(0);
  return {convertTo(builder, loc, reshape(builder, loc, result, type.getShape()), type)};
}

//===-- topk --------------------------------------------------------------===//

LogicalResult TopkOp::inferTypes(Adaptor adaptor, EmitError emitError, SmallVectorImpl<Type> &types) {
  RankedTensorType type = tensorType(adaptor.getInput());
  int64_t count = adaptor.getCount();
  if (type.getRank() == 0 || count < 1 || count > type.getShape().back())
    return emitError() << "cannot take " << count << " elements of each row of " << type;
  SmallVector<int64_t> shape(type.getShape());
  shape.back() = count;
  types.push_back(withShape(type, shape));
  types.push_back(RankedTensorType::get(shape, IntegerType::get(type.getContext(), 64)));
  return success();
}

ShardingRule TopkOp::getShardingRule() {
  ShardingRule rule;
  ShardingRule::Tensor rows;
  ArrayRef<int64_t> shape = getInput().getType().getShape();
  for (int64_t size : shape.drop_back())
    rows.push_back({rule.addFactor(size)});
  ShardingRule::Tensor input = rows, result = rows;
  input.push_back({rule.addFactor(shape.back(), FactorKind::Replicated)});
  result.push_back({rule.addFactor(getCount(), FactorKind::Replicated)});
  rule.operands.push_back(input);
  rule.results = {result, result};
  return rule;
}

SmallVector<Value> TopkOp::backward(OpBuilder &builder, ArrayRef<Value> cotangents, ArrayRef<bool> wanted) {
  return backwardOf(*this, builder, wanted, {[&] {
    Value zeros = FillOp::create(builder, getLoc(), getInput().getType(), APFloat(0.0));
    return ScatterOp::create(builder, getLoc(), zeros, getIndices(), cotangents[0],
                             getInput().getType().getRank() - 1,
                             /*add=*/true);
  }});
}

namespace {
/// The greatest element of each row, and where it is.
struct Greatest {
  Value value, index;
};
} // namespace

/// The greatest element among those that come after `previous` in descending order.
static Greatest nextGreatest(OpBuilder &builder, Location loc, Value input,
                             std::optional<Greatest> previous) {
  ArrayRef<int64_t> loops = shapeOf(input);
  int64_t rows = static_cast<int64_t>(loops.size()) - 1;
  SmallVector<MappedTensor> inputs{alignedRight(input, loops)};
  if (previous) {
    inputs.push_back(alignedLeft(previous->value, loops));
    inputs.push_back(alignedLeft(previous->index, loops));
  }
  auto comesAfter = [&](ScalarBuilder &scalars, ArrayRef<Scalar> x, Scalar otherwise, Scalar value) {
    if (!previous)
      return value;
    Scalar isLater = both(isEqual(x[0], x[1]), isGreater(scalars.index(rows), x[2]));
    return select(either(isLess(x[0], x[1]), isLater), value, otherwise);
  };
  Value greatest = reduceRows(
      builder, loc, Reduction::Maximum, inputs, loops, rows,
      [&](ScalarBuilder &scalars, ArrayRef<Scalar> x) { return comesAfter(scalars, x, lowest(x[0]), x[0]); });
  inputs.push_back(alignedLeft(greatest, loops));
  // The first of equal elements has the greatest distance from the end.
  Value distance = reduceRows(
      builder, loc, Reduction::Maximum, inputs, loops, rows,
      [&](ScalarBuilder &scalars, ArrayRef<Scalar> x) {
        Scalar none = scalars.integer(0), fromEnd = scalars.integer(loops.back() - 1) - scalars.index(rows);
        return comesAfter(scalars, x, none, select(isEqual(x[0], x.back()), fromEnd, none));
      },
      builder.getI64Type());
  Value index = pointwise(
      builder, loc, distance, tensorType(distance),
      [&](ScalarBuilder &scalars, ArrayRef<Scalar> x) { return scalars.integer(loops.back() - 1) - x[0]; });
  return {greatest, index};
}

SmallVector<Value> TopkOp::lower(OpBuilder &builder, ValueRange operands) {
  Location loc = getLoc();
  auto results = llvm::map_to_vector(
      getResultTypes(), [&](Type type) { return emptyTensor(builder, loc, cast<RankedTensorType>(type)); });
  if (tensorType(results[0]).getNumElements() == 0)
    return results;
  SmallVector<int64_t> column = withOnes(shapeOf(results[0]), tensorType(results[0]).getRank() - 1);
  SmallVector<int64_t> offsets(column.size(), 0), strides(column.size(), 1);
  std::optional<Greatest> greatest;
  for (int64_t i = 0, count = getCount(); i < count; ++i) {
    greatest = nextGreatest(builder, loc, operands[0], greatest);
    offsets.back() = i;
    const std::array<Value, 2> found{greatest->value, greatest->index};
    for (auto [result, value] : llvm::zip_equal(results, found))
      result = tensor::InsertSliceOp::create(
          builder, loc,
          reshape(builder, loc, convertTo(builder, loc, value, withShape(tensorType(result), shapeOf(value))),
                  column),
          result, indexAttrs(builder, offsets), indexAttrs(builder, column), indexAttrs(builder, strides));
  }
  return results;
}
