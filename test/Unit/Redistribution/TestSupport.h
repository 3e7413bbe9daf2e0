//===- TestSupport.h - Meshes, layouts and plans for tests ----------------===//
#ifndef PLUMB_UNITTEST_REDISTRIBUTION_TESTSUPPORT_H
#define PLUMB_UNITTEST_REDISTRIBUTION_TESTSUPPORT_H

#include "plumb/Redistribution/Interpreter.h"
#include "plumb/Redistribution/LayoutText.h"
#include "plumb/Redistribution/Planner.h"
#include <gtest/gtest.h>

namespace plumb::redistribution {

inline Mesh mesh(llvm::StringRef text) { return llvm::cantFail(parseMesh(text)); }
inline Index shape(llvm::StringRef text) { return llvm::cantFail(parseShape(text)); }
inline Layout layout(const Mesh &mesh, llvm::StringRef text) {
  return llvm::cantFail(parseLayout(mesh, text));
}

inline std::string messageOf(llvm::Error error) { return llvm::toString(std::move(error)); }

inline std::string stepsOf(const Plan &plan) {
  std::string text;
  for (const Step &step : plan.steps)
    text += toString(plan.mesh, step) + "; ";
  return text;
}

/// Plans and executes; a failure of either fails the test.
inline std::optional<Plan> planned(const Mesh &mesh, llvm::ArrayRef<int64_t> shape, const Layout &from,
                                   const Layout &to, const PlanOptions &options = {}) {
  std::string what =
      toString(mesh, from) + " -> " + toString(mesh, to) + " on " + toString(mesh) + " of " + toString(shape);
  llvm::Expected<Plan> plan = planRedistribution(mesh, shape, 4, from, to, options);
  if (!plan) {
    ADD_FAILURE() << what << ": " << messageOf(plan.takeError());
    return std::nullopt;
  }
  if (llvm::Error error = verifyPlan(*plan)) {
    ADD_FAILURE() << what << ": " << stepsOf(*plan) << messageOf(std::move(error));
    return std::nullopt;
  }
  EXPECT_LE(plan->boundBytes, plan->bytes + 1e-6) << what << ": " << stepsOf(*plan);
  return std::move(*plan);
}

/// Every layout of a tensor of `rank` dimensions on whole axes of `mesh`.
inline std::vector<Layout> allLayouts(const Mesh &mesh, unsigned rank, bool partial) {
  std::vector<Layout> result{Layout::replicated(rank)};
  for (unsigned axis = 0; axis < mesh.axes.size(); ++axis) {
    std::vector<Layout> next = result;
    for (const Layout &base : result) {
      for (unsigned d = 0; d < rank; ++d)
        for (unsigned at = 0; at <= base.dims[d].axes.size(); ++at) {
          Layout cut = base;
          cut.dims[d].axes.insert(cut.dims[d].axes.begin() + at, wholeAxis(mesh, axis));
          next.push_back(std::move(cut));
        }
      if (partial) {
        next.push_back(base);
        next.back().partial.push_back({wholeAxis(mesh, axis), Reduction::Sum});
      }
    }
    result = std::move(next);
  }
  return result;
}

} // namespace plumb::redistribution

#endif // PLUMB_UNITTEST_REDISTRIBUTION_TESTSUPPORT_H
