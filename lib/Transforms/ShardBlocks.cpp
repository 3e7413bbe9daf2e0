//===- ShardBlocks.cpp - Tensors as rows of the blocks of shards --------------===//

#include "ShardBlocks.h"
#include "plumb/Dialect/NN/NN.h"
#include "plumb/Redistribution/IndexSet.h"

using namespace mlir;
using namespace plumb;
using redistribution::AxisRef;

int64_t plumb::sizeOf(ArrayRef<AxisRef> axes) {
  int64_t size = 1;
  for (const AxisRef &axis : axes)
    size *= axis.size;
  return size;
}

SmallVector<ShardBlocks::PaddedDim> ShardBlocks::paddedDims(const redistribution::Layout &fine,
                                                            ArrayRef<AxisRef> axes) const {
  SmallVector<PaddedDim> result;
  for (auto [d, dim] : llvm::enumerate(fine.dims)) {
    if (cutsEvenly(dim, wholeShape[d], dim.axes.size()) || !llvm::is_contained(axes, dim.axes.back()))
      continue;
    PaddedDim entry{d, 1, wholeShape[d], 0};
    for (const AxisRef &axis : ArrayRef<AxisRef>(dim.axes).drop_back()) {
      entry.size /= axis.size;
      entry.outer *= llvm::is_contained(axes, axis) ? axis.size : 1;
    }
    entry.padded = redistribution::ceilDiv(entry.size, dim.axes.back().size) * dim.axes.back().size;
    result.push_back(entry);
  }
  return result;
}

SmallVector<int64_t> ShardBlocks::pieceRows(ArrayRef<int64_t> shape, const PaddedDim &of, int64_t size) {
  SmallVector<int64_t> rows{of.outer, size, 1};
  for (size_t other = 0; other < shape.size(); ++other)
    if (other != of.dim)
      rows[other < of.dim ? 0 : 2] *= shape[other];
  return rows;
}

Value ShardBlocks::pad(Value value, const redistribution::Layout &fine, ArrayRef<AxisRef> axes) {
  for (const PaddedDim &dim : paddedDims(fine, axes)) {
    auto type = cast<RankedTensorType>(value.getType());
    SmallVector<int64_t> shape(type.getShape());
    SmallVector<int64_t> rows = pieceRows(shape, dim, dim.size), zeros = rows;
    zeros[1] = dim.padded - dim.size;
    Value padding = nn::FillOp::create(builder, loc, RankedTensorType::get(zeros, type.getElementType()),
                                       builder.getF64FloatAttr(0));
    Value whole = nn::CatOp::create(builder, loc, ValueRange{view(value, rows), padding}, int64_t(1));
    shape[dim.dim] = dim.outer * dim.padded;
    value = view(whole, shape);
  }
  return value;
}

Value ShardBlocks::trim(Value value, const redistribution::Layout &fine, ArrayRef<AxisRef> axes) {
  for (const PaddedDim &dim : paddedDims(fine, axes)) {
    auto type = cast<RankedTensorType>(value.getType());
    SmallVector<int64_t> shape(type.getShape());
    SmallVector<int64_t> kept = pieceRows(shape, dim, dim.size), rest = kept;
    rest[1] = dim.padded - dim.size;
    auto typed = [&](ArrayRef<int64_t> sizes) { return RankedTensorType::get(sizes, type.getElementType()); };
    auto split = nn::SplitOp::create(builder, loc, TypeRange{typed(kept), typed(rest)},
                                     view(value, pieceRows(shape, dim, dim.padded)), int64_t(1));
    shape[dim.dim] = dim.outer * dim.size;
    // A result of its own, to say the layout of.
    value = nn::ViewOp::create(builder, loc, typed(shape), split.getPieces().front());
  }
  return value;
}

ShardBlocks::Decomposition ShardBlocks::decompose(ArrayRef<int64_t> coarseShape,
                                                  const redistribution::Layout &fine,
                                                  ArrayRef<AxisRef> axes) {
  Decomposition result;
  SmallVector<int64_t> front(axes.size(), -1), rest;
  for (auto [size, sharding] : llvm::zip(coarseShape, fine.dims)) {
    int64_t blocks = sharding.axes.empty() ? 1 : sharding.blocks, piece = size / blocks;
    rest.push_back(result.shape.size());
    result.shape.push_back(blocks);
    for (const AxisRef &axis : sharding.axes) {
      auto *position = llvm::find(axes, axis);
      if (position == axes.end())
        continue;
      front[position - axes.begin()] = result.shape.size();
      result.shape.push_back(axis.size);
      piece /= axis.size;
    }
    rest.push_back(result.shape.size());
    result.shape.push_back(piece);
    result.fineShape.push_back(blocks * piece);
  }
  result.permutation = front;
  llvm::append_range(result.permutation, rest);
  return result;
}

Value ShardBlocks::view(Value value, ArrayRef<int64_t> shape) {
  auto type = RankedTensorType::get(shape, cast<RankedTensorType>(value.getType()).getElementType());
  return value.getType() == type ? value : nn::ViewOp::create(builder, loc, type, value).getResult();
}

Value ShardBlocks::transpose(Value value, ArrayRef<int64_t> permutation) {
  // Moving dims of size 1 moves nothing: only the order of the others counts.
  auto shape = cast<RankedTensorType>(value.getType()).getShape();
  SmallVector<int64_t> large;
  for (int64_t dim : permutation)
    if (shape[dim] != 1)
      large.push_back(dim);
  if (llvm::is_sorted(large))
    return view(value, llvm::map_to_vector(permutation, [&](int64_t dim) { return shape[dim]; }));
  return nn::TransposeOp::create(builder, loc, value, builder.getDenseI64ArrayAttr(permutation));
}

Value ShardBlocks::splitOff(Value value, const redistribution::Layout &fine, ArrayRef<AxisRef> axes) {
  value = pad(value, fine, axes);
  Decomposition parts = decompose(cast<RankedTensorType>(value.getType()).getShape(), fine, axes);
  value = transpose(view(value, parts.shape), parts.permutation);
  SmallVector<int64_t> shape{sizeOf(axes)};
  llvm::append_range(shape, parts.fineShape);
  return view(value, shape);
}

Value ShardBlocks::merge(Value blocks, const redistribution::Layout &fine, ArrayRef<AxisRef> axes) {
  SmallVector<int64_t> coarse(cast<RankedTensorType>(blocks.getType()).getShape().drop_front());
  for (auto [size, sharding] : llvm::zip(coarse, fine.dims))
    for (const AxisRef &axis : sharding.axes)
      if (llvm::is_contained(axes, axis))
        size *= axis.size;
  Decomposition parts = decompose(coarse, fine, axes);
  SmallVector<int64_t> permuted, inverse(parts.permutation.size());
  for (auto [position, dim] : llvm::enumerate(parts.permutation)) {
    permuted.push_back(parts.shape[dim]);
    inverse[dim] = position;
  }
  return trim(view(transpose(view(blocks, permuted), inverse), coarse), fine, axes);
}
