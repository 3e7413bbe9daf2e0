//===- PlanSchema.h - The table of the plan spec's keys ---------*- C++ -*-===//

#ifndef PLUMB_LIB_IMPORT_PLANSCHEMA_H
#define PLUMB_LIB_IMPORT_PLANSCHEMA_H

#include "plumb/Import/SpecSchema.h"

namespace plumb::spec {

/// A regular expression with groups: the dim and the blocks of a shard, and the word of any other placement.
extern const char *const kPlacementPattern;

/// A regular expression with a group: the deviation of a normal distribution.
extern const char *const kInitialPattern;

/// Families of models that have a template of layouts.
const std::vector<std::string> &supportedTemplates();

/// Every key of the plan spec with its type and meaning.
const Schema &planTable();
/// The value of its key `costs`, which may also be a file of its own.
const Schema &costsTable();
/// The value of its key `topology`, the same.
const Schema &topologyTable();

} // namespace plumb::spec

#endif // PLUMB_LIB_IMPORT_PLANSCHEMA_H
