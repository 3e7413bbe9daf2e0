//===- StageBalance.h - Cuts a row of units into even stages ----*- C++ -*-===//

#ifndef PLUMB_LIB_TRANSFORMS_STAGEBALANCE_H
#define PLUMB_LIB_TRANSFORMS_STAGEBALANCE_H

#include <cstddef>
#include <cstdint>
#include <vector>

namespace plumb {

/// A part of a unit's cost that other units have too, such as a tied parameter: a stage bears it once.
struct SharedCost {
  int64_t cost = 0;
  /// The unit before this one that has the same part, or `none`.
  size_t previous = none;

  static constexpr size_t none = SIZE_MAX;
};

/// What a unit, the piece of a model that is never cut, adds to its stage. Costs are not negative, and their
/// sum fits 63 bits.
struct UnitCost {
  int64_t own = 0;
  std::vector<SharedCost> shared{};
};

/// Cuts the units into `stages` runs, none empty, whose largest cost is as small as can be; among such cuts,
/// the one with the least sum of squares, and of equals the one with the shorter runs in front, where a
/// pipeline keeps more activations. Answers the first unit of each run. There are at least as many units as
/// stages, and at least one stage.
///
/// The cost of a run does not shrink when it grows. So whether a bound can be kept is told by filling stage
/// after stage as far as the bound allows; bisection over the bound finds the least one. Time is
/// O(n log(cost)) for the bound and O(n²) at most for the cut.
std::vector<size_t> balanceStages(const std::vector<UnitCost> &units, size_t stages);

/// The largest cost of a run that such a cut has.
int64_t largestStage(const std::vector<UnitCost> &units, const std::vector<size_t> &firsts);

} // namespace plumb

#endif // PLUMB_LIB_TRANSFORMS_STAGEBALANCE_H
