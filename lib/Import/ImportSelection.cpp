//===- ImportSelection.cpp - Parts by place and by index, constants ---------===//

#include "AtenTargets.h"
#include "ImportSupport.h"

using namespace mlir;

namespace plumb {

//===-- Parts by place ----------------------------------------------------===//

/// Bounds beyond the dimension end at it, negative ones count from its end.
static void importSlice(NodeBuilder &node) {
  Value self = node.tensor("self");
  int64_t dim = node.dim("dim", rankOf(self), 0), size = shapeOf(self)[dim], step = node.integer("step", 1);
  if (step < 1)
    node.refuse("the argument \"step\" must be positive");
  auto bound = [&](StringRef name, int64_t otherwise) {
    int64_t value = node.hasValue(name) ? node.integer(name) : otherwise;
    return std::clamp<int64_t>(value < 0 ? value + size : value, 0, size);
  };
  int64_t start = bound("start", 0), end = bound("end", size);
  int64_t count = end <= start ? 0 : (end - start - 1) / step + 1;
  node.setResult(sliceOf(node, self, dim, start, count, step));
}

static Value selected(NodeBuilder &node, Value self, int64_t dim, int64_t index) {
  SmallVector<int64_t> shape(shapeOf(self));
  shape.erase(shape.begin() + dim);
  return viewAs(node, sliceOf(node, self, dim, index, 1), shape);
}

static void importSelect(NodeBuilder &node) {
  Value self = node.tensor("self");
  int64_t dim = node.dim("dim", rankOf(self)), size = shapeOf(self)[dim], index = node.integer("index");
  if (index < -size || index >= size)
    node.refuse("the argument \"index\" is " + std::to_string(index) + " in a dimension of size " +
                std::to_string(size));
  node.setResult(selected(node, self, dim, index < 0 ? index + size : index));
}

static void importNarrow(NodeBuilder &node) {
  Value self = node.tensor("self");
  int64_t dim = node.dim("dim", rankOf(self)), size = shapeOf(self)[dim];
  int64_t start = node.integer("start"), length = node.integer("length");
  start = start < 0 ? start + size : start;
  if (start < 0 || length < 0 || start > size - length)
    node.refuse("the part lies outside of the dimension");
  node.setResult(sliceOf(node, self, dim, start, length));
}

static void importUnbind(NodeBuilder &node) {
  Value self = node.tensor("self");
  int64_t dim = node.dim("dim", rankOf(self), 0);
  SmallVector<Value> parts;
  for (int64_t i = 0; i < static_cast<int64_t>(node.resultTypes().size()) && i < shapeOf(self)[dim]; ++i)
    parts.push_back(selected(node, self, dim, i));
  node.setResults(parts);
}

static void importStack(NodeBuilder &node) {
  SmallVector<Value> parts = node.tensors("tensors");
  if (parts.empty())
    node.refuse("there is nothing to stack");
  int64_t dim = node.dim("dim", rankOf(parts[0]) + 1, 0);
  for (Value &part : parts) {
    SmallVector<int64_t> shape(shapeOf(part));
    if (dim > static_cast<int64_t>(shape.size()))
      node.refuse("the tensors have different ranks");
    shape.insert(shape.begin() + dim, 1);
    part = viewAs(node, part, shape);
  }
  node.setResult(joined(node, parts, dim));
}

/// A dim with `left` and `right` elements more, taken from inside: mirrored without the border (reflect), the
/// border repeated (replicate), or from the other end (circular).
static Value extended(NodeBuilder &node, Value value, int64_t dim, int64_t left, int64_t right,
                      StringRef mode) {
  int64_t size = shapeOf(value)[dim];
  bool mirrors = mode == "reflect", repeats = mode == "replicate";
  if (left < 0 || right < 0 || size < 1 || (!repeats && std::max(left, right) > size - (mirrors ? 1 : 0)))
    node.refuse("dimension " + std::to_string(dim) + " of size " + std::to_string(size) +
                " cannot be padded by " + std::to_string(left) + " and " + std::to_string(right));
  auto border = [&](int64_t start, int64_t count) {
    Value part = sliceOf(node, value, dim, start, repeats ? 1 : count);
    if (mirrors)
      return Value(node.infer<nn::ReverseOp>(part, {{"dims", node.attribute(ArrayRef<int64_t>{dim})}})[0]);
    SmallVector<int64_t> shape(shapeOf(part));
    shape[dim] = count;
    return broadcastTo(node, part, shape);
  };
  SmallVector<Value> parts;
  if (left > 0)
    parts.push_back(border(mirrors ? 1 : repeats ? 0 : size - left, left));
  parts.push_back(value);
  if (right > 0)
    parts.push_back(border(mirrors ? size - 1 - right : repeats ? size - 1 : 0, right));
  return joined(node, parts, dim);
}

/// The sizes of the last dimension come first, each before and after.
static void importPad(NodeBuilder &node) {
  Value self = node.tensor("self");
  std::string mode = node.text("mode", "constant");
  SmallVector<int64_t> pad = node.integers("pad"), before(rankOf(self), 0), after(rankOf(self), 0);
  if (pad.size() % 2 || static_cast<int64_t>(pad.size()) > 2 * rankOf(self))
    node.refuse("the argument \"pad\" has " + std::to_string(pad.size()) + " elements");
  for (size_t i = 0; i < pad.size() / 2; ++i) {
    before[rankOf(self) - 1 - i] = pad[2 * i];
    after[rankOf(self) - 1 - i] = pad[2 * i + 1];
  }
  double number = node.optionalNumber("value").value_or(0);
  if (mode == "constant")
    return node.setResult(padWith(node, self, number, before, after));
  if (mode != "reflect" && mode != "replicate" && mode != "circular")
    node.refuse("the padding mode \"" + mode + "\" is unknown");
  for (int64_t dim = 0; dim < rankOf(self); ++dim)
    self = extended(node, self, dim, before[dim], after[dim], mode);
  node.setResult(self);
}

static void importFlip(NodeBuilder &node) {
  Value self = node.tensor("self");
  if (node.integers("dims").empty())
    return node.setResult(self);
  SmallVector<int64_t> dims = dimsOf(node, "dims", rankOf(self));
  node.setResult(node.infer<nn::ReverseOp>(self, {{"dims", node.attribute(dims)}})[0]);
}

/// The tensor `repeats` times along each dim; dims that it lacks are added in front.
static Value repeated(NodeBuilder &node, Value self, ArrayRef<int64_t> repeats) {
  if (static_cast<int64_t>(repeats.size()) < rankOf(self))
    node.refuse("there are fewer repeats than dimensions");
  SmallVector<int64_t> shape(repeats.size() - rankOf(self), 1), apart, spread, joined;
  llvm::append_range(shape, shapeOf(self));
  for (auto [count, size] : llvm::zip_equal(repeats, shape)) {
    int64_t total;
    if (count < 0 || __builtin_mul_overflow(count, size, &total))
      node.refuse("the tensor cannot be repeated " + std::to_string(count) + " times");
    apart.append({1, size});
    spread.append({count, size});
    joined.push_back(total);
  }
  return viewAs(node, broadcastTo(node, viewAs(node, self, apart), spread), joined);
}

static void importRepeat(NodeBuilder &node) {
  node.setResult(repeated(node, node.tensor("self"), node.integers("repeats")));
}

/// As repeat, but dims that are not named are repeated once.
static void importTile(NodeBuilder &node) {
  Value self = node.tensor("self");
  SmallVector<int64_t> repeats = node.integers("dims");
  while (static_cast<int64_t>(repeats.size()) < rankOf(self))
    repeats.insert(repeats.begin(), 1);
  node.setResult(repeated(node, self, repeats));
}

static void importRepeatInterleave(NodeBuilder &node) {
  Value self = node.tensor("self");
  node.ignore("output_size");
  if (!node.hasValue("dim"))
    return node.setResult(repeatInterleaved(node, viewAs(node, self, typeOf(self).getNumElements()), 0,
                                            node.integer("repeats")));
  node.setResult(repeatInterleaved(node, self, node.dim("dim", rankOf(self)), node.integer("repeats")));
}

/// self where column − row ≤ diagonal (lower) or ≥ diagonal (upper), else 0.
template <bool Lower>
static void importTriangle(NodeBuilder &node) {
  Value self = node.tensor("self");
  int64_t rank = rankOf(self), diagonal = node.integer("diagonal", 0);
  if (rank < 2)
    node.refuse("a triangle needs two dimensions");
  Value rows = countAlong(node, shapeOf(self)[rank - 2], 0, 2),
        columns = countAlong(node, shapeOf(self)[rank - 1], 1, 2);
  Value limit = add(node, rows, numberAs(node, elementOf(rows), static_cast<double>(diagonal)));
  Value kept = Lower ? node.infer<nn::LessEqualOp>({columns, limit})[0]
                     : node.infer<nn::LessEqualOp>({limit, columns})[0];
  node.setResult(where(node, kept, self, numberAs(node, elementOf(self), 0)));
}

/// Every element whose column is `offset` more than its row: rows as long as a row and one more, of which the
/// first column is the diagonal.
static Value diagonalOf(NodeBuilder &node, Value self, int64_t offset) {
  int64_t rank = rankOf(self), rows = shapeOf(self)[rank - 2], columns = shapeOf(self)[rank - 1];
  Value part = self;
  if (offset > 0 && offset < columns)
    part = sliceOf(node, self, rank - 1, offset, columns - offset);
  if (offset < 0 && -offset < rows)
    part = sliceOf(node, self, rank - 2, -offset, rows + offset);
  int64_t count = std::min(shapeOf(part)[rank - 2], shapeOf(part)[rank - 1]);
  if (offset >= columns || -offset >= rows || count == 0)
    node.refuse("the diagonal " + std::to_string(offset) + " has no elements");
  part = sliceOf(node, sliceOf(node, part, rank - 2, 0, count), rank - 1, 0, count);
  Value onDiagonal = node.infer<nn::EqualOp>(
      {countAlong(node, count, rank - 2, rank), countAlong(node, count, rank - 1, rank)})[0];
  Value kept = where(node, onDiagonal, part, numberAs(node, elementOf(self), 0));
  return sumOver(node, kept, {rank - 1}, false);
}

static void importDiagonal(NodeBuilder &node) {
  Value self = node.tensor("self");
  if (rankOf(self) < 2)
    node.refuse("a diagonal needs two dimensions");
  int64_t first = node.dim("dim1", rankOf(self), 0), second = node.dim("dim2", rankOf(self), 1);
  if (first == second)
    node.refuse("a diagonal needs two different dimensions");
  SmallVector<int64_t> order;
  for (int64_t dim = 0; dim < rankOf(self); ++dim)
    if (dim != first && dim != second)
      order.push_back(dim);
  order.append({first, second});
  node.setResult(diagonalOf(node, permuted(node, self, order), node.integer("offset", 0)));
}

static void importTrace(NodeBuilder &node) {
  node.setResult(sumOver(node, diagonalOf(node, node.tensor("self"), 0), {0}, false));
}

/// Windows of `size` elements, `step` apart, as a new last dim.
static void importUnfold(NodeBuilder &node) {
  Value self = node.tensor("self");
  int64_t dim = node.dim("dimension", rankOf(self)), size = node.integer("size"), step = node.integer("step");
  int64_t room = shapeOf(self)[dim] - size;
  if (size < 1 || step < 1 || room < 0)
    node.refuse("windows of " + std::to_string(size) + " elements do not fit");
  SmallVector<Value> places;
  for (int64_t i = 0; i < size; ++i) {
    Value place = sliceOf(node, self, dim, i, room / step + 1, step);
    SmallVector<int64_t> shape(shapeOf(place));
    shape.push_back(1);
    places.push_back(viewAs(node, place, shape));
  }
  node.setResult(joined(node, places, rankOf(self)));
}

//===-- Parts by index ----------------------------------------------------===//

static Value gathered(NodeBuilder &node, Value self, int64_t dim, Value indices) {
  return node.infer<nn::GatherOp>({self, indices}, {{"dim", node.attribute(dim)}})[0];
}

/// The part of the input that indices of another shape can reach, which `nn.gather` wants equal but for
/// `dim`.
static Value reachable(NodeBuilder &node, Value self, Value indices, int64_t dim) {
  if (rankOf(self) != rankOf(indices))
    node.refuse("the indices must have the rank of the tensor");
  for (int64_t i = 0; i < rankOf(self); ++i)
    if (i != dim && shapeOf(indices)[i] < shapeOf(self)[i])
      self = sliceOf(node, self, i, 0, shapeOf(indices)[i]);
  return self;
}

static void importGather(NodeBuilder &node) {
  node.ignore("sparse_grad"); // Only the representation of the gradient.
  Value self = node.tensor("self"), indices = node.tensor("index");
  int64_t dim = node.dim("dim", rankOf(self));
  node.setResult(gathered(node, reachable(node, self, indices, dim), dim, indices));
}

static void importIndexSelect(NodeBuilder &node) {
  Value self = node.tensor("self"), indices = node.tensor("index");
  int64_t dim = node.dim("dim", rankOf(self));
  SmallVector<int64_t> along(rankOf(self), 1), shape(shapeOf(self));
  along[dim] = shape[dim] = typeOf(indices).getNumElements();
  node.setResult(gathered(node, self, dim, broadcastTo(node, viewAs(node, indices, along), shape)));
}

template <bool Adds>
static void importScatter(NodeBuilder &node) {
  Value self = node.tensor("self"), indices = node.tensor("index");
  int64_t dim = node.dim("dim", rankOf(self));
  Value source = node.hasValue("src") ? node.tensor("src")
                                      : filled(node, RankedTensorType::get(shapeOf(indices), elementOf(self)),
                                               node.number("value"));
  source = reachable(node, source, indices, rankOf(source));
  node.setResult(node.infer<nn::ScatterOp>({self, indices, source},
                                           {{"dim", node.attribute(dim)}, {"add", node.flag(Adds)}})[0]);
}

/// Whether the index equals each class.
static void importOneHot(NodeBuilder &node) {
  Value self = node.tensor("self");
  int64_t classes = node.integer("num_classes", -1), rank = rankOf(self);
  if (classes < 1)
    node.refuse("the number of classes must be given");
  SmallVector<int64_t> shape(shapeOf(self));
  shape.push_back(1);
  Value numbers = convertTo(node, countAlong(node, classes, rank, rank + 1), elementOf(self));
  Value isClass = node.infer<nn::EqualOp>({viewAs(node, self, shape), numbers})[0];
  node.setResult(convertTo(node, isClass, node.resultType().getElementType()));
}

//===-- Constants ---------------------------------------------------------===//

static void setConstant(NodeBuilder &node, double number) {
  for (StringRef name : {"size", "dtype", "self", "fill_value", "s"})
    node.ignore(name); // The recorded result has its shape and type.
  node.setResult(filled(node, node.resultType(), number));
}

template <int Number>
static void importConstant(NodeBuilder &node) {
  setConstant(node, Number);
}

static void importFull(NodeBuilder &node) { setConstant(node, node.number("fill_value")); }
static void importScalarTensor(NodeBuilder &node) { setConstant(node, node.number("s")); }

/// 1 where row and column are equal.
static void importEye(NodeBuilder &node) {
  for (StringRef name : {"n", "m", "dtype"})
    node.ignore(name); // The recorded result has its shape and type.
  RankedTensorType type = node.resultType();
  if (type.getRank() != 2)
    node.refuse("the archive recorded a result of rank " + std::to_string(type.getRank()));
  Value onDiagonal = node.infer<nn::EqualOp>(
      {countAlong(node, type.getDimSize(0), 0, 2), countAlong(node, type.getDimSize(1), 1, 2)})[0];
  node.setResult(convertTo(node, onDiagonal, type.getElementType()));
}

/// start + i (end − start) / (steps − 1).
static void importLinspace(NodeBuilder &node) {
  node.ignore("dtype");
  double start = node.number("start"), end = node.number("end");
  int64_t steps = node.integer("steps");
  if (steps < 1 || !llvm::isa<FloatType>(node.resultType().getElementType()))
    node.refuse("only floating-point ranges of at least 1 element are supported");
  Value numbers = convertTo(node, countAlong(node, steps, 0, 1), node.resultType().getElementType());
  double step = steps > 1 ? (end - start) / static_cast<double>(steps - 1) : 0;
  node.setResult(add(node, scaled(node, numbers, step), numberAs(node, elementOf(numbers), start)));
}

ArrayRef<AtenTarget> selectionTargets() {
  static constexpr AtenTarget targets[] = {
      {"torch.ops.aten.slice.Tensor", importSlice},
      {"torch.ops.aten.select.int", importSelect},
      {"torch.ops.aten.narrow.default", importNarrow},
      {"torch.ops.aten.unbind.int", importUnbind},
      {"torch.ops.aten.stack.default", importStack},
      {"torch.ops.aten.pad.default", importPad},
      {"torch.ops.aten.constant_pad_nd.default", importPad},
      {"torch.ops.aten.flip.default", importFlip},
      {"torch.ops.aten.repeat.default", importRepeat},
      {"torch.ops.aten.tile.default", importTile},
      {"torch.ops.aten.diagonal.default", importDiagonal},
      {"torch.ops.aten.trace.default", importTrace},
      {"torch.ops.aten.unfold.default", importUnfold},
      {"torch.ops.aten.eye.default", importEye},
      {"torch.ops.aten.eye.m", importEye},
      {"torch.ops.aten.linspace.default", importLinspace},
      {"torch.ops.aten.repeat_interleave.self_int", importRepeatInterleave},
      {"torch.ops.aten.tril.default", importTriangle<true>},
      {"torch.ops.aten.triu.default", importTriangle<false>},
      {"torch.ops.aten.gather.default", importGather},
      {"torch.ops.aten.index_select.default", importIndexSelect},
      {"torch.ops.aten.scatter.src", importScatter<false>},
      {"torch.ops.aten.scatter.value", importScatter<false>},
      {"torch.ops.aten.scatter_add.default", importScatter<true>},
      {"torch.ops.aten.one_hot.default", importOneHot},
      {"torch.ops.aten.full.default", importFull},
      {"torch.ops.aten.full_like.default", importFull},
      {"torch.ops.aten.new_full.default", importFull},
      {"torch.ops.aten.zeros.default", importConstant<0>},
      {"torch.ops.aten.zeros_like.default", importConstant<0>},
      {"torch.ops.aten.new_zeros.default", importConstant<0>},
      {"torch.ops.aten.ones.default", importConstant<1>},
      {"torch.ops.aten.ones_like.default", importConstant<1>},
      {"torch.ops.aten.new_ones.default", importConstant<1>},
      {"torch.ops.aten.scalar_tensor.default", importScalarTensor},
  };
  return targets;
}

} // namespace plumb
