//===- Moves.cpp - The steps out of a layout ------------------------------===//
#include "SearchSpace.h"
#include "llvm/ADT/STLExtras.h"

using namespace plumb::redistribution;

namespace plumb::redistribution {

/// Enumerates the moves out of one state. The members that `place…` recursions change are restored on return.
class Mover {
public:
  Mover(const SearchSpace &space, const State &state, SearchSpace::Enter enter, SearchSpace::Emit emit)
      : space(space), state(state), enter(enter), emit(emit), lists(space.numDims), cut(state.cut),
        partial(state.partial), sharding(space.shardingAtoms(state)), partialMask(space.partialAtoms(state)),
        all((AtomMask(1) << space.atoms.size()) - 1), localSize(space.localSize(state)) {
    for (unsigned d = 0; d < space.numDims; ++d)
      lists[d].assign(space.tokensOf(state, d).begin(), space.tokensOf(state, d).end());
    before = lists;
  }

  bool run() {
    return mask() && slices() && gathers() && reductions() && allToAlls() && permutes() && exchange();
  }

private:
  using List = llvm::SmallVector<uint8_t, 6>;

  /// What the targets of several moves depend on, as bytes.
  struct Hub {
    explicit Hub(const State &state) : key(reinterpret_cast<const char *>(&state), sizeof(State)) {}
    void add(int64_t value) { key.append(reinterpret_cast<const char *>(&value), sizeof(value)); }
    std::string key;
  };

  State pack() const {
    State result;
    unsigned end = 0;
    for (unsigned d = 0; d < space.numDims; ++d) {
      result.length[d] = lists[d].size();
      // A dimension that nothing cuts has one spelling.
      result.cut[d] = lists[d].empty() ? 0 : cut[d];
      for (uint8_t token : lists[d])
        result.tokens[end++] = token;
    }
    result.partial = partial;
    return result;
  }

  bool emitMove(StepKind kind, AtomMask atoms, int64_t elements, int64_t numerator, int64_t denominator,
                int64_t messages) {
    if (llvm::is_contained(space.options.excluded, kind))
      return true;
    State next = pack();
    if (!space.fits(kind, state, next))
      return true;
    Ticks cost = isLocal(kind) ? 0 : space.cost(atoms, elements, numerator, denominator, messages);
    return emit({next, kind, atoms, cost});
  }

  int64_t currentSize(unsigned d) const { return space.dimSize(d, cut[d], lists[d]); }

  bool isPrefixOf(const State &layout, unsigned d) const {
    llvm::ArrayRef<uint8_t> wanted = space.tokensOf(layout, d);
    return lists[d].size() <= wanted.size() && llvm::equal(lists[d], wanted.take_front(lists[d].size())) &&
           cut[d] == layout.cut[d];
  }

  /// Calls `then` with `token` appended to dimension `d`, in every way that its blocks may be cut. An append
  /// that makes no shard smaller is left out unless source or target has it.
  bool append(unsigned d, uint8_t token, llvm::function_ref<bool()> then) {
    bool first = lists[d].empty();
    uint8_t oldCut = cut[d];
    int64_t oldSize = currentSize(d);
    lists[d].push_back(token);
    bool more = true;
    for (unsigned c = 0; c < (first ? space.cuts[d].size() : 1) && more; ++c) {
      if (first)
        cut[d] = c;
      bool composite = token >= space.atoms.size();
      if (composite || !space.options.uneven) {
        bool even = space.cutsEvenlyAt(pack(), d, lists[d].size());
        if (even ? composite : !space.options.uneven)
          continue;
      }
      if (currentSize(d) < oldSize || isPrefixOf(space.to, d) || isPrefixOf(space.from, d))
        more = then();
    }
    lists[d].pop_back();
    cut[d] = oldCut;
    return more;
  }

  /// Appends all of `atoms` to the dimensions from `d` on that `allowed` names, in every order.
  bool place(AtomMask atoms, unsigned d, uint32_t allowed, llvm::function_ref<bool()> then) {
    if (atoms == 0)
      return then();
    for (; d < space.numDims; ++d) {
      if (!(allowed >> d & 1))
        continue;
      for (unsigned token = 0; token < space.tokens.size(); ++token) {
        AtomMask used = space.tokens[token].atoms;
        if ((used & ~atoms) == 0 && !append(d, token, [&] { return place(atoms & ~used, d, allowed, then); }))
          return false;
      }
    }
    return true;
  }

