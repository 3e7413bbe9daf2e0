//===- Plumb.h - The plumb dialect: where, whose, and how laid out -*- C++ -*-===//
#ifndef PLUMB_DIALECT_PLUMB_PLUMB_H
#define PLUMB_DIALECT_PLUMB_PLUMB_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "plumb/Dialect/NN/NN.h"
#include <optional>

#include "plumb/Dialect/Plumb/PlumbDialect.h.inc"
#include "plumb/Dialect/Plumb/PlumbEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "plumb/Dialect/Plumb/PlumbAttributes.h.inc"

#define GET_OP_CLASSES
#include "plumb/Dialect/Plumb/PlumbOps.h.inc"

namespace plumb {

/// The reserved axis over which a step walks its microbatches in time.
inline constexpr llvm::StringLiteral kMicrobatchAxis = "microbatch";

/// Names of the discardable attributes that describe an op of a program.
inline constexpr llvm::StringLiteral kModuleAttr = "plumb.module";
inline constexpr llvm::StringLiteral kSourceAttr = "plumb.source";
inline constexpr llvm::StringLiteral kStageAttr = "plumb.stage";
inline constexpr llvm::StringLiteral kPhaseAttr = "plumb.phase";
inline constexpr llvm::StringLiteral kLayoutsAttr = "plumb.layouts";
/// The module that is computed again, on its ops and on those of its backward.
inline constexpr llvm::StringLiteral kRecomputeAttr = "plumb.recompute";

/// Blocks as attributes have them (see DimShardingAttr): so many equal ones; none for one.
llvm::SmallVector<int64_t> equalBlocks(int64_t count);
/// The same for blocks of the given sizes, which become a number if they are equal.
llvm::SmallVector<int64_t> blocksOfSizes(llvm::ArrayRef<int64_t> sizes);
/// `3` or `[64, 32, 32]`.
mlir::ParseResult parseBlocks(mlir::AsmParser &parser, llvm::SmallVectorImpl<int64_t> &blocks);
void printBlocks(llvm::raw_ostream &os, llvm::ArrayRef<int64_t> blocks);

/// The stage of an op; 0 before stages are split.
int64_t getStage(mlir::Operation *op);
void setStage(mlir::Operation *op, int64_t stage);

/// The phase of an op; forward before phases are known.
Phase getPhase(mlir::Operation *op);
void setPhase(mlir::Operation *op, Phase phase);

/// The layout of a value, or null when its op has none.
LayoutAttr getLayout(mlir::Value value);
/// Sets the layouts of all results of an op.
void setLayouts(mlir::Operation *op, llvm::ArrayRef<LayoutAttr> layouts);

/// "module h.0.attn, gpt2.py:45": how diagnostics name an op of the model.
std::string describe(mlir::Operation *op);

/// Starts an error at `op` that begins with what the model calls it.
mlir::InFlightDiagnostic emitModelError(mlir::Operation *op);

} // namespace plumb

#endif // PLUMB_DIALECT_PLUMB_PLUMB_H
