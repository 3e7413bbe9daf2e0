//===- ImportPlan.h - From a plan spec to plumb operations ------*- C++ -*-===//

#ifndef PLUMB_IMPORT_IMPORTPLAN_H
#define PLUMB_IMPORT_IMPORTPLAN_H

#include "plumb/Import/PlanSpec.h"

#include "mlir/IR/BuiltinOps.h"

namespace plumb {

/// Puts the operations of a plan in front of those of the model: mesh, pipeline, split, layout, input and
/// loss rules, optimizer. Each is located at its value in the spec. The mesh is called `@mesh`, or a longer
/// name if the model has that one. Layouts that the model states are of
/// the plan's mesh too; it is an error if the model's own mesh has other axes.
mlir::LogicalResult importPlan(const spec::PlanSpec &plan, mlir::ModuleOp module);

} // namespace plumb

#endif // PLUMB_IMPORT_IMPORTPLAN_H
