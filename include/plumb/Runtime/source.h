/* source.h - Inputs from a shared object of one's own: `--source F.so`
 *
 * The shared object defines one symbol,
 *
 *   const plumb_source_interface plumb_source = {PLUMB_SOURCE_VERSION, open, next, close};
 *
 * Each rank that holds a part of an input opens a source of its own and asks it, step after step, for its
 * slices, one step before they are needed; a rank that holds none calls nothing. Functions are called with
 * one handle at a time, but not always from the same thread; the handles of several ranks of one process may
 * be used at once. A function that does not return within nine tenths of --timeout ends the run. Functions
 * that fail write a sentence into `error`, of `size` bytes.
 */

#ifndef PLUMB_RUNTIME_SOURCE_H
#define PLUMB_RUNTIME_SOURCE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PLUMB_SOURCE_VERSION 1

/* The rows of one dimension that a slice takes: `count` times `block` of them, `stride` apart, the first at
 * `start` (a hyperslab, as in HDF5). `count` is 1 unless a layout cuts each of several blocks. */
typedef struct plumb_range {
  int64_t size; /* Of the whole input. */
  int64_t start, stride, count, block;
} plumb_range;

/* A part of one input that one rank holds. */
typedef struct plumb_slice {
  const char *name;       /* "input.0" */
  const char *model_name; /* The model's own name of it: "idx". */
  const char *dtype;      /* As in safetensors: "F32", "I64", ... */
  int rank;               /* Number of dimensions. */
  const plumb_range *ranges;
  int64_t microbatch; /* The slice is of this one. */
  void *data;         /* To be filled: dense, row-major. */
  size_t bytes;
} plumb_slice;

typedef struct plumb_source_run {
  int rank, ranks;    /* The rank that opens the source, and how many ranks the run has. */
  int64_t first_step; /* That will be asked for: not 0 after a checkpoint. */
} plumb_source_run;

typedef struct plumb_source_interface {
  int version; /* PLUMB_SOURCE_VERSION */
  /* Returns a handle; null: an error. */
  void *(*open)(const plumb_source_run *run, char *error, size_t size);
  /* Fills `count` slices with the values of a step, which counts from 0. Returns 0; otherwise: an error. */
  int (*next)(void *source, int64_t step, const plumb_slice *slices, size_t count, char *error, size_t size);
  void (*close)(void *source);
} plumb_source_interface;

extern __attribute__((visibility("default"))) const plumb_source_interface plumb_source;

/* The position in the whole input, dense and row-major, of an element of a slice. */
static inline int64_t plumb_position(const plumb_slice *slice, int64_t element) {
  int64_t position = 0, scale = 1;
  for (int dim = slice->rank; dim-- > 0;) {
    const plumb_range *range = &slice->ranges[dim];
    int64_t extent = range->count * range->block, row = element % extent;
    element /= extent;
    position += scale * (range->start + row / range->block * range->stride + row % range->block);
    scale *= range->size;
  }
  return position;
}

#ifdef __cplusplus
}
#endif

#endif /* PLUMB_RUNTIME_SOURCE_H */
