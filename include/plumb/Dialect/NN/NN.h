//===- NN.h - The nn dialect: what is computed ------------------*- C++ -*-===//
#ifndef PLUMB_DIALECT_NN_NN_H
#define PLUMB_DIALECT_NN_NN_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "plumb/Dialect/NN/ShardingRule.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace plumb::nn {
/// Starts a diagnostic; type inference reports through it.
using EmitError = llvm::function_ref<mlir::InFlightDiagnostic()>;

/// The result is the operand's row-major buffer under another shape: it needs no buffer and no kernel.
template <typename ConcreteType>
class Reinterprets : public mlir::OpTrait::TraitBase<ConcreteType, Reinterprets> {};

/// The derivative is zero: no gradient passes.
template <typename ConcreteType>
class Detaches : public mlir::OpTrait::TraitBase<ConcreteType, Detaches> {};

/// Indices are 0 to `count` - 1, or `ignored`.
struct IndexRange {
  mlir::Value indices;
  int64_t count;
  std::optional<int64_t> ignored = {};
};
} // namespace plumb::nn

#include "plumb/Dialect/NN/NNDialect.h.inc"
#include "plumb/Dialect/NN/NNInterfaces.h.inc"

#define GET_OP_CLASSES
#include "plumb/Dialect/NN/NNContractionOps.h.inc"
#define GET_OP_CLASSES
#include "plumb/Dialect/NN/NNElementwiseOps.h.inc"
#define GET_OP_CLASSES
#include "plumb/Dialect/NN/NNMathOps.h.inc"
#define GET_OP_CLASSES
#include "plumb/Dialect/NN/NNLogicOps.h.inc"
#define GET_OP_CLASSES
#include "plumb/Dialect/NN/NNReductionOps.h.inc"
#define GET_OP_CLASSES
#include "plumb/Dialect/NN/NNConvolutionOps.h.inc"
#define GET_OP_CLASSES
#include "plumb/Dialect/NN/NNShapeOps.h.inc"
#define GET_OP_CLASSES
#include "plumb/Dialect/NN/NNSelectionOps.h.inc"
#define GET_OP_CLASSES
#include "plumb/Dialect/NN/NNIndexOps.h.inc"
#define GET_OP_CLASSES
#include "plumb/Dialect/NN/NNRandomOps.h.inc"
#define GET_OP_CLASSES
#include "plumb/Dialect/NN/NNOptimizerOps.h.inc"

#endif // PLUMB_DIALECT_NN_NN_H
