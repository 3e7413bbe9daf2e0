//===- PlanEvaluator.h - Runs a step on all ranks of a mesh -----*- C++ -*-===//
//
// Executes a program as it stands before layouts, on one rank, or the stages that it has become after
// `bucket-collectives`, on all ranks in lockstep, in double precision and by the plain meaning of each op.
// It shares nothing with the compiler: local tensors are cut by the definition of a layout alone.
//
//===----------------------------------------------------------------------===//
#ifndef PLUMB_UNIT_TRANSFORMS_PLANEVALUATOR_H
#define PLUMB_UNIT_TRANSFORMS_PLANEVALUATOR_H

#include "mlir/IR/BuiltinOps.h"
#include "plumb/Dialect/Plumb/Plumb.h"
#include <map>
#include <string>
#include <vector>

namespace plumb::test {

using Shape = std::vector<int64_t>;

/// Numbers in row-major order, whatever the element type.
struct Array {
  Shape shape;
  std::vector<double> values;

  explicit Array(Shape shape = {});
  double at(const Shape &index) const; ///< Dims aligned to the right, size 1 repeated.
};

using Tensors = std::map<std::string, Array>;

/// The results of a step by name: `output.0`, `loss`, `grad.w`, and parameters under their own names.
Tensors runProgram(mlir::ModuleOp module, const Tensors &inputs, const Tensors &parameters);

/// Runs the stages on all ranks of the mesh and compares every state and parameter on every rank with its
/// part of what is expected. Returns the first difference in words, or nothing.
std::string comparePlan(mlir::ModuleOp module, const Tensors &inputs, const Tensors &parameters,
                        const Tensors &expected);

} // namespace plumb::test

#endif // PLUMB_UNIT_TRANSFORMS_PLANEVALUATOR_H
