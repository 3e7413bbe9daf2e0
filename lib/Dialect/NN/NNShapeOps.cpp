//===- NNShapeOps.cpp - Views, permutations, pieces and constants ---------===//

#include "Lowering.h"
#include "OpSupport.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include <numeric>

using namespace mlir;
using namespace plumb::nn;

#define GET_OP_CLASSES
#include "plumb/Dialect/NN/NNShapeOps.cpp.inc"

static LogicalResult checkSameElementType(Operation *op, Value input, Value result) {
  Type from = tensorType(input).getElementType(), to = tensorType(result).getElementType();
  return from == to ? success() : op->emitOpError() << "cannot change element type " << from << " to " << to;
}

//===-- view --------------------------------------------------------------===//

LogicalResult ViewOp::verify() {
  RankedTensorType from = getInput().getType(), to = getType();
  if (from.getNumElements() != to.getNumElements())
    return emitOpError() << "operand has " << from.getNumElements() << " elements but the result has "
                         << to.getNumElements();
  return checkSameElementType(*this, getInput(), getResult());
}

namespace {
/// One shape of a view while it is cut into factors: the part of dim `dim` that has no factor yet is `rest`.
struct ViewSide {
  ArrayRef<int64_t> shape;
  ShardingRule::Tensor dims;
  size_t dim = 0;
  int64_t rest = 1;

  explicit ViewSide(ArrayRef<int64_t> shape) : shape(shape), dims(shape.size()) {
    rest = shape.empty() ? 1 : shape[0];
  }

  bool done() const { return dim == shape.size(); }
  void skipFinishedDims() {
    while (!done() && rest == 1)
      next();
  }
  void next() { rest = ++dim < shape.size() ? shape[dim] : 1; }
  void take(int factor, int64_t size) {
    dims[dim].push_back(factor);
    rest /= size;
  }
  /// The rest of the dim must stay whole. Returns its size.
  int64_t takeWhole(ShardingRule &rule) {
    int64_t size = rest;
    if (size != 1)
      take(rule.addFactor(size, FactorKind::Replicated), size);
    next();
    return size;
  }
};
} // namespace

/// The major parts of both shapes have no common divisor: keeps dims whole up to the next common boundary.
static void takeIncommensurable(ShardingRule &rule, ViewSide &from, ViewSide &to) {
  int64_t fromSize = from.takeWhole(rule), toSize = to.takeWhole(rule);
  while (fromSize != toSize)
    if (fromSize < toSize)
      fromSize *= from.takeWhole(rule);
    else
      toSize *= to.takeWhole(rule);
}

/// The common factorisation of both shapes, major first. A factor that divides the major remainder of both
/// dims is the same loop in both, since everything inside it has the same size.
ShardingRule ViewOp::getShardingRule() {
  ShardingRule rule;
  ViewSide from(getInput().getType().getShape()), to(getType().getShape());
  if (getType().getNumElements() != 0)
    while (true) {
      from.skipFinishedDims();
      to.skipFinishedDims();
      if (from.done() || to.done())
        break;
      int64_t size = std::gcd(from.rest, to.rest);
      if (size == 1) {
        takeIncommensurable(rule, from, to);
        continue;
      }
      int factor = rule.addFactor(size);
      from.take(factor, size);
      to.take(factor, size);
    }
  rule.operands = {from.dims};
  rule.results = {to.dims};
  rule.linear = {{0}};
  return rule;
}

SmallVector<Value> ViewOp::backward(OpBuilder &builder, ArrayRef<Value> cotangents, ArrayRef<bool> wanted) {
  auto unview = [&] { return ViewOp::create(builder, getLoc(), getInput().getType(), cotangents[0]); };
  return backwardOf(*this, builder, wanted, {unview});
}

SmallVector<Value> ViewOp::lower(OpBuilder &builder, ValueRange operands) {
  return {reshape(builder, getLoc(), operands[0], getType().getShape())};
}

//===-- transpose ---------------------------------------------------------===//

