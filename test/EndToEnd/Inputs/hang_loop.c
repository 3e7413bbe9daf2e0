/* A loop over a source that hangs: program WEIGHTS SOURCE. */
#include <plumb/Runtime/plumb.h>

#include <stdio.h>

int main(int argc, char **argv) {
  if (argc != 3)
    return 2;
  const char *arguments[] = {"--weights", argv[1], "--source", argv[2], "--timeout", "5"};
  plumb_run *run;
  int code = plumb_open(&run, 6, arguments);
  for (int step = 0; code == 0 && step < 3; ++step)
    code = plumb_step(run, NULL, 0, NULL);
  printf("code %d: %s\n", code, plumb_error(run));
  return plumb_close(run);
}
