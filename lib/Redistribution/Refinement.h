//===- Refinement.h - Axes split into factors -----------------------------===//
#ifndef PLUMB_LIB_REDISTRIBUTION_REFINEMENT_H
#define PLUMB_LIB_REDISTRIBUTION_REFINEMENT_H

#include "plumb/Redistribution/Layout.h"

namespace plumb::redistribution {

/// The axes of `mesh`, split only where a sub-axis of one of `layouts` begins or ends; none of size 1.
/// Nothing if two such places do not divide one another.
std::optional<std::vector<AxisRef>> coarseRefinement(const Mesh &mesh,
                                                     llvm::ArrayRef<const Layout *> layouts);

/// Every way to split each of `axes` further into prime factors, in every order of the factors.
std::vector<std::vector<AxisRef>> primeRefinements(llvm::ArrayRef<AxisRef> axes);

/// `from` without the axes that it and `to` split in incompatible ways, and without what they cut further.
Layout withoutConflicts(const Mesh &mesh, const Layout &from, const Layout &to);

} // namespace plumb::redistribution

#endif // PLUMB_LIB_REDISTRIBUTION_REFINEMENT_H
