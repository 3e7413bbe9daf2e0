//===- DimCuts.h - The ways to cut one dimension, as a tree ---------------===//
//
// A token is what cuts a dimension at once: one atom (a factor of a mesh axis),
// or several atoms of an axis where their product does not divide (so that
// cutting by one and then the other is something else). A cut is a sequence of
// tokens: the root is the whole dimension, a child cuts one token further.
// Layouts are many, but the ways to cut one dimension are few, so what a search
// asks about them again and again is worked out once.
//
//===----------------------------------------------------------------------===//
#ifndef PLUMB_LIB_REDISTRIBUTION_DIMCUTS_H
#define PLUMB_LIB_REDISTRIBUTION_DIMCUTS_H

#include "plumb/Redistribution/IndexSet.h"
#include <algorithm>
#include <deque>

namespace plumb::redistribution {

using AtomMask = uint32_t;
using CutId = uint32_t;

struct Token {
  AxisRef ref;
  AtomMask atoms;
};

struct Cut {
  llvm::SmallVector<uint8_t, 8> tokens;
  CutId parent = 0;
  /// How blocks are cut: a position in `DimCuts::styles`; 0 at the root.
  uint8_t style = 0;
  /// On the way to the cut of source or target.
  bool isNamed = false;
  bool isEven = true;
  AtomMask atoms = 0;
  int64_t shards = 1;
  /// The largest local size.
  int64_t size = 0;
};

class DimCuts {
public:
  static constexpr CutId root = 0;

  /// `tokens` and `digits` (of every token, per rank that the bounds look at) are read when cuts are made.
  DimCuts(int64_t size, const std::vector<Token> &tokens,
          const std::vector<llvm::SmallVector<int32_t, 16>> &digits);

  const Cut &operator[](CutId id) const { return nodes[id].cut; }
  /// `id` cut by `token` too; `style` counts at the root.
  CutId child(CutId id, uint8_t token, uint8_t style);
  size_t numStyles() const { return std::max<size_t>(1, styles.size()); }
  /// The way in which `sharding` cuts blocks, which becomes known.
  uint8_t styleFor(const DimSharding &sharding);
  DimSharding decode(CutId id) const;
  /// Marks `id` and all that leads there.
  void name(CutId id);

  void setTarget(CutId id) { target = id; }
  /// Per rank looked at, how much of its part of the target lies in what it holds under `id`.
  const std::vector<int64_t> &overlaps(CutId id);
  /// What a rank with these digits holds.
  Intervals held(CutId id, llvm::ArrayRef<int32_t> digits) const;

private:
  struct Node {
    Cut cut;
    llvm::SmallVector<std::pair<uint16_t, CutId>, 2> children;
    /// Per rank looked at, its piece of every block.
    std::vector<Interval> pieces;
    std::vector<int64_t> overlaps;
  };
  const DimSharding &styleOf(CutId id) const;
  const std::vector<Interval> &piecesOf(CutId id);

  int64_t size;
  const std::vector<Token> &tokens;
  const std::vector<llvm::SmallVector<int32_t, 16>> &digits;
  std::vector<DimSharding> styles;
  std::deque<Node> nodes;
  CutId target = root;
};

} // namespace plumb::redistribution

#endif // PLUMB_LIB_REDISTRIBUTION_DIMCUTS_H
