//===- ImportShape.cpp - Views, permutations, pieces, markers ---------------===//

#include "AtenTargets.h"

using namespace mlir;

namespace plumb {

/// The same elements in another shape; the value itself if that is its shape.
static void setView(NodeBuilder &node, Value input, ArrayRef<int64_t> shape) {
  if (llvm::any_of(shape, [](int64_t size) { return size < 0; }))
    node.refuse("the requested shape has a negative size");
  auto type = RankedTensorType::get(shape, typeOf(input).getElementType());
  node.setResult(typeOf(input) == type ? input : node.create<nn::ViewOp>(type, input)[0]);
}

/// A requested size of -1 is what the others leave of the elements.
static void importReshapeTo(NodeBuilder &node, StringRef argument) {
  Value input = node.tensor("self");
  SmallVector<int64_t> shape = node.integers(argument);
  int64_t known = 1;
  for (int64_t size : shape)
    if (size != -1 && __builtin_mul_overflow(known, size, &known))
      node.refuse("the requested shape has too many elements");
  int64_t elements = typeOf(input).getNumElements();
  if (llvm::count(shape, -1) == 1 && known > 0 && elements % known == 0)
    *llvm::find(shape, -1) = elements / known;
  setView(node, input, shape);
}

static void importView(NodeBuilder &node) { importReshapeTo(node, "size"); }
static void importReshape(NodeBuilder &node) { importReshapeTo(node, "shape"); }

static void importFlatten(NodeBuilder &node) {
  Value input = node.tensor("self");
  int64_t first = node.dim("start_dim", rankOf(input), 0), last = node.dim("end_dim", rankOf(input), -1);
  SmallVector<int64_t> shape;
  for (auto [dim, size] : llvm::enumerate(shapeOf(input))) {
    if (static_cast<int64_t>(dim) > first && static_cast<int64_t>(dim) <= last)
      shape.back() *= size;
    else
      shape.push_back(size);
  }
  setView(node, input, shape);
}

static void importUnsqueeze(NodeBuilder &node) {
  Value input = node.tensor("self");
  SmallVector<int64_t> shape(shapeOf(input));
  shape.insert(shape.begin() + node.dim("dim", rankOf(input) + 1), 1);
  setView(node, input, shape);
}

static void importSqueeze(NodeBuilder &node) {
  Value input = node.tensor("self");
  SmallVector<int64_t> shape(shapeOf(input));
  int64_t dim = node.dim("dim", rankOf(input));
  if (shape[dim] == 1)
    shape.erase(shape.begin() + dim);
  setView(node, input, shape);
}

static void importIdentity(NodeBuilder &node) { node.setResult(node.tensor("self")); }

/// A permutation, or the value itself where it moves nothing.
static void setTranspose(NodeBuilder &node, Value input, ArrayRef<int64_t> permutation) {
  if (llvm::equal(permutation, llvm::seq<int64_t>(0, rankOf(input))))
    return node.setResult(input);
  node.setResult(node.infer<nn::TransposeOp>(input, {{"permutation", node.attribute(permutation)}})[0]);
}

static void importTranspose(NodeBuilder &node) {
  Value input = node.tensor("self");
  SmallVector<int64_t> permutation = llvm::to_vector(llvm::seq<int64_t>(0, rankOf(input)));
  std::swap(permutation[node.dim("dim0", rankOf(input))], permutation[node.dim("dim1", rankOf(input))]);
  setTranspose(node, input, permutation);
}

static void importT(NodeBuilder &node) {
  Value input = node.tensor("self");
  if (rankOf(input) == 2)
    return setTranspose(node, input, {1, 0});
  node.setResult(input);
}

static void importPermute(NodeBuilder &node) {
  Value input = node.tensor("self");
  SmallVector<int64_t> permutation = node.integers("dims");
  for (int64_t &dim : permutation)
    dim = dim < 0 ? dim + rankOf(input) : dim;
  setTranspose(node, input, permutation);
}

static void setPieces(NodeBuilder &node, Value input, int64_t dim, ArrayRef<int64_t> sizes) {
  SmallVector<Type> types;
  for (int64_t size : sizes) {
    if (size < 0)
      node.refuse("a piece has a negative size");
    SmallVector<int64_t> shape(shapeOf(input));
    shape[dim] = size;
    types.push_back(RankedTensorType::get(shape, typeOf(input).getElementType()));
  }
  node.setResults(node.create<nn::SplitOp>(types, input, {{"dim", node.attribute(dim)}}));
}

/// Pieces of `piece` elements; the last one may be smaller.
static void setPiecesOf(NodeBuilder &node, Value input, int64_t dim, int64_t piece) {
  int64_t size = shapeOf(input)[dim];
  if (piece < 1 || size == 0)
    node.refuse("a split of " + std::to_string(size) + " elements into pieces of " + std::to_string(piece) +
                " is not supported");
  if ((size - 1) / piece >= static_cast<int64_t>(node.resultTypes().size()))
    node.refuse("the archive recorded too few pieces");
  SmallVector<int64_t> sizes;
  for (int64_t at = 0; at < size; at += std::min(piece, size - at))
    sizes.push_back(std::min(piece, size - at));
  setPieces(node, input, dim, sizes);
}

static void importSplit(NodeBuilder &node) {
  Value input = node.tensor("self");
  setPiecesOf(node, input, node.dim("dim", rankOf(input), 0), node.integer("split_size"));
}

static void importSplitWithSizes(NodeBuilder &node) {
  Value input = node.tensor("self");
  setPieces(node, input, node.dim("dim", rankOf(input), 0), node.integers("split_sizes"));
}

static void importChunk(NodeBuilder &node) {
  Value input = node.tensor("self");
  int64_t dim = node.dim("dim", rankOf(input), 0), chunks = node.integer("chunks");
  if (chunks < 1)
    node.refuse("the argument \"chunks\" must be at least 1");
  int64_t size = shapeOf(input)[dim];
  setPiecesOf(node, input, dim, size / chunks + (size % chunks != 0));
}

static void importCat(NodeBuilder &node) {
  SmallVector<Value> inputs = node.tensors("tensors");
  if (inputs.empty())
    node.refuse("there is nothing to join");
  node.setResult(
      node.infer<nn::CatOp>(inputs, {{"dim", node.attribute(node.dim("dim", rankOf(inputs[0]), 0))}})[0]);
}

/// A requested size of -1 keeps the size of the input's dimension, counted from the right.
static void importExpand(NodeBuilder &node) {
  Value input = node.tensor("self");
  SmallVector<int64_t> shape = node.integers("size");
  node.ignore("implicit");
  for (int64_t fromRight = 1; fromRight <= static_cast<int64_t>(shape.size()); ++fromRight) {
    int64_t &size = shape[shape.size() - fromRight];
    if (size == -1 && fromRight <= rankOf(input))
      size = shapeOf(input)[rankOf(input) - fromRight];
    if (size < 0)
      node.refuse("the requested shape has a negative size");
  }
  auto type = RankedTensorType::get(shape, typeOf(input).getElementType());
  node.setResult(typeOf(input) == type ? input : node.create<nn::BroadcastOp>(type, input)[0]);
}

static void importPipeSplit(NodeBuilder &node) { node.create<PipeSplitOp>({}, {}); }

ArrayRef<AtenTarget> shapeTargets() {
  static constexpr AtenTarget targets[] = {
      {"torch.ops.aten.view.default", importView},
      {"torch.ops.aten.reshape.default", importReshape},
      {"torch.ops.aten.flatten.using_ints", importFlatten},
      {"torch.ops.aten.unsqueeze.default", importUnsqueeze},
      {"torch.ops.aten.squeeze.dim", importSqueeze},
      {"torch.ops.aten.contiguous.default", importIdentity},
      {"torch.ops.aten.clone.default", importIdentity},
      {"torch.ops.aten.transpose.int", importTranspose},
      {"torch.ops.aten.t.default", importT},
      {"torch.ops.aten.permute.default", importPermute},
      {"torch.ops.aten.split.Tensor", importSplit},
      {"torch.ops.aten.split_with_sizes.default", importSplitWithSizes},
      {"torch.ops.aten.chunk.default", importChunk},
      {"torch.ops.aten.cat.default", importCat},
      {"torch.ops.aten.expand.default", importExpand},
      {"torch.ops.pippy._pipe_split.default", importPipeSplit},
  };
  return targets;
}

} // namespace plumb
