//===- SearchSpace.h - Layouts of a refined mesh, packed for search -------===//
//
// The mesh is refined into atoms: factors of its axes. A state is a layout
// written in them: per dimension one of the ways to cut it (see DimCuts.h).
//
//===----------------------------------------------------------------------===//
#ifndef PLUMB_LIB_REDISTRIBUTION_SEARCHSPACE_H
#define PLUMB_LIB_REDISTRIBUTION_SEARCHSPACE_H

#include "DimCuts.h"
#include "plumb/Redistribution/Planner.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <array>

namespace plumb::redistribution {

/// What partial atoms hold, three bits each: 0 or 1 + the reduction.
class Partials {
public:
  uint8_t operator[](unsigned atom) const { return bits >> 3 * atom & 7; }
  void set(unsigned atom, uint8_t code) {
    bits = (bits & ~(uint64_t(7) << 3 * atom)) | uint64_t(code) << 3 * atom;
  }
  bool operator==(const Partials &) const = default;

private:
  uint64_t bits = 0;
};

struct State {
  static constexpr unsigned maxAtoms = 20, maxDims = 16;
  std::array<CutId, maxDims> cuts{};
  Partials partial;

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
  friend class Mover;
  const Cut &cutOf(const State &state, unsigned dim) const { return dims[dim][state.cuts[dim]]; }
  State encode(const Layout &layout);
  uint8_t tokenFor(AtomMask atoms, const AxisRef &ref);

  AtomMask shardingAtoms(const State &state) const;
  AtomMask partialAtoms(const State &state) const;
  /// Partial atoms that the target does not leave partial with this reduction.
  AtomMask pendingAtoms(const State &state) const;
  int64_t sizeOfAtoms(AtomMask atoms) const;
  int64_t localSize(const State &state) const;
  /// The digit of every token at a rank.
  llvm::SmallVector<int32_t, 16> digitsOf(int64_t rank) const;
  IndexSet setOf(const State &state, llvm::ArrayRef<int32_t> digits) const;
  /// Per rank looked at, how much of its part of the target lies in what it holds.
  const std::vector<int64_t> &overlaps(const State &state) const;
  /// The most elements of the target that a sampled rank lacks.
  int64_t mostLacking(const State &state) const;
  /// At most so many elements lie, complete or in part, on a rank that keeps them.
  int64_t mostKeptInPlace(const State &state) const;
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
  std::vector<Link> links;
  /// Atoms that neither source nor target names; those of one size and link are interchangeable.
  AtomMask idle = 0;
  double fastest = 0;
  State from, to;
  AtomMask toPartial = 0;
  int64_t toSharers = 1;
  /// Per rank that the bound looks at: the digit of every token, and how much it holds of the target.
  std::vector<llvm::SmallVector<int32_t, 16>> digits;
  std::vector<int64_t> targetVolumes;
  mutable std::vector<DimCuts> dims;
  mutable std::vector<int64_t> overlap;
};

} // namespace plumb::redistribution

#endif // PLUMB_LIB_REDISTRIBUTION_SEARCHSPACE_H
