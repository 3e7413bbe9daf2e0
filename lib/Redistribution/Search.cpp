//===- Search.cpp - A* over the layouts of a search space -----------------===//
#include "Search.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/xxhash.h"
#include <queue>
#include <unordered_map>

using namespace plumb::redistribution;

namespace {

/// Costs compare first; ties go to fewer communicating steps, then to simpler kinds and fewer slices.
struct Label {
  Ticks cost = 0;
  int32_t steps = 0;
  int32_t kinds = 0;
  auto operator<=>(const Label &) const = default;
};

struct Node {
  State state;
  Label label;
  Ticks bound = 0;
  int32_t parent = -1;
  StepKind kind = StepKind::Slice;
  AtomMask atoms = 0;
};

/// Least estimated cost first; among equals the one closest to the target, so that where many plans cost the
/// same the first is found at once.
struct Open {
  Ticks estimate;
  Ticks bound;
  Label label;
  int32_t node;
  bool operator<(const Open &other) const {
    return std::tie(estimate, bound, label, node) >
           std::tie(other.estimate, other.bound, other.label, other.node);
  }
};

/// Moves spent on a plan of fewer steps once the least cost is known.
constexpr int64_t movesForFewerSteps = 4'000;

struct StateHash {
  size_t operator()(const State &state) const {
    return llvm::xxh3_64bits(llvm::ArrayRef(reinterpret_cast<const uint8_t *>(&state), sizeof(State)));
  }
};

int32_t complexity(StepKind kind) {
  switch (kind) {
  case StepKind::Slice:
  case StepKind::Mask:
    return 128;
  case StepKind::AllGather:
  case StepKind::ReduceScatter:
    return 32;
  case StepKind::AllReduce:
    return 64;
  case StepKind::AllToAll:
    return 96;
  case StepKind::Permute:
    return 128;
  case StepKind::Exchange:
    return 256;
  }
  return 0;
}

class Searcher {
public:
  Searcher(const SearchSpace &space, int64_t &budget, Ticks limit)
      : space(space), budget(budget), limit(limit) {}

  SearchResult run() {
    reach({space.source(), StepKind::Slice, 0, 0}, Label(), -1);
    std::optional<int32_t> target;
    while (!open.empty()) {
      Open next = open.top();
      open.pop();
      // Reached again at less cost since it was queued.
      if (nodes[next.node].label != next.label)
        continue;
      if (target && !mayImproveOn(nodes[*target].label, next))
        continue;
      if (space.isTarget(nodes[next.node].state)) {
        if (!target)
          reserve = std::max(int64_t(0), budget - movesForFewerSteps);
        target = next.node;
        continue;
      }
      if (expand(next))
        continue;
      if (target)
        break;
      // What is open bounds every plan from below.
      return {.proven = std::min(next.estimate, limit)};
    }
    return target ? pathTo(*target) : SearchResult{.proven = limit};
  }

private:
  /// Whether a plan through `open`, which is not the target itself, could be as cheap as `best` and simpler.
  bool mayImproveOn(const Label &best, const Open &open) const {
    Label least = open.label;
    least.cost = open.estimate;
    least.kinds += !space.isTarget(nodes[open.node].state);
    return least < best;
  }

  /// False when the budget is spent.
  bool expand(const Open &from) {
    auto enter = [&](llvm::StringRef hub, StepKind kind, Ticks cost) {
      --budget;
      Label label = from.label;
      label.cost += cost;
      label.kinds += complexity(kind);
      auto [known, isNew] = hubs.try_emplace((hub + llvm::Twine(char(kind))).str(), label);
      if (!isNew && known->second <= label)
        return false;
      known->second = label;
      return true;
    };
    return space.moves(State(nodes[from.node].state), enter, [&](const Move &move) {
      if (--budget < reserve)
        return false;
      Label label = from.label;
      label.cost += move.cost;
      label.steps += !isLocal(move.kind);
      label.kinds += complexity(move.kind);
      reach(move, label, from.node);
      return true;
    });
  }

  void reach(const Move &move, const Label &label, int32_t parent) {
    if (label.cost >= limit)
      return;
    auto [known, isNew] = index.try_emplace(move.state, int32_t(nodes.size()));
    if (isNew)
      nodes.push_back({move.state, label, space.bound(move.state), parent, move.kind, move.atoms});
    Node &node = nodes[known->second];
    if (!isNew) {
      if (node.label <= label)
        return;
      node.label = label;
      node.parent = parent;
      node.kind = move.kind;
      node.atoms = move.atoms;
    }
    if (label.cost + node.bound < limit)
      open.push({label.cost + node.bound, node.bound, label, known->second});
  }

  SearchResult pathTo(int32_t last) const {
    SearchResult result{.cost = nodes[last].label.cost, .proven = nodes[last].label.cost, .found = true};
    for (int32_t at = last; nodes[at].parent >= 0; at = nodes[at].parent) {
      bool sameSlice = nodes[at].kind == StepKind::Slice && !result.hops.empty() &&
                       result.hops.back().kind == StepKind::Slice;
      if (sameSlice)
        result.hops.back().atoms |= nodes[at].atoms;
      else
        result.hops.push_back({nodes[at].kind, nodes[at].atoms, nodes[at].state});
    }
    std::reverse(result.hops.begin(), result.hops.end());
    return result;
  }

  const SearchSpace &space;
  int64_t &budget;
  /// What must be left of the budget.
  int64_t reserve = 0;
  Ticks limit;
  std::vector<Node> nodes;
  std::unordered_map<State, int32_t, StateHash> index;
  /// The least label with which the moves of a hub were enumerated.
  std::unordered_map<std::string, Label> hubs;
  std::priority_queue<Open> open;
};

} // namespace

SearchResult plumb::redistribution::search(const SearchSpace &space, int64_t &moves, Ticks limit) {
  return Searcher(space, moves, limit).run();
}
