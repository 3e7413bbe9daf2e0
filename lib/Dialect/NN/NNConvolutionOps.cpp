//===- NNConvolutionOps.cpp - Convolutions ---------------------------------===//

#include "Lowering.h"
#include "OpSupport.h"

using namespace mlir;
using namespace plumb::nn;

#define GET_OP_CLASSES
#include "plumb/Dialect/NN/NNConvolutionOps.cpp.inc"

/// How many positions a window of `taps` elements, `dilation` apart, has in `size` elements.
static int64_t positionCount(int64_t size, int64_t taps, int64_t stride, int64_t dilation) {
  int64_t room = size - ((taps - 1) * dilation + 1);
  return room < 0 ? 0 : room / stride + 1;
}

LogicalResult ConvolutionOp::inferTypes(Adaptor adaptor, EmitError emitError, SmallVectorImpl<Type> &types) {
  RankedTensorType input = tensorType(adaptor.getInput()), kernel = tensorType(adaptor.getKernel());
  if (failed(checkElementTypes(adaptor.getOperands(), emitError)))
    return failure();
  if (input.getRank() != 5 || kernel.getRank() != 5)
    return emitError() << "needs operands of 5 dims, (n, g, c, y, x) and (g, f, c, y, x), but has " << input
                       << " and " << kernel;
  for (auto [inputDim, kernelDim, name] : {std::tuple(1, 0, "groups"), std::tuple(2, 2, "channels")})
    if (input.getDimSize(inputDim) != kernel.getDimSize(kernelDim))
      return emitError() << "input has " << input.getDimSize(inputDim) << " " << name
                         << " but the kernel has " << kernel.getDimSize(kernelDim);
  SmallVector<int64_t> shape{input.getDimSize(0), input.getDimSize(1), kernel.getDimSize(1)};
  if (adaptor.getStrides().size() != 2 || adaptor.getDilations().size() != 2)
    return emitError() << "needs two strides and two dilations";
  for (int64_t i : {0, 1}) {
    int64_t stride = adaptor.getStrides()[i], dilation = adaptor.getDilations()[i];
    int64_t size = input.getDimSize(3 + i), taps = kernel.getDimSize(3 + i);
    if (stride < 1 || dilation < 1)
      return emitError() << "strides and dilations must be positive";
    if (taps < 1 || (taps > 1 && dilation > size) || positionCount(size, taps, stride, dilation) < 1)
      return emitError() << "a kernel of " << taps << " elements, " << dilation
                         << " apart, does not fit into dim " << 3 + i << " of " << input;
    shape.push_back(positionCount(size, taps, stride, dilation));
  }
  types.push_back(withShape(input, shape));
  return success();
}

ShardingRule ConvolutionOp::getShardingRule() {
  ShardingRule rule;
  auto parallel = [&](int64_t size) { return ShardingRule::Dim{rule.addFactor(size)}; };
  auto whole = [&](int64_t size) { return ShardingRule::Dim{rule.addFactor(size, FactorKind::Replicated)}; };
  ArrayRef<int64_t> input = shapeOf(getInput()), kernel = shapeOf(getKernel()), result = shapeOf(getResult());
  ShardingRule::Dim n = parallel(input[0]), g = parallel(input[1]), f = parallel(kernel[1]);
  ShardingRule::Dim c{rule.addFactor(input[2], FactorKind::Reduction)};
  rule.operands = {{n, g, c, whole(input[3]), whole(input[4])},
                   {g, f, c, whole(kernel[3]), whole(kernel[4])}};
  rule.results.push_back({n, g, f, whole(result[3]), whole(result[4])});
  rule.linear.push_back({0});
  rule.linear.push_back({1});
  return rule;
}

