//===- Artefacts.h - The files that a compilation leaves --------*- C++ -*-===//
#ifndef PLUMB_TOOLS_PLUMBC_ARTEFACTS_H
#define PLUMB_TOOLS_PLUMBC_ARTEFACTS_H

#include "Driver.h"
#include <set>

namespace plumb {

/// Writes a file under a temporary name and renames it, so that nothing is ever half-written.
bool writeFile(const std::string &path, std::string_view content, Diagnostics &diagnostics);

/// What `--emit` names: plan, program, kernels, launch, report, trace, mlir, weights.
using Emission = std::set<std::string>;

/// Writes the artefacts of a compiled module into a folder, made if need be.
bool writeArtefacts(mlir::ModuleOp module, const std::string &folder, const Emission &emission,
                    Diagnostics &diagnostics);

/// Prints the one artefact that `emission` names, which must be text, on standard output.
bool printArtefact(mlir::ModuleOp module, const Emission &emission, Diagnostics &diagnostics);

/// The objects of a compiled module's kernels, each once, in the order of first use.
std::vector<std::string> kernelObjects(mlir::ModuleOp module);

} // namespace plumb

#endif // PLUMB_TOOLS_PLUMBC_ARTEFACTS_H
