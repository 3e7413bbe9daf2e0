//===- Program.h - The program as C++ source --------------------*- C++ -*-===//
//
// `program.cpp` is one source for all ranks. It holds tables (mesh, communicators, tensors, one action list
// per pipeline coordinate), a function per part of a stage, and `step`, which runs what the rank's pipeline
// coordinate has to do. It needs the CUDA runtime's and NCCL's headers, real or host versions, and
// plumb/Runtime/Program.h.
//
//===----------------------------------------------------------------------===//

#ifndef PLUMB_TARGET_PROGRAM_H
#define PLUMB_TARGET_PROGRAM_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/raw_ostream.h"

namespace plumb {

/// Writes the program of a module that `verify-plan` has accepted; an error if it has not, or if a
/// parameter's layout has a form that the runtime cannot slice (a factor of a mesh axis).
llvm::LogicalResult emitProgram(mlir::ModuleOp module, llvm::raw_ostream &os);

/// The hash of that program, 16 hexadecimal digits, by which the ranks of a run know each other.
mlir::FailureOr<std::string> getProgramSignature(mlir::ModuleOp module);

} // namespace plumb

#endif // PLUMB_TARGET_PROGRAM_H
