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

#include "plumb/Dialect/CCL/CCLDialect.h.inc"

#define GET_OP_CLASSES
#include "plumb/Dialect/CCL/CCLOps.h.inc"

#endif // PLUMB_DIALECT_CCL_CCL_H
