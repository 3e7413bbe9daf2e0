//===- TransferTest.cpp - From one mesh to another ------------------------===//
#include "plumb/Redistribution/Transfer.h"
#include "TestSupport.h"
#include <numeric>
#include <random>

using namespace plumb::redistribution;

namespace {

Placement placement(llvm::StringRef text, int64_t firstDevice) {
  Placement result{mesh(text), {}};
  result.devices.resize(result.mesh.numRanks());
  std::iota(result.devices.begin(), result.devices.end(), firstDevice);
  return result;
}

std::optional<TransferPlan> transferred(const Placement &source, const Layout &from, const Placement &target,
                                        const Layout &to, llvm::ArrayRef<int64_t> sizes, int64_t nodeSize) {
  llvm::Expected<TransferPlan> plan = planTransfer(source, from, target, to, sizes, 4, nodeSize);
  std::string what =
      toString(source.mesh, from) + " -> " + toString(target.mesh, to) + " of " + toString(sizes);
  if (!plan) {
    ADD_FAILURE() << what << messageOf(plan.takeError());
    return std::nullopt;
  }
  if (llvm::Error error = verifyTransfer(*plan))
    ADD_FAILURE() << what << ": " << messageOf(std::move(error));
  if (plan->prepare) {
    EXPECT_EQ(messageOf(verifyPlan(*plan->prepare)), "");
  }
  EXPECT_LE(plan->nodeBoundBytes, plan->busiestNodeBytes) << what;
  return std::move(*plan);
}

struct AlpaCase {
  const char *source, *from, *target, *to, *shape;
  /// Copies of the tensor that enter the receiving nodes when each takes what it needs once.
  int64_t copies;
};

class Alpa : public testing::TestWithParam<AlpaCase> {};

// Nodes of four devices; the shapes are those of the suite with smaller dimensions.
TEST_P(Alpa, OneCopyPerReceivingNode) {
  const AlpaCase &c = GetParam();
  Placement source = placement(c.source, 0), target = placement(c.target, source.mesh.numRanks());
  auto plan =
      transferred(source, layout(source.mesh, c.from), target, layout(target.mesh, c.to), shape(c.shape), 4);
  ASSERT_TRUE(plan);
  int64_t bytes = 4;
  for (int64_t size : plan->shape)
    bytes *= size;
  EXPECT_EQ(plan->crossBytes, bytes * c.copies);
  EXPECT_EQ(plan->busiestNodeBytes, plan->nodeBoundBytes);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, Alpa,
    testing::Values(AlpaCase{"h=2,d=4", "[{h},{},{}]", "h=2,d=4", "[{h},{},{}]", "48,32,16", 1},
                    AlpaCase{"h=2,d=4", "[{},{},{}]", "h=2,d=4", "[{h},{},{}]", "48,32,16", 1},
                    AlpaCase{"h=2,d=4", "[{},{h},{}]", "h=2,d=4", "[{h},{},{}]", "48,32,16", 1},
                    AlpaCase{"h=2,d=4", "[{},{h,d},{}]", "h=2,d=4", "[{h,d},{},{}]", "48,32,16", 1},
                    AlpaCase{"h=2,d=4", "[{d},{},{}]", "h=2,d=4", "[{h},{},{}]", "48,32,16", 1},
                    AlpaCase{"h=2,d=4", "[{h},{},{}]", "h=3,d=4", "[{h},{},{}]", "48,32,10", 1},
                    AlpaCase{"h=1,d=4", "[{d},{},{}]", "h=2,d=4", "[{},{},{}]", "48,32,16", 2},
                    AlpaCase{"h=2,d=4", "[{},{h},{}]", "h=2,d=4", "[{},{},{h}]", "48,32,16", 1}));

// One device to several: m nodes take m copies, but the sender's node sends one.
TEST(Transfer, RelaysBroadcasts) {
  Placement source = placement("x=1", 0);
  for (int64_t nodes : {1, 2, 3, 4}) {
    Placement target = placement("h=" + std::to_string(nodes) + ",d=4", 4);
    auto plan = transferred(source, Layout::replicated(1), target, Layout::replicated(1), {1 << 10}, 4);
    ASSERT_TRUE(plan);
    EXPECT_EQ(plan->crossBytes, nodes * 4096);
    EXPECT_LE(plan->busiestNodeBytes, 4096 + 16);
  }
}

TEST(Transfer, ResolvesPartialSourcesFirst) {
  Placement source = placement("x=4", 0), target = placement("y=2,z=2", 4);
  auto plan = transferred(source, layout(source.mesh, "[{},{}] partial{x}"), target,
                          layout(target.mesh, "[{y},{}] partial{z}"), {8, 8}, 4);
  ASSERT_TRUE(plan && plan->prepare);
  EXPECT_EQ(plan->prepare->label(), "reduce_scatter");
  EXPECT_EQ(plan->neutral, (std::vector<bool>{false, true, false, true}));
}

TEST(Transfer, RefusesBadPlacements) {
  Placement good = placement("x=2", 0), short_ = good, twice = good;
  short_.devices.pop_back();
  twice.devices = {3, 3};
  Layout r = Layout::replicated(1);
  EXPECT_EQ(messageOf(planTransfer(good, r, short_, r, {4}, 4, 0).takeError()),
            "the target mesh x=2 has 2 ranks and 1 devices");
  EXPECT_EQ(messageOf(planTransfer(twice, r, good, r, {4}, 4, 0).takeError()),
            "the source mesh uses device 3 twice");
}

TEST(Transfer, RandomPairsArrive) {
  std::mt19937 random(3);
  const char *meshes[] = {"a=1", "a=2", "a=3", "a=2,b=2", "a=2,b=3", "a=4,b=2", "a=2,b=2,c=2"};
  for (int i = 0; i < 1500; ++i) {
    Placement source = placement(meshes[random() % 7], 0);
    // Some targets share devices with their source.
    Placement target = placement(meshes[random() % 7], random() % 9);
    unsigned rank = random() % 4;
    auto any = [&](const Mesh &m) {
      std::vector<Layout> all = allLayouts(m, rank, true);
      return all[random() % all.size()];
    };
    Index sizes;
    for (unsigned d = 0; d < rank; ++d)
      sizes.push_back(random() % 7);
    transferred(source, any(source.mesh), target, any(target.mesh), sizes, random() % 5);
  }
}

} // namespace
