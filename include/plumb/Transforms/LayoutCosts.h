//===- LayoutCosts.h - What a layout costs in seconds -----------*- C++ -*-===//
//
// Redistributions cost what the redistribution core says of the cheapest plan; the work of an op is estimated
// so that cutting it counts for something. Work is small beside communication, as it is on a machine.
//
//===----------------------------------------------------------------------===//
#ifndef PLUMB_TRANSFORMS_LAYOUTCOSTS_H
#define PLUMB_TRANSFORMS_LAYOUTCOSTS_H

#include "plumb/Transforms/OpSharding.h"
#include "plumb/Transforms/RedistributionPlans.h"
#include "llvm/ADT/DenseMap.h"

namespace plumb {

/// Of a rank of the machine that the default topology of the redistribution core describes.
inline constexpr double kOperationsPerSecond = 4e14, kBytesPerSecond = 3e12;

/// The cost of a decision, compared in this order: how often it breaks what may not be broken, then time.
struct LayoutCost {
  int64_t violations = 0;
  double seconds = 0;

  LayoutCost &operator+=(const LayoutCost &other) {
    violations += other.violations;
    seconds += other.seconds;
    return *this;
  }
  /// Less by more than rounding.
  bool isLess(const LayoutCost &other) const {
    if (violations != other.violations)
      return violations < other.violations;
    return seconds < other.seconds - 1e-6 * other.seconds - 1e-13;
  }
};

class LayoutCosts {
public:
  explicit LayoutCosts(mlir::ModuleOp module);

  /// Of turning a tensor (of global type `type`) from one layout into another. Exchanging data over
  /// `microbatch` is a violation.
  LayoutCost convert(mlir::RankedTensorType type, LayoutAttr from, LayoutAttr to);

  /// The same where many tensors share a call, as small gradients do.
  LayoutCost convertInBucket(mlir::RankedTensorType type, LayoutAttr from, LayoutAttr to);

  /// Whether a tensor can be turned from one layout into another without communication.
  bool isLocal(mlir::RankedTensorType type, LayoutAttr from, LayoutAttr to);

  /// What the planned steps amount to, the steps in words, and the most bytes that a rank moves.
  std::tuple<std::string, std::string, int64_t> describe(mlir::RankedTensorType type, LayoutAttr from,
                                                         LayoutAttr to);

  /// Of the work of an op on one rank.
  LayoutCost work(nn::TensorOpInterface op, const OpSharding &sharding, const OpLayouts &way);

private:
  struct Conversion {
    int64_t violations = 0;
    int64_t calls = 0;  ///< That communicate.
    double seconds = 0; ///< Besides what every call takes.
  };
  Conversion find(mlir::RankedTensorType type, LayoutAttr from, LayoutAttr to);
  Conversion evaluate(mlir::RankedTensorType type, LayoutAttr from, LayoutAttr to);

  mlir::ModuleOp module;
  RedistributionPlans plans;
  llvm::DenseMap<std::tuple<mlir::Type, LayoutAttr, LayoutAttr>, Conversion> known;
};

} // namespace plumb

#endif // PLUMB_TRANSFORMS_LAYOUTCOSTS_H
