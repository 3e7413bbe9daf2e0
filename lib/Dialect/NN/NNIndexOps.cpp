//===- NNIndexOps.cpp - Look-ups by index and classification losses -------===//

#include "Lowering.h"
#include "OpSupport.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace plumb::nn;

#define GET_OP_CLASSES
#include "plumb/Dialect/NN/NNIndexOps.cpp.inc"

/// Checks that `value` has the shape `expected` of the rows of operand `of`.
static LogicalResult checkShape(Value value, StringRef name, ArrayRef<int64_t> expected, StringRef of,
                                EmitError emitError) {
  if (shapeOf(value) == expected)
    return success();
  return emitError() << name << " of type " << value.getType() << " must have shape [" << expected
                     << "], that of " << of;
}

//===-- embedding ---------------------------------------------------------===//

/// Number of dims that count tables.
static int64_t tableDims(RankedTensorType table) { return table.getRank() - 2; }

/// Factors: the table's row (whole: any index may name any row), its column, and the dims of the indices, of
/// which the first count tables. Expanded, each part of the table adds what its own rows contribute.
static ShardingRule embeddingRule(RankedTensorType table, RankedTensorType indices, FactorKind indexKind,
                                  FactorKind rowKind) {
  ShardingRule rule;
  std::optional<FactorKind> expanded;
  if (tableDims(table) == 0)
    expanded = rowKind;
  int row = rule.addFactor(table.getDimSize(tableDims(table)), FactorKind::Replicated, expanded);
  int column = rule.addFactor(table.getShape().back());
  ShardingRule::Tensor indexDims, rowsDims;
  for (auto [dim, size] : llvm::enumerate(indices.getShape())) {
    bool countsTables = static_cast<int64_t>(dim) < tableDims(table);
    indexDims.push_back({rule.addFactor(size, countsTables ? FactorKind::Parallel : indexKind)});
    if (countsTables)
      rowsDims.push_back(indexDims.back());
  }
  ShardingRule::Tensor rowDims = indexDims;
  rowDims.push_back({column});
  rowsDims.push_back({row});
  rowsDims.push_back({column});
  rule.operands = {rowsDims, indexDims};
  rule.results.push_back(rowDims);
  rule.linear.push_back({0});
  return rule;
}

/// A loop over the flattened indices that carries one tensor: `body` gets the loop's position, the row that
/// the index names among the rows of all tables, and the tensor.
static Value forEachIndex(OpBuilder &builder, Location loc, Value indices, int64_t rowCount, int64_t tables,
                          Value init,
                          function_ref<Value(OpBuilder &, Value position, Value row, Value carried)> body) {
  int64_t count = tensorType(indices).getNumElements();
  Value flat = reshape(builder, loc, indices, {count});
  auto index = [&](OpBuilder &at, int64_t value) -> Value {
    return arith::ConstantIndexOp::create(at, loc, value);
  };
  auto buildBody = [&](OpBuilder &nested, Location, Value position, ValueRange carried) {
    Value row = indexInside(nested, loc, tensor::ExtractOp::create(nested, loc, flat, position), rowCount);
    if (tables > 1) {
      Value table = arith::DivUIOp::create(nested, loc, position, index(nested, count / tables));
      Value first = arith::MulIOp::create(nested, loc, table, index(nested, rowCount));
      row = arith::AddIOp::create(nested, loc, first, row);
    }
    scf::YieldOp::create(nested, loc, body(nested, position, row, carried[0]));
  };
  return scf::ForOp::create(builder, loc, index(builder, 0), index(builder, count), index(builder, 1), init,
                            buildBody)
      .getResult(0);
}

namespace {
/// Row `row` of a matrix as a slice of type `1 x columns`.
struct RowSlice {
  SmallVector<OpFoldResult> offsets, sizes, strides;

  RowSlice(OpBuilder &builder, Value row, int64_t columns)
      : offsets{row, builder.getIndexAttr(0)}, sizes{builder.getIndexAttr(1), builder.getIndexAttr(columns)},
        strides(2, builder.getIndexAttr(1)) {}
};
} // namespace

static Value extractRow(OpBuilder &builder, Location loc, Value matrix, Value row) {
  int64_t columns = shapeOf(matrix)[1];
  RowSlice slice(builder, row, columns);
  return tensor::ExtractSliceOp::create(builder, loc, withShape(tensorType(matrix), {1, columns}), matrix,
                                        slice.offsets, slice.sizes, slice.strides);
}

