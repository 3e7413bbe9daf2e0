//===- ShardingRule.h - How the dims of an op move together -----*- C++ -*-===//
//
// The factor mapping of an op: the one description from which layout propagation, flops and fusion follow.
//
//===----------------------------------------------------------------------===//
#ifndef PLUMB_DIALECT_NN_SHARDINGRULE_H
#define PLUMB_DIALECT_NN_SHARDINGRULE_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include <cstdint>
#include <optional>
#include <string>

namespace plumb::nn {

/// What may happen to a factor when mesh axes shard it.
enum class FactorKind {
  Parallel,   ///< Every result element depends on one index of it: results are sharded alike.
  Reduction,  ///< Summed away: sharding it leaves results that are partial sums over the axes.
  Replicated, ///< The op needs all of it on every rank (softmax rows, vocabulary look-ups).
};

/// A logical loop of an op, with its global extent in elements.
struct Factor {
  std::int64_t size;
  FactorKind kind;
  /// What becomes of a factor that the op needs whole once `expand` has taken the op apart; absent where it
  /// stays as it is. A replicated one may then be sharded where the op reads it.
  std::optional<FactorKind> expanded = std::nullopt;
};

/// The factor mapping of one op, in global sizes.
///
/// Example, `nn.einsum "bti,oi->bto"`: factors b, t, o parallel and i a reduction; operands ((b)(t)(i)) and
/// ((o)(i)); result ((b)(t)(o)); linear in operand 0 and in operand 1, each with the other whole.
///
/// A dim may be a product of factors, major first: `nn.view` from 8x32x64 to 8x32x4x16 has factors 8, 32, 4,
/// 16, and operand dim 2 is the product (4, 16). A dim that is broadcast (size 1 against n) has no factor.
struct ShardingRule {
  using Dim = llvm::SmallVector<int, 2>;
  using Tensor = llvm::SmallVector<Dim, 4>;

  llvm::SmallVector<Factor, 6> factors;
  llvm::SmallVector<Tensor, 3> operands;
  llvm::SmallVector<Tensor, 2> results;

  /// Sets of operands in which the op is jointly linear when all other operands are whole. A partial sum may
  /// pass through iff exactly the operands of one set are partial over the axis. `add` is {{0, 1}}, `mul`
  /// {{0}, {1}}.
  llvm::SmallVector<llvm::SmallVector<int, 2>, 2> linear;

  /// A dim that is cut into pieces of different sizes, or joined from them: the factor of the whole and those
  /// of the pieces, in order. All are replicated, but axes may cut each piece alike, which cuts the whole in
  /// blocks of the pieces' sizes.
  struct Pieces {
    int whole;
    llvm::SmallVector<int, 4> parts;
  };
  std::optional<Pieces> pieces;

  int addFactor(std::int64_t size, FactorKind kind = FactorKind::Parallel,
                std::optional<FactorKind> expanded = std::nullopt) {
    factors.push_back({size, kind, expanded});
    return static_cast<int>(factors.size()) - 1;
  }

  /// The rule of an op whose results and operands are all indexed by the broadcast index of `shape`, dims
  /// aligned to the right as in NumPy: each dim of size other than 1 against `shape` is a parallel factor.
  static ShardingRule elementwise(llvm::ArrayRef<llvm::ArrayRef<std::int64_t>> operandShapes,
                                  llvm::ArrayRef<std::int64_t> shape, int resultCount = 1);
};

/// The rule in one line, factors named a, b, … in order and dims of no factor written 1:
/// `[a b d], [c d] -> [a b c] {a=8, b=32, c=192, d=64 reduction} linear {0}, {1}`.
std::string toString(const ShardingRule &rule);

} // namespace plumb::nn

#endif // PLUMB_DIALECT_NN_SHARDINGRULE_H
