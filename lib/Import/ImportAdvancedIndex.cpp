//===- ImportAdvancedIndex.cpp - Reading and writing by tensors of indices ----===//
//
// Indexing by several tensors is a look-up in a table: the indexed dims are moved to the front and joined,
// the index tensors are joined to one number per row, and the other dims are the columns.
//
//===----------------------------------------------------------------------===//

#include "AtenTargets.h"
#include "ImportSupport.h"

using namespace mlir;

namespace plumb {

namespace {
/// A tensor as a table whose rows are what the indices name.
struct Table {
  Value rows;                       ///< (rows, columns)
  Value indices;                    ///< Row numbers, in the common shape of the index tensors.
  SmallVector<int64_t> permutation; ///< Result dim i of the move to the front is this dim of the tensor.
  SmallVector<int64_t> columns;     ///< Shape of the dims that are not indexed.
  int64_t place = 0;                ///< Where the indices' dims stand among the columns in the result.
};
} // namespace

/// Indices below 0 count from the end.
static Value nonNegative(NodeBuilder &node, Value indices, int64_t size) {
  Value zero = numberAs(node, elementOf(indices), 0);
  Value counted = add(node, indices, numberAs(node, elementOf(indices), static_cast<double>(size)));
  return where(node, less(node, indices, zero), counted, indices);
}

static Table readTable(NodeBuilder &node, Value self) {
  SmallVector<Value> given = node.optionalTensors("indices");
  given.resize(std::max<size_t>(given.size(), rankOf(self)));
  if (static_cast<int64_t>(given.size()) > rankOf(self))
    node.refuse("there are more indices than dimensions");
  Table table;
  SmallVector<int64_t> others;
  int64_t rows = 1, columns = 1;
  for (auto [dim, indices] : llvm::enumerate(given)) {
    int64_t size = shapeOf(self)[dim];
    if (!indices) {
      others.push_back(dim);
      table.columns.push_back(size);
      columns *= size;
      continue;
    }
    if (isFloat(indices) || elementOf(indices).isInteger(1))
      node.refuse("an index that is a mask is not supported, since the shape of its result depends on data; "
                  "use where");
    table.permutation.push_back(dim);
    rows *= size;
    Value number = nonNegative(node, convertTo(node, indices, node.builder().getI64Type()), size);
    if (table.indices)
      number = add(node, scaled(node, table.indices, static_cast<double>(size)), number);
    table.indices = number;
  }
  if (!table.indices)
    node.refuse("there is no index");
  int64_t indexed = table.permutation.size();
  bool adjacent = table.permutation.back() - table.permutation.front() == indexed - 1;
  table.place = adjacent ? table.permutation.front() : 0;
  table.permutation.append(others);
  table.rows = viewAs(node, permuted(node, self, table.permutation), {rows, columns});
  return table;
}

static Attribute rowDim(NodeBuilder &node) { return node.attribute(int64_t(0)); }

/// The row numbers as a column, repeated for each column of the table.
static Value perElement(NodeBuilder &node, const Table &table) {
  int64_t count = typeOf(table.indices).getNumElements();
  return broadcastTo(node, viewAs(node, table.indices, {count, 1}), {count, shapeOf(table.rows)[1]});
}

/// Dims of the indices moved from the front to their place among the columns, or back.
static Value placed(NodeBuilder &node, Value value, const Table &table, bool back) {
  int64_t rank = rankOf(table.indices), columns = static_cast<int64_t>(table.columns.size());
  SmallVector<int64_t> order;
  for (int64_t i = 0; i < table.place; ++i)
    order.push_back(rank + i);
  for (int64_t i = 0; i < rank; ++i)
    order.push_back(i);
  for (int64_t i = table.place; i < columns; ++i)
    order.push_back(rank + i);
  if (!back)
    return permuted(node, value, order);
  SmallVector<int64_t> inverse(order.size());
  for (auto [i, dim] : llvm::enumerate(order))
    inverse[dim] = i;
  return permuted(node, value, inverse);
}

static void importIndex(NodeBuilder &node) {
  Table table = readTable(node, node.tensor("self"));
  int64_t count = typeOf(table.indices).getNumElements();
  Value flat = viewAs(node, table.indices, {count}), read;
  if (isFloat(table.rows))
    read = node.infer<nn::EmbeddingOp>({table.rows, flat})[0];
  else
    read = node.infer<nn::GatherOp>({table.rows, perElement(node, table)}, {{"dim", rowDim(node)}})[0];
  SmallVector<int64_t> shape(shapeOf(table.indices));
  llvm::append_range(shape, table.columns);
  node.setResult(placed(node, viewAs(node, read, shape), table, false));
}

/// The tensor with `rows` of the table replaced.
static Value untabled(NodeBuilder &node, Value rows, const Table &table, Value self) {
  SmallVector<int64_t> shape, inverse(table.permutation.size());
  for (auto [i, dim] : llvm::enumerate(table.permutation)) {
    shape.push_back(shapeOf(self)[dim]);
    inverse[dim] = i;
  }
  return permuted(node, viewAs(node, rows, shape), inverse);
}

static void importIndexPut(NodeBuilder &node) {
  Value self = node.tensor("self"), values = node.tensor("values");
  Table table = readTable(node, self);
  node.ignore("unsafe");
  SmallVector<int64_t> shape(table.columns.begin(), table.columns.begin() + table.place);
  llvm::append_range(shape, shapeOf(table.indices));
  shape.append(table.columns.begin() + table.place, table.columns.end());
  values = placed(node, broadcastTo(node, values, shape), table, true);
  int64_t count = typeOf(table.indices).getNumElements();
  Value written = node.infer<nn::ScatterOp>(
      {table.rows, perElement(node, table), viewAs(node, values, {count, shapeOf(table.rows)[1]})},
      {{"dim", rowDim(node)}, {"add", node.flag(node.boolean("accumulate", false))}})[0];
  node.setResult(untabled(node, written, table, self));
}

//===-- One dim -----------------------------------------------------------===//

/// A list of indices along a dim, in the shape of what they name.
static Value spreadAlong(NodeBuilder &node, Value indices, Value self, int64_t dim) {
  SmallVector<int64_t> along(rankOf(self), 1), shape(shapeOf(self));
  along[dim] = shape[dim] = typeOf(indices).getNumElements();
  return broadcastTo(node, viewAs(node, nonNegative(node, indices, shapeOf(self)[dim]), along), shape);
}

enum class Write { Add, Copy, Fill };

/// Slices named by a list of indices, added to, replaced, or filled with a number.
template <Write Kind>
static void importWriteAlong(NodeBuilder &node) {
  Value self = node.tensor("self"), indices = node.tensor("index");
  if (rankOf(self) == 0)
    node.refuse("a tensor of rank 0 has no slices");
  int64_t dim = node.dim("dim", rankOf(self));
  Value spread = spreadAlong(node, indices, self, dim);
  Value source;
  if (Kind == Write::Fill)
    source = broadcastTo(node, promotedOrNumber(node, "value"), shapeOf(spread));
  else
    source = viewAs(node, node.tensor("source"), shapeOf(spread));
  if (Kind == Write::Add)
    source = scaled(node, source, node.number("alpha", 1));
  node.setResult(node.infer<nn::ScatterOp>(
      {self, spread, source}, {{"dim", node.attribute(dim)}, {"add", node.flag(Kind == Write::Add)}})[0]);
}

/// Where the counted positions along a dim are those of the source, the source spread out, else self.
static Value overwritten(NodeBuilder &node, Value self, Value source, int64_t dim, int64_t start,
                         int64_t step) {
  SmallVector<int64_t> offsets(rankOf(self), 0), strides(rankOf(self), 1);
  offsets[dim] = start;
  strides[dim] = step;
  auto spread = [&](Value value) {
    return node.create<nn::PadOp>(RankedTensorType::get(shapeOf(self), elementOf(value)), value,
                                  {{"value", node.attribute(0.0)},
                                   {"offsets", node.attribute(offsets)},
                                   {"strides", node.attribute(strides)}})[0];
  };
  auto flags = RankedTensorType::get(shapeOf(source), node.builder().getI1Type());
  return where(node, spread(filled(node, flags, 1)), spread(source), self);
}

static void importSliceScatter(NodeBuilder &node) {
  Value self = node.tensor("self"), source = node.tensor("src");
  int64_t dim = node.dim("dim", rankOf(self), 0), size = shapeOf(self)[dim], step = node.integer("step", 1);
  int64_t start = node.hasValue("start") ? node.integer("start") : 0;
  node.ignore("end"); // The source says how many.
  start = std::clamp<int64_t>(start < 0 ? start + size : start, 0, size);
  if (typeOf(source).getNumElements() == 0)
    return node.setResult(self);
  node.setResult(overwritten(node, self, source, dim, start, step));
}

static void importSelectScatter(NodeBuilder &node) {
  Value self = node.tensor("self"), source = node.tensor("src");
  int64_t dim = node.dim("dim", rankOf(self)), size = shapeOf(self)[dim], index = node.integer("index");
  if (index < -size || index >= size)
    node.refuse("the argument \"index\" is " + std::to_string(index) + " in a dimension of size " +
                std::to_string(size));
  SmallVector<int64_t> shape(shapeOf(source));
  shape.insert(shape.begin() + dim, 1);
  node.setResult(
      overwritten(node, self, viewAs(node, source, shape), dim, index < 0 ? index + size : index, 1));
}

/// Elements along a dim by indices that broadcast against the tensor.
static void importTakeAlongDim(NodeBuilder &node) {
  Value self = node.tensor("self"), indices = node.tensor("indices");
  if (!node.hasValue("dim")) {
    self = viewAs(node, self, typeOf(self).getNumElements());
    indices = viewAs(node, indices, typeOf(indices).getNumElements());
    return node.setResult(node.infer<nn::GatherOp>({self, indices}, {{"dim", rowDim(node)}})[0]);
  }
  int64_t dim = node.dim("dim", rankOf(self));
  SmallVector<int64_t> shape(node.resultType().getShape()), full = shape;
  if (static_cast<int64_t>(full.size()) != rankOf(self))
    node.refuse("the indices must have the rank of the tensor");
  full[dim] = shapeOf(self)[dim];
  node.setResult(node.infer<nn::GatherOp>({broadcastTo(node, self, full), broadcastTo(node, indices, shape)},
                                          {{"dim", node.attribute(dim)}})[0]);
}

/// The number of boundaries below each element, or not above it.
static void importBucketize(NodeBuilder &node) {
  Value self = node.tensor("self"), boundaries = node.tensor("boundaries");
  node.ignore("out_int32"); // The recorded result has the type.
  bool right = node.boolean("right", false);
  SmallVector<int64_t> shape(shapeOf(self));
  shape.push_back(1);
  Value element = viewAs(node, self, shape);
  boundaries = convertTo(node, boundaries, elementOf(self));
  Value isBelow =
      right ? node.infer<nn::LessEqualOp>({boundaries, element})[0] : less(node, boundaries, element);
  Value counted = convertTo(node, isBelow, node.resultType().getElementType());
  node.setResult(sumOver(node, counted, {rankOf(self)}, false));
}

ArrayRef<AtenTarget> advancedIndexTargets() {
  static constexpr AtenTarget targets[] = {
      {"torch.ops.aten.index.Tensor", importIndex},
      {"torch.ops.aten.index_put.default", importIndexPut},
      {"torch.ops.aten.index_add.default", importWriteAlong<Write::Add>},
      {"torch.ops.aten.index_copy.default", importWriteAlong<Write::Copy>},
      {"torch.ops.aten.index_fill.int_Scalar", importWriteAlong<Write::Fill>},
      {"torch.ops.aten.index_fill.int_Tensor", importWriteAlong<Write::Fill>},
      {"torch.ops.aten.slice_scatter.default", importSliceScatter},
      {"torch.ops.aten.select_scatter.default", importSelectScatter},
      {"torch.ops.aten.take_along_dim.default", importTakeAlongDim},
      {"torch.ops.aten.bucketize.Tensor", importBucketize},
  };
  return targets;
}

} // namespace plumb
