//===- StageBalance.cpp - Cuts a row of units into even stages ---------------===//

#include "StageBalance.h"

#include <algorithm>
#include <limits>

namespace plumb {

/// What the unit adds to a run that begins with the unit `first` and ends before it.
static int64_t addedCost(const UnitCost &unit, size_t first) {
  int64_t cost = unit.own;
  for (const SharedCost &part : unit.shared)
    if (part.previous == SharedCost::none || part.previous < first)
      cost += part.cost;
  return cost;
}

int64_t largestStage(const std::vector<UnitCost> &units, const std::vector<size_t> &firsts) {
  int64_t largest = 0;
  for (size_t stage = 0; stage < firsts.size(); ++stage) {
    size_t end = stage + 1 < firsts.size() ? firsts[stage + 1] : units.size();
    int64_t cost = 0;
    for (size_t unit = firsts[stage]; unit < end; ++unit)
      cost += addedCost(units[unit], firsts[stage]);
    largest = std::max(largest, cost);
  }
  return largest;
}

/// Whether so many stages can keep the bound. Fewer than that can be cut further without growing.
static bool fits(const std::vector<UnitCost> &units, size_t stages, int64_t bound) {
  size_t used = 1, first = 0;
  int64_t cost = 0;
  for (size_t unit = 0; unit < units.size(); ++unit) {
    int64_t added = addedCost(units[unit], first);
    if (cost + added > bound && unit > first) {
      if (++used > stages)
        return false;
      first = unit;
      cost = 0;
      added = addedCost(units[unit], first);
    }
    cost += added;
    if (cost > bound)
      return false;
  }
  return true;
}

static int64_t leastBound(const std::vector<UnitCost> &units, size_t stages) {
  int64_t low = 0, high = largestStage(units, {0});
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (fits(units, stages, middle))
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

std::vector<size_t> balanceStages(const std::vector<UnitCost> &units, size_t stages) {
  constexpr double impossible = std::numeric_limits<double>::infinity();
  const int64_t bound = leastBound(units, stages);
  const size_t count = units.size();
  // best[i]: the least sum of squares of the units from i on, in the number of stages at hand; next[s][i]:
  // where the second of s + 1 stages from i on begins.
  std::vector<double> best(count + 1, impossible);
  best[count] = 0;
  std::vector<std::vector<size_t>> next(stages, std::vector<size_t>(count, count));
  for (size_t stage = 0; stage < stages; ++stage) {
    std::vector<double> longer(count + 1, impossible);
    for (size_t first = 0; first < count; ++first) {
      int64_t cost = 0;
      for (size_t unit = first; unit < count; ++unit) {
        cost += addedCost(units[unit], first);
        if (cost > bound)
          break;
        double squares = static_cast<double>(cost) * static_cast<double>(cost) + best[unit + 1];
        if (squares < longer[first]) {
          longer[first] = squares;
          next[stage][first] = unit + 1;
        }
      }
    }
    best = std::move(longer);
  }
  std::vector<size_t> firsts{0};
  for (size_t stage = stages; stage-- > 1;)
    firsts.push_back(next[stage][firsts.back()]);
  return firsts;
}

} // namespace plumb
