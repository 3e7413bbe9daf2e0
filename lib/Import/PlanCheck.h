//===- PlanCheck.h - What the keys of a plan spec demand of each other -*- C++ -*-===//

#ifndef PLUMB_LIB_IMPORT_PLANCHECK_H
#define PLUMB_LIB_IMPORT_PLANCHECK_H

#include "plumb/Import/PlanSpec.h"

namespace plumb::spec {

/// Reports, each at its value, what contradicts another key; each key alone fits its schema already.
void checkPlanSpec(const PlanSpec &plan, Diagnostics &diagnostics);

} // namespace plumb::spec

#endif // PLUMB_LIB_IMPORT_PLANCHECK_H
