//===- PlumbOps.td - All operations of the plumb dialect --------------------===//

#ifndef PLUMB_DIALECT_PLUMB_PLUMBOPS
#define PLUMB_DIALECT_PLUMB_PLUMBOPS

include "plumb/Dialect/Plumb/PlumbPlanOps.td"
include "plumb/Dialect/Plumb/PlumbProgramOps.td"

#endif // PLUMB_DIALECT_PLUMB_PLUMBOPS
