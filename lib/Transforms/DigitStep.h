//===- DigitStep.h - A step of the redistribution core in digits of axes -*- C++ -*-===//

#ifndef PLUMB_LIB_TRANSFORMS_DIGITSTEP_H
#define PLUMB_LIB_TRANSFORMS_DIGITSTEP_H

#include "plumb/Redistribution/Plan.h"
#include "llvm/ADT/STLExtras.h"
#include <map>
#include <set>

namespace plumb {

/// Axes are split until those of the step are none or all of each axis of the layouts before and after it.
struct DigitStep {
  explicit DigitStep(const redistribution::Step &step)
      : kind(step.kind), reduction(step.reduction), before(step.before), after(step.after) {
    for (const redistribution::AxisRef &axis : step.axes)
      cut(axis);
    for (redistribution::Layout *layout : {&before, &after})
      for (redistribution::DimSharding &dim : layout->dims)
        for (const redistribution::AxisRef &axis : dim.axes)
          cut(axis);
    for (redistribution::Layout *layout : {&before, &after})
      for (redistribution::DimSharding &dim : layout->dims)
        dim.axes = split(dim.axes);
    axes = split(step.axes);
    // The members of a communicator are ordered row-major over the mesh, and so are blocks: any order serves,
    // as long as both ends use the same.
    llvm::sort(axes);
  }

  int64_t groupSize() const {
    int64_t size = 1;
    for (const redistribution::AxisRef &axis : axes)
      size *= axis.size;
    return size;
  }

  redistribution::StepKind kind;
  std::optional<redistribution::Reduction> reduction;
  redistribution::Layout before, after;
  llvm::SmallVector<redistribution::AxisRef> axes; ///< Of the communicator.

private:
  void cut(const redistribution::AxisRef &axis) {
    cuts[axis.axis].insert(axis.pre);
    cuts[axis.axis].insert(axis.pre * axis.size);
  }
  llvm::SmallVector<redistribution::AxisRef, 2> split(llvm::ArrayRef<redistribution::AxisRef> whole) {
    llvm::SmallVector<redistribution::AxisRef, 2> digits;
    for (const redistribution::AxisRef &axis : whole) {
      const std::set<int64_t> &at = cuts[axis.axis];
      for (auto begin = at.find(axis.pre), end = at.find(axis.pre * axis.size); begin != end; ++begin)
        digits.push_back({axis.axis, *begin, *std::next(begin) / *begin});
    }
    return digits;
  }

  std::map<unsigned, std::set<int64_t>> cuts; ///< Per mesh axis.
};

} // namespace plumb

#endif // PLUMB_LIB_TRANSFORMS_DIGITSTEP_H
