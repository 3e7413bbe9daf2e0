//===- Bound.h - What no plan can avoid -------------------------*- C++ -*-===//
#ifndef PLUMB_REDISTRIBUTION_BOUND_H
#define PLUMB_REDISTRIBUTION_BOUND_H

#include "plumb/Redistribution/Layout.h"

namespace plumb::redistribution {

/// Bytes that the busiest rank must receive (or send) in any plan, whatever its steps.
///
/// A rank receives at least what it lacks of its result; where contributions are pending, at least one value
/// per element of it. Over all ranks, combining G contributions to an element takes G-1 transfers and handing
/// the result to the other C-1 ranks that keep it C-1 more; the busiest rank has at least the mean. A target
/// that is partial may be filled with neutral elements: nothing is claimed for it.
double lowerBoundBytes(const Mesh &mesh, llvm::ArrayRef<int64_t> shape, int64_t elementBytes,
                       const Layout &from, const Layout &to);

/// Elements that each rank must receive at least, in rank order; only for layouts without partial axes.
std::vector<int64_t> elementsLacking(const Mesh &mesh, llvm::ArrayRef<int64_t> shape, const Layout &from,
                                     const Layout &to);

} // namespace plumb::redistribution

#endif // PLUMB_REDISTRIBUTION_BOUND_H
