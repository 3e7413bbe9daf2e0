//===- FuzzTest.cpp - Random layouts, shapes and options ------------------===//
#include "TestSupport.h"
#include <algorithm>
#include <random>

using namespace plumb::redistribution;

namespace {

class Generator {
public:
  explicit Generator(unsigned seed) : random(seed) {}

  int64_t below(int64_t n) { return int64_t(random() % uint64_t(n)); }

  Mesh randomMesh() {
    static const int64_t sizes[] = {1, 2, 2, 2, 3, 4, 6};
    Mesh result;
    int64_t ranks = 1;
    for (int64_t i = below(4); i >= 0 && ranks <= 8; --i) {
      result.axes.push_back({std::string(1, char('a' + result.axes.size())), sizes[below(7)]});
      ranks *= result.axes.back().size;
    }
    return result;
  }

  Index randomShape() {
    static const int64_t sizes[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 12};
    Index result;
    for (int64_t d = below(4); d > 0; --d)
      result.push_back(sizes[below(10)]);
    return result;
  }

  /// Any axes or sub-axes in any order, blocks, units, partial axes of one reduction.
  Layout randomLayout(const Mesh &mesh, llvm::ArrayRef<int64_t> shape) {
    static const Reduction reductions[] = {Reduction::Sum, Reduction::Sum, Reduction::Avg,
                                           Reduction::Min, Reduction::Max, Reduction::Product};
    Layout result = Layout::replicated(shape.size());
    Reduction reduction = reductions[below(6)];
    std::vector<AxisRef> pieces;
    for (unsigned axis = 0; axis < mesh.axes.size(); ++axis) {
      int64_t size = mesh.axes[axis].size;
      int64_t first = below(3) == 0 ? (size % 2 == 0 && below(2) ? 2 : size % 3 == 0 ? 3 : size) : size;
      pieces.push_back({axis, 1, first});
      if (first != size)
        pieces.push_back({axis, first, size / first});
    }
    std::shuffle(pieces.begin(), pieces.end(), random);
    for (const AxisRef &piece : pieces) {
      int64_t role = below(shape.size() + 3);
      if (role < int64_t(shape.size()))
        result.dims[role].axes.push_back(piece);
      else if (role == int64_t(shape.size()))
        result.partial.push_back({piece, reduction});
    }
    for (auto [dim, size] : llvm::zip(result.dims, shape)) {
      int64_t kind = below(12);
      if (kind == 0 && size % 2 == 0)
        dim.blocks = 2;
      else if (kind == 1 && size >= 3)
        dim.blockSizes = {1, size - 1};
      else if (kind == 2 && size >= 2)
        dim.unit = 2;
    }
    return result;
  }

  PlanOptions randomOptions() {
    PlanOptions options;
    options.exchange = below(2);
    options.maxMoves = below(4) ? 20'000 : 200;
    if (below(3) == 0) {
      options.topology.emplace();
      options.topology->nodeSize = below(5);
    }
    if (below(8) == 0)
      options.memoryLimit = 1 + below(2000);
    return options;
  }

private:
  std::mt19937 random;
};

class Fuzz : public testing::TestWithParam<unsigned> {};

TEST_P(Fuzz, PlansAreRightOrRefused) {
  Generator generator(GetParam());
  int refused = 0;
  for (int i = 0; i < 1500; ++i) {
    Mesh m = generator.randomMesh();
    Index sizes = generator.randomShape();
    Layout from = generator.randomLayout(m, sizes), to = generator.randomLayout(m, sizes);
    PlanOptions options = generator.randomOptions();
    llvm::Expected<Plan> plan = planRedistribution(m, sizes, 4, from, to, options);
    std::string what =
        toString(m, from) + " -> " + toString(m, to) + " on " + toString(m) + " of " + toString(sizes);
    if (!plan) {
      std::string message = messageOf(plan.takeError());
      bool expected = options.memoryLimit || options.maxMoves < 20'000;
      EXPECT_TRUE(expected) << what << ": " << message;
      ++refused;
      continue;
    }
    if (llvm::Error error = verifyPlan(*plan))
      ADD_FAILURE() << what << ": " << stepsOf(*plan) << messageOf(std::move(error));
    EXPECT_LE(plan->boundBytes, plan->bytes + 1e-6) << what << ": " << stepsOf(*plan);
    if (options.memoryLimit && !plan->steps.empty()) {
      EXPECT_LE(plan->peakMemory, *options.memoryLimit) << what << ": " << stepsOf(*plan);
    }
  }
  EXPECT_LT(refused, 500);
}

INSTANTIATE_TEST_SUITE_P(Seeds, Fuzz, testing::Range(0u, 4u));

} // namespace