LogicalResult TransposeOp::inferTypes(Adaptor adaptor, EmitError emitError, SmallVectorImpl<Type> &types) {
  RankedTensorType type = tensorType(adaptor.getInput());
  ArrayRef<int64_t> permutation = adaptor.getPermutation();
  if (static_cast<int64_t>(permutation.size()) != type.getRank() || !isPermutationVector(permutation))
    return emitError() << "[" << permutation << "] is not a permutation of the " << type.getRank()
                       << " dims of " << type;
  types.push_back(withShape(type, applyPermutation(type.getShape(), permutation)));
  return success();
}

ShardingRule TransposeOp::getShardingRule() {
  ShardingRule rule = ShardingRule::elementwise({}, getType().getShape());
  ShardingRule::Tensor input(getPermutation().size());
  for (auto [dim, from] : llvm::zip_equal(rule.results[0], getPermutation()))
    input[from] = dim;
  rule.operands = {input};
  rule.linear = {{0}};
  return rule;
}

SmallVector<Value> TransposeOp::backward(OpBuilder &builder, ArrayRef<Value> cotangents,
                                         ArrayRef<bool> wanted) {
  auto inverse = [&] {
    return TransposeOp::create(builder, getLoc(), cotangents[0], invertPermutationVector(getPermutation()));
  };
  return backwardOf(*this, builder, wanted, {inverse});
}

SmallVector<Value> TransposeOp::lower(OpBuilder &builder, ValueRange operands) {
  Value init = emptyTensor(builder, getLoc(), getType());
  return {linalg::TransposeOp::create(builder, getLoc(), operands[0], init, getPermutation())->getResult(0)};
}

//===-- broadcast ---------------------------------------------------------===//

LogicalResult BroadcastOp::verify() {
  if (failed(checkSameElementType(*this, getInput(), getResult())))
    return failure();
  return checkBroadcast(getInput().getType().getShape(), getType().getShape(), [&] { return emitOpError(); });
}

ShardingRule BroadcastOp::getShardingRule() { return elementwiseRule(*this, {{0}}); }

SmallVector<Value> BroadcastOp::backward(OpBuilder &builder, ArrayRef<Value> cotangents,
                                         ArrayRef<bool> wanted) {
  return backwardOf(*this, builder, wanted, {[&] { return cotangents[0]; }});
}

SmallVector<Value> BroadcastOp::lower(OpBuilder &builder, ValueRange operands) {
  return {pointwise(builder, getLoc(), operands, getType(),
                    [](ScalarBuilder &, ArrayRef<Scalar> x) { return x[0]; })};
}

//===-- split and cat -----------------------------------------------------===//

/// Checks that the pieces fit together along `dim`, and gives the type of the whole.
static FailureOr<RankedTensorType> joinedType(TypeRange pieces, int64_t dim, StringRef what,
                                              EmitError emitError) {
  if (pieces.empty())
    return emitError() << "needs at least one " << what;
  auto first = cast<RankedTensorType>(pieces[0]);
  if (dim < 0 || dim >= first.getRank())
    return emitError() << "dim " << dim << " is out of range for rank " << first.getRank();
  SmallVector<int64_t> shape(first.getShape());
  for (auto [i, type] : llvm::enumerate(llvm::drop_begin(pieces))) {
    auto piece = cast<RankedTensorType>(type);
    SmallVector<int64_t> expected(piece.getShape());
    if (piece.getRank() == first.getRank())
      expected[dim] = first.getDimSize(dim);
    if (withShape(piece, expected) != first)
      return emitError() << what << " " << i + 1 << " of type " << piece << " does not fit " << what
                         << " 0 of type " << first << ": they may differ only in dim " << dim;
    shape[dim] += piece.getDimSize(dim);
  }
  return withShape(first, shape);
}

namespace {
struct PieceRule {
  ShardingRule rule;
  ShardingRule::Tensor whole;
  SmallVector<ShardingRule::Tensor> pieces;
};
} // namespace