static Value insertRow(OpBuilder &builder, Location loc, Value values, Value matrix, Value row) {
  RowSlice slice(builder, row, shapeOf(matrix)[1]);
  return tensor::InsertSliceOp::create(builder, loc, values, matrix, slice.offsets, slice.sizes,
                                       slice.strides);
}

static LogicalResult checkTable(RankedTensorType table, RankedTensorType indices, StringRef name,
                                EmitError emitError) {
  if (table.getRank() < 2 || table.getDimSize(tableDims(table)) == 0)
    return emitError() << name << " must have two dims and at least one row, but is " << table;
  if (indices.getRank() < tableDims(table) ||
      indices.getShape().take_front(tableDims(table)) != table.getShape().drop_back(2))
    return emitError() << name << " of type " << table << " has tables that the indices of type " << indices
                       << " do not have";
  return success();
}

LogicalResult EmbeddingOp::inferTypes(Adaptor adaptor, EmitError emitError, SmallVectorImpl<Type> &types) {
  RankedTensorType table = tensorType(adaptor.getTable());
  if (failed(checkTable(table, tensorType(adaptor.getIndices()), "table", emitError)))
    return failure();
  SmallVector<int64_t> shape(shapeOf(adaptor.getIndices()));
  shape.push_back(table.getShape().back());
  types.push_back(withShape(table, shape));
  return success();
}

IndexRange EmbeddingOp::getIndexRange() {
  return {getIndices(), getTable().getType().getDimSize(tableDims(getTable().getType()))};
}

ShardingRule EmbeddingOp::getShardingRule() {
  return embeddingRule(getTable().getType(), getIndices().getType(), FactorKind::Parallel,
                       FactorKind::Reduction);
}

SmallVector<Value> EmbeddingOp::backward(OpBuilder &builder, ArrayRef<Value> cotangents,
                                         ArrayRef<bool> wanted) {
  auto ofTable = [&] {
    return EmbeddingBackwardOp::create(builder, getLoc(), getTable().getType(), cotangents[0], getIndices());
  };
  return backwardOf(*this, builder, wanted, {ofTable});
}

SmallVector<Value> EmbeddingOp::lower(OpBuilder &builder, ValueRange operands) {
  RankedTensorType table = getTable().getType(), type = getType();
  Value rows = operands[0];
  // A formula like any other, so that what reads the rows fuses with the look-up.
  return {pointwise(builder, getLoc(), alignedLeft(operands[1], type.getShape()), type,
                    [&](ScalarBuilder &scalars, ArrayRef<Scalar> in) {
                      SmallVector<Value> place;
                      for (int64_t dim = 0; dim < tableDims(table); ++dim)
                        place.push_back(linalg::IndexOp::create(scalars.builder, dim));
                      place.push_back(indexInside(scalars.builder, getLoc(), in[0].value,
                                                  table.getDimSize(tableDims(table))));
                      place.push_back(linalg::IndexOp::create(scalars.builder, type.getRank() - 1));
                      return elementAt(scalars, rows, place);
                    })};
}

LogicalResult EmbeddingBackwardOp::verify() {
  RankedTensorType table = getType(), cotangent = getCotangent().getType();
  if (failed(checkTable(table, getIndices().getType(), "result", [&] { return emitOpError(); })))
    return failure();
  if (table.getElementType() != cotangent.getElementType())
    return emitOpError() << "result has element type " << table.getElementType() << " but the cotangent has "
                         << cotangent.getElementType();
  SmallVector<int64_t> expected(getIndices().getType().getShape());
  expected.push_back(table.getShape().back());
  return checkShape(getCotangent(), "cotangent", expected, "the indices and a row",
                    [&] { return emitOpError(); });
}

ShardingRule EmbeddingBackwardOp::getShardingRule() {
  ShardingRule rule =
      embeddingRule(getType(), getIndices().getType(), FactorKind::Reduction, FactorKind::Parallel);
  ShardingRule::Tensor table = rule.operands[0];
  rule.operands[0] = rule.results[0];
  rule.results[0] = table;
  return rule;
}

SmallVector<Value> EmbeddingBackwardOp::backward(OpBuilder &, ArrayRef<Value>, ArrayRef<bool>) {
  return refuseBackward(*this, "has no second derivative");
}

