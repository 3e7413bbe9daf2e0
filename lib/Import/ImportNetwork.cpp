//===- ImportNetwork.cpp - Einsum, convolution, pooling, normalisation ------===//

#include "AtenTargets.h"
#include "ImportSupport.h"

#include <limits>

using namespace mlir;

namespace plumb {

//===-- Products ----------------------------------------------------------===//

/// The letters of each operand and of the result. Without "->" the result has the letters that occur once,
/// sorted.
static std::pair<SmallVector<std::string>, std::string> readEquation(NodeBuilder &node) {
  std::string text = node.text("equation");
  llvm::erase(text, ' ');
  if (StringRef(text).contains('.'))
    node.refuse("an equation with \"...\" is not supported; name the dimensions");
  auto [operands, result] = StringRef(text).split("->");
  SmallVector<StringRef> parts;
  operands.split(parts, ',');
  SmallVector<std::string> letters(llvm::map_range(parts, [](StringRef part) { return part.str(); }));
  std::string after = result.str();
  if (!StringRef(text).contains("->")) {
    for (char letter : operands)
      if (letter != ',' && operands.count(letter) == 1)
        after += letter;
    llvm::sort(after);
  }
  return {letters, after};
}

/// Operands are joined from the left; a letter is summed when no later operand and not the result has it.
static void importEinsum(NodeBuilder &node) {
  node.ignore("path"); // Only the order in which operands are joined.
  auto [letters, result] = readEquation(node);
  SmallVector<Value> operands = node.tensors("tensors");
  if (operands.size() != letters.size())
    node.refuse("the equation has " + std::to_string(letters.size()) + " operands, but there are " +
                std::to_string(operands.size()));
  Value value = operands[0];
  std::string have = letters[0];
  if (operands.size() == 1) { // A sum or a transpose is a product with 1.
    operands.push_back(numberAs(node, elementOf(value), 1));
    letters.emplace_back();
  }
  for (size_t i = 1; i < operands.size(); ++i) {
    std::string needed = result, kept;
    for (size_t later = i + 1; later < operands.size(); ++later)
      needed += letters[later];
    for (char letter : have + letters[i])
      if (StringRef(needed).contains(letter) && !StringRef(kept).contains(letter))
        kept += letter;
    if (i + 1 == operands.size())
      kept = result;
    value = einsum(node, have + "," + letters[i] + "->" + kept, value, operands[i]);
    have = kept;
  }
  node.setResult(value);
}

template <bool IsOuter>
static void importVectors(NodeBuilder &node) {
  Value self = node.tensor("self"), other = node.tensor(IsOuter ? "vec2" : "tensor");
  node.setResult(einsum(node, IsOuter ? "i,j->ij" : "i,i->", self, other));
}

static void importMv(NodeBuilder &node) {
  node.setResult(einsum(node, "ij,j->i", node.tensor("self"), node.tensor("vec")));
}

/// beta · self + alpha · batch1 batch2.
static void importBaddbmm(NodeBuilder &node) {
  Value product = einsum(node, "bij,bjk->bik", node.tensor("batch1"), node.tensor("batch2"));
  Value self = scaled(node, node.tensor("self"), node.number("beta", 1));
  node.setResult(add(node, scaled(node, product, node.number("alpha", 1)), self));
}

//===-- Convolution and pooling -------------------------------------------===//

namespace {
/// The windows of a two-dimensional convolution or pooling.
struct Windows {
  SmallVector<int64_t> strides, dilations, padding;
};
} // namespace

static Value padImage(NodeBuilder &node, Value image, double number, ArrayRef<int64_t> padding) {
  SmallVector<int64_t> sides(rankOf(image) - 2, 0);
  llvm::append_range(sides, padding);
  return padWith(node, image, number, sides, sides);
}

/// The correlation of (n, c, y, x) with (f, c / groups, y, x).
static Value convolution(NodeBuilder &node, Value input, Value kernel, int64_t groups,
                         const Windows &windows) {
  ArrayRef<int64_t> image = shapeOf(input), taps = shapeOf(kernel);
  if (groups < 1 || image[1] % groups || taps[0] % groups)
    node.refuse(std::to_string(image[1]) + " and " + std::to_string(taps[0]) +
                " channels cannot be cut into " + std::to_string(groups) + " groups");
  Value grouped = viewAs(node, input, {image[0], groups, image[1] / groups, image[2], image[3]});
  Value groupedKernel = viewAs(node, kernel, {groups, taps[0] / groups, taps[1], taps[2], taps[3]});
  Value padded = padImage(node, grouped, 0, windows.padding);
  Value result = node.infer<nn::ConvolutionOp>(
      {padded, groupedKernel},
      {{"strides", node.attribute(windows.strides)}, {"dilations", node.attribute(windows.dilations)}})[0];
  ArrayRef<int64_t> shape = shapeOf(result);
  return viewAs(node, result, {shape[0], shape[1] * shape[2], shape[3], shape[4]});
}

static Value perChannel(NodeBuilder &node, Value value, int64_t spatialDims) {
  SmallVector<int64_t> shape(spatialDims + 1, 1);
  shape[0] = typeOf(value).getNumElements();
  return viewAs(node, value, shape);
}

/// A convolution over `Dims` dimensions; over one, it is one over two of which the first has size 1.
template <int Dims>
static void importConvolution(NodeBuilder &node) {
  Value input = node.tensor("input"), kernel = node.tensor("weight"), bias = node.optionalTensor("bias");
  if (rankOf(input) != Dims + 2 || rankOf(kernel) != Dims + 2)
    node.refuse("a convolution needs tensors of rank " + std::to_string(Dims + 2));
  Windows windows{integersOr(node, "stride", Dims, 1), integersOr(node, "dilation", Dims, 1),
                  integersOr(node, "padding", Dims, 0)};
  auto twoDims = [&](Value value) {
    SmallVector<int64_t> shape(shapeOf(value));
    if (Dims == 1)
      shape.insert(shape.begin() + 2, 1);
    return viewAs(node, value, shape);
  };
  if (Dims == 1) {
    windows.strides.insert(windows.strides.begin(), 1);
    windows.dilations.insert(windows.dilations.begin(), 1);
    windows.padding.insert(windows.padding.begin(), 0);
  }
  Value result = convolution(node, twoDims(input), twoDims(kernel), node.integer("groups", 1), windows);
  if (Dims == 1)
    result = viewAs(node, result, {shapeOf(result)[0], shapeOf(result)[1], shapeOf(result)[3]});
  node.setResult(bias ? add(node, result, perChannel(node, bias, Dims)) : result);
}

/// The windows of a pooling and their size.
static std::pair<Windows, SmallVector<int64_t>> readPooling(NodeBuilder &node, bool hasDilation) {
  if (rankOf(node.tensor("self")) != 4)
    node.refuse("pooling needs a tensor of rank 4");
  if (node.boolean("ceil_mode", false))
    node.refuse("ceil_mode is not supported");
  SmallVector<int64_t> size = integersOr(node, "kernel_size", 2, 1), strides = size;
  if (node.hasValue("stride") && !node.integers("stride").empty())
    strides = integersOr(node, "stride", 2, 1);
  SmallVector<int64_t> dilations =
      hasDilation ? integersOr(node, "dilation", 2, 1) : SmallVector<int64_t>{1, 1};
  return {{strides, dilations, integersOr(node, "padding", 2, 0)}, size};
}

/// A mean is a convolution of each channel with a constant.
static void importAvgPool(NodeBuilder &node) {
  Value self = node.tensor("self");
  auto [windows, size] = readPooling(node, false);
  bool countsPadding = node.boolean("count_include_pad", true);
  if (!countsPadding && llvm::any_of(windows.padding, [](int64_t sides) { return sides != 0; }))
    node.refuse("padding that is not counted is not supported");
  double divisor = node.optionalNumber("divisor_override").value_or(static_cast<double>(size[0] * size[1]));
  ArrayRef<int64_t> shape = shapeOf(self);
  auto taps = RankedTensorType::get({1, 1, size[0], size[1]}, elementOf(self));
  Value images = viewAs(node, self, {shape[0] * shape[1], 1, shape[2], shape[3]});
  Value sums = convolution(node, images, filled(node, taps, 1 / divisor), 1, windows);
  node.setResult(viewAs(node, sums, {shape[0], shape[1], shapeOf(sums)[2], shapeOf(sums)[3]}));
}

/// The greatest of one slice for each place in the window. Of equal ones the first gets the gradient.
static void importMaxPool(NodeBuilder &node) {
  auto [windows, size] = readPooling(node, true);
  Value image =
      padImage(node, node.tensor("self"), -std::numeric_limits<double>::infinity(), windows.padding);
  auto count = [&](int i) {
    int64_t room = shapeOf(image)[2 + i] - (size[i] - 1) * windows.dilations[i] - 1;
    if (room < 0)
      node.refuse("the window is larger than the image");
    return room / windows.strides[i] + 1;
  };
  int64_t rows = count(0), columns = count(1);
  Value greatest;
  for (int64_t i = 0; i < size[0]; ++i)
    for (int64_t j = 0; j < size[1]; ++j) {
      Value row = sliceOf(node, image, 2, i * windows.dilations[0], rows, windows.strides[0]);
      Value part = sliceOf(node, row, 3, j * windows.dilations[1], columns, windows.strides[1]);
      greatest = greatest ? where(node, node.infer<nn::LessOp>({greatest, part})[0], part, greatest) : part;
    }
  node.setResult(greatest);
}

/// Means of equal blocks.
static void importAdaptiveAvgPool(NodeBuilder &node) {
  Value self = node.tensor("self");
  SmallVector<int64_t> output = integersOr(node, "output_size", 2, 1);
  int64_t rank = rankOf(self);
  SmallVector<int64_t> blocks(shapeOf(self).drop_back(2));
  for (int64_t i : {0, 1}) {
    int64_t size = shapeOf(self)[rank - 2 + i];
    if (output[i] < 1 || size % output[i])
      node.refuse("an image of size " + std::to_string(size) + " cannot be cut into " +
                  std::to_string(output[i]) + " equal blocks");
    blocks.append({output[i], size / output[i]});
  }
  node.setResult(meanOver(node, viewAs(node, self, blocks), {rank - 1, rank + 1}, false));
}

//===-- Normalisation -----------------------------------------------------===//

static Value normalized(NodeBuilder &node, Value input, int64_t count, double eps, bool uncentered) {
  return node.infer<nn::NormalizeOp>(input, {{"count", node.attribute(count)},
                                             {"eps", node.attribute(eps)},
                                             {"uncentered", node.flag(uncentered)}})[0];
}

static double smallestStep(NodeBuilder &node, Type element) {
  if (element.isF64())
    return std::numeric_limits<double>::epsilon();
  if (element.isF32())
    return std::numeric_limits<float>::epsilon();
  return element.isF16() ? 1.0 / 1024 : 1.0 / 128;
}

static void importRmsNorm(NodeBuilder &node) {
  Value input = node.tensor("input"), weight = node.optionalTensor("weight");
  SmallVector<int64_t> shape = node.integers("normalized_shape");
  if (shape.empty() || shapeOf(input).size() < shape.size() ||
      shapeOf(input).take_back(shape.size()) != ArrayRef<int64_t>(shape))
    node.refuse("\"normalized_shape\" is not the shape of the input's last dimensions");
  double eps = node.optionalNumber("eps").value_or(smallestStep(node, elementOf(input)));
  Value result = normalized(node, input, static_cast<int64_t>(shape.size()), eps, true);
  node.setResult(weight ? multiply(node, result, weight) : result);
}

/// Scales and shifts channels, dim 1.
static Value affine(NodeBuilder &node, Value value, Value weight, Value bias) {
  if (weight)
    value = multiply(node, value, perChannel(node, weight, rankOf(value) - 2));
  return bias ? add(node, value, perChannel(node, bias, rankOf(value) - 2)) : value;
}

static void importGroupNorm(NodeBuilder &node) {
  Value input = node.tensor("input");
  node.ignore("cudnn_enabled");
  int64_t groups = node.integer("num_groups"), batch = rankOf(input) < 2 ? 0 : shapeOf(input)[0];
  if (batch < 1 || groups < 1 || shapeOf(input)[1] % groups)
    node.refuse("the channels cannot be cut into " + std::to_string(groups) + " groups");
  Value rows = viewAs(node, input, {batch, groups, typeOf(input).getNumElements() / (batch * groups)});
  Value result = viewAs(node, normalized(node, rows, 1, node.number("eps", 1e-5), false), shapeOf(input));
  node.setResult(affine(node, result, node.optionalTensor("weight"), node.optionalTensor("bias")));
}

/// With running statistics: (x − mean) / sqrt(variance + eps), scaled and shifted.
static void importBatchNorm(NodeBuilder &node) {
  Value input = node.tensor("input"), mean = node.optionalTensor("running_mean"),
        variance = node.optionalTensor("running_var");
  node.ignore("momentum");
  node.ignore("cudnn_enabled");
  if (node.boolean("training") || !mean || !variance || rankOf(input) < 2)
    node.refuse("batch normalisation is supported with running statistics only; export after model.eval()");
  int64_t spatialDims = rankOf(input) - 2;
  Value wide = add(node, variance, numberAs(node, elementOf(variance), node.number("eps")));
  Value distance = subtract(node, input, perChannel(node, mean, spatialDims));
  Value result = multiply(node, distance, perChannel(node, power(node, wide, -0.5), spatialDims));
  node.setResult(affine(node, result, node.optionalTensor("weight"), node.optionalTensor("bias")));
}

ArrayRef<AtenTarget> networkTargets() {
  static constexpr AtenTarget targets[] = {
      {"torch.ops.aten.einsum.default", importEinsum},
      {"torch.ops.aten.outer.default", importVectors<true>},
      {"torch.ops.aten.dot.default", importVectors<false>},
      {"torch.ops.aten.mv.default", importMv},
      {"torch.ops.aten.baddbmm.default", importBaddbmm},
      {"torch.ops.aten.conv1d.default", importConvolution<1>},
      {"torch.ops.aten.conv2d.default", importConvolution<2>},
      {"torch.ops.aten.avg_pool2d.default", importAvgPool},
      {"torch.ops.aten.max_pool2d.default", importMaxPool},
      {"torch.ops.aten.adaptive_avg_pool2d.default", importAdaptiveAvgPool},
      {"torch.ops.aten.rms_norm.default", importRmsNorm},
      {"torch.ops.aten.group_norm.default", importGroupNorm},
      {"torch.ops.aten.batch_norm.default", importBatchNorm},
  };
  return targets;
}

} // namespace plumb
