//===- PlanOptions.h - Options of a plan that few passes read ---*- C++ -*-===//
#ifndef PLUMB_DIALECT_PLUMB_PLANOPTIONS_H
#define PLUMB_DIALECT_PLUMB_PLANOPTIONS_H

#include "llvm/ADT/StringRef.h"
#include <cstdint>

namespace plumb {

/// On `plumb.pipeline`, a string: how a value reaches the later stages that read it. `direct`: from its
/// maker; `forward`: through all stages between; `auto`, as without the attribute: the cheaper way.
inline constexpr llvm::StringLiteral kSkipConnectionsAttr = "plumb.skip_connections";

/// On a `plumb.storage_rule`, and then on its parameters, an i64: how many layers ahead of its use a
/// parameter is gathered for a pass; `kDefaultPrefetch` without the attribute.
inline constexpr llvm::StringLiteral kPrefetchAttr = "plumb.prefetch";
inline constexpr int64_t kDefaultPrefetch = 1;

} // namespace plumb

#endif // PLUMB_DIALECT_PLUMB_PLANOPTIONS_H
