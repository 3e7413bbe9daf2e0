//===- Refinement.h - Axes split into factors -----------------------------===//
#ifndef PLUMB_LIB_REDISTRIBUTION_REFINEMENT_H
#define PLUMB_LIB_REDISTRIBUTION_REFINEMENT_H

#include "plumb/Redistribution/Layout.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace plumb::redistribution {

/// The axes of `mesh`, split only where a sub-axis of one of `layouts` begins or ends; none of size 1.
/// Nothing if two such places do not divide one another.
std::optional<std::vector<AxisRef>> coarseRefinement(const Mesh &mesh,
                                                     llvm::ArrayRef<const Layout *> layouts);

/// More digits than this are not searched: the arrangements of n digits grow like n!.
constexpr size_t maxDigits = 7;

struct Refinements {
  /// Every way to split each of the axes further into factors, in every order of the factors.
  std::vector<std::vector<AxisRef>> all;
  /// The factors are prime, and no order is left out.
  bool areComplete = true;
};

/// The factors are prime where that makes at most `maxDigits` digits. Otherwise the axes of `first` are split
/// before others, and what is too much stays together.
Refinements refinementsOf(llvm::ArrayRef<AxisRef> axes, llvm::function_ref<bool(const AxisRef &)> first);

/// `from` without the axes that it and `to` split in incompatible ways, and without what they cut further.
Layout withoutConflicts(const Mesh &mesh, const Layout &from, const Layout &to);

} // namespace plumb::redistribution

#endif // PLUMB_LIB_REDISTRIBUTION_REFINEMENT_H
