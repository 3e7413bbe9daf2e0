/* Zeros for `--source`. On rank 1 the function that the environment variable HANG names never returns:
 * `open`, `close`, or in step 2 `next`. */
#include <plumb/Runtime/source.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void hang(int rank, const char *function) {
  const char *where = getenv("HANG");
  while (rank == 1 && where && strcmp(where, function) == 0)
    pause();
}

static void *open_zeros(const plumb_source_run *run, char *error, size_t size) {
  (void)error, (void)size;
  hang(run->rank, "open");
  int *rank = malloc(sizeof *rank);
  *rank = run->rank;
  return rank;
}

static int next_zeros(void *source, int64_t step, const plumb_slice *slices, size_t count, char *error,
                      size_t size) {
  (void)error, (void)size;
  if (step == 1)
    hang(*(int *)source, "next");
  for (size_t i = 0; i < count; ++i)
    memset(slices[i].data, 0, slices[i].bytes);
  return 0;
}

static void close_zeros(void *source) {
  hang(*(int *)source, "close");
  free(source);
}

const plumb_source_interface plumb_source = {PLUMB_SOURCE_VERSION, open_zeros, next_zeros, close_zeros};