/// Equal pieces are blocks of the dim, each sharded alike, and so are others, see ShardingRule::Pieces.
static PieceRule pieceRule(ArrayRef<int64_t> whole, TypeRange pieces, int64_t dim) {
  PieceRule result;
  bool equal = llvm::all_equal(pieces);
  ShardingRule::Tensor dims(whole.size());
  for (auto [i, size] : llvm::enumerate(whole))
    if (static_cast<int64_t>(i) != dim && size != 1)
      dims[i] = {result.rule.addFactor(size)};
  result.whole = dims;
  if (equal) {
    int count = result.rule.addFactor(static_cast<int64_t>(pieces.size()), FactorKind::Replicated);
    int piece = result.rule.addFactor(cast<RankedTensorType>(pieces[0]).getDimSize(dim));
    result.whole[dim] = {count, piece};
    dims[dim] = {piece};
    result.pieces.assign(pieces.size(), dims);
    return result;
  }
  ShardingRule::Pieces joined{result.rule.addFactor(whole[dim], FactorKind::Replicated), {}};
  result.whole[dim] = {joined.whole};
  for (Type type : pieces) {
    int64_t size = cast<RankedTensorType>(type).getDimSize(dim);
    joined.parts.push_back(result.rule.addFactor(size, FactorKind::Replicated));
    dims[dim] = {joined.parts.back()};
    result.pieces.push_back(dims);
  }
  result.rule.pieces = joined;
  return result;
}

LogicalResult SplitOp::verify() {
  auto joined = joinedType(getResultTypes(), getDim(), "piece", [&] { return emitOpError(); });
  if (failed(joined))
    return failure();
  if (*joined != getInput().getType())
    return emitOpError() << "pieces join to " << *joined << " but the operand is " << getInput().getType();
  return success();
}

ShardingRule SplitOp::getShardingRule() {
  PieceRule result = pieceRule(getInput().getType().getShape(), getResultTypes(), getDim());
  result.rule.operands = {result.whole};
  result.rule.results.assign(result.pieces.begin(), result.pieces.end());
  result.rule.linear = {{0}};
  return result.rule;
}

SmallVector<Value> SplitOp::backward(OpBuilder &builder, ArrayRef<Value> cotangents, ArrayRef<bool> wanted) {
  auto joined = [&] {
    SmallVector<Value> pieces(cotangents);
    for (auto [piece, type] : llvm::zip_equal(pieces, getResultTypes()))
      if (!piece)
        piece = FillOp::create(builder, getLoc(), type, APFloat(0.0));
    return CatOp::create(builder, getLoc(), pieces, getDim());
  };
  return backwardOf(*this, builder, wanted, {joined});
}

/// The slice of `whole` that piece number `i` of `pieces` takes along `dim`.
namespace {
struct Slice {
  SmallVector<OpFoldResult> offsets, sizes, strides;

  Slice(OpBuilder &builder, RankedTensorType piece, int64_t dim, int64_t offset) {
    offsets.assign(piece.getRank(), builder.getIndexAttr(0));
    strides.assign(piece.getRank(), builder.getIndexAttr(1));
    sizes = getAsIndexOpFoldResult(builder.getContext(), piece.getShape());
    offsets[dim] = builder.getIndexAttr(offset);
  }
};
} // namespace

SmallVector<Value> SplitOp::lower(OpBuilder &builder, ValueRange operands) {
  SmallVector<Value> pieces;
  int64_t offset = 0, dim = getDim();
  for (Type type : getResultTypes()) {
    auto piece = cast<RankedTensorType>(type);
    Slice slice(builder, piece, dim, offset);
    offset += piece.getDimSize(dim);
    if (piece.getNumElements() == 0) // an empty slice may start at the end, which slice ops reject
      pieces.push_back(emptyTensor(builder, getLoc(), piece));
    else
      pieces.push_back(tensor::ExtractSliceOp::create(builder, getLoc(), piece, operands[0], slice.offsets,
                                                      slice.sizes, slice.strides));
  }
  return pieces;
}

