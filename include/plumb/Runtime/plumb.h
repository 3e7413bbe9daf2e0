/* plumb.h - A program as a library, for those who have their own training loop
 *
 * Link the program's object, its kernels and a provider's library with your own `main`. One run per process.
 * With the provider `threads` the process holds all ranks, with `mpi` and `nccl` it is one of them: then
 * every process makes the same calls in the same order, as with collectives.
 *
 * Tensors are whole, dense, row-major and in the element type of the program; every rank takes its own
 * slices. Functions return 0, or a code that is not: 2 for a wrong call, after which the run goes on; 1 or 3
 * (a deadlock, or calls that do not match) when the run has failed. plumb_error says why. A run may be used
 * by one thread at a time.
 */

#ifndef PLUMB_RUNTIME_PLUMB_H
#define PLUMB_RUNTIME_PLUMB_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct plumb_run plumb_run;

/* One input of a step: the whole batch. */
typedef struct plumb_value {
  const char *name; /* As in the program: "input.0", or the model's own name of it. */
  const void *data;
  size_t bytes;
} plumb_value;

/* Starts the ranks of this process and loads the weights. The arguments are those of the program without its
 * name (docs/run.md) but for those that concern its loop: --steps, --every, --checkpoint and --save are
 * errors. Sets *run even where it fails, so that plumb_error can say why; close it in any case. */
int plumb_open(plumb_run **run, int argc, const char *const *argv);

/* One training step. Inputs that are not given come from the source of --inputs. Sets *loss, unless it is
 * null, on the process of rank 0; to NaN elsewhere, and where the program has no loss. */
int plumb_step(plumb_run *run, const plumb_value *inputs, size_t count, double *loss);

/* Copies a tensor, on the process of rank 0: a parameter under its name or "param.NAME", "grad.NAME" after a
 * step, or "output.0". `bytes` is the size of the whole tensor. */
int plumb_read(plumb_run *run, const char *name, void *data, size_t bytes);

/* Sets a parameter on all ranks that hold it. */
int plumb_write(plumb_run *run, const char *name, const void *data, size_t bytes);

/* The last error, "" if there was none. Valid until the next call. */
const char *plumb_error(const plumb_run *run);

/* Ends the ranks and frees the run; the code of the run, 0 if it has never failed. */
int plumb_close(plumb_run *run);

#ifdef __cplusplus
}
#endif

#endif /* PLUMB_RUNTIME_PLUMB_H */
