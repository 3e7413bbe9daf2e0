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

LogicalResult inferBroadcast(ValueRange operands, EmitError emitError, SmallVectorImpl<Type> &types) {
  if (failed(checkElementTypes(operands, emitError)))
    return failure();
  SmallVector<int64_t> shape; // reversed: dim 0 is the last
  for (auto [i, operand] : llvm::enumerate(operands))
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
  types.push_back(withShape(tensorType(operands[0]), shape));
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
  if (cotangent.getType() != type)
    cotangent = ViewOp::create(builder, loc, type, cotangent);
  return cotangent;
}

} // namespace plumb::nn
