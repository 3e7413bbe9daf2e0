//===- IndexSet.h - Which elements a rank holds -----------------*- C++ -*-===//
//
// The rule: with f = ceil(s/n), shard c of n of a dimension of s elements is
// [min(s, f·c), min(s, f·(c+1))); several axes apply left to right, each to the
// piece that the previous one left; with blocks, each block is cut so. Shards
// may differ in size or be empty.
//
//===----------------------------------------------------------------------===//
#ifndef PLUMB_REDISTRIBUTION_INDEXSET_H
#define PLUMB_REDISTRIBUTION_INDEXSET_H

#include "plumb/Redistribution/Layout.h"

namespace plumb::redistribution {

/// Elements [begin, end) of one dimension.
struct Interval {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
  bool operator==(const Interval &) const = default;
};

/// Ascending, disjoint, none empty, no two adjacent. The local tensor holds them one after another.
using Intervals = llvm::SmallVector<Interval, 2>;

/// A set of tensor elements that is a product of one interval list per dimension.
using IndexSet = llvm::SmallVector<Intervals, 4>;

/// A box of a local (or the global) tensor.
struct Box {
  Index offset;
  Index shape;
  int64_t volume() const;
  bool operator==(const Box &) const = default;
};

int64_t sizeOf(const Intervals &intervals);
int64_t volume(const IndexSet &set);
Intervals intersect(const Intervals &a, const Intervals &b);
IndexSet intersect(const IndexSet &a, const IndexSet &b);

/// What the rule leaves of `piece` to shard `c` of `n`, cutting at multiples of `unit` from its begin.
Interval cut(Interval piece, int64_t n, int64_t c, int64_t unit);

IndexSet globalSet(llvm::ArrayRef<int64_t> shape);
/// The elements that the rank at `coordinates` holds.
IndexSet localSet(const Mesh &mesh, const Layout &layout, llvm::ArrayRef<int64_t> shape,
                  llvm::ArrayRef<int64_t> coordinates);
Index localShape(const IndexSet &set);
/// The global position of the first element; in a dimension where the rank holds nothing, where the rule puts
/// its empty piece.
Index localOffset(const Mesh &mesh, const Layout &layout, llvm::ArrayRef<int64_t> shape,
                  llvm::ArrayRef<int64_t> coordinates);
Index localShape(const Mesh &mesh, const Layout &layout, llvm::ArrayRef<int64_t> shape, int64_t rank);
/// The local shape of rank 0: no rank's is larger in any dimension.
Index largestLocalShape(const Mesh &mesh, const Layout &layout, llvm::ArrayRef<int64_t> shape);

/// Splits `part`, a subset of `whole`, into boxes of the local tensor that holds `whole`, in row-major order
/// of their global positions. Two holders of one set split it into the same sequence of shapes.
std::vector<Box> boxesWithin(const IndexSet &part, const IndexSet &whole);

/// The product of the sizes; 1 for a scalar.
int64_t numElements(llvm::ArrayRef<int64_t> shape);

} // namespace plumb::redistribution

#endif // PLUMB_REDISTRIBUTION_INDEXSET_H
