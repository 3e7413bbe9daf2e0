//===- ShardBlocks.h - Tensors as rows of the blocks of shards --*- C++ -*-===//

#ifndef PLUMB_LIB_TRANSFORMS_SHARDBLOCKS_H
#define PLUMB_LIB_TRANSFORMS_SHARDBLOCKS_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "plumb/Redistribution/Layout.h"

namespace plumb {

int64_t sizeOf(llvm::ArrayRef<redistribution::AxisRef> axes);

/// Cuts local tensors further and joins them, by views, transposes and, where shards differ in size, padding.
class ShardBlocks {
public:
  /// `shape` is that of the whole tensor.
  ShardBlocks(mlir::OpBuilder &builder, mlir::Location loc, llvm::ArrayRef<int64_t> shape)
      : builder(builder), loc(loc), wholeShape(shape) {}

  /// A tensor as a row of the blocks into which `axes`, digits of the layout `fine`, cut it further.
  mlir::Value splitOff(mlir::Value value, const redistribution::Layout &fine,
                       llvm::ArrayRef<redistribution::AxisRef> axes);

  /// The inverse: joins a row of blocks of layout `fine` to the tensor that `axes` no longer cut.
  mlir::Value merge(mlir::Value blocks, const redistribution::Layout &fine,
                    llvm::ArrayRef<redistribution::AxisRef> axes);

  /// Makes the dims that `axes` are to cut further multiples of them, with zeros at the end.
  mlir::Value pad(mlir::Value value, const redistribution::Layout &fine,
                  llvm::ArrayRef<redistribution::AxisRef> axes);

  /// The inverse, once the dims are joined.
  mlir::Value trim(mlir::Value value, const redistribution::Layout &fine,
                   llvm::ArrayRef<redistribution::AxisRef> axes);

  mlir::Value view(mlir::Value value, llvm::ArrayRef<int64_t> shape);

private:
  /// A dim that `axes` cut into shards of different sizes: `outer` pieces of `size` elements, of which each
  /// is padded to `padded` elements.
  struct PaddedDim {
    size_t dim;
    int64_t outer, size, padded;
  };
  llvm::SmallVector<PaddedDim> paddedDims(const redistribution::Layout &fine,
                                          llvm::ArrayRef<redistribution::AxisRef> axes) const;
  /// A local tensor in rows: what is outside of the pieces of a dim, the elements of a piece, what is inside.
  static llvm::SmallVector<int64_t> pieceRows(llvm::ArrayRef<int64_t> shape, const PaddedDim &of,
                                              int64_t size);

  /// How the dims of a coarse local tensor fall apart when `axes` cut them further.
  struct Decomposition {
    llvm::SmallVector<int64_t>
        shape; ///< Per dim of the coarse tensor: blocks, one entry per cutting axis, the rest.
    llvm::SmallVector<int64_t>
        permutation; ///< The axes first, in the order of the group, then everything else.
    llvm::SmallVector<int64_t> fineShape; ///< The local shape after cutting.
  };
  static Decomposition decompose(llvm::ArrayRef<int64_t> coarseShape, const redistribution::Layout &fine,
                                 llvm::ArrayRef<redistribution::AxisRef> axes);

  mlir::Value transpose(mlir::Value value, llvm::ArrayRef<int64_t> permutation);

  mlir::OpBuilder &builder;
  mlir::Location loc;
  llvm::ArrayRef<int64_t> wholeShape;
};

} // namespace plumb

#endif // PLUMB_LIB_TRANSFORMS_SHARDBLOCKS_H
