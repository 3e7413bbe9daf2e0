//===- InlineRegions.h - Regions of a graph are built in place --*- C++ -*-===//

#ifndef PLUMB_IMPORT_INLINEREGIONS_H
#define PLUMB_IMPORT_INLINEREGIONS_H

#include "plumb/Import/ExportedProgram.h"

namespace plumb::pt2 {

/// Replaces the regions that `torch.no_grad` and disabled `torch.autocast` leave in a graph by their nodes,
/// nested ones too, so that a marker in a region is one like any other. What is made where gradients are off
/// says so
/// (`Node::hasGradient`). Reports a region that computes in another type (enabled autocast), and one whose
/// operands or results are no tensors; answers whether there was none.
bool inlineRegions(ExportedProgram &program, Diagnostics &diagnostics);

} // namespace plumb::pt2

#endif // PLUMB_IMPORT_INLINEREGIONS_H
