//===- RunFiles.h - The files that a program reads --------------*- C++ -*-===//
#ifndef PLUMB_TOOLS_PLUMBC_RUNFILES_H
#define PLUMB_TOOLS_PLUMBC_RUNFILES_H

#include "Driver.h"

namespace plumb {

/// Whether the archive has the values of all its parameters, buffers and constants, so that a program can
/// read them there.
bool hasAllValues(const pt2::Pt2Archive &archive);

/// Writes the archive's parameters, buffers and constants, each under its canonical name, in safetensors.
/// What the archive has no values of begins as the plan's `init` says, drawn from a seed that depends on the
/// name; an error lists what neither covers.
bool writeWeights(const pt2::Pt2Archive &archive, const std::vector<spec::Initial> &init,
                  const std::string &path, Diagnostics &diagnostics);

/// Writes only the values of buffers and constants that the model does not save, as far as there are any.
/// False without an error if there are none.
bool writeNonPersistent(const pt2::Pt2Archive &archive, const std::vector<spec::Initial> &init,
                        const std::string &path, Diagnostics &diagnostics);

/// Writes inputs drawn from a fixed seed: standard normal floats, integers and bools 0 and 1. Their types are
/// those of the module after apply-spec.
bool writeInputs(mlir::ModuleOp module, const std::string &path, Diagnostics &diagnostics);

} // namespace plumb

#endif // PLUMB_TOOLS_PLUMBC_RUNFILES_H
