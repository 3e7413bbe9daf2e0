//===- NNAttributes.h - Discardable attributes of nn ops --------*- C++ -*-===//
#ifndef PLUMB_DIALECT_NN_NNATTRIBUTES_H
#define PLUMB_DIALECT_NN_NNATTRIBUTES_H

#include "llvm/ADT/StringRef.h"

namespace plumb::nn {

/// On an `nn.scale` of a sum: its factor is one over the number of terms less this number, so that it follows
/// when the batch changes.
inline constexpr llvm::StringLiteral kMeanAttr = "plumb.mean";

} // namespace plumb::nn

#endif // PLUMB_DIALECT_NN_NNATTRIBUTES_H
