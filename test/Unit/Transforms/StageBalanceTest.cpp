#include "StageBalance.h"

#include <gtest/gtest.h>
#include <map>
#include <numeric>
#include <random>

using namespace plumb;

namespace {

std::vector<UnitCost> plain(const std::vector<int64_t> &costs) {
  std::vector<UnitCost> units;
  for (int64_t cost : costs)
    units.push_back({cost});
  return units;
}

/// All ways to cut `count` units into `stages` runs.
void forEachCut(size_t count, size_t stages, std::vector<size_t> &firsts,
                const std::function<void(const std::vector<size_t> &)> &visit) {
  if (firsts.size() == stages)
    return visit(firsts);
  for (size_t first = firsts.back() + 1; first < count; ++first) {
    firsts.push_back(first);
    forEachCut(count, stages, firsts, visit);
    firsts.pop_back();
  }
}

/// The cost of a run, computed from scratch.
int64_t costOf(const std::vector<UnitCost> &units, size_t begin, size_t end) {
  int64_t cost = 0;
  for (size_t unit = begin; unit < end; ++unit) {
    cost += units[unit].own;
    for (const SharedCost &part : units[unit].shared)
      cost += part.previous == SharedCost::none || part.previous < begin ? part.cost : 0;
  }
  return cost;
}

/// The least largest run, and the least sum of squares among the cuts that reach it.
std::pair<int64_t, double> exhaustive(const std::vector<UnitCost> &units, size_t stages) {
  std::pair<int64_t, double> best{INT64_MAX, 0};
  std::vector<size_t> firsts{0};
  forEachCut(units.size(), stages, firsts, [&](const std::vector<size_t> &cut) {
    std::pair<int64_t, double> value{0, 0};
    for (size_t stage = 0; stage < cut.size(); ++stage) {
      int64_t cost = costOf(units, cut[stage], stage + 1 < cut.size() ? cut[stage + 1] : units.size());
      value.first = std::max(value.first, cost);
      value.second += static_cast<double>(cost) * static_cast<double>(cost);
    }
    best = std::min(best, value);
  });
  return best;
}

double squares(const std::vector<UnitCost> &units, const std::vector<size_t> &cut) {
  double sum = 0;
  for (size_t stage = 0; stage < cut.size(); ++stage) {
    auto cost = static_cast<double>(
        costOf(units, cut[stage], stage + 1 < cut.size() ? cut[stage + 1] : units.size()));
    sum += cost * cost;
  }
  return sum;
}

} // namespace

TEST(StageBalance, EvenUnitsGiveShortStagesInFront) {
  EXPECT_EQ(balanceStages(plain(std::vector<int64_t>(12, 1)), 5), (std::vector<size_t>{0, 2, 4, 6, 9}));
  EXPECT_EQ(balanceStages(plain({7}), 1), (std::vector<size_t>{0}));
}

TEST(StageBalance, AnUnevenHeadGetsAStageOfItsOwn) {
  // An embedding that costs nothing, eight layers and a head as large as four of them.
  EXPECT_EQ(balanceStages(plain({0, 1, 1, 1, 1, 1, 1, 1, 1, 4}), 3), (std::vector<size_t>{0, 5, 9}));
}

TEST(StageBalance, NoStageIsEmptyEvenIfUnitsCostNothing) {
  EXPECT_EQ(balanceStages(plain({0, 0, 0}), 3), (std::vector<size_t>{0, 1, 2}));
  EXPECT_EQ(balanceStages(plain({0, 9, 0}), 2).size(), 2u);
}

TEST(StageBalance, EqualsExhaustiveSearch) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    size_t count = 1 + random() % 11, stages = 1 + random() % count;
    std::vector<UnitCost> units;
    std::map<size_t, size_t> last; // Of the parts that units share.
    for (size_t unit = 0; unit < count; ++unit) {
      units.push_back({static_cast<int64_t>(random() % 20)});
      for (size_t part = 0; part < 2; ++part)
        if (random() % 3 == 0) {
          auto previous = last.find(part);
          units.back().shared.push_back({static_cast<int64_t>(10 * (part + 1)),
                                         previous == last.end() ? SharedCost::none : previous->second});
          last[part] = unit;
        }
    }
    std::vector<size_t> cut = balanceStages(units, stages);
    ASSERT_EQ(cut.size(), stages);
    ASSERT_TRUE(std::is_sorted(cut.begin(), cut.end(), std::less_equal<>()));
    auto [largest, sum] = exhaustive(units, stages);
    ASSERT_EQ(largestStage(units, cut), largest) << "round " << round;
    ASSERT_EQ(squares(units, cut), sum) << "round " << round;
  }
}

TEST(StageBalance, ThousandsOfUnitsTakeNoTime) {
  std::mt19937 random(3);
  std::vector<UnitCost> units;
  for (int unit = 0; unit < 4000; ++unit)
    units.push_back({static_cast<int64_t>(random() % 1000000)});
  std::vector<size_t> cut = balanceStages(units, 64);
  int64_t total = std::accumulate(units.begin(), units.end(), int64_t(0),
                                  [](int64_t sum, const UnitCost &unit) { return sum + unit.own; });
  EXPECT_EQ(cut.size(), 64u);
  EXPECT_LT(static_cast<double>(largestStage(units, cut)), 1.05 * static_cast<double>(total) / 64);
}
