//===- OptimizerSpec.h - The optimizer of a plan spec -----------*- C++ -*-===//

#ifndef PLUMB_LIB_IMPORT_OPTIMIZERSPEC_H
#define PLUMB_LIB_IMPORT_OPTIMIZERSPEC_H

#include "plumb/Import/PlanSpec.h"

namespace plumb::spec {

/// Reads the value of the key `optimizer`, which was validated against the table of keys.
Optimizer toOptimizer(const json::Value &value);

/// Reports keys that contradict the kind of optimizer, or each other.
void checkOptimizer(const PlanSpec &plan, const Optimizer &optimizer, Diagnostics &diagnostics);

} // namespace plumb::spec

#endif // PLUMB_LIB_IMPORT_OPTIMIZERSPEC_H
