//===- Balance.h - Who sends what to whom, evenly -------------------------===//
#ifndef PLUMB_LIB_REDISTRIBUTION_BALANCE_H
#define PLUMB_LIB_REDISTRIBUTION_BALANCE_H

#include "plumb/Redistribution/IndexSet.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace plumb::redistribution {

/// Members that hold the same elements, ascending.
struct Block {
  IndexSet elements;
  std::vector<int64_t> holders;
};

/// The distinct sets among `held`, any two of which are equal or disjoint, without empty ones.
std::vector<Block> distinctBlocks(llvm::ArrayRef<IndexSet> held);

/// A tile on its way to a member that lacks it: from a holder, or handed on by a member to which a holder
/// sent it.
struct Tile {
  int64_t sender = 0;
  int64_t receiver = 0;
  IndexSet elements;
  bool isHandedOn = false;
};

/// Gives every receiver j the elements of `wanted[j]` that `held[j]` lacks, each once, from members that hold
/// them, and spreads the load: no member sends much more than the most that one receives. Where the holders
/// alone do not allow that, receivers hand on what they got. Any two sets in `held` are equal or disjoint,
/// and together they cover `wanted`. Among equally loaded holders the one with the least `distance(holder,
/// receiver)` sends, then the first.
std::vector<Tile> balanceTiles(llvm::ArrayRef<IndexSet> held, llvm::ArrayRef<IndexSet> wanted,
                               llvm::function_ref<int64_t(int64_t, int64_t)> distance);

/// Cuts `set` into `parts` along its longest dimension, as evenly as whole rows allow; some may be empty.
std::vector<IndexSet> splitEvenly(IndexSet set, int64_t parts);

} // namespace plumb::redistribution

#endif // PLUMB_LIB_REDISTRIBUTION_BALANCE_H
