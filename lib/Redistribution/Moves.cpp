//===- Moves.cpp - The steps out of a layout ------------------------------===//
#include "SearchSpace.h"
#include "llvm/ADT/STLExtras.h"

using namespace plumb::redistribution;

namespace plumb::redistribution {

/// Enumerates the moves out of one state. The members that `place…` recursions change are restored on return.
class Mover {
  /// An exchange names the messages between any two members of its group; a permute tries the arrangements of
  /// the axes, of which there are too many where there are many axes.
  static constexpr int64_t maxExchangeMembers = 1024, maxArrangements = 50'000;

public:
  Mover(const SearchSpace &space, const State &state, SearchSpace::Enter enter, SearchSpace::Emit emit)
      : space(space), state(state), now(state), enter(enter), emit(emit),
        sharding(space.shardingAtoms(state)), partialMask(space.partialAtoms(state)),
        all((AtomMask(1) << space.atoms.size()) - 1), localSize(space.localSize(state)) {}

  bool run() {
    return mask() && slices() && gathers() && reductions() && allToAlls() && permutes() && exchange();
  }

private:
  /// What the targets of several moves depend on, as bytes.
  struct Hub {
    explicit Hub(const State &state) : key(reinterpret_cast<const char *>(&state), sizeof(State)) {}
    void add(int64_t value) { key.append(reinterpret_cast<const char *>(&value), sizeof(value)); }
    std::string key;
  };

  bool emitMove(StepKind kind, AtomMask atoms, int64_t elements, int64_t numerator, int64_t denominator,
                int64_t messages) {
    if (llvm::is_contained(space.options.excluded, kind))
      return true;
    if (!space.fits(kind, state, now))
      return true;
    Ticks cost = isLocal(kind) ? 0 : space.cost(atoms, elements, numerator, denominator, messages);
    return emit({now, kind, atoms, cost});
  }

  const Cut &current(unsigned d) const { return space.cutOf(now, d); }

