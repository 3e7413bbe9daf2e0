//===- LayerGathers.h - Parameters that are gathered for a pass -*- C++ -*-===//

#ifndef PLUMB_LIB_TRANSFORMS_LAYERGATHERS_H
#define PLUMB_LIB_TRANSFORMS_LAYERGATHERS_H

#include "mlir/IR/SymbolTable.h"
#include "plumb/Dialect/Plumb/Plumb.h"

namespace plumb {

/// The parameter that an operand of an all-gather is a shard of, as it is loaded or seen or laid out
/// otherwise; null if there is none. What leads to it can run anywhere in its phase.
ParameterOp findGatheredParameter(mlir::Value operand, const mlir::SymbolTable &symbols);

/// "h.3" for an op of the module "h.3.attn.c_proj"; a module that is in no layer is one by itself.
llvm::StringRef getLayer(mlir::Operation *op);

/// Moves a gather in front of `place`, and in front of it what leads to its operands, as far as it stands in
/// the phase of `place`.
void hoistGather(mlir::Operation *gather, mlir::Operation *place);

} // namespace plumb

#endif // PLUMB_LIB_TRANSFORMS_LAYERGATHERS_H
