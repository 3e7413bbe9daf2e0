//===- CCL.h - The ccl dialect: how data is moved ---------------*- C++ -*-===//
#ifndef PLUMB_DIALECT_CCL_CCL_H
#define PLUMB_DIALECT_CCL_CCL_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "plumb/Dialect/NN/NN.h"

#include "plumb/Dialect/CCL/CCLDialect.h.inc"

#define GET_OP_CLASSES
#include "plumb/Dialect/CCL/CCLOps.h.inc"

namespace plumb::ccl {

/// An axis of a communicator: the whole of it ("tp"), or a factor ("tp:(2)4": of size 4, inside a factor of
/// size 2).
struct Axis {
  llvm::StringRef name;
  int64_t preSize = 1;
  int64_t size = 0; ///< 0: the whole axis.

  bool isWhole() const { return size == 0; }
  /// Nothing if the text is no axis.
  static std::optional<Axis> parse(llvm::StringRef text);
};

/// The axes of an op, all of which its verifier has parsed.
llvm::SmallVector<Axis> parseAxes(mlir::ArrayAttr axes);

} // namespace plumb::ccl

#endif // PLUMB_DIALECT_CCL_CCL_H