SmallVector<Value> EmbeddingBackwardOp::lower(OpBuilder &builder, ValueRange operands) {
  Location loc = getLoc();
  RankedTensorType type = getType();
  int64_t columns = type.getShape().back(), rows = type.getDimSize(tableDims(type));
  int64_t allRows = columns == 0 ? 0 : type.getNumElements() / columns;
  Value sums = filled(builder, loc,
                      RankedTensorType::get({allRows, columns}, computeType(type.getElementType())), 0.0);
  if (getCotangent().getType().getNumElements() != 0) {
    int64_t count = getIndices().getType().getNumElements();
    Value cotangents = reshape(builder, loc, operands[0], {count, columns});
    // Each turn updates one row of the carried tensor, which bufferises in place.
    sums = forEachIndex(builder, loc, operands[1], rows, allRows / rows, sums,
                        [&](OpBuilder &nested, Value position, Value row, Value carried) {
                          Value sum = addInto(nested, loc, extractRow(nested, loc, cotangents, position),
                                              extractRow(nested, loc, carried, row));
                          return insertRow(nested, loc, sum, carried, row);
                        });
  }
  sums = convertTo(builder, loc, sums, withShape(type, {allRows, columns}));
  return {reshape(builder, loc, sums, type.getShape())};
}

//===-- cross_entropy -----------------------------------------------------===//

LogicalResult CrossEntropyOp::inferTypes(Adaptor adaptor, EmitError emitError, SmallVectorImpl<Type> &types) {
  RankedTensorType logits = tensorType(adaptor.getLogits());
  if (logits.getRank() == 0)
    return emitError() << "logits need a last dim, the classes, but are " << logits;
  ArrayRef<int64_t> rows = logits.getShape().drop_back();
  if (failed(checkShape(adaptor.getTargets(), "targets", rows, "the rows of the logits", emitError)))
    return failure();
  types.assign(2, withShape(logits, rows));
  return success();
}

/// The factors of the logits: rows parallel, classes whole, or `expanded` when taken apart. All other values
/// are one per row.
static ShardingRule lossRule(Operation *op, Value logits, FactorKind expanded) {
  ShardingRule rule;
  ShardingRule::Tensor rows;
  ArrayRef<int64_t> shape = shapeOf(logits);
  for (int64_t size : shape.drop_back())
    rows.push_back({rule.addFactor(size)});
  ShardingRule::Tensor full = rows;
  full.push_back({rule.addFactor(shape.back(), FactorKind::Replicated, expanded)});
  auto dims = [&](Value value) { return shapeOf(value).size() == full.size() ? full : rows; };
  llvm::append_range(rule.operands, llvm::map_range(op->getOperands(), dims));
  llvm::append_range(rule.results, llvm::map_range(op->getResults(), dims));
  return rule;
}

IndexRange CrossEntropyOp::getIndexRange() {
  return {getTargets(), getLogits().getType().getShape().back(), getIgnoreIndex()};
}

ShardingRule CrossEntropyOp::getShardingRule() {
  return lossRule(*this, getLogits(), FactorKind::Replicated);
}

SmallVector<Value> CrossEntropyOp::backward(OpBuilder &builder, ArrayRef<Value> cotangents,
                                            ArrayRef<bool> wanted) {
  if (cotangents[1])
    return refuseBackward(*this, "has no derivative through lse; only 'losses' may reach the loss");
  auto ofLogits = [&] {
    return CrossEntropyBackwardOp::create(builder, getLoc(), cotangents[0], getLogits(), getTargets(),
                                          getLse(), getIgnoreIndex());
  };
  return backwardOf(*this, builder, wanted, {ofLogits});
}

/// Whether the class of this point of the loop nest is the target.
static Scalar isTarget(ScalarBuilder &scalars, int64_t classDim, Scalar target) {
  return isEqual(scalars.index(classDim), toI64(target));
}

static Scalar isIgnored(ScalarBuilder &scalars, Scalar target, int64_t ignoreIndex) {
  return isEqual(toI64(target), scalars.integer(ignoreIndex));
}

