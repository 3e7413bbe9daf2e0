/* A training loop in C on a compiled program: loop WEIGHTS TOKENS
 * TOKENS holds the raw bytes of "idx" and "targets". Prints the losses of three steps, then what a parameter becomes. */
#include <plumb/Runtime/plumb.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kTokens = 8 * 32 * 8, kRows = 256, kColumns = 64 };

static void expect(int code, int wanted, const plumb_run *run) {
  if (code == wanted)
    return;
  fprintf(stderr, "code %d instead of %d: %s\n", code, wanted, plumb_error(run));
  exit(1);
}

int main(int argc, char **argv) {
  const char *rank = getenv("OMPI_COMM_WORLD_RANK");
  if (rank && strcmp(rank, "0") && !freopen("/dev/null", "w", stdout)) /* rank 0 alone knows the loss */
    return 1;
  static char idx[kTokens], targets[kTokens];
  static float weight[kRows * kColumns], again[kRows * kColumns];
  FILE *file = argc == 3 ? fopen(argv[2], "rb") : NULL;
  if (!file || fread(idx, 1, kTokens, file) != kTokens || fread(targets, 1, kTokens, file) != kTokens)
    return 1;
  fclose(file);

  plumb_run *run;
  const char *wrong[] = {"--weights", argv[1], "--steps", "3"};
  expect(plumb_open(&run, 4, wrong), 2, run);
  puts(plumb_error(run));
  expect(plumb_close(run), 2, run);

  expect(plumb_open(&run, 2, wrong), 0, run);
  plumb_value inputs[] = {{"idx", idx, kTokens}, {"input.1", targets, kTokens}};
  expect(plumb_step(run, inputs, 1, NULL), 2, run);
  puts(plumb_error(run));
  inputs[0].bytes = 7;
  expect(plumb_step(run, inputs, 2, NULL), 2, run);
  puts(plumb_error(run));
  inputs[0].bytes = kTokens;
  double loss = 0;
  for (int step = 0; step < 3; ++step) {
    expect(plumb_step(run, inputs, 2, &loss), 0, run);
    printf("loss %.5f\n", loss);
  }
  expect(plumb_read(run, "nosuch", weight, sizeof weight), 2, run);
  puts(plumb_error(run));
  expect(plumb_read(run, "wte.weight", weight, sizeof weight), 0, run);
  printf("tied: %s\n", plumb_read(run, "lm_head.weight", again, sizeof again) == 0 && !memcmp(weight, again, sizeof weight) ? "yes" : "no");
  expect(plumb_read(run, "grad.wte.weight", again, sizeof again), 0, run);
  /* Without the tied embedding all scores are equal. */
  for (int i = 0; i < kRows * kColumns; ++i)
    weight[i] = 0;
  expect(plumb_write(run, "param.wte.weight", weight, sizeof weight), 0, run);
  expect(plumb_read(run, "wte.weight", again, sizeof again), 0, run);
  printf("written: %s\n", !memcmp(weight, again, sizeof weight) ? "yes" : "no");
  expect(plumb_step(run, inputs, 2, &loss), 0, run);
  printf("equal scores: %s\n", fabs(loss - log(kRows)) < 1e-5 ? "yes" : "no");
  return plumb_close(run);
}
