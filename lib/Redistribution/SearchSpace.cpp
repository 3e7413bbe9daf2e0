//===- SearchSpace.cpp - Layouts of a refined mesh, packed for search -----===//
#include "SearchSpace.h"
#include "Accounting.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <cmath>

using namespace plumb::redistribution;

namespace {
constexpr double ticksPerSecond = 1e12;

/// A step that takes days costs no more than this, so that the costs of a plan can be summed.
constexpr double mostTicks = 0x1p54;
/// Up to so many ranks the bound looks at all of them, beyond at a few; it stays a bound however few they
/// are.
constexpr int64_t maxExactRanks = 128, maxSampledRanks = 16;
/// Ranks that the cost of an exchange looks at.
constexpr int64_t maxExchangeRanks = 256;

/// At most `limit` of `ranks`, spread so that no digit of the mesh stays fixed.
std::vector<int64_t> sample(int64_t ranks, int64_t limit) {
  std::vector<int64_t> result;
  if (ranks <= limit) {
    for (int64_t rank = 0; rank < ranks; ++rank)
      result.push_back(rank);
    return result;
  }
  for (int64_t i = 0; i < limit; ++i)
    result.push_back(int64_t(uint64_t(i) * 2654435761u % uint64_t(ranks)));
  return result;
}
} // namespace

SearchSpace::SearchSpace(const Mesh &mesh, llvm::ArrayRef<int64_t> shape, int64_t elementBytes,
                         const PlanOptions &options, std::vector<AxisRef> refinement, const Layout &source,
                         const Layout &target)
    : mesh(mesh), shape(shape.begin(), shape.end()), elementBytes(elementBytes), options(options),
      ranks(mesh.numRanks()), numDims(shape.size()), atoms(std::move(refinement)) {
  for (auto [i, ref] : llvm::enumerate(atoms)) {
    tokens.push_back({ref, AtomMask(1) << i});
    links.push_back(options.topology ? options.topology->link(mesh, ref) : Link{1, 0, 0});
    fastest = std::max(fastest, links.back().bandwidth);
  }
  for (int64_t size : shape)
    dims.emplace_back(size, tokens, digits);
  from = encode(source);
  to = encode(target);
  toPartial = partialAtoms(to);
  idle = ~(shardingAtoms(from) | partialAtoms(from) | shardingAtoms(to) | toPartial);
  toSharers = ranks / sizeOfAtoms(shardingAtoms(to));
  for (int64_t rank : sample(ranks, ranks <= maxExactRanks ? ranks : maxSampledRanks))
    digits.push_back(digitsOf(rank));
  for (unsigned d = 0; d < numDims; ++d)
    dims[d].setTarget(to.cuts[d]);
  targetVolumes = overlaps(to);
}

llvm::SmallVector<int32_t, 16> SearchSpace::digitsOf(int64_t rank) const {
  Index coordinates = mesh.coordinates(rank);
  llvm::SmallVector<int32_t, 16> result;
  for (const Token &token : tokens)
    result.push_back(digit(mesh, token.ref, coordinates));
  return result;
}

uint8_t SearchSpace::tokenFor(AtomMask mask, const AxisRef &ref) {
  for (auto [i, token] : llvm::enumerate(tokens))
    if (token.atoms == mask)
      return i;
  tokens.push_back({ref, mask});
  return tokens.size() - 1;
}