/// Each input element is read at every tap of the kernel that meets it: the cotangent, spread out by the
/// stride, is correlated with the reversed kernel.
static Value inputGradient(OpBuilder &builder, ConvolutionOp op, Value cotangent) {
  Location loc = op.getLoc();
  RankedTensorType input = op.getInput().getType(), kernel = op.getKernel().getType();
  SmallVector<int64_t> shape(shapeOf(cotangent)), offsets(5, 0), strides(5, 1);
  for (int64_t i : {0, 1}) {
    offsets[3 + i] = (kernel.getDimSize(3 + i) - 1) * op.getDilations()[i];
    strides[3 + i] = op.getStrides()[i];
    shape[3 + i] = input.getDimSize(3 + i) + offsets[3 + i];
  }
  Value spread =
      PadOp::create(builder, loc, withShape(input, shape), cotangent, APFloat(0.0), offsets, strides);
  Value reversed = ReverseOp::create(builder, loc, op.getKernel(), ArrayRef<int64_t>{3, 4});
  Value turned = TransposeOp::create(builder, loc, reversed, ArrayRef<int64_t>{0, 2, 1, 3, 4});
  return ConvolutionOp::create(builder, loc, spread, turned, ArrayRef<int64_t>{1, 1}, op.getDilations());
}

/// The input correlated with the cotangent, summed over the batch; steps of the one are gaps of the other.
static Value kernelGradient(OpBuilder &builder, ConvolutionOp op, Value cotangent) {
  Location loc = op.getLoc();
  RankedTensorType kernel = op.getKernel().getType();
  Value input = TransposeOp::create(builder, loc, op.getInput(), ArrayRef<int64_t>{2, 1, 0, 3, 4});
  Value window = TransposeOp::create(builder, loc, cotangent, ArrayRef<int64_t>{1, 2, 0, 3, 4});
  Value gradient = ConvolutionOp::create(builder, loc, input, window, op.getDilations(), op.getStrides());
  // What the last window does not reach gave no result.
  SmallVector<int64_t> shape(shapeOf(gradient)), zeros(5, 0), ones(5, 1);
  shape[3] = kernel.getDimSize(3);
  shape[4] = kernel.getDimSize(4);
  if (ArrayRef<int64_t>(shape) != shapeOf(gradient))
    gradient = SliceOp::create(builder, loc, withShape(kernel, shape), gradient, zeros, ones);
  return TransposeOp::create(builder, loc, gradient, ArrayRef<int64_t>{1, 2, 0, 3, 4});
}

SmallVector<Value> ConvolutionOp::backward(OpBuilder &builder, ArrayRef<Value> cotangents,
                                           ArrayRef<bool> wanted) {
  return backwardOf(*this, builder, wanted,
                    {[&] { return inputGradient(builder, *this, cotangents[0]); },
                     [&] { return kernelGradient(builder, *this, cotangents[0]); }});
}

SmallVector<Value> ConvolutionOp::lower(OpBuilder &builder, ValueRange operands) {
  enum Loop { N, G, F, Y, X, C, I, J };
  ArrayRef<int64_t> kernel = shapeOf(operands[1]);
  SmallVector<int64_t> loops(getType().getShape());
  llvm::append_range(loops, kernel.drop_front(2));
  auto loop = [&](Loop dim) { return builder.getAffineDimExpr(dim); };
  auto window = [&](Loop position, Loop tap, int64_t i) {
    return loop(position) * getStrides()[i] + loop(tap) * getDilations()[i];
  };
  auto map = [&](ArrayRef<AffineExpr> exprs) { return AffineMap::get(8, 0, exprs, builder.getContext()); };
  MappedTensor input{operands[0], map({loop(N), loop(G), loop(C), window(Y, I, 0), window(X, J, 1)})};
  MappedTensor taps{operands[1], map({loop(G), loop(F), loop(C), loop(I), loop(J)})};
  Value sums = reduce(builder, getLoc(), Reduction::Sum, {input, taps}, loops, {N, G, F, Y, X},
                      [](ScalarBuilder &, ArrayRef<Scalar> x) { return x[0] * x[1]; });
  return {convertTo(builder, getLoc(), sums, getType())};
}
