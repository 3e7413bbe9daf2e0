//===- PlainSteps.h - The plan that needs no search -----------------------===//
#ifndef PLUMB_LIB_REDISTRIBUTION_PLAINSTEPS_H
#define PLUMB_LIB_REDISTRIBUTION_PLAINSTEPS_H

#include "plumb/Redistribution/Plan.h"

namespace plumb::redistribution {

/// All-reduce what must not stay partial, gather what the target does not begin with (or, with `exchange`,
/// exchange), slice, mask. Both layouts are canonical.
std::vector<Step> plainSteps(const Layout &from, const Layout &to, bool exchange);

} // namespace plumb::redistribution

#endif // PLUMB_LIB_REDISTRIBUTION_PLAINSTEPS_H
