//===- DimCuts.cpp - The ways to cut one dimension, as a tree -------------===//
#include "DimCuts.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>

using namespace plumb::redistribution;

DimCuts::DimCuts(int64_t size, const std::vector<Token> &tokens,
                 const std::vector<llvm::SmallVector<int32_t, 16>> &digits)
    : size(size), tokens(tokens), digits(digits) {
  nodes.emplace_back();
  nodes.front().cut.size = size;
  nodes.front().cut.isNamed = true;
}

uint8_t DimCuts::styleFor(const DimSharding &sharding) {
  for (auto [i, known] : llvm::enumerate(styles))
    if (known.sameCut(sharding))
      return i;
  styles.push_back(sharding);
  styles.back().axes.clear();
  return styles.size() - 1;
}

const DimSharding &DimCuts::styleOf(CutId id) const {
  static const DimSharding plain;
  return id == root || styles.empty() ? plain : styles[nodes[id].cut.style];
}

CutId DimCuts::child(CutId id, uint8_t token, uint8_t style) {
  if (id != root)
    style = nodes[id].cut.style;
  uint16_t key = uint16_t(style << 8 | token);
  for (auto [known, node] : nodes[id].children)
    if (known == key)
      return node;
  CutId made = nodes.size();
  nodes[id].children.push_back({key, made});
  Cut next = nodes[id].cut;
  next.tokens.push_back(token);
  next.parent = id;
  next.style = style;
  next.isNamed = false;
  next.atoms |= tokens[token].atoms;
  next.shards *= tokens[token].ref.size;
  next.size = 0;
  next.isEven = true;
  nodes.emplace_back();
  nodes.back().cut.style = style;
  const DimSharding &sharding = styleOf(made);
  for (int64_t block : blocksOf(sharding, size)) {
    next.isEven &= block % (next.shards * sharding.unit) == 0;
    for (uint8_t by : next.tokens)
      block = cut({0, block}, tokens[by].ref.size, 0, sharding.unit).size();
    next.size += block;
  }
  nodes.back().cut = std::move(next);
  return made;
}

DimSharding DimCuts::decode(CutId id) const {
  DimSharding result = styleOf(id);
  for (uint8_t token : nodes[id].cut.tokens)
    result.axes.push_back(tokens[token].ref);
  return result;
}

void DimCuts::name(CutId id) {
  for (; !nodes[id].cut.isNamed; id = nodes[id].cut.parent)
    nodes[id].cut.isNamed = true;
}

const std::vector<Interval> &DimCuts::piecesOf(CutId id) {
  Node &node = nodes[id];
  if (!node.pieces.empty())
    return node.pieces;
  const DimSharding &style = styleOf(id);
  auto blocks = blocksOf(style, size);
  if (node.cut.tokens.size() <= 1) {
    for (size_t rank = 0; rank < digits.size(); ++rank) {
      int64_t begin = 0;
      for (int64_t block : blocks) {
        node.pieces.push_back({begin, begin + block});
        begin += block;
      }
    }
  } else {
    node.pieces = piecesOf(node.cut.parent);
  }
  if (id != root)
    for (auto [i, piece] : llvm::enumerate(node.pieces)) {
      uint8_t token = node.cut.tokens.back();
      piece = cut(piece, tokens[token].ref.size, digits[i / blocks.size()][token], style.unit);
    }
  return node.pieces;
}

const std::vector<int64_t> &DimCuts::overlaps(CutId id) {
  Node &node = nodes[id];
  if (!node.overlaps.empty())
    return node.overlaps;
  const std::vector<Interval> &mine = piecesOf(id), &wanted = piecesOf(target);
  size_t blocks = mine.size() / digits.size(), wantedBlocks = wanted.size() / digits.size();
  node.overlaps.assign(digits.size(), 0);
  for (size_t rank = 0; rank < digits.size(); ++rank)
    for (size_t i = rank * blocks; i < (rank + 1) * blocks; ++i)
      for (size_t j = rank * wantedBlocks; j < (rank + 1) * wantedBlocks; ++j)
        node.overlaps[rank] += std::max<int64_t>(0, std::min(mine[i].end, wanted[j].end) -
                                                        std::max(mine[i].begin, wanted[j].begin));
  return node.overlaps;
}

Intervals DimCuts::held(CutId id, llvm::ArrayRef<int32_t> at) const {
  const DimSharding &style = styleOf(id);
  Intervals result;
  int64_t begin = 0;
  for (int64_t block : blocksOf(style, size)) {
    Interval piece{begin, begin + block};
    for (uint8_t token : nodes[id].cut.tokens)
      piece = cut(piece, tokens[token].ref.size, at[token], style.unit);
    if (piece.size() > 0)
      result.push_back(piece);
    begin += block;
  }
  return result;
}