LogicalResult CatOp::inferTypes(Adaptor adaptor, EmitError emitError, SmallVectorImpl<Type> &types) {
  auto joined = joinedType(adaptor.getInputs().getTypes(), adaptor.getDim(), "operand", emitError);
  if (failed(joined))
    return failure();
  types.push_back(*joined);
  return success();
}

ShardingRule CatOp::getShardingRule() {
  PieceRule result = pieceRule(getType().getShape(), getInputs().getTypes(), getDim());
  result.rule.operands.assign(result.pieces.begin(), result.pieces.end());
  result.rule.results = {result.whole};
  result.rule.linear = {llvm::to_vector<2>(llvm::seq<int>(0, getInputs().size()))};
  return result.rule;
}

SmallVector<Value> CatOp::backward(OpBuilder &builder, ArrayRef<Value> cotangents, ArrayRef<bool> wanted) {
  SmallVector<Value> result(getInputs().size());
  if (!isa<FloatType>(getType().getElementType()) || !llvm::is_contained(wanted, true))
    return result;
  auto pieces = SplitOp::create(builder, getLoc(), getInputs().getTypes(), cotangents[0], getDim());
  for (auto [gradient, piece, want] : llvm::zip_equal(result, pieces.getPieces(), wanted))
    if (want)
      gradient = piece;
  return result;
}

SmallVector<Value> CatOp::lower(OpBuilder &builder, ValueRange operands) {
  Value whole = emptyTensor(builder, getLoc(), getType());
  int64_t offset = 0, dim = getDim();
  for (Value operand : operands) {
    RankedTensorType piece = tensorType(operand);
    Slice slice(builder, piece, dim, offset);
    offset += piece.getDimSize(dim);
    if (piece.getNumElements() != 0)
      whole = tensor::InsertSliceOp::create(builder, getLoc(), operand, whole, slice.offsets, slice.sizes,
                                            slice.strides);
  }
  return {whole};
}

//===-- fill and iota -----------------------------------------------------===//

LogicalResult FillOp::verify() {
  auto integer = dyn_cast<IntegerType>(getType().getElementType());
  if (!integer)
    return success();
  APSInt converted(integer.getWidth(), /*isUnsigned=*/integer.getWidth() == 1);
  bool exact = false;
  if (getValue().convertToInteger(converted, APFloat::rmTowardZero, &exact) != APFloat::opOK || !exact)
    return emitOpError() << "value " << getValueAttr() << " is not a number of type " << integer;
  return success();
}

ShardingRule FillOp::getShardingRule() { return elementwiseRule(*this, {}); }

SmallVector<Value> FillOp::backward(OpBuilder &, ArrayRef<Value>, ArrayRef<bool>) { return {}; }

SmallVector<Value> FillOp::lower(OpBuilder &builder, ValueRange) {
  return {filled(builder, getLoc(), getType(), getValue().convertToDouble())};
}

LogicalResult IotaOp::verify() {
  if (getType().getRank() != 1)
    return emitOpError() << "result must have one dim, but is " << getType();
  return success();
}

ShardingRule IotaOp::getShardingRule() {
  ShardingRule rule;
  rule.results.push_back({{rule.addFactor(getType().getDimSize(0), FactorKind::Replicated)}});
  return rule;
}

SmallVector<Value> IotaOp::backward(OpBuilder &, ArrayRef<Value>, ArrayRef<bool>) { return {}; }

SmallVector<Value> IotaOp::lower(OpBuilder &builder, ValueRange) {
  Type element = computeType(getType().getElementType());
  auto number = [&](ScalarBuilder &scalars, ArrayRef<Scalar>) -> Scalar {
    ImplicitLocOpBuilder &body = scalars.builder;
    Scalar value = scalars.integer(getStart()) + scalars.integer(getStep()) * scalars.index(0);
    if (isa<FloatType>(element))
      return {&body, arith::SIToFPOp::create(body, element, value.value)};
    if (element != body.getI64Type())
      return {&body, arith::TruncIOp::create(body, element, value.value)};
    return value;
  };
  return {pointwise(builder, getLoc(), ValueRange(), getType(), number)};
}
