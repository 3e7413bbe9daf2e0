//===- SearchSpace.h - Layouts of a refined mesh, packed for search -------===//
//
// The mesh is refined into atoms: factors of its axes. A token is what cuts a
// dimension at once: one atom, or several atoms of an axis where their product
// does not divide (so that cutting by one and then the other is something
// else). A state is a layout written in tokens.
//
//===----------------------------------------------------------------------===//
#ifndef PLUMB_LIB_REDISTRIBUTION_SEARCHSPACE_H
#define PLUMB_LIB_REDISTRIBUTION_SEARCHSPACE_H

#include "plumb/Redistribution/IndexSet.h"
#include "plumb/Redistribution/Planner.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <array>
#include <unordered_map>

namespace plumb::redistribution {

using AtomMask = uint32_t;

/// The tokens of all dimensions, one dimension after another; per dimension their number and the way its
/// blocks are cut; per atom 0 or 1 + the reduction it is partial with.
struct State {
  static constexpr unsigned maxAtoms = 20, maxDims = 16;
  std::array<uint8_t, maxAtoms> tokens{};
  std::array<uint8_t, maxAtoms> partial{};
  std::array<uint8_t, maxDims> length{};
  std::array<uint8_t, maxDims> cut{};

  bool operator==(const State &) const = default;
};

/// Cost in units that add up exactly: 1/ranks bytes without a topology, picoseconds with one.
using Ticks = int64_t;

struct Move {
  State state;
  StepKind kind;
  AtomMask atoms;
  Ticks cost;
};

class Mover;

class SearchSpace {
public:
  using Emit = llvm::function_ref<bool(const Move &)>;
  /// Asked before the moves that a class of states has in common are enumerated: the class, the kind of the
  /// moves and a lower bound on their cost. False skips them.
  using Enter = llvm::function_ref<bool(llvm::StringRef hub, StepKind kind, Ticks cost)>;

  /// `atoms` refine every axis of `from` and `to`, which are canonical.
  SearchSpace(const Mesh &mesh, llvm::ArrayRef<int64_t> shape, int64_t elementBytes,
              const PlanOptions &options, std::vector<AxisRef> atoms, const Layout &from, const Layout &to);

  const State &source() const { return from; }
  bool isTarget(const State &state) const;
  Layout decode(const State &state) const;
  /// The axes of `atoms`: those that cut dimensions in `state` first, in the order in which they do.
  llvm::SmallVector<AxisRef, 4> axesOf(AtomMask atoms, const State &state) const;

  /// Calls `emit` for every move out of `state` until it returns false; false if it did.
  bool moves(const State &state, Enter enter, Emit emit) const;
  /// A lower bound on the cost from `state` to the target.
  Ticks bound(const State &state) const;

  double seconds(Ticks ticks) const;

private:
  struct Token {
    AxisRef ref;
    AtomMask atoms;
  };
  friend class Mover;
  /// The tokens of one dimension.
  llvm::ArrayRef<uint8_t> tokensOf(const State &state, unsigned dim) const;
  State encode(const Layout &layout);
  uint8_t tokenFor(AtomMask atoms, const AxisRef &ref);
  uint8_t cutFor(unsigned dim, const DimSharding &sharding);

  AtomMask shardingAtoms(const State &state) const;
  AtomMask partialAtoms(const State &state) const;
  /// Partial atoms that the target does not leave partial with this reduction.
  AtomMask pendingAtoms(const State &state) const;
  int64_t sizeOfAtoms(AtomMask atoms) const;
  /// The largest local size of a dimension after its first `count` tokens.
  int64_t dimSize(const State &state, unsigned dim, unsigned count) const;
  int64_t dimSize(unsigned dim, uint8_t cut, llvm::ArrayRef<uint8_t> tokens) const;
  int64_t localSize(const State &state) const;
  bool cutsEvenlyAt(const State &state, unsigned dim, unsigned count) const;
  /// The digit of every token at a rank.
  llvm::SmallVector<int32_t, 16> digitsOf(int64_t rank) const;
  IndexSet setOf(const State &state, llvm::ArrayRef<int32_t> digits) const;
  Intervals heldOf(const State &state, unsigned dim, llvm::ArrayRef<int32_t> digits) const;
  /// Per sampled rank, how much of its part of the target in `dim` lies in what it holds.
  const std::vector<int64_t> &overlaps(const State &state, unsigned dim) const;
  /// The most elements of the target that a sampled rank lacks.
  int64_t mostLacking(const State &state) const;
  /// The most elements that any rank must receive to get from one state to another.
  int64_t mostReceived(const State &before, const State &after) const;

  /// The cost of a step over `atoms` in which a rank sends `elements`·`numerator`/`denominator`.
  Ticks cost(AtomMask atoms, int64_t elements, int64_t numerator, int64_t denominator,
             int64_t messages) const;
  bool fits(StepKind kind, const State &before, const State &after) const;

  const Mesh &mesh;
  Index shape;
  int64_t elementBytes;
  const PlanOptions &options;
  int64_t ranks;
  unsigned numDims;
  std::vector<AxisRef> atoms;
  std::vector<Token> tokens;
  /// The distinct ways to cut the blocks of a dimension that the two layouts use.
  std::vector<std::vector<DimSharding>> cuts;
  std::vector<Link> links;
  /// Atoms that neither source nor target names; those of one size and link are interchangeable.
  AtomMask idle = 0;
  double fastest = 0;
  State from, to;
  AtomMask toPartial = 0;
  int64_t toSharers = 1;
  /// Per rank that the bound looks at: the digit of every token, and what it holds of the target.
  std::vector<llvm::SmallVector<int32_t, 16>> digits;
  std::vector<IndexSet> targetSets;
  std::vector<int64_t> targetVolumes;
  /// States are many, but the ways to cut one dimension are few.
  mutable std::vector<std::unordered_map<std::string, std::vector<int64_t>>> knownOverlaps;
};

} // namespace plumb::redistribution

#endif // PLUMB_LIB_REDISTRIBUTION_SEARCHSPACE_H
