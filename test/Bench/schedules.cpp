//===- schedules.cpp - Time to generate, lower and verify schedules --------===//
//
//   tools/bench schedules
//
// DualPipe-V on 64 ranks with 512 microbatches, where PyTorch takes 9.9 s; a million actions; how the time
// grows.
//
//===----------------------------------------------------------------------===//

#include "plumb/Schedule/Communication.h"
#include "plumb/Schedule/Generators.h"
#include "plumb/Schedule/Verifier.h"
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>

using namespace plumb::schedule;

namespace {

/// Time of this thread, so that other load on the machine matters less.
double now() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

struct Times {
  double generate = 0, lower = 0, verify = 0;
  std::size_t actions = 0;
  double total() const { return generate + lower + verify; }
};

/// The least of three runs of each phase.
Times measure(Kind kind, int ranks, int stages, int microbatches) {
  Problem problem = standardProblem(kind, ranks, stages, microbatches);
  Times best{1e9, 1e9, 1e9, 0};
  for (int run = 0; run < 3; ++run) {
    double begin = now();
    Result<Schedule> compute = generate(kind, problem);
    double generated = now();
    Result<Schedule> lowered = compute ? placeCommunication(problem, *compute) : compute;
    double placed = now();
    bool accepted = lowered && !verify(problem, *lowered, {Transfers::Streams, ListForm::Lowered});
    double verified = now();
    if (!accepted) {
      std::fprintf(stderr, "%s on %d ranks is not accepted\n", toString(kind), ranks);
      std::exit(1);
    }
    best = {std::min(best.generate, generated - begin), std::min(best.lower, placed - generated),
            std::min(best.verify, verified - placed), lowered->numActions()};
  }
  return best;
}

void print(const char *name, int ranks, int stages, int microbatches, const Times &times) {
  std::printf(
      "%-10s %4d ranks %4d stages %5d microbatches %8zu actions: generate %.3f s, lower %.3f s, verify %.3f "
      "s, %.2f us an action\n",
      name, ranks, stages, microbatches, times.actions, times.generate, times.lower, times.verify,
      1e6 * times.total() / static_cast<double>(times.actions));
  std::fflush(stdout);
}

bool within(const char *what, double seconds, double bound, double other) {
  std::printf("%s: %.3f s, at most %.1f s", what, seconds, bound);
  if (other > 0)
    std::printf("; %.0f times as fast as PyTorch's %.1f s", other / seconds, other);
  std::printf("%s\n", seconds <= bound ? "" : "  TOO SLOW");
  return seconds <= bound;
}

} // namespace

int main() {
  bool ok = true;
  Times large = measure(Kind::DualPipeV, 64, 128, 512);
  print("dualpipe-v", 64, 128, 512, large);
  ok &= within("dualpipe-v generated, lowered and verified", large.total(), 1, 9.9);

  // 64 stages · 3950 microbatches · (F, B, and the transfers between): a million.
  Times million = measure(Kind::OneFOneB, 64, 64, 3950);
  print("1f1b", 64, 64, 3950, million);
  ok &=
      within("a million actions verified", million.verify * 1e6 / static_cast<double>(million.actions), 2, 0);

  std::printf("growth:\n");
  double first = 0, last = 0;
  for (int microbatches = 256; microbatches <= 4096; microbatches *= 4) {
    Times times = measure(Kind::OneFOneB, 32, 32, microbatches);
    print("1f1b", 32, 32, microbatches, times);
    last = times.total() / static_cast<double>(times.actions);
    first = first > 0 ? first : last;
  }
  std::printf("16 times the microbatches: %.2f times the time an action%s\n", last / first,
              last <= 2 * first ? "" : "  NOT LINEAR");
  return ok && last <= 2 * first ? 0 : 1;
}
