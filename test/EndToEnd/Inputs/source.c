/* Inputs for `--source`: the tokens of a file of 16-bit numbers, which the environment variable TOKENS names.
 *
 *   cc -shared -fPIC -I INCLUDE source.c -o source.so */
#include <plumb/Runtime/source.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *open_tokens(const plumb_source_run *run, char *error, size_t size) {
  const char *path = getenv("TOKENS");
  FILE *file = path ? fopen(path, "rb") : NULL;
  if (!file)
    snprintf(error, size, "cannot open the file that TOKENS names, %s", path ? path : "which is not set");
  else
    fprintf(stderr, "rank %d of %d reads tokens\n", run->rank, run->ranks);
  return file;
}

static int next_tokens(void *source, int64_t step, const plumb_slice *slices, size_t count, char *error,
                       size_t size) {
  FILE *file = source;
  for (size_t i = 0; i < count; ++i) {
    const plumb_slice *slice = &slices[i];
    int64_t *tokens = slice->data, elements = (int64_t)(slice->bytes / sizeof *tokens), per_step = 1;
    for (int dim = 0; dim < slice->rank; ++dim)
      per_step *= slice->ranges[dim].size;
    /* A target is the token after the one it belongs to. */
    int64_t first = step * per_step + (strcmp(slice->model_name, "targets") == 0);
    for (int64_t element = 0; element < elements; ++element) {
      int64_t token = first + plumb_position(slice, element);
      unsigned char bytes[2];
      if (fseek(file, (long)(2 * token), SEEK_SET) != 0 || fread(bytes, 2, 1, file) != 1) {
        snprintf(error, size, "the file has no token %lld", (long long)token);
        return 1;
      }
      tokens[element] = bytes[0] | bytes[1] << 8;
    }
  }
  return 0;
}

static void close_tokens(void *source) { fclose(source); }

const plumb_source_interface plumb_source = {PLUMB_SOURCE_VERSION, open_tokens, next_tokens, close_tokens};
