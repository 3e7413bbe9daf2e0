//===- PlanOptions.h - Options of a plan that few passes read ---*- C++ -*-===//
#ifndef PLUMB_DIALECT_PLUMB_PLANOPTIONS_H
#define PLUMB_DIALECT_PLUMB_PLANOPTIONS_H

#include "llvm/ADT/StringRef.h"

namespace plumb {

/// On `plumb.pipeline`, a string: how a value reaches the later stages that read it. `direct`: from its
/// maker; `forward`: through all stages between; `auto`, as without the attribute: the cheaper way.
inline constexpr llvm::StringLiteral kSkipConnectionsAttr = "plumb.skip_connections";

} // namespace plumb

#endif // PLUMB_DIALECT_PLUMB_PLANOPTIONS_H
