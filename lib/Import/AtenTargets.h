//===- AtenTargets.h - The ATen operators that can be imported --*- C++ -*-===//

#ifndef PLUMB_LIB_IMPORT_ATENTARGETS_H
#define PLUMB_LIB_IMPORT_ATENTARGETS_H

#include "NodeBuilder.h"

namespace plumb {

/// An operator, `torch.ops.aten.linear.default`, and the function that builds its nodes.
struct AtenTarget {
  llvm::StringLiteral name;
  void (*build)(NodeBuilder &node);
};

// One table per family, in the file of that name.
llvm::ArrayRef<AtenTarget> linearTargets();
llvm::ArrayRef<AtenTarget> elementwiseTargets();
llvm::ArrayRef<AtenTarget> mathTargets();
llvm::ArrayRef<AtenTarget> activationTargets();
llvm::ArrayRef<AtenTarget> logicTargets();
llvm::ArrayRef<AtenTarget> networkTargets();
llvm::ArrayRef<AtenTarget> normalisationTargets();
llvm::ArrayRef<AtenTarget> recurrentTargets();
llvm::ArrayRef<AtenTarget> reductionTargets();
llvm::ArrayRef<AtenTarget> lossTargets();
llvm::ArrayRef<AtenTarget> shapeTargets();
llvm::ArrayRef<AtenTarget> selectionTargets();
llvm::ArrayRef<AtenTarget> indexTargets();
llvm::ArrayRef<AtenTarget> advancedIndexTargets();

} // namespace plumb

#endif // PLUMB_LIB_IMPORT_ATENTARGETS_H
