//===- LowerRotations.h - Rotations of sharded dims -------------*- C++ -*-===//
#ifndef PLUMB_LIB_TRANSFORMS_LOWERROTATIONS_H
#define PLUMB_LIB_TRANSFORMS_LOWERROTATIONS_H

#include "mlir/IR/BuiltinOps.h"

namespace plumb {

/// Turns each `ccl.rotate` of a stage whose dim is sharded into an exchange between the ranks, with copies
/// around it where a rank keeps some of its elements; others stay, computations of one rank.
mlir::LogicalResult lowerRotations(mlir::ModuleOp module);

} // namespace plumb

#endif // PLUMB_LIB_TRANSFORMS_LOWERROTATIONS_H
