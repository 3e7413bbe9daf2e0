//===- Nccl.h - The collective provider `nccl` ---------------------------------===//

#ifndef PLUMB_RUNTIME_NCCL_H
#define PLUMB_RUNTIME_NCCL_H

#include "plumb/Runtime/Program.h"

namespace plumb {

/// Runs this process's rank of a program on its GPU; the body of `main`. Started once per rank by torchrun,
/// mpirun or srun. Errors are printed to standard error and stop all ranks. Returns 0; 1 if a rank failed,
/// timed out, or the files do not fit the program; 2 for a wrong command line or environment. PLUMB_TIMEOUT
/// (seconds, default 600) bounds every wait for other ranks.
int runNccl(const Program &program, int argc, const char *const *argv);

} // namespace plumb

#endif // PLUMB_RUNTIME_NCCL_H