SmallVector<Value> CrossEntropyOp::lower(OpBuilder &builder, ValueRange operands) {
  Location loc = getLoc();
  ArrayRef<int64_t> loops = getLogits().getType().getShape();
  int64_t rows = static_cast<int64_t>(loops.size()) - 1;
  MappedTensor logits = alignedRight(operands[0], loops), targets = alignedLeft(operands[1], loops);
  Value largest = reduceRows(builder, loc, Reduction::Maximum, {logits}, loops, rows,
                             [](ScalarBuilder &, ArrayRef<Scalar> x) { return x[0]; });
  Value sums = reduceRows(builder, loc, Reduction::Sum, {logits, alignedLeft(largest, loops)}, loops, rows,
                          [](ScalarBuilder &, ArrayRef<Scalar> x) { return exp(x[0] - x[1]); });
  // A sum with one term that is not 0: the target's logit without an indexed read.
  Value picked = reduceRows(builder, loc, Reduction::Sum, {logits, targets}, loops, rows,
                            [&](ScalarBuilder &scalars, ArrayRef<Scalar> x) {
                              return select(isTarget(scalars, rows, x[1]), x[0], constant(x[0], 0));
                            });
  Value lse = pointwise(builder, loc, {sums, largest}, tensorType(sums),
                        [](ScalarBuilder &, ArrayRef<Scalar> x) { return log(x[0]) + x[1]; });
  auto loss = [&](ScalarBuilder &scalars, ArrayRef<Scalar> x) {
    return select(isIgnored(scalars, x[2], getIgnoreIndex()), constant(x[0], 0), x[0] - x[1]);
  };
  Value losses = pointwise(builder, loc, {lse, picked, operands[1]}, getLosses().getType(), loss);
  return {losses, convertTo(builder, loc, lse, getLse().getType())};
}

LogicalResult CrossEntropyBackwardOp::inferTypes(Adaptor adaptor, EmitError emitError,
                                                 SmallVectorImpl<Type> &types) {
  RankedTensorType logits = tensorType(adaptor.getLogits());
  if (logits.getRank() == 0)
    return emitError() << "logits need a last dim, the classes, but are " << logits;
  ArrayRef<int64_t> rows = logits.getShape().drop_back();
  StringRef of = "the rows of the logits";
  if (failed(checkElementTypes({adaptor.getCotangent(), adaptor.getLogits(), adaptor.getLse()}, emitError)) ||
      failed(checkShape(adaptor.getCotangent(), "cotangent", rows, of, emitError)) ||
      failed(checkShape(adaptor.getTargets(), "targets", rows, of, emitError)) ||
      failed(checkShape(adaptor.getLse(), "lse", rows, of, emitError)))
    return failure();
  types.push_back(logits);
  return success();
}

ShardingRule CrossEntropyBackwardOp::getShardingRule() {
  ShardingRule rule = lossRule(*this, getLogits(), FactorKind::Parallel);
  rule.linear.push_back({0});
  return rule;
}

SmallVector<Value> CrossEntropyBackwardOp::backward(OpBuilder &, ArrayRef<Value>, ArrayRef<bool>) {
  return refuseBackward(*this, "has no second derivative");
}

SmallVector<Value> CrossEntropyBackwardOp::lower(OpBuilder &builder, ValueRange operands) {
  ArrayRef<int64_t> loops = getType().getShape();
  auto row = [&](Value value) { return alignedLeft(value, loops); };
  auto gradient = [&](ScalarBuilder &scalars, ArrayRef<Scalar> x) {
    Scalar cotangent = x[0], logit = x[1], target = x[2], lse = x[3], zero = constant(logit, 0);
    Scalar oneHot = select(isTarget(scalars, loops.size() - 1, target), constant(logit, 1), zero);
    Scalar value = cotangent * (exp(logit - lse) - oneHot);
    return select(isIgnored(scalars, target, getIgnoreIndex()), zero, value);
  };
  return {pointwise(builder, getLoc(),
                    {row(operands[0]), alignedRight(operands[1], loops), row(operands[2]), row(operands[3])},
                    getType(), gradient)};
}

//===-- is_valid ----------------------------------------------------------===//

LogicalResult IsValidOp::verify() {
  return checkShape(getResult(), "result", getTargets().getType().getShape(), "the targets",
                    [&] { return emitOpError(); });
}

ShardingRule IsValidOp::getShardingRule() { return elementwiseRule(*this, {}); }

SmallVector<Value> IsValidOp::backward(OpBuilder &, ArrayRef<Value>, ArrayRef<bool>) { return {Value()}; }

SmallVector<Value> IsValidOp::lower(OpBuilder &builder, ValueRange operands) {
  Type element = computeType(getType().getElementType());
  auto valid = [&](ScalarBuilder &scalars, ArrayRef<Scalar> x) {
    return select(isIgnored(scalars, x[0], getIgnoreIndex()), scalars.real(element, 0),
                  scalars.real(element, 1));
  };
  return {pointwise(builder, getLoc(), operands, getType(), valid)};
}
