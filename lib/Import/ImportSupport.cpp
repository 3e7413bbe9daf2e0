//===- ImportSupport.cpp - What builders of ATen targets share --------------===//

#include "ImportSupport.h"

#include "plumb/Dialect/NN/NNAttributes.h"

using namespace mlir;

namespace plumb {

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

Value filled(NodeBuilder &node, RankedTensorType type, double number) {
  return node.create<nn::FillOp>(type, {}, {{"value", node.attribute(number)}})[0];
}

Value numberAs(NodeBuilder &node, Type element, double number) {
  return filled(node, RankedTensorType::get({}, element), number);
}

Value viewAs(NodeBuilder &node, Value value, ArrayRef<int64_t> shape) {
  auto type = RankedTensorType::get(shape, elementOf(value));
  return typeOf(value) == type ? value : node.create<nn::ViewOp>(type, value)[0];
}

Value permuted(NodeBuilder &node, Value value, ArrayRef<int64_t> permutation) {
  if (llvm::equal(permutation, llvm::seq<int64_t>(0, rankOf(value))))
    return value;
  return node.infer<nn::TransposeOp>(value, {{"permutation", node.attribute(permutation)}})[0];
}

Value swapDims(NodeBuilder &node, Value value, int64_t first, int64_t second) {
  SmallVector<int64_t> permutation = llvm::to_vector(llvm::seq<int64_t>(0, rankOf(value)));
  std::swap(permutation[first], permutation[second]);
  return permuted(node, value, permutation);
}

Value broadcastTo(NodeBuilder &node, Value value, ArrayRef<int64_t> shape) {
  auto type = RankedTensorType::get(shape, elementOf(value));
  return typeOf(value) == type ? value : node.create<nn::BroadcastOp>(type, value)[0];
}

Value convertTo(NodeBuilder &node, Value value, Type element) {
  auto type = RankedTensorType::get(shapeOf(value), element);
  return typeOf(value) == type ? value : node.create<nn::ConvertOp>(type, value)[0];
}

Value scaled(NodeBuilder &node, Value value, double factor) {
  if (factor == 1)
    return value;
  if (!isFloat(value))
    return multiply(node, value, numberAs(node, elementOf(value), factor));
  return node.infer<nn::ScaleOp>(value, {{"factor", node.attribute(factor)}})[0];
}

Value add(NodeBuilder &node, Value a, Value b) { return node.infer<nn::AddOp>({a, b})[0]; }
Value subtract(NodeBuilder &node, Value a, Value b) { return node.infer<nn::SubOp>({a, b})[0]; }
Value multiply(NodeBuilder &node, Value a, Value b) { return node.infer<nn::MulOp>({a, b})[0]; }
Value divide(NodeBuilder &node, Value a, Value b) { return node.infer<nn::DivOp>({a, b})[0]; }

Value less(NodeBuilder &node, Value a, Value b) { return node.infer<nn::LessOp>({a, b})[0]; }

Value clamped(NodeBuilder &node, Value value, Value low, Value high) {
  Value result = value;
  if (high)
    result = where(node, less(node, high, value), high, result);
  return low ? where(node, less(node, value, low), low, result) : result;
}

Value power(NodeBuilder &node, Value value, double exponent) {
  return node.infer<nn::PowerOp>(value, {{"exponent", node.attribute(exponent)}})[0];
}

Value where(NodeBuilder &node, Value condition, Value chosen, Value otherwise) {
  return node.infer<nn::WhereOp>({condition, chosen, otherwise})[0];
}

Value logicalNot(NodeBuilder &node, Value condition) {
  return node.infer<nn::EqualOp>({condition, numberAs(node, elementOf(condition), 0)})[0];
}

Value einsum(NodeBuilder &node, const std::string &equation, Value lhs, Value rhs) {
  return node.infer<nn::EinsumOp>({lhs, rhs}, {{"equation", node.attribute(equation)}})[0];
}

Value sumOver(NodeBuilder &node, Value value, ArrayRef<int64_t> dims, bool keepdim) {
  return node.infer<nn::SumOp>(value, {{"dims", node.attribute(dims)}, {"keepdim", node.flag(keepdim)}})[0];
}

Value dividedByCount(NodeBuilder &node, Value sum, double count, double correction) {
  Value mean = node.infer<nn::ScaleOp>(sum, {{"factor", node.attribute(1 / (count - correction))}})[0];
  mean.getDefiningOp()->setAttr(nn::kMeanAttr, node.attribute(correction));
  return mean;
}

Value meanOver(NodeBuilder &node, Value value, ArrayRef<int64_t> dims, bool keepdim) {
  double count = 1;
  for (int64_t dim : dims)
    count *= static_cast<double>(shapeOf(value)[dim]);
  return dividedByCount(node, sumOver(node, value, dims, keepdim), count);
}

Value joined(NodeBuilder &node, ValueRange parts, int64_t dim) {
  return parts.size() == 1 ? parts[0]
                           : Value(node.infer<nn::CatOp>(parts, {{"dim", node.attribute(dim)}})[0]);
}

Value sliceOf(NodeBuilder &node, Value value, int64_t dim, int64_t start, int64_t count, int64_t step) {
  SmallVector<int64_t> shape(shapeOf(value)), offsets(shape.size(), 0), strides(shape.size(), 1);
  if (count == shape[dim])
    return value;
  shape[dim] = count;
  offsets[dim] = start;
  strides[dim] = step;
  return node.create<nn::SliceOp>(
      RankedTensorType::get(shape, elementOf(value)), value,
      {{"offsets", node.attribute(offsets)}, {"strides", node.attribute(strides)}})[0];
}

Value padWith(NodeBuilder &node, Value value, double number, ArrayRef<int64_t> before,
              ArrayRef<int64_t> after) {
  SmallVector<int64_t> shape(shapeOf(value)), strides(shape.size(), 1);
  for (auto [size, left, right] : llvm::zip_equal(shape, before, after)) {
    if (left < 0 || right < 0)
      node.refuse("negative padding is not supported; slice the tensor instead");
    if (__builtin_add_overflow(size, left, &size) || __builtin_add_overflow(size, right, &size))
      node.refuse("the padded tensor has too many elements");
  }
  if (ArrayRef<int64_t>(shape) == shapeOf(value))
    return value;
  return node.create<nn::PadOp>(RankedTensorType::get(shape, elementOf(value)), value,
                                {{"value", node.attribute(number)},
                                 {"offsets", node.attribute(before)},
                                 {"strides", node.attribute(strides)}})[0];
}

Value perChannel(NodeBuilder &node, Value value, int64_t spatialDims) {
  SmallVector<int64_t> shape(spatialDims + 1, 1);
  shape[0] = typeOf(value).getNumElements();
  return viewAs(node, value, shape);
}

Value countAlong(NodeBuilder &node, int64_t size, int64_t dim, int64_t rank) {
  auto type = RankedTensorType::get({size}, node.builder().getI64Type());
  Value numbers = node.create<nn::IotaOp>(
      type, {}, {{"start", node.attribute(int64_t(0))}, {"step", node.attribute(int64_t(1))}})[0];
  SmallVector<int64_t> shape(rank, 1);
  shape[dim] = size;
  return viewAs(node, numbers, shape);
}

Dropped dropped(NodeBuilder &node, Value value, double probability) {
  if (!(probability >= 0 && probability <= 1))
    node.refuse("elements cannot be dropped with the probability " + std::to_string(probability));
  if (probability == 0)
    return {value, Value()};
  auto flags = RankedTensorType::get(shapeOf(value), node.builder().getI1Type());
  ResultRange results =
      node.create<DropoutOp>({value.getType(), flags}, value, {{"probability", node.attribute(probability)}});
  return {results[0], results[1]};
}

Value repeatInterleaved(NodeBuilder &node, Value value, int64_t dim, int64_t count) {
  if (count < 0)
    node.refuse("the argument \"repeats\" must not be negative");
  SmallVector<int64_t> shape(shapeOf(value)), apart = shape;
  apart.insert(apart.begin() + dim + 1, 1);
  Value repeated = viewAs(node, value, apart);
  apart[dim + 1] = count;
  if (__builtin_mul_overflow(shape[dim], count, &shape[dim]))
    node.refuse("the repeated tensor has too many elements");
  return viewAs(node, broadcastTo(node, repeated, apart), shape);
}

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

Value promoted(NodeBuilder &node, StringRef name) {
  return convertTo(node, node.tensor(name), node.resultType().getElementType());
}

Value promotedOrNumber(NodeBuilder &node, StringRef name) {
  if (node.isTensor(name))
    return promoted(node, name);
  return numberAs(node, node.resultType().getElementType(), node.number(name));
}

SmallVector<int64_t> dimsOf(NodeBuilder &node, StringRef name, int64_t rank) {
  SmallVector<int64_t> dims;
  if (node.hasValue(name))
    dims = node.integers(name);
  for (int64_t &dim : dims) {
    if (dim < -rank || dim >= rank)
      node.refuse("the argument \"" + name.str() + "\" names dimension " + std::to_string(dim) +
                  " of a tensor of rank " + std::to_string(rank));
    dim = dim < 0 ? dim + rank : dim;
  }
  if (dims.empty())
    dims = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  llvm::sort(dims);
  return dims;
}

SmallVector<int64_t> integersOr(NodeBuilder &node, StringRef name, int64_t count, int64_t otherwise) {
  SmallVector<int64_t> values;
  if (node.hasValue(name))
    values = node.integers(name);
  if (values.empty())
    values.push_back(otherwise);
  if (values.size() == 1)
    values.assign(count, values[0]);
  if (static_cast<int64_t>(values.size()) != count)
    node.refuse("the argument \"" + name.str() + "\" must have " + std::to_string(count) + " elements");
  return values;
}

void setReducedLoss(NodeBuilder &node, Value losses) {
  enum Reduction { None = 0, Mean = 1, Sum = 2 };
  int64_t reduction = node.integer("reduction", Mean);
  if (reduction < None || reduction > Sum)
    node.refuse("the reduction " + std::to_string(reduction) + " is unknown");
  auto all = llvm::to_vector(llvm::seq<int64_t>(0, rankOf(losses)));
  if (reduction == Mean)
    losses = meanOver(node, losses, all, false);
  if (reduction == Sum)
    losses = sumOver(node, losses, all, false);
  node.setResult(losses);
}

} // namespace plumb