  /// Drops every choice of suffixes; `then` gets the atoms dropped and the dimensions they came from.
  bool dropSuffixes(unsigned d, AtomMask dropped, uint32_t from,
                    llvm::function_ref<bool(AtomMask, uint32_t)> then) {
    if (d == space.numDims)
      return dropped == 0 || then(dropped, from);
    List full = lists[d];
    bool more = dropSuffixes(d + 1, dropped, from, then);
    AtomMask suffix = 0;
    while (more && !lists[d].empty()) {
      suffix |= space.tokens[lists[d].pop_back_val()].atoms;
      more = dropSuffixes(d + 1, dropped | suffix, from | 1u << d, then);
    }
    lists[d] = std::move(full);
    return more;
  }

  /// Axes that the target leaves partial: shards are put among neutral elements, and of a replicated value
  /// all but one copy is dropped. The latter frees nothing, so it is done for all such axes at once.
  bool mask() {
    AtomMask wanted = space.toPartial & ~partialMask;
    if (wanted == 0 || !combinesWithTarget())
      return true;
    auto fill = [&](AtomMask filled, uint32_t) {
      if ((filled & ~wanted) || !hasNeutralElement(filled))
        return true;
      for (AtomMask dropped : {AtomMask(0), wanted & ~sharding}) {
        AtomMask masked = filled | dropped;
        if (masked == 0)
          continue;
        for (unsigned i = 0; i < space.atoms.size(); ++i)
          if (masked >> i & 1)
            partial[i] = space.to.partial[i];
        bool more = emitMove(StepKind::Mask, masked, 0, 0, 1, 0);
        partial = state.partial;
        if (!more)
          return false;
      }
      return true;
    };
    return fill(0, 0) && dropSuffixes(0, 0, 0, fill);
  }

  static bool isLinear(uint8_t code) {
    return code == 1 + uint8_t(Reduction::Sum) || code == 1 + uint8_t(Reduction::Avg);
  }

  /// Whether what is partial now may be partial together with what the target leaves so.
  bool combinesWithTarget() const {
    for (uint8_t now : partial)
      for (uint8_t then : space.to.partial)
        if (now && then && now != then && !(isLinear(now) && isLinear(then)))
          return false;
    return true;
  }

  bool hasNeutralElement(AtomMask atoms) const {
    for (unsigned i = 0; i < space.atoms.size(); ++i)
      if ((atoms >> i & 1) && space.to.partial[i] != 1 + uint8_t(Reduction::Sum) &&
          space.to.partial[i] != 1 + uint8_t(Reduction::Product))
        return false;
    return true;
  }

  /// One axis at a time: slices in a row are one step.
  bool slices() {
    AtomMask free = all & ~sharding & ~partialMask;
    for (unsigned d = 0; d < space.numDims; ++d)
      for (unsigned token = 0; token < space.tokens.size(); ++token) {
        AtomMask used = space.tokens[token].atoms;
        if ((used & ~free) == 0 &&
            !append(d, token, [&] { return emitMove(StepKind::Slice, used, 0, 0, 1, 0); }))
          return false;
      }
    return true;
  }

  /// Whether an earlier free axis would do just as well.
  bool hasTwin(unsigned token, AtomMask free) const {
    if (!(space.tokens[token].atoms & space.idle) || token >= space.atoms.size())
      return false;
    for (unsigned i = 0; i < token; ++i)
      if ((free & space.idle) >> i & 1 && space.atoms[i].size == space.atoms[token].size &&
          space.links[i] == space.links[token])
        return true;
    return false;
  }

  bool gathers() {
    return dropSuffixes(0, 0, 0, [&](AtomMask dropped, uint32_t) {
      int64_t group = space.sizeOfAtoms(dropped);
      return emitMove(StepKind::AllGather, dropped, localSize, group - 1, 1, group - 1);
    });
  }

  bool reductions() {
    // Every non-empty subset of the partial axes that one reduction combines.
    for (AtomMask subset = partialMask; subset != 0; subset = (subset - 1) & partialMask) {
      uint8_t code = 0;
      bool uniform = true;
      for (unsigned i = 0; i < space.atoms.size(); ++i)
        if (subset >> i & 1) {
          uniform &= code == 0 || code == partial[i];
          code = partial[i];
          partial[i] = 0;
        }
      int64_t group = space.sizeOfAtoms(subset);
      bool more = !uniform || (emitMove(StepKind::AllReduce, subset, localSize, 2 * (group - 1), group,
                                        2 * (group - 1)) &&
                               place(subset, 0, ~0u, [&] {
                                 return emitMove(StepKind::ReduceScatter, subset, space.localSize(pack()),
                                                 group - 1, 1, group - 1);
                               }));
      partial = state.partial;
      if (!more)
        return false;
    }
    return true;
  }