State SearchSpace::encode(const Layout &layout) {
  State state;
  for (auto [d, dim] : llvm::enumerate(layout.dims)) {
    if (dim.axes.empty())
      continue;
    uint8_t style = dims[d].styleFor(dim);
    CutId &cut = state.cuts[d];
    for (auto [k, ref] : llvm::enumerate(dim.axes)) {
      bool even = cutsEvenly(dim, shape[d], k + 1);
      AtomMask mask = 0;
      for (auto [i, atom] : llvm::enumerate(atoms)) {
        if (atom.axis != ref.axis || atom.pre < ref.pre || atom.pre >= ref.pre * ref.size)
          continue;
        mask |= AtomMask(1) << i;
        if (even)
          cut = dims[d].child(cut, i, style);
      }
      if (!even)
        cut = dims[d].child(cut, tokenFor(mask, ref), style);
    }
    dims[d].name(cut);
  }
  for (const PartialAxis &partial : layout.partial)
    for (auto [i, atom] : llvm::enumerate(atoms))
      if (atom.axis == partial.axis.axis && atom.pre >= partial.axis.pre &&
          atom.pre < partial.axis.pre * partial.axis.size)
        state.partial.set(i, 1 + uint8_t(partial.reduction));
  return state;
}

Layout SearchSpace::decode(const State &state) const {
  Layout layout = Layout::replicated(numDims);
  for (unsigned d = 0; d < numDims; ++d)
    layout.dims[d] = dims[d].decode(state.cuts[d]);
  for (auto [i, atom] : llvm::enumerate(atoms))
    if (state.partial[i])
      layout.partial.push_back({atom, Reduction(state.partial[i] - 1)});
  return canonicalize(mesh, layout, shape);
}

bool SearchSpace::isTarget(const State &state) const { return state == to; }

AtomMask SearchSpace::shardingAtoms(const State &state) const {
  AtomMask mask = 0;
  for (unsigned d = 0; d < numDims; ++d)
    mask |= cutOf(state, d).atoms;
  return mask;
}

AtomMask SearchSpace::partialAtoms(const State &state) const {
  AtomMask mask = 0;
  for (size_t i = 0; i < atoms.size(); ++i)
    if (state.partial[i])
      mask |= AtomMask(1) << i;
  return mask;
}

AtomMask SearchSpace::pendingAtoms(const State &state) const {
  AtomMask mask = 0;
  for (size_t i = 0; i < atoms.size(); ++i)
    if (state.partial[i] && state.partial[i] != to.partial[i])
      mask |= AtomMask(1) << i;
  return mask;
}

int64_t SearchSpace::sizeOfAtoms(AtomMask mask) const {
  int64_t size = 1;
  for (size_t i = 0; i < atoms.size(); ++i)
    if (mask >> i & 1)
      size *= atoms[i].size;
  return size;
}

int64_t SearchSpace::localSize(const State &state) const {
  int64_t size = 1;
  for (unsigned d = 0; d < numDims; ++d)
    size *= cutOf(state, d).size;
  return size;
}

IndexSet SearchSpace::setOf(const State &state, llvm::ArrayRef<int32_t> digits) const {
  IndexSet set;
  for (unsigned d = 0; d < numDims; ++d)
    set.push_back(dims[d].held(state.cuts[d], digits));
  return set;
}

const std::vector<int64_t> &SearchSpace::overlaps(const State &state) const {
  overlap.assign(digits.size(), 1);
  for (unsigned d = 0; d < numDims; ++d) {
    const int64_t *inDim = dims[d].overlaps(state.cuts[d]).data();
    for (size_t rank = 0; rank < digits.size(); ++rank)
      overlap[rank] *= inDim[rank];
  }
  return overlap;
}

int64_t SearchSpace::mostLacking(const State &state) const {
  overlaps(state);
  int64_t most = 0;
  for (size_t rank = 0; rank < digits.size(); ++rank)
    most = std::max(most, targetVolumes[rank] - overlap[rank]);
  return most;
}

int64_t SearchSpace::mostReceived(const State &before, const State &after) const {
  if (ranks <= maxExactRanks && after.cuts == to.cuts)
    return mostLacking(before);
  int64_t most = 0;
  for (int64_t rank : sample(ranks, maxExchangeRanks)) {
    auto at = digitsOf(rank);
    IndexSet wanted = setOf(after, at);
    most = std::max(most, volume(wanted) - volume(intersect(wanted, setOf(before, at))));
  }
  return most;
}

