//===- ExhaustiveTest.cpp - All pairs of layouts on small meshes ----------===//
#include "TestSupport.h"

using namespace plumb::redistribution;

namespace {

struct Case {
  const char *mesh;
  const char *shape;
  bool exchange;
};

class AllPairs : public testing::TestWithParam<Case> {};

// Partial sources and targets included; each plan is executed on all ranks and compared with the definition.
TEST_P(AllPairs, ReachTheirTarget) {
  Mesh m = mesh(GetParam().mesh);
  Index sizes = shape(GetParam().shape);
  std::vector<Layout> layouts = allLayouts(m, sizes.size(), true);
  PlanOptions options;
  options.exchange = GetParam().exchange;
  for (const Layout &from : layouts)
    for (const Layout &to : layouts)
      if (auto plan = planned(m, sizes, from, to, options)) {
        EXPECT_TRUE(plan->optimal) << stepsOf(*plan);
        EXPECT_EQ(plan->steps.empty(), canonicalize(m, from, sizes) == canonicalize(m, to, sizes));
      }
}

INSTANTIATE_TEST_SUITE_P(Even, AllPairs,
                         testing::Values(Case{"x=2,y=2", "4", true}, Case{"x=2,y=2", "4,4", false},
                                         Case{"x=2,y=2", "4,4,4", true}, Case{"x=2,y=3", "6", false},
                                         Case{"x=2,y=3", "6,6", true}, Case{"x=2,y=3", "6,6,6", false},
                                         Case{"x=2,y=4", "8", true}, Case{"x=2,y=4", "8,8", false},
                                         Case{"x=2,y=4", "8,8,8", true}, Case{"x=2,y=2,z=2", "8", false},
                                         Case{"x=2,y=2,z=2", "8,8", true}));

INSTANTIATE_TEST_SUITE_P(Uneven, AllPairs,
                         testing::Values(Case{"x=2,y=2", "5", false}, Case{"x=2,y=2", "5,3", true},
                                         Case{"x=2,y=2", "3,1,2", false}, Case{"x=2,y=3", "4", true},
                                         Case{"x=2,y=3", "5,4", false}, Case{"x=2,y=3", "2,3,5", true},
                                         Case{"x=2,y=4", "5", false}, Case{"x=2,y=4", "7,3", true},
                                         Case{"x=2,y=4", "3,5,2", true}, Case{"x=2,y=2,z=2", "5", true},
                                         Case{"x=2,y=2,z=2", "5,7", false}));

struct StridedCase {
  const char *shape;
  bool exchange;
  /// One pair in so many.
  size_t stride;
};

/// Rank 3 on three axes has 31,684 pairs: all of them even and by collectives, a part of them otherwise.
class ThreeAxes : public testing::TestWithParam<StridedCase> {};

TEST_P(ThreeAxes, ReachTheirTarget) {
  Mesh m = mesh("x=2,y=2,z=2");
  Index sizes = shape(GetParam().shape);
  std::vector<Layout> layouts = allLayouts(m, sizes.size(), true);
  PlanOptions options;
  options.exchange = GetParam().exchange;
  size_t number = 0;
  for (const Layout &from : layouts)
    for (const Layout &to : layouts)
      if (number++ % GetParam().stride == 0)
        planned(m, sizes, from, to, options);
}

INSTANTIATE_TEST_SUITE_P(Rank3, ThreeAxes,
                         testing::Values(StridedCase{"8,8,8", false, 1}, StridedCase{"4,2,8", true, 5},
                                         StridedCase{"3,5,2", true, 5}));

} // namespace