  bool allToAlls() {
    return dropSuffixes(0, 0, 0, [&](AtomMask moved, uint32_t from) {
      // Where the axes came from does not matter for where they may go.
      Hub hub(pack());
      hub.add(moved);
      hub.add(from);
      hub.add(localSize);
      if (!enter(hub.key, StepKind::AllToAll, 0))
        return true;
      return place(moved, 0, ~from, [&] {
        // The piece for one peer: cut as before where axes leave, as after where they arrive.
        int64_t piece = 1;
        for (unsigned d = 0; d < space.numDims; ++d)
          piece *= from >> d & 1 ? space.dimSize(state, d, state.length[d]) : currentSize(d);
        int64_t group = space.sizeOfAtoms(moved);
        return emitMove(StepKind::AllToAll, moved, piece, group - 1, 1, group - 1);
      });
    });
  }

  bool permutes() {
    // All arrangements of one set of blocks cost the same to reach from one another.
    Hub hub(State{});
    hub.add(localSize);
    for (unsigned i = 0; i < space.atoms.size(); ++i)
      hub.add(partial[i]);
    for (unsigned d = 0; d < space.numDims; ++d) {
      bool even = space.cutsEvenlyAt(state, d, before[d].size());
      int64_t shards = 1;
      for (uint8_t token : before[d]) {
        shards *= space.tokens[token].ref.size;
        if (!even)
          hub.add(space.tokens[token].ref.size);
      }
      hub.add(even ? shards : -1);
      hub.add(before[d].empty() ? 0 : cut[d]);
    }
    if (!enter(hub.key, StepKind::Permute, 0))
      return true;
    for (List &list : lists)
      list.clear();
    bool more = permuteFrom(0, 1, all & ~partialMask);
    lists = before;
    return more;
  }

  /// Fills dimension `d`, whose shards so far number `shards`, with axes so that the blocks stay what they
  /// are.
  bool permuteFrom(unsigned d, int64_t shards, AtomMask free) {
    if (d == space.numDims)
      return lists == before || emitMove(StepKind::Permute, changedAtoms(), localSize, 1, 1, 1);
    int64_t wanted = 1;
    for (uint8_t token : before[d])
      wanted *= space.tokens[token].ref.size;
    if (shards == wanted)
      return permuteFrom(d + 1, 1, free);
    bool even = space.cutsEvenlyAt(state, d, before[d].size());
    for (unsigned token = 0; token < space.tokens.size(); ++token) {
      const auto &[ref, used] = space.tokens[token];
      if (used & ~free)
        continue;
      bool fits = even ? token < space.atoms.size() && wanted % (shards * ref.size) == 0
                       : ref.size == space.tokens[before[d][lists[d].size()]].ref.size;
      if (!fits)
        continue;
      lists[d].push_back(token);
      bool more = permuteFrom(d, shards * ref.size, free & ~used);
      lists[d].pop_back();
      if (!more)
        return false;
    }
    return true;
  }

  /// The atoms of all tokens that are not in the same place before and now.
  AtomMask changedAtoms() const {
    AtomMask changed = 0;
    for (unsigned d = 0; d < space.numDims; ++d) {
      unsigned same = 0;
      if (cut[d] == state.cut[d])
        while (same < before[d].size() && same < lists[d].size() && before[d][same] == lists[d][same])
          ++same;
      for (const List &list : {before[d], lists[d]})
        for (uint8_t token : llvm::ArrayRef(list).drop_front(same))
          changed |= space.tokens[token].atoms;
    }
    return changed;
  }

  /// Straight to the target's cuts, as far as the axes that are still partial allow.
  bool exchange() {
    if (!space.options.exchange)
      return true;
    for (unsigned d = 0; d < space.numDims; ++d) {
      lists[d].clear();
      cut[d] = space.to.cut[d];
      for (uint8_t token : space.tokensOf(space.to, d))
        if ((space.tokens[token].atoms & partialMask) == 0)
          lists[d].push_back(token);
    }
    AtomMask changed = changedAtoms();
    bool more = true;
    if (changed) {
      // Where nothing is lacking (tiny tensors leave most ranks empty) it is a slice by another name.
      int64_t received = space.mostReceived(state, pack());
      StepKind kind = received == 0 ? StepKind::Slice : StepKind::Exchange;
      more = emitMove(kind, changed, received, 1, 1, space.sizeOfAtoms(changed) - 1);
    }
    lists = before;
    cut = state.cut;
    return more;
  }

  const SearchSpace &space;
  const State &state;
  SearchSpace::Enter enter;
  SearchSpace::Emit emit;
  llvm::SmallVector<List, 4> lists;
  std::array<uint8_t, State::maxDims> cut;
  std::array<uint8_t, State::maxAtoms> partial;
  AtomMask sharding, partialMask, all;
  int64_t localSize;
  llvm::SmallVector<List, 4> before;
};

bool SearchSpace::moves(const State &state, Enter enter, Emit emit) const {
  return Mover(*this, state, enter, emit).run();
}

} // namespace plumb::redistribution