  /// Calls `then` with `token` appended to dimension `d`, in every way that its blocks may be cut. An append
  /// that makes no shard smaller is left out unless source or target has it.
  bool append(unsigned d, uint8_t token, llvm::function_ref<bool()> then) {
    CutId old = now.cuts[d];
    DimCuts &cuts = space.dims[d];
    int64_t oldSize = cuts[old].size;
    bool composite = token >= space.atoms.size(), more = true;
    for (unsigned style = 0; style < (old == DimCuts::root ? cuts.numStyles() : 1) && more; ++style) {
      CutId next = cuts.child(old, token, style);
      const Cut &cut = cuts[next];
      // Several atoms are one token only where they do not divide.
      bool allowed = cut.isEven ? !composite : space.options.uneven || cut.isNamed;
      if (!allowed || (cut.size >= oldSize && !cut.isNamed))
        continue;
      now.cuts[d] = next;
      more = then();
    }
    now.cuts[d] = old;
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
    CutId full = now.cuts[d];
    bool more = dropSuffixes(d + 1, dropped, from, then);
    while (more && now.cuts[d] != DimCuts::root) {
      now.cuts[d] = current(d).parent;
      AtomMask suffix = space.dims[d][full].atoms & ~current(d).atoms;
      more = dropSuffixes(d + 1, dropped | suffix, from | 1u << d, then);
    }
    now.cuts[d] = full;
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
            now.partial.set(i, space.to.partial[i]);
        bool more = emitMove(StepKind::Mask, masked, 0, 0, 1, 0);
        now.partial = state.partial;
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
    for (unsigned i = 0; i < space.atoms.size(); ++i)
      for (unsigned j = 0; j < space.atoms.size(); ++j) {
        uint8_t held = now.partial[i], wanted = space.to.partial[j];
        if (held && wanted && held != wanted && !(isLinear(held) && isLinear(wanted)))
          return false;
      }
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
          uniform &= code == 0 || code == now.partial[i];
          code = now.partial[i];
          now.partial.set(i, 0);
        }
      int64_t group = space.sizeOfAtoms(subset);
      bool more =
          !uniform ||
          (emitMove(StepKind::AllReduce, subset, localSize, 2 * (group - 1), group, 2 * (group - 1)) &&
           place(subset, 0, ~0u, [&] {
             return emitMove(StepKind::ReduceScatter, subset, space.localSize(now), group - 1, 1, group - 1);
           }));
      now.partial = state.partial;
      if (!more)
        return false;
    }
    return true;
  }

  bool allToAlls() {
    return dropSuffixes(0, 0, 0, [&](AtomMask moved, uint32_t from) {
      // Where the axes came from does not matter for where they may go.
      Hub hub(now);
      hub.add(moved);
      hub.add(from);
      hub.add(localSize);
      if (!enter(hub.key, StepKind::AllToAll, 0))
        return true;
      return place(moved, 0, ~from, [&] {
        // The piece for one peer: cut as before where axes leave, as after where they arrive.
        int64_t piece = 1;
        for (unsigned d = 0; d < space.numDims; ++d)
          piece *= (from >> d & 1 ? space.cutOf(state, d) : current(d)).size;
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
      hub.add(now.partial[i]);
    for (unsigned d = 0; d < space.numDims; ++d) {
      const Cut &cut = space.cutOf(state, d);
      if (!cut.isEven)
        for (uint8_t token : cut.tokens)
          hub.add(space.tokens[token].ref.size);
      hub.add(cut.isEven ? cut.shards : -1);
      hub.add(cut.style);
    }
    if (!enter(hub.key, StepKind::Permute, 0))
      return true;
    now.cuts = {};
    bool more = permuteFrom(0, all & ~partialMask);
    now.cuts = state.cuts;
    return more;
  }

  /// Fills the dimensions from `d` on with axes so that the blocks stay what they are.
  bool permuteFrom(unsigned d, AtomMask free) {
    if (++arrangements > maxArrangements)
      return false;
    if (d == space.numDims)
      return now == state || emitMove(StepKind::Permute, changedAtoms(), localSize, 1, 1, 1);
    const Cut &wanted = space.cutOf(state, d), &filled = current(d);
    if (filled.shards == wanted.shards)
      return permuteFrom(d + 1, free);
    CutId old = now.cuts[d];
    size_t depth = filled.tokens.size();
    int64_t shards = filled.shards;
    bool more = true;
    for (unsigned token = 0; token < space.tokens.size() && more; ++token) {
      const auto &[ref, used] = space.tokens[token];
      if (used & ~free)
        continue;
      bool fits = wanted.isEven ? token < space.atoms.size() && wanted.shards % (shards * ref.size) == 0
                                : ref.size == space.tokens[wanted.tokens[depth]].ref.size;
      if (!fits)
        continue;
      now.cuts[d] = space.dims[d].child(old, token, wanted.style);
      more = permuteFrom(d, free & ~used);
    }
    now.cuts[d] = old;
    return more;
  }

  /// The atoms of all tokens that are not in the same place before and now.
  AtomMask changedAtoms() const {
    AtomMask changed = 0;
    for (unsigned d = 0; d < space.numDims; ++d) {
      const Cut &old = space.cutOf(state, d), &cut = current(d);
      unsigned same = 0;
      if (old.style == cut.style)
        while (same < old.tokens.size() && same < cut.tokens.size() && old.tokens[same] == cut.tokens[same])
          ++same;
      for (const Cut *side : {&old, &cut})
        for (uint8_t token : llvm::ArrayRef(side->tokens).drop_front(same))
          changed |= space.tokens[token].atoms;
    }
    return changed;
  }

  /// Straight to the target's cuts, as far as the axes that are still partial allow.
  bool exchange() {
    if (!space.options.exchange)
      return true;
    for (unsigned d = 0; d < space.numDims; ++d) {
      const Cut &wanted = space.cutOf(space.to, d);
      now.cuts[d] = (wanted.atoms & partialMask) == 0 ? space.to.cuts[d] : DimCuts::root;
      if (wanted.atoms & partialMask)
        for (uint8_t token : wanted.tokens)
          if ((space.tokens[token].atoms & partialMask) == 0)
            now.cuts[d] = space.dims[d].child(now.cuts[d], token, wanted.style);
    }
    AtomMask changed = changedAtoms();
    bool more = true;
    if (changed && space.sizeOfAtoms(changed) <= maxExchangeMembers) {
      // Where nothing is lacking (tiny tensors leave most ranks empty) it is a slice by another name.
      int64_t received = space.mostReceived(state, now);
      StepKind kind = received == 0 ? StepKind::Slice : StepKind::Exchange;
      more = emitMove(kind, changed, received, 1, 1, space.sizeOfAtoms(changed) - 1);
    }
    now.cuts = state.cuts;
    return more;
  }

  const SearchSpace &space;
  const State &state;
  /// Where the moves lead, while they are made.
  State now;
  SearchSpace::Enter enter;
  SearchSpace::Emit emit;
  AtomMask sharding, partialMask, all;
  int64_t localSize;
  int64_t arrangements = 0;
};

bool SearchSpace::moves(const State &state, Enter enter, Emit emit) const {
  return Mover(*this, state, enter, emit).run();
}

} // namespace plumb::redistribution
