//===- Run.h - What a provider defines -----------------------------------------===//

#ifndef PLUMB_RUNTIME_RUN_H
#define PLUMB_RUNTIME_RUN_H

#include "plumb/Runtime/Driver.h"
#include "plumb/Runtime/Program.h"

namespace plumb {

/// Runs the ranks of this process to their end: all of them with `threads`, on host memory; one with `mpi`,
/// on host memory, and with `nccl`, on a GPU. `driver` may be null. The environment variable PLUMB_SEED draws
/// the order in which the streams of host ranks go on.
///
/// The code is 0; 1 if a rank failed, timed out, or the files do not fit the program; 2 for a wrong command
/// line or environment; 3 for a deadlock or for calls that do not match.
Outcome runProgram(const Program &program, int argc, const char *const *argv, Driver *driver);

} // namespace plumb

#endif // PLUMB_RUNTIME_RUN_H
