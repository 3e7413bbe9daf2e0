//===- Layout.h - Meshes and the layouts of tensors on them -----*- C++ -*-===//
//
// A mesh numbers its ranks row-major over named axes, the last axis fastest. A
// layout says, per tensor dimension, which axes cut it (outermost first), and
// over which axes the values still have to be combined. An axis that is named
// in neither place is replicated.
//
//===----------------------------------------------------------------------===//
#ifndef PLUMB_REDISTRIBUTION_LAYOUT_H
#define PLUMB_REDISTRIBUTION_LAYOUT_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace plumb::redistribution {

/// Sizes, offsets and coordinates: one entry per tensor dimension or mesh axis.
using Index = llvm::SmallVector<int64_t, 4>;

struct MeshAxis {
  std::string name;
  int64_t size = 1;
  bool operator==(const MeshAxis &) const = default;
};

struct Mesh {
  std::vector<MeshAxis> axes;

  int64_t numRanks() const;
  /// The coordinates of `rank`, one per axis.
  Index coordinates(int64_t rank) const;
  /// The inverse of `coordinates`.
  int64_t rank(llvm::ArrayRef<int64_t> coordinates) const;
  std::optional<unsigned> find(llvm::StringRef name) const;
  bool operator==(const Mesh &) const = default;
};

/// Fails on an empty or repeated name, a size below 1, or more than 2^20 ranks.
llvm::Error checkMesh(const Mesh &mesh);

/// A whole axis (`pre` 1, `size` the axis') or a factor of one: an axis of size pre·size·post is read as
/// three digits, and this is the middle one.
struct AxisRef {
  unsigned axis = 0;
  int64_t pre = 1;
  int64_t size = 1;

  bool operator==(const AxisRef &) const = default;
  auto operator<=>(const AxisRef &) const = default;
  /// Whether this is the next-finer digit of the same axis after `outer`.
  bool follows(const AxisRef &outer) const { return axis == outer.axis && pre == outer.pre * outer.size; }
};

/// The whole of axis `axis`.
AxisRef wholeAxis(const Mesh &mesh, unsigned axis);
/// The digit of `ref` in the coordinates of a rank, in [0, ref.size).
int64_t digit(const Mesh &mesh, const AxisRef &ref, llvm::ArrayRef<int64_t> coordinates);
/// The distance in ranks between neighbours along `ref`.
int64_t rankStride(const Mesh &mesh, const AxisRef &ref);

enum class Reduction : uint8_t { Sum, Avg, Min, Max, Product };
llvm::StringRef reductionName(Reduction reduction);
std::optional<Reduction> reductionFromName(llvm::StringRef name);

/// How one tensor dimension is cut. With blocks, every block is cut by itself and a rank holds its piece of
/// each (fused QKV); `unit` keeps the cuts on multiples (heads). Neither means anything without axes.
struct DimSharding {
  llvm::SmallVector<AxisRef, 2> axes;
  int64_t blocks = 1;
  /// Sizes of unequal blocks; overrides `blocks` unless empty.
  std::vector<int64_t> blockSizes;
  int64_t unit = 1;

  bool operator==(const DimSharding &) const = default;
  bool sameCut(const DimSharding &other) const {
    return blocks == other.blocks && blockSizes == other.blockSizes && unit == other.unit;
  }
};

struct PartialAxis {
  AxisRef axis;
  Reduction reduction = Reduction::Sum;
  bool operator==(const PartialAxis &) const = default;
};

struct Layout {
  std::vector<DimSharding> dims;
  std::vector<PartialAxis> partial;

  bool operator==(const Layout &) const = default;
  static Layout replicated(unsigned rank) { return Layout{std::vector<DimSharding>(rank), {}}; }
};

/// The reduction with which `layout` is partial over (all of) `ref`, if it is.
std::optional<Reduction> reductionOver(const Layout &layout, const AxisRef &ref);

/// Fails, naming both facts that disagree, when the layout is not one of a tensor of `shape` on `mesh`: a
/// wrong number of dimensions, an unknown or repeated axis, sub-axes that overlap or do not divide, an axis
/// both sharding and partial, reductions that do not commute (only sum and avg mix), blocks that do not add
/// up to the dimension.
llvm::Error checkLayout(const Mesh &mesh, const Layout &layout, llvm::ArrayRef<int64_t> shape);

/// The one spelling of a valid layout on this shape: no axes of size 1, adjacent sub-axes joined where that
/// cuts the same (even sizes), partial axes in mesh order, no blocks on a dimension that nothing cuts. Two
/// layouts place the same data on the same ranks in the same way if their canonical forms are equal.
Layout canonicalize(const Mesh &mesh, const Layout &layout, llvm::ArrayRef<int64_t> shape);

/// The blocks of a dimension of `size` elements, as sizes that add up to it.
llvm::SmallVector<int64_t, 4> blocksOf(const DimSharding &dim, int64_t size);

/// Whether the first `count` axes of `dim` cut a dimension of `size` elements into equal shards.
bool cutsEvenly(const DimSharding &dim, int64_t size, unsigned count);

/// Whether all ranks hold equal shards.
bool cutsEvenly(const Layout &layout, llvm::ArrayRef<int64_t> shape);

inline int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

} // namespace plumb::redistribution

#endif // PLUMB_REDISTRIBUTION_LAYOUT_H
