//===- Shrink.h - Plans on small stand-ins for mesh and tensor ------------===//
#ifndef PLUMB_LIB_REDISTRIBUTION_SHRINK_H
#define PLUMB_LIB_REDISTRIBUTION_SHRINK_H

#include "plumb/Redistribution/Plan.h"

namespace plumb::redistribution {

/// The same steps on a tensor that every layout of the plan cuts alike: sizes keep their remainders.
Plan withSmallTensor(const Plan &plan);

/// The same steps on a mesh whose digits, as far as they cut evenly, have shrunk to their smallest prime
/// factor.
Plan withSmallMesh(const Plan &plan);

} // namespace plumb::redistribution

#endif // PLUMB_LIB_REDISTRIBUTION_SHRINK_H
