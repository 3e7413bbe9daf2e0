//===- ImportShape.cpp - Views, permutations, pieces, markers ---------------===//

#include "AtenTargets.h"
#include "ImportSupport.h"

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

/// Without the dims of size 1 among those named, or among all.
static void setSqueezed(NodeBuilder &node, Value input, ArrayRef<int64_t> dims) {
  SmallVector<int64_t> shape;
  for (auto [dim, size] : llvm::enumerate(shapeOf(input)))
    if (size != 1 || !llvm::is_contained(dims, static_cast<int64_t>(dim)))
      shape.push_back(size);
  setView(node, input, shape);
}

static void importSqueeze(NodeBuilder &node) {
  Value input = node.tensor("self");
  SmallVector<int64_t> dims;
  if (rankOf(input) > 0)
    dims = {node.dim("dim", rankOf(input))};
  else
    node.ignore("dim");
  setSqueezed(node, input, dims);
}

static void importSqueezeDims(NodeBuilder &node) {
  Value input = node.tensor("self");
  setSqueezed(node, input, dimsOf(node, "dim", rankOf(input)));
}

/// In place of a dim, the dims of the argument `sizes`, of which one may be −1.
static void importUnflatten(NodeBuilder &node) {
  Value input = node.tensor("self");
  int64_t dim = node.dim("dim", rankOf(input));
  node.ignore("sizes"); // The recorded result has the shape.
  node.ignore("names");
  ArrayRef<int64_t> shape = node.resultType().getShape();
  size_t after = rankOf(input) - dim - 1;
  if (shape.size() < dim + after || shape.take_front(dim) != shapeOf(input).take_front(dim) ||
      shape.take_back(after) != shapeOf(input).take_back(after))
    node.refuse("the recorded shape changes other dimensions, too");
  setView(node, input, shape);
}

/// The shape is that of another tensor, which the recorded result has.
static void importViewAs(NodeBuilder &node) {
  node.ignore("other");
  setView(node, node.tensor("self"), node.resultType().getShape());
}

