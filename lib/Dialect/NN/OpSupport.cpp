//===- OpSupport.cpp - What the definitions of nn ops share ---------------===//

#include "OpSupport.h"

using namespace mlir;

namespace plumb::nn {

ParseResult parseBareInteger(OpAsmParser &parser, IntegerAttr &attr) {
  int64_t value;
  if (parser.parseInteger(value))
    return failure();
  attr = parser.getBuilder().getI64IntegerAttr(value);
  return success();
}

void printBareInteger(OpAsmPrinter &printer, Operation *, IntegerAttr attr) { printer << attr.getInt(); }

ParseResult parseBareFloat(OpAsmParser &parser, FloatAttr &attr) {
  Type type = parser.getBuilder().getF64Type();
  APFloat value(APFloat::IEEEdouble());
  if (parser.parseFloat(APFloat::IEEEdouble(), value))
    return failure();
  attr = FloatAttr::get(type, value);
  return success();
}

void printBareFloat(OpAsmPrinter &printer, Operation *, FloatAttr attr) {
  printer.printFloat(attr.getValue());
}

LogicalResult checkElementTypes(ValueRange values, EmitError emitError) {
  for (auto [i, value] : llvm::enumerate(values))
    if (tensorType(value).getElementType() != tensorType(values[0]).getElementType())
      return emitError() << "operand " << i << " has element type " << tensorType(value).getElementType()
                         << " but operand 0 has " << tensorType(values[0]).getElementType();
  return success();
}

LogicalResult checkResultTypes(Operation *op, TypeRange inferred) {
  for (auto [i, pair] : llvm::enumerate(llvm::zip_equal(op->getResultTypes(), inferred)))
    if (auto [actual, expected] = pair; actual != expected)
      return op->emitOpError() << "result " << i << " is " << actual << " but follows from the operands as "
                               << expected;
  return success();
}

/// The shape of the operands broadcast against each other.
static LogicalResult inferBroadcastShape(ValueRange operands, EmitError emitError,
                                         SmallVectorImpl<int64_t> &shape) {
  for (auto [i, operand] : llvm::enumerate(operands)) // `shape` is reversed here: dim 0 is the last
    for (auto [j, size] : llvm::enumerate(llvm::reverse(shapeOf(operand)))) {
      if (j == shape.size())
        shape.push_back(1);
      if (size != 1 && shape[j] != 1 && size != shape[j])
        return emitError() << "dim " << shapeOf(operand).size() - 1 - j << " of operand " << i << " has size "
                           << size << ", which does not broadcast against " << shape[j];
      if (shape[j] == 1)
        shape[j] = size;
    }
  std::reverse(shape.begin(), shape.end());
  return success();
}

/// A tensor of the given elements and broadcast shape.
static LogicalResult inferBroadcastAs(Type element, ValueRange operands, EmitError emitError,
                                      SmallVectorImpl<Type> &types) {
  SmallVector<int64_t> shape;
  if (failed(inferBroadcastShape(operands, emitError, shape)))
    return failure();
  types.push_back(RankedTensorType::get(shape, element));
  return success();
}

LogicalResult inferBroadcast(ValueRange operands, EmitError emitError, SmallVectorImpl<Type> &types) {
  if (failed(checkElementTypes(operands, emitError)))
    return failure();
  return inferBroadcastAs(tensorType(operands[0]).getElementType(), operands, emitError, types);
}

LogicalResult inferComparison(ValueRange operands, EmitError emitError, SmallVectorImpl<Type> &types) {
  if (failed(checkElementTypes(operands, emitError)))
    return failure();
  return inferBroadcastAs(IntegerType::get(operands[0].getContext(), 1), operands, emitError, types);
}

LogicalResult inferChoice(ValueRange operands, EmitError emitError, SmallVectorImpl<Type> &types) {
  Type chosen = tensorType(operands[1]).getElementType(),
       otherwise = tensorType(operands[2]).getElementType();
  if (chosen != otherwise)
    return emitError() << "operand 2 has element type " << otherwise << " but operand 1 has " << chosen;
  return inferBroadcastAs(chosen, operands, emitError, types);
}

LogicalResult checkDim(int64_t dim, int64_t rank, EmitError emitError) {
  if (dim < 0 || dim >= rank)
    return emitError() << "dim " << dim << " is out of range for rank " << rank;
  return success();
}

SmallVector<int64_t> keptDims(int64_t rank, ArrayRef<int64_t> summed) {
  SmallVector<int64_t> kept;
  for (int64_t dim = 0; dim < rank; ++dim)
    if (!llvm::is_contained(summed, dim))
      kept.push_back(dim);
  return kept;
}

SmallVector<int64_t> withOnes(ArrayRef<int64_t> shape, ArrayRef<int64_t> dims) {
  SmallVector<int64_t> result(shape);
  for (int64_t dim : dims)
    result[dim] = 1;
  return result;
}

LogicalResult inferReduction(Value input, ArrayRef<int64_t> dims, bool keepdim, EmitError emitError,
                             SmallVectorImpl<Type> &types) {
  RankedTensorType type = tensorType(input);
  for (auto [i, dim] : llvm::enumerate(dims)) {
    if (failed(checkDim(dim, type.getRank(), emitError)))
      return failure();
    if (i > 0 && dim <= dims[i - 1])
      return emitError() << "dims [" << dims << "] are not sorted and distinct";
  }
  SmallVector<int64_t> shape = withOnes(type.getShape(), dims);
  if (!keepdim)
    for (int64_t dim : llvm::reverse(dims))
      shape.erase(shape.begin() + dim);
  types.push_back(withShape(type, shape));
  return success();
}

LogicalResult checkBroadcast(ArrayRef<int64_t> shape, ArrayRef<int64_t> target, EmitError emitError) {
  if (shape.size() > target.size())
    return emitError() << "cannot broadcast rank " << shape.size() << " to rank " << target.size();
  for (auto [i, size] : llvm::enumerate(shape)) {
    int64_t to = target[target.size() - shape.size() + i];
    if (size != 1 && size != to)
      return emitError() << "cannot broadcast dim " << i << " of size " << size << " to size " << to
                         << "; only dims of size 1 repeat";
  }
  return success();
}

ShardingRule elementwiseRule(Operation *op, std::initializer_list<std::initializer_list<int>> linear) {
  SmallVector<ArrayRef<int64_t>> shapes(llvm::map_range(op->getOperands(), shapeOf));
  ShardingRule rule = ShardingRule::elementwise(shapes, shapeOf(op->getResult(0)));
  rule.linear.assign(linear.begin(), linear.end());
  return rule;
}

ShardingRule rowRule(Operation *op, int64_t whole) {
  ShardingRule rule;
  ShardingRule::Tensor dims;
  ArrayRef<int64_t> shape = shapeOf(op->getOperand(0));
  for (auto [i, size] : llvm::enumerate(shape))
    dims.push_back(
        {rule.addFactor(size, i + whole < shape.size() ? FactorKind::Parallel : FactorKind::Replicated)});
  auto leading = [&](Value value) {
    return ShardingRule::Tensor(dims.begin(), dims.begin() + tensorType(value).getRank());
  };
  for (Value operand : op->getOperands())
    rule.operands.push_back(leading(operand));
  for (Value result : op->getResults())
    rule.results.push_back(leading(result));
  return rule;
}

ShardingRule reductionRule(Value operand, ArrayRef<int64_t> dims, bool keepdim, FactorKind kind) {
  ShardingRule rule;
  ShardingRule::Tensor input, result;
  for (auto [i, size] : llvm::enumerate(shapeOf(operand))) {
    bool reduced = llvm::is_contained(dims, static_cast<int64_t>(i));
    input.push_back({rule.addFactor(size, reduced ? kind : FactorKind::Parallel)});
    if (!reduced)
      result.push_back(input.back());
    else if (keepdim)
      result.emplace_back();
  }
  rule.operands.push_back(input);
  rule.results.push_back(result);
  return rule;
}

SmallVector<Value> rebuild(Operation *op, OpBuilder &builder, ValueRange operands, TypeRange types) {
  Operation *local = Operation::create(op->getLoc(), op->getName(), types, operands, NamedAttrList(),
                                       op->getPropertiesStorage(), BlockRange(), /*numRegions=*/0);
  return SmallVector<Value>(builder.insert(local)->getResults());
}

SmallVector<Value> refuseBackward(Operation *op, StringRef reason) {
  op->emitOpError() << reason;
  return SmallVector<Value>(op->getNumOperands());
}

SmallVector<Value> backwardOf(Operation *op, OpBuilder &builder, ArrayRef<bool> wanted,
                              std::initializer_list<function_ref<Value()>> gradients) {
  SmallVector<Value> result(op->getNumOperands());
  for (auto [i, gradient] : llvm::enumerate(gradients)) {
    RankedTensorType type = tensorType(op->getOperand(i));
    if (wanted[i] && isa<FloatType>(type.getElementType()))
      result[i] = sumTo(builder, op->getLoc(), gradient(), type);
  }
  return result;
}

Value viewAs(OpBuilder &builder, Location loc, Value value, ArrayRef<int64_t> shape) {
  RankedTensorType type = withShape(tensorType(value), shape);
  return value.getType() == type ? value : ViewOp::create(builder, loc, type, value);
}

Value numberLike(OpBuilder &builder, Location loc, Value like, double number) {
  return FillOp::create(builder, loc, withShape(tensorType(like), {}), APFloat(number));
}

Value sumTo(OpBuilder &builder, Location loc, Value cotangent, RankedTensorType type) {
  ArrayRef<int64_t> shape = shapeOf(cotangent);
  SmallVector<int64_t> dims;
  int64_t added = static_cast<int64_t>(shape.size()) - type.getRank();
  for (auto [i, size] : llvm::enumerate(shape)) {
    int64_t dim = static_cast<int64_t>(i);
    if (dim < added || (size != 1 && type.getDimSize(dim - added) == 1))
      dims.push_back(dim);
  }
  if (!dims.empty())
    cotangent = SumOp::create(builder, loc, cotangent, dims, /*keepdim=*/false);
  return viewAs(builder, loc, cotangent, type.getShape());
}

} // namespace plumb::nn
