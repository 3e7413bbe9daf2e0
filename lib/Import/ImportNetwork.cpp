//===- ImportNetwork.cpp - Einsum, convolution, pooling ----------------------===//

#include "AtenTargets.h"
#include "ImportSupport.h"

#include <limits>

using namespace mlir;

namespace plumb {

//===-- Products ----------------------------------------------------------===//

/// The equation with letters in place of "...", which stands for the leading dims that have no letter. All
/// operands must have equally many of them.
static std::string namedEllipsis(NodeBuilder &node, std::string text) {
  if (!StringRef(text).contains("..."))
    return text;
  std::string free;
  for (char letter = 'a'; letter <= 'z'; ++letter)
    if (!StringRef(text).contains(letter))
      free += letter;
  SmallVector<StringRef> parts;
  StringRef(text).split("->").first.split(parts, ',');
  SmallVector<Value> operands = node.tensors("tensors");
  std::optional<int64_t> count;
  for (auto [part, operand] : llvm::zip(parts, operands)) {
    if (!part.contains("..."))
      continue;
    int64_t unnamed = rankOf(operand) - static_cast<int64_t>(part.size() - 3);
    if (unnamed < 0 || unnamed > static_cast<int64_t>(free.size()) || (count && *count != unnamed))
      node.refuse("\"...\" does not stand for the same dimensions everywhere");
    count = unnamed;
  }
  std::string letters = free.substr(0, count.value_or(0)), result;
  for (size_t at = 0; at < text.size(); ++at) {
    bool isEllipsis = StringRef(text).substr(at).starts_with("...");
    result += isEllipsis ? letters : std::string(1, text[at]);
    at += isEllipsis ? 2 : 0;
  }
  if (!StringRef(text).contains("->"))
    node.refuse("an equation with \"...\" needs its result named");
  return result;
}

/// The letters of each operand and of the result. Without "->" the result has the letters that occur once,
/// sorted.
static std::pair<SmallVector<std::string>, std::string> readEquation(NodeBuilder &node) {
  std::string text = node.text("equation");
  llvm::erase(text, ' ');
  text = namedEllipsis(node, text);
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

//===-- Convolution and pooling -------------------------------------------===//

namespace {
/// The windows of a two-dimensional convolution or pooling.
struct Windows {
  SmallVector<int64_t> strides, dilations;
};
} // namespace

static Value padImage(NodeBuilder &node, Value image, double number, ArrayRef<int64_t> before,
                      ArrayRef<int64_t> after) {
  SmallVector<int64_t> left(rankOf(image) - 2, 0), right = left;
  llvm::append_range(left, before);
  llvm::append_range(right, after);
  return padWith(node, image, number, left, right);
}

/// The correlation of (n, c, y, x), padded already, with (f, c / groups, y, x).
static Value convolution(NodeBuilder &node, Value input, Value kernel, int64_t groups,
                         const Windows &windows) {
  ArrayRef<int64_t> image = shapeOf(input), taps = shapeOf(kernel);
  if (groups < 1 || image[1] % groups || taps[0] % groups)
    node.refuse(std::to_string(image[1]) + " and " + std::to_string(taps[0]) +
                " channels cannot be cut into " + std::to_string(groups) + " groups");
  Value grouped = viewAs(node, input, {image[0], groups, image[1] / groups, image[2], image[3]});
  Value groupedKernel = viewAs(node, kernel, {groups, taps[0] / groups, taps[1], taps[2], taps[3]});
  Value result = node.infer<nn::ConvolutionOp>(
      {grouped, groupedKernel},
      {{"strides", node.attribute(windows.strides)}, {"dilations", node.attribute(windows.dilations)}})[0];
  ArrayRef<int64_t> shape = shapeOf(result);
  return viewAs(node, result, {shape[0], shape[1] * shape[2], shape[3], shape[4]});
}

/// A tensor with one spatial dim as one with two, of which the first has size 1.
static Value asImage(NodeBuilder &node, Value value) {
  SmallVector<int64_t> shape(shapeOf(value));
  if (shape.size() == 3)
    shape.insert(shape.begin() + 2, 1);
  return viewAs(node, value, shape);
}

/// `value` for a spatial dim added in front, if there is only one.
static void widen(SmallVector<int64_t> &perDim, int64_t value) {
  if (perDim.size() == 1)
    perDim.insert(perDim.begin(), value);
}

static Value fromImage(NodeBuilder &node, Value image, int64_t dims) {
  SmallVector<int64_t> shape(shapeOf(image));
  if (dims == 1)
    shape.erase(shape.begin() + 2);
  return viewAs(node, image, shape);
}

/// Zeros before and after each spatial dim: as many as are given, or as keep the size.
static std::pair<SmallVector<int64_t>, SmallVector<int64_t>>
readPadding(NodeBuilder &node, int64_t dims, ArrayRef<int64_t> taps, const Windows &windows) {
  if (!node.isText("padding")) {
    SmallVector<int64_t> sides = integersOr(node, "padding", dims, 0);
    return {sides, sides};
  }
  std::string mode = node.text("padding");
  SmallVector<int64_t> before(dims, 0), after(dims, 0);
  if (mode != "same" && mode != "valid")
    node.refuse("the padding \"" + mode + "\" is unknown");
  for (int64_t dim = 0; mode == "same" && dim < dims; ++dim) {
    int64_t total = windows.dilations[dim] * (taps[dim] - 1);
    before[dim] = total / 2; // An odd zero stands behind.
    after[dim] = total - total / 2;
  }
  return {before, after};
}

template <int Dims>
static void importConvolution(NodeBuilder &node) {
  Value input = node.tensor("input"), kernel = node.tensor("weight"), bias = node.optionalTensor("bias");
  if (rankOf(input) != Dims + 2 || rankOf(kernel) != Dims + 2)
    node.refuse("a convolution needs tensors of rank " + std::to_string(Dims + 2));
  Windows windows{integersOr(node, "stride", Dims, 1), integersOr(node, "dilation", Dims, 1)};
  auto [before, after] = readPadding(node, Dims, shapeOf(kernel).drop_front(2), windows);
  widen(windows.strides, 1);
  widen(windows.dilations, 1);
  widen(before, 0);
  widen(after, 0);
  Value image = padImage(node, asImage(node, input), 0, before, after);
  Value result = fromImage(
      node, convolution(node, image, asImage(node, kernel), node.integer("groups", 1), windows), Dims);
  node.setResult(bias ? add(node, result, perChannel(node, bias, Dims)) : result);
}

/// The transpose of a convolution: the correlation of the input, spread by its stride, with the mirrored
/// kernel.
template <int Dims>
static void importTransposedConvolution(NodeBuilder &node) {
  Value input = asImage(node, node.tensor("input")), kernel = asImage(node, node.tensor("weight"));
  Value bias = node.optionalTensor("bias");
  if (rankOf(input) != 4 || rankOf(kernel) != 4)
    node.refuse("a convolution needs tensors of rank " + std::to_string(Dims + 2));
  SmallVector<int64_t> strides = integersOr(node, "stride", Dims, 1),
                       padding = integersOr(node, "padding", Dims, 0),
                       more = integersOr(node, "output_padding", Dims, 0),
                       dilations = integersOr(node, "dilation", Dims, 1);
  int64_t groups = node.integer("groups", 1);
  widen(strides, 1);
  widen(padding, 0);
  widen(more, 0);
  widen(dilations, 1);
  ArrayRef<int64_t> image = shapeOf(input), taps = shapeOf(kernel);
  if (groups < 1 || image[1] % groups || taps[0] != image[1])
    node.refuse("the channels cannot be cut into " + std::to_string(groups) + " groups");
  SmallVector<int64_t> shape(image), offsets(4, 0), apart(4, 1);
  for (int64_t i : {0, 1}) {
    int64_t reach = dilations[i] * (taps[2 + i] - 1) - padding[i];
    if (strides[i] < 1 || dilations[i] < 1 || image[2 + i] < 1 || reach < 0)
      node.refuse("a padding of more than the kernel is not supported");
    shape[2 + i] = reach + (image[2 + i] - 1) * strides[i] + 1 + reach + more[i];
    offsets[2 + i] = reach;
    apart[2 + i] = strides[i];
  }
  Value spread = node.create<nn::PadOp>(RankedTensorType::get(shape, elementOf(input)), input,
                                        {{"value", node.attribute(0.0)},
                                         {"offsets", node.attribute(offsets)},
                                         {"strides", node.attribute(apart)}})[0];
  // (groups · c, f, y, x) becomes (groups · f, c, y, x), mirrored.
  Value split = viewAs(node, kernel, {groups, taps[0] / groups, taps[1], taps[2], taps[3]});
  Value swapped =
      viewAs(node, swapDims(node, split, 1, 2), {groups * taps[1], taps[0] / groups, taps[2], taps[3]});
  Value mirrored = node.infer<nn::ReverseOp>(swapped, {{"dims", node.attribute(ArrayRef<int64_t>{2, 3})}})[0];
  Value result = fromImage(node, convolution(node, spread, mirrored, groups, {{1, 1}, dilations}), Dims);
  node.setResult(bias ? add(node, result, perChannel(node, bias, Dims)) : result);
}

//===-- Pooling -----------------------------------------------------------===//

namespace {
/// A pooling over one spatial dim or two, of an image with two.
struct Pooling {
  Value image;
  Windows windows;
  SmallVector<int64_t> size, padding;
  int64_t dims; ///< Spatial dims of the operator.
};
} // namespace

static Pooling readPooling(NodeBuilder &node, int64_t dims, bool hasDilation) {
  Value self = node.tensor("self");
  if (rankOf(self) != dims + 2)
    node.refuse("pooling needs a tensor of rank " + std::to_string(dims + 2));
  if (node.boolean("ceil_mode", false))
    node.refuse("ceil_mode is not supported");
  SmallVector<int64_t> size = integersOr(node, "kernel_size", dims, 1), strides = size;
  if (node.hasValue("stride") && !node.integers("stride").empty())
    strides = integersOr(node, "stride", dims, 1);
  SmallVector<int64_t> dilations =
      hasDilation ? integersOr(node, "dilation", dims, 1) : SmallVector<int64_t>(dims, 1);
  Pooling pooling{
      asImage(node, self), {strides, dilations}, size, integersOr(node, "padding", dims, 0), dims};
  for (SmallVector<int64_t> *perDim : {&pooling.windows.strides, &pooling.windows.dilations, &pooling.size})
    widen(*perDim, 1);
  widen(pooling.padding, 0);
  for (int64_t i : {0, 1})
    if (pooling.size[i] < 1 || pooling.windows.strides[i] < 1 || pooling.windows.dilations[i] < 1)
      node.refuse("windows and strides must be positive");
  return pooling;
}

/// A mean is a convolution of each channel with a constant.
template <int Dims>
static void importAvgPool(NodeBuilder &node) {
  Pooling pooling = readPooling(node, Dims, false);
  bool countsPadding = node.boolean("count_include_pad", true);
  if (!countsPadding && llvm::any_of(pooling.padding, [](int64_t sides) { return sides != 0; }))
    node.refuse("padding that is not counted is not supported");
  double divisor = static_cast<double>(pooling.size[0] * pooling.size[1]);
  if (Dims == 2)
    divisor = node.optionalNumber("divisor_override").value_or(divisor);
  if (divisor == 0)
    node.refuse("the argument \"divisor_override\" must not be 0");
  ArrayRef<int64_t> shape = shapeOf(pooling.image);
  auto taps = RankedTensorType::get({1, 1, pooling.size[0], pooling.size[1]}, elementOf(pooling.image));
  Value images = viewAs(node, pooling.image, {shape[0] * shape[1], 1, shape[2], shape[3]});
  images = padImage(node, images, 0, pooling.padding, pooling.padding);
  Value sums = convolution(node, images, filled(node, taps, 1 / divisor), 1, pooling.windows);
  sums = viewAs(node, sums, {shape[0], shape[1], shapeOf(sums)[2], shapeOf(sums)[3]});
  node.setResult(fromImage(node, sums, Dims));
}

/// Visits each place in the window: the elements of all windows that stand there.
static void forEachTap(NodeBuilder &node, const Pooling &pooling, Value image,
                       llvm::function_ref<void(Value)> visit) {
  auto count = [&](int i) {
    int64_t room = shapeOf(image)[2 + i] - (pooling.size[i] - 1) * pooling.windows.dilations[i] - 1;
    if (room < 0)
      node.refuse("the window is larger than the image");
    return room / pooling.windows.strides[i] + 1;
  };
  int64_t rows = count(0), columns = count(1);
  for (int64_t i = 0; i < pooling.size[0]; ++i)
    for (int64_t j = 0; j < pooling.size[1]; ++j) {
      Value row = sliceOf(node, image, 2, i * pooling.windows.dilations[0], rows, pooling.windows.strides[0]);
      visit(sliceOf(node, row, 3, j * pooling.windows.dilations[1], columns, pooling.windows.strides[1]));
    }
}

/// Of equal elements the first gets the gradient.
template <int Dims>
static void importMaxPool(NodeBuilder &node) {
  Pooling pooling = readPooling(node, Dims, true);
  Value image = padImage(node, pooling.image, -std::numeric_limits<double>::infinity(), pooling.padding,
                         pooling.padding);
  Value greatest;
  forEachTap(node, pooling, image, [&](Value part) {
    greatest = greatest ? where(node, less(node, greatest, part), part, greatest) : part;
  });
  node.setResult(fromImage(node, greatest, Dims));
}

/// The windows of an image as columns: (n, c · taps, windows).
static void importIm2col(NodeBuilder &node) {
  Pooling pooling = readPooling(node, 2, true);
  Value image = padImage(node, pooling.image, 0, pooling.padding, pooling.padding);
  SmallVector<Value> taps;
  ArrayRef<int64_t> shape = shapeOf(pooling.image);
  forEachTap(node, pooling, image, [&](Value part) {
    taps.push_back(viewAs(node, part, {shape[0], shape[1], 1, shapeOf(part)[2] * shapeOf(part)[3]}));
  });
  Value all = joined(node, taps, 2);
  node.setResult(viewAs(node, all, {shape[0], shape[1] * shapeOf(all)[2], shapeOf(all)[3]}));
}

/// Means of equal blocks.
template <int Dims>
static void importAdaptivePool(NodeBuilder &node) {
  Value self = node.tensor("self");
  SmallVector<int64_t> output = integersOr(node, "output_size", Dims, 1), inner;
  if (rankOf(self) < Dims + 1)
    node.refuse("pooling needs a tensor of rank " + std::to_string(Dims + 2));
  SmallVector<int64_t> blocks(shapeOf(self).drop_back(Dims));
  for (int64_t i = 0; i < Dims; ++i) {
    int64_t size = shapeOf(self)[rankOf(self) - Dims + i];
    if (output[i] < 1 || size % output[i])
      node.refuse("an image of size " + std::to_string(size) + " cannot be cut into " +
                  std::to_string(output[i]) + " equal blocks");
    blocks.append({output[i], size / output[i]});
    inner.push_back(static_cast<int64_t>(blocks.size()) - 1);
  }
  Value cut = viewAs(node, self, blocks);
  node.setResult(meanOver(node, cut, inner, false));
}

//===-- Resampling --------------------------------------------------------===//

/// Each pixel repeated a whole number of times along each spatial dim.
static void importUpsampleNearest(NodeBuilder &node) {
  Value value = node.tensor("input");
  for (StringRef name : {"output_size", "scale_factors"})
    node.ignore(name); // The recorded result has the shape.
  ArrayRef<int64_t> shape = node.resultType().getShape();
  if (static_cast<int64_t>(shape.size()) != rankOf(value))
    node.refuse("the recorded result has another rank");
  for (int64_t dim = 2; dim < rankOf(value); ++dim) {
    int64_t size = shapeOf(value)[dim];
    if (size < 1 || shape[dim] % size)
      node.refuse("a size of " + std::to_string(size) + " can only be scaled by a whole number, not to " +
                  std::to_string(shape[dim]));
    value = repeatInterleaved(node, value, dim, shape[dim] / size);
  }
  node.setResult(value);
}

/// Weights of the pixels that each new pixel lies between, (new, old): max(0, 1 − |place − old|), the place
/// being that of the new pixel's centre (or, with corners aligned, of the new pixel) among the old ones.
static Value linearWeights(NodeBuilder &node, int64_t from, int64_t to, bool alignCorners, Type element) {
  double scale = static_cast<double>(from) / static_cast<double>(to), shift = scale / 2 - 0.5;
  if (alignCorners) {
    scale = to > 1 ? static_cast<double>(from - 1) / static_cast<double>(to - 1) : 0;
    shift = 0;
  }
  auto number = [&](double value) { return numberAs(node, element, value); };
  Value place = convertTo(node, countAlong(node, to, 0, 2), element);
  place = add(node, scaled(node, place, scale), number(shift));
  place = clamped(node, place, number(0), number(static_cast<double>(from - 1)));
  Value distance = subtract(node, place, convertTo(node, countAlong(node, from, 1, 2), element));
  distance = node.infer<nn::MaximumOp>({distance, scaled(node, distance, -1)})[0];
  return clamped(node, subtract(node, number(1), distance), number(0), Value());
}

static void importUpsampleBilinear(NodeBuilder &node) {
  Value value = node.tensor("input");
  bool alignCorners = node.boolean("align_corners");
  if (node.hasValue("scale_factors"))
    node.refuse("a scale factor is not supported for linear resampling; give the size");
  node.ignore("output_size"); // The recorded result has the shape.
  ArrayRef<int64_t> shape = node.resultType().getShape();
  if (rankOf(value) != 4 || shape.size() != 4 || typeOf(value).getNumElements() == 0)
    node.refuse("linear resampling needs images of rank 4");
  Value rows = linearWeights(node, shapeOf(value)[2], shape[2], alignCorners, elementOf(value));
  Value columns = linearWeights(node, shapeOf(value)[3], shape[3], alignCorners, elementOf(value));
  node.setResult(einsum(node, "ncyx,zx->ncyz", einsum(node, "ncyx,zy->nczx", value, rows), columns));
}

/// Channels as blocks of pixels, or blocks of pixels as channels.
template <bool ToPixels>
static void importPixelShuffle(NodeBuilder &node) {
  Value self = node.tensor("self");
  int64_t factor = node.integer(ToPixels ? "upscale_factor" : "downscale_factor"), rank = rankOf(self);
  constexpr int64_t most = 1 << 20;
  if (rank < 3 || factor < 1 || factor > most)
    node.refuse("an image with channels and a factor from 1 to " + std::to_string(most) + " are needed");
  SmallVector<int64_t> shape(shapeOf(self)), apart(shapeOf(self).drop_back(3)), order;
  int64_t batch = rank - 3, channels = shape[batch], rows = shape[batch + 1], columns = shape[batch + 2];
  if (ToPixels ? channels % (factor * factor) != 0 : rows % factor || columns % factor)
    node.refuse("the image cannot be cut into blocks of " + std::to_string(factor));
  for (int64_t dim = 0; dim < batch; ++dim)
    order.push_back(dim);
  auto append = [&](ArrayRef<int64_t> sizes, ArrayRef<int64_t> dims) {
    llvm::append_range(apart, sizes);
    for (int64_t dim : dims)
      order.push_back(batch + dim);
  };
  if (ToPixels)
    append({channels / (factor * factor), factor, factor, rows, columns}, {0, 3, 1, 4, 2});
  else
    append({channels, rows / factor, factor, columns / factor, factor}, {0, 2, 4, 1, 3});
  Value moved = permuted(node, viewAs(node, self, apart), order);
  node.setResult(viewAs(node, moved, node.resultType().getShape()));
}

static void importChannelShuffle(NodeBuilder &node) {
  Value self = node.tensor("self");
  int64_t groups = node.integer("groups");
  if (rankOf(self) < 3 || groups < 1 || shapeOf(self)[1] % groups)
    node.refuse("the channels cannot be cut into " + std::to_string(groups) + " groups");
  SmallVector<int64_t> apart(shapeOf(self));
  apart[1] /= groups;
  apart.insert(apart.begin() + 1, groups);
  node.setResult(viewAs(node, swapDims(node, viewAs(node, self, apart), 1, 2), shapeOf(self)));
}

ArrayRef<AtenTarget> networkTargets() {
  static constexpr AtenTarget targets[] = {
      {"torch.ops.aten.einsum.default", importEinsum},
      {"torch.ops.aten.conv1d.default", importConvolution<1>},
      {"torch.ops.aten.conv1d.padding", importConvolution<1>},
      {"torch.ops.aten.conv2d.default", importConvolution<2>},
      {"torch.ops.aten.conv2d.padding", importConvolution<2>},
      {"torch.ops.aten.conv_transpose1d.default", importTransposedConvolution<1>},
      {"torch.ops.aten.conv_transpose2d.input", importTransposedConvolution<2>},
      {"torch.ops.aten.avg_pool1d.default", importAvgPool<1>},
      {"torch.ops.aten.avg_pool2d.default", importAvgPool<2>},
      {"torch.ops.aten.max_pool1d.default", importMaxPool<1>},
      {"torch.ops.aten.max_pool2d.default", importMaxPool<2>},
      {"torch.ops.aten.adaptive_avg_pool1d.default", importAdaptivePool<1>},
      {"torch.ops.aten.adaptive_avg_pool2d.default", importAdaptivePool<2>},
      {"torch.ops.aten.im2col.default", importIm2col},
      {"torch.ops.aten.upsample_nearest1d.vec", importUpsampleNearest},
      {"torch.ops.aten.upsample_nearest2d.vec", importUpsampleNearest},
      {"torch.ops.aten.upsample_bilinear2d.vec", importUpsampleBilinear},
      {"torch.ops.aten.pixel_shuffle.default", importPixelShuffle<true>},
      {"torch.ops.aten.pixel_unshuffle.default", importPixelShuffle<false>},
      {"torch.ops.aten.channel_shuffle.default", importChannelShuffle},
  };
  return targets;
}

} // namespace plumb
