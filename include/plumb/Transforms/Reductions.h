//===- Reductions.h - When the sums of a step are completed -----*- C++ -*-===//

#ifndef PLUMB_TRANSFORMS_REDUCTIONS_H
#define PLUMB_TRANSFORMS_REDUCTIONS_H

#include "plumb/Transforms/Steps.h"

namespace plumb {

/// When the part `reduce` of a stage is launched: so many actions of its coordinate come first.
struct Reduction {
  int64_t stage;
  size_t after;
};

/// The reductions of one coordinate in the order in which they are launched: each as soon as every part has
/// run for the last time that adds to what it loads. Those in which other coordinates take part come at the
/// end, in the order of the stages, on which all agree.
llvm::SmallVector<Reduction> getReductions(const Pipeline &pipeline, int64_t coordinate,
                                           llvm::ArrayRef<schedule::Action> actions);

} // namespace plumb

#endif // PLUMB_TRANSFORMS_REDUCTIONS_H
