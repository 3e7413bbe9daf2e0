//===- Search.h - A* over the layouts of a search space -------------------===//
#ifndef PLUMB_LIB_REDISTRIBUTION_SEARCH_H
#define PLUMB_LIB_REDISTRIBUTION_SEARCH_H

#include "SearchSpace.h"

namespace plumb::redistribution {

struct SearchResult {
  struct Hop {
    StepKind kind;
    AtomMask atoms;
    State after;
  };
  /// The moves of the best plan found; slices in a row are one hop.
  std::vector<Hop> hops = {};
  Ticks cost = 0;
  /// Nothing in this space costs less.
  Ticks proven = 0;
  bool found = false;
};

/// The cheapest sequence of moves from the source of `space` to its target. `moves` is the budget, in moves
/// looked at; it is reduced by what was used. Plans that cost `limit` or more are of no interest.
SearchResult search(const SearchSpace &space, int64_t &moves,
                    Ticks limit = std::numeric_limits<Ticks>::max());

} // namespace plumb::redistribution

#endif // PLUMB_LIB_REDISTRIBUTION_SEARCH_H
