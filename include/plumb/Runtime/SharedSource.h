//===- SharedSource.h - Inputs from a shared object ---------------------------===//

#ifndef PLUMB_RUNTIME_SHAREDSOURCE_H
#define PLUMB_RUNTIME_SHAREDSOURCE_H

#include "plumb/Runtime/InputSource.h"

#include <string>

namespace plumb {

/// Whether a file begins as shared objects do.
bool isSharedObject(const std::string &path);

/// A shared object with the interface of source.h. Throws plumb::Failure if it cannot be loaded, does not
/// have the interface, or has another version of it. A call that does not return within nine tenths of the
/// timeout is left to itself, and an error of the rank.
std::unique_ptr<InputSource> openSharedSource(const Program &program, const Options &options,
                                              std::int64_t firstStep);

} // namespace plumb

#endif // PLUMB_RUNTIME_SHAREDSOURCE_H