/// A view whose shape the operator's name says.
static void importRecordedView(NodeBuilder &node) {
  setView(node, node.tensor("self"), node.resultType().getShape());
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

static void importSwapaxes(NodeBuilder &node) {
  Value input = node.tensor("self");
  node.setResult(swapDims(node, input, node.dim("axis0", rankOf(input)), node.dim("axis1", rankOf(input))));
}

/// The last two dims of a stack of matrices swapped.
static void importMatrixTranspose(NodeBuilder &node) {
  Value input = node.tensor("self");
  if (rankOf(input) < 2)
    node.refuse("a tensor of rank " + std::to_string(rankOf(input)) + " has no matrices");
  node.setResult(swapDims(node, input, rankOf(input) - 2, rankOf(input) - 1));
}

static void importPermute(NodeBuilder &node) {
  Value input = node.tensor("self");
  SmallVector<int64_t> permutation = node.integers("dims");
  for (int64_t &dim : permutation)
    dim = dim < 0 ? dim + rankOf(input) : dim;
  setTranspose(node, input, permutation);
}

/// Dims taken out and put in at other places; those that are not named keep their order.
static void importMovedim(NodeBuilder &node) {
  Value input = node.tensor("self");
  int64_t rank = rankOf(input);
  auto read = [&](StringRef name) {
    SmallVector<int64_t> dims =
        node.isList(name) ? node.integers(name) : SmallVector<int64_t>{node.integer(name)};
    for (int64_t &dim : dims) {
      dim = dim < 0 ? dim + rank : dim;
      if (dim < 0 || dim >= rank || llvm::count(dims, dim) != 1)
        node.refuse("the argument \"" + name.str() + "\" does not name different dimensions");
    }
    return dims;
  };
  SmallVector<int64_t> from = read("source"), to = read("destination"), permutation(rank, -1);
  if (from.size() != to.size())
    node.refuse("source and destination have different lengths");
  for (auto [source, destination] : llvm::zip_equal(from, to))
    permutation[destination] = source;
  int64_t next = 0;
  for (int64_t &dim : permutation) {
    while (llvm::is_contained(from, next))
      ++next;
    if (dim < 0)
      dim = next++;
  }
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
  node.setResult(joined(node, inputs, node.dim("dim", rankOf(inputs[0]), 0)));
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

static void importExpandAs(NodeBuilder &node) {
  node.ignore("other"); // The recorded result has its shape.
  node.setResult(broadcastTo(node, node.tensor("self"), node.resultType().getShape()));
}

/// Pieces whose sizes differ by at most one, the larger ones first.
static void importTensorSplit(NodeBuilder &node) {
  Value input = node.tensor("self");
  int64_t dim = node.dim("dim", rankOf(input), 0), sections = node.integer("sections"),
          size = shapeOf(input)[dim];
  if (sections < 1 || sections != static_cast<int64_t>(node.resultTypes().size()))
    node.refuse("the archive recorded another number of pieces");
  SmallVector<int64_t> sizes;
  for (int64_t i = 0; i < sections; ++i)
    sizes.push_back(size / sections + (i < size % sections));
  setPieces(node, input, dim, sizes);
}

/// Rows side by side or, for `Dim` 0, above each other; vectors are rows.
template <int Dim>
static void importStackAlong(NodeBuilder &node) {
  SmallVector<Value> parts = node.tensors("tensors");
  if (parts.empty())
    node.refuse("there is nothing to join");
  bool areVectors = rankOf(parts[0]) <= 1;
  for (Value &part : parts)
    if (rankOf(part) == 0 || (Dim == 0 && rankOf(part) == 1)) {
      SmallVector<int64_t> row(Dim == 0 ? 2 : 1, 1);
      row.back() = typeOf(part).getNumElements();
      part = viewAs(node, part, row);
    }
  node.setResult(joined(node, parts, Dim == 0 || areVectors ? 0 : Dim));
}

/// The elements moved round along dims; without dims, in row-major order.
static void importRoll(NodeBuilder &node) {
  Value value = node.tensor("self");
  SmallVector<int64_t> shifts = node.integers("shifts"), dims;
  if (node.hasValue("dims"))
    dims = node.integers("dims");
  bool isFlat = dims.empty();
  if (isFlat) {
    dims.push_back(0);
    value = viewAs(node, value, typeOf(value).getNumElements());
  }
  if (shifts.size() != dims.size())
    node.refuse("there is not one shift for each dimension");
  for (auto [shift, dim] : llvm::zip_equal(shifts, dims)) {
    int64_t at = dim < 0 ? dim + rankOf(value) : dim;
    if (at < 0 || at >= rankOf(value))
      node.refuse("the tensor has no dimension " + std::to_string(dim));
    int64_t size = shapeOf(value)[at], by = size == 0 ? 0 : (shift % size + size) % size;
    if (by != 0)
      value =
          joined(node, {sliceOf(node, value, at, size - by, by), sliceOf(node, value, at, 0, size - by)}, at);
  }
  node.setResult(viewAs(node, value, node.resultType().getShape()));
}

/// Each tensor in the shape that the archive recorded for it.
static void importBroadcastTensors(NodeBuilder &node) {
  SmallVector<Value> parts = node.tensors("tensors");
  if (parts.size() != node.resultTypes().size())
    node.refuse("the archive recorded another number of results");
  for (auto [part, type] : llvm::zip_equal(parts, node.resultTypes()))
    part = broadcastTo(node, part, type.getShape());
  node.setResults(parts);
}

/// Tensors of one dim each, spread over the product of all.
static void importMeshgrid(NodeBuilder &node) {
  SmallVector<Value> parts = node.tensors("tensors"), results;
  if (node.text("indexing", "ij") != "ij")
    node.refuse("only the indexing \"ij\" is supported");
  if (parts.size() != node.resultTypes().size())
    node.refuse("the archive recorded another number of results");
  for (auto [i, part, type] : llvm::enumerate(parts, node.resultTypes())) {
    SmallVector<int64_t> shape(parts.size(), 1);
    shape[i] = typeOf(part).getNumElements();
    results.push_back(broadcastTo(node, viewAs(node, part, shape), type.getShape()));
  }
  node.setResults(results);
}

static void importPipeSplit(NodeBuilder &node) { node.create<PipeSplitOp>({}, {}); }

ArrayRef<AtenTarget> shapeTargets() {
  static constexpr AtenTarget targets[] = {
      {"torch.ops.aten.view.default", importView},
      {"torch.ops.aten.reshape.default", importReshape},
      {"torch.ops.aten.flatten.using_ints", importFlatten},
      {"torch.ops.aten.unsqueeze.default", importUnsqueeze},
      {"torch.ops.aten.squeeze.dim", importSqueeze},
      {"torch.ops.aten.squeeze.dims", importSqueezeDims},
      {"torch.ops.aten.squeeze.default", importSqueezeDims},
      {"torch.ops.aten.unflatten.int", importUnflatten},
      {"torch.ops.aten.view_as.default", importViewAs},
      {"torch.ops.aten.reshape_as.default", importViewAs},
      {"torch.ops.aten._unsafe_view.default", importView},
      {"torch.ops.aten.ravel.default", importRecordedView},
      {"torch.ops.aten.atleast_1d.default", importRecordedView},
      {"torch.ops.aten.atleast_2d.default", importRecordedView},
      {"torch.ops.aten.expand_as.default", importExpandAs},
      {"torch.ops.aten.tensor_split.sections", importTensorSplit},
      {"torch.ops.aten.hstack.default", importStackAlong<1>},
      {"torch.ops.aten.vstack.default", importStackAlong<0>},
      {"torch.ops.aten.roll.default", importRoll},
      {"torch.ops.aten.broadcast_tensors.default", importBroadcastTensors},
      {"torch.ops.aten.meshgrid.default", importMeshgrid},
      {"torch.ops.aten.meshgrid.indexing", importMeshgrid},
      {"torch.ops.aten.movedim.int", importMovedim},
      {"torch.ops.aten.movedim.intlist", importMovedim},
      {"torch.ops.aten.swapaxes.default", importSwapaxes},
      {"torch.ops.aten.mT.default", importMatrixTranspose},
      {"torch.ops.aten.adjoint.default", importMatrixTranspose},
      {"torch.ops.aten.numpy_T.default", importT},
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
