//===- Mpi.h - The collective provider `mpi` ------------------------------------===//

#ifndef PLUMB_RUNTIME_MPI_H
#define PLUMB_RUNTIME_MPI_H

#include "plumb/Runtime/Program.h"

namespace plumb {

/// Runs this process's rank of a program on host memory, with the others over MPI; the body of `main`.
/// Started once per rank by mpirun. Returns what `runProcess` does.
int runMpi(const Program &program, int argc, const char *const *argv);

} // namespace plumb

#endif // PLUMB_RUNTIME_MPI_H
