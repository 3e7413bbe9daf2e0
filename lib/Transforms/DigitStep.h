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

  /// Whether shards of a tensor of `shape` differ in size by the last axis of a dim only: then padding lies
  /// at the end of the dim, on the last ranks. Dims whose cut changes are in blocks of one size, if in
  /// blocks.
  bool isPaddedAtEnd(llvm::ArrayRef<int64_t> shape) const {
    return llvm::all_of(llvm::zip_equal(before.dims, after.dims, shape), [](auto entry) {
      auto &[from, to, size] = entry;
      bool inUnequalBlocks = !from.blockSizes.empty() || !to.blockSizes.empty();
      return isPaddedAtEnd(from, size) && isPaddedAtEnd(to, size) && (from == to || !inUnequalBlocks);
    });
  }

  /// Whether axes are appended to those of dims and nothing else changes.
  bool onlyAddsAxes() const {
    return llvm::all_of(llvm::zip_equal(before.dims, after.dims), [](auto dims) {
      auto &[from, to] = dims;
      return from.axes.size() <= to.axes.size() &&
             std::equal(from.axes.begin(), from.axes.end(), to.axes.begin()) &&
             (from.axes.empty() || from.sameCut(to));
    });
  }

  /// Whether the step is a table of messages and copies (see ExchangeTables.h) rather than a collective or a
  /// part of the tensor.
  bool isByMessages(llvm::ArrayRef<int64_t> shape) const {
    using redistribution::StepKind;
    return kind == StepKind::Permute || kind == StepKind::Exchange ||
           (kind == StepKind::Slice && !(onlyAddsAxes() && isPaddedAtEnd(shape)));
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
  static bool isPaddedAtEnd(const redistribution::DimSharding &dim, int64_t size) {
    unsigned count = dim.axes.size();
    return cutsEvenly(dim, size, count) ||
           (cutsEvenly(dim, size, count - 1) && blocksOf(dim, size).size() == 1 && dim.unit == 1);
  }

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
