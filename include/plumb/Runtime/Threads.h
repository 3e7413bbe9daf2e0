//===- Threads.h - The collective provider `threads` --------------------------===//

#ifndef PLUMB_RUNTIME_THREADS_H
#define PLUMB_RUNTIME_THREADS_H

#include "plumb/Runtime/Program.h"

namespace plumb {

/// Runs all ranks of a program in this process, on host memory; the body of `main`. Errors are printed to
/// standard error. Returns 0; 1 if a rank failed or the files do not fit the program; 2 for a wrong command
/// line; 3 for a deadlock or for calls that do not match. The environment variable PLUMB_SEED draws the order
/// of streams.
int runThreads(const Program &program, int argc, const char *const *argv);

} // namespace plumb

#endif // PLUMB_RUNTIME_THREADS_H