int64_t SearchSpace::mostKeptInPlace(const State &state) const {
  if (ranks > maxExactRanks)
    return numElements(shape);
  int64_t kept = 0;
  for (int64_t common : overlaps(state))
    kept += common;
  // What ranks hold and keep that differ only in axes that cut neither, is the same.
  AtomMask every = (AtomMask(1) << atoms.size()) - 1;
  return std::min(numElements(shape),
                  kept / sizeOfAtoms(every & ~(shardingAtoms(state) | shardingAtoms(to))));
}

// A rank must receive at least one value for every element of its result that it does not hold, or holds in
// part only. And over all ranks: the first to have an element complete has been reached by G-1 of the G
// contributions to it (by all, where it has none), and each other of the C ranks that keep it is handed one
// more value. A rank that completes it without keeping it saves nothing. A target that is partial may keep
// neutral elements, which cost nothing, so nothing is claimed for it.
Ticks SearchSpace::bound(const State &state) const {
  if (toPartial)
    return 0;
  int64_t contributions = sizeOfAtoms(partialAtoms(state));
  int64_t elements;
  int64_t spread = 1;
  if (contributions == 1) {
    elements = mostLacking(state);
  } else {
    elements = numElements(shape) * (contributions + toSharers - 1) - mostKeptInPlace(state);
    spread = ranks;
    int64_t most = *std::max_element(targetVolumes.begin(), targetVolumes.end());
    if (most * ranks > elements) {
      elements = most;
      spread = 1;
    }
  }
  if (!options.topology)
    return elements * elementBytes * (ranks / spread);
  return Ticks(
      std::min(mostTicks, std::floor(double(elements) * elementBytes / spread / fastest * ticksPerSecond)));
}

Ticks SearchSpace::cost(AtomMask mask, int64_t elements, int64_t numerator, int64_t denominator,
                        int64_t messages) const {
  if (!options.topology)
    return elements * elementBytes * numerator * (ranks / denominator);
  Link link{std::numeric_limits<double>::infinity(), 0, 0};
  for (size_t i = 0; i < atoms.size(); ++i)
    if (mask >> i & 1) {
      link.bandwidth = std::min(link.bandwidth, links[i].bandwidth);
      link.latency = std::max(link.latency, links[i].latency);
      link.messageLatency = std::max(link.messageLatency, links[i].messageLatency);
    }
  double bytes = double(elements) * elementBytes * numerator / denominator;
  double seconds = link.latency + messages * link.messageLatency + bytes / link.bandwidth;
  return Ticks(std::min(mostTicks, std::ceil(seconds * ticksPerSecond)));
}

double SearchSpace::seconds(Ticks ticks) const {
  return options.topology ? ticks / ticksPerSecond : double(ticks) / ranks;
}

bool SearchSpace::fits(StepKind kind, const State &before, const State &after) const {
  return !options.memoryLimit ||
         stepMemory(mesh, shape, elementBytes, kind, decode(before), decode(after)) <= *options.memoryLimit;
}

llvm::SmallVector<AxisRef, 4> SearchSpace::axesOf(AtomMask mask, const State &state) const {
  llvm::SmallVector<AxisRef, 4> axes;
  size_t joinFrom = 0;
  auto add = [&](const AxisRef &ref) {
    if (axes.size() > joinFrom && ref.follows(axes.back()))
      axes.back().size *= ref.size;
    else
      axes.push_back(ref);
  };
  for (unsigned d = 0; d < numDims; ++d)
    for (uint8_t token : cutOf(state, d).tokens)
      if ((tokens[token].atoms & ~mask) == 0) {
        mask &= ~tokens[token].atoms;
        add(tokens[token].ref);
      }
  // A mask treats what cuts and what is replicated differently, so the two are never joined.
  joinFrom = axes.size();
  for (auto [i, ref] : llvm::enumerate(atoms))
    if (mask >> i & 1)
      add(ref);
  return axes;
}
