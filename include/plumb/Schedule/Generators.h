//===- Generators.h - Named schedules ---------------------------*- C++ -*-===//
//
//   kind                        order of one rank                                     published by
//   gpipe                       all forwards, then all backwards                      Huang et al. 2019
//   1f1b, eager-1f1b            a backward as soon as there is one; eager warms up    Narayanan et al. 2019,
//                               twice as far, to hide transfers                       Zheng et al. 2022
//   forward-only                inference
//   looped-bfs, interleaved-*   V stages per rank in a loop                           Lamy-Poirier 2023,
//                                                                                     Narayanan et al. 2021
//   zb-h1, zb-h2                W split off to fill the drain                         Qi et al. 2023
//   zb-1p, zb-2p                the best found within 1 and 2 times ranks · F         Qi et al. 2023
//   zb-v, v-half, v-min         two stages per rank in a V, within 1, about 1/2 and   Qi et al. 2024
//                               about 1/3 of the memory of 1f1b
//   dualpipe-v, dualpipe        forwards overlapped with backwards                    DeepSeek-AI 2024, 2025
//   auto                        the least makespan within the limit
//
//===----------------------------------------------------------------------===//

#ifndef PLUMB_SCHEDULE_GENERATORS_H
#define PLUMB_SCHEDULE_GENERATORS_H

#include "plumb/Schedule/Problem.h"
#include "plumb/Schedule/Schedule.h"
#include <optional>
#include <string_view>

namespace plumb::schedule {

/// Those that run backwards as one come first.
enum class Kind {
  GPipe,
  OneFOneB,
  EagerOneFOneB,
  ForwardOnly,
  LoopedBFS,
  InterleavedOneFOneB,
  InterleavedZeroBubble,
  ZeroBubbleH1,
  ZeroBubbleH2,
  ZeroBubble1P,
  ZeroBubble2P,
  ZeroBubbleV,
  VHalf,
  VMin,
  DualPipeV,
  DualPipe,
  Auto,
};

/// "1f1b", "zb-v", …
const char *toString(Kind kind);
std::optional<Kind> parseKind(std::string_view name);
/// In the order of the table above.
std::vector<Kind> allKinds();

/// Whether its schedules may run the two halves of a backward apart.
bool splitsBackward(Kind kind);

/// A chain of `stages` stages placed as `kind` wants it: in a V, with replicas for dualpipe, else in a loop.
Problem standardProblem(Kind kind, int ranks, int stages, int microbatches);

/// The precondition of a kind on a problem that passes `check`; empty if it holds.
std::optional<Diagnostic> checkPrecondition(Kind kind, const Problem &problem);

/// A verified compute-only schedule of the given kind. Fails with BadProblem (`check`), UnmetPrecondition, or
/// MemoryLimit. Kinds that search (zb-1p, zb-2p, zb-v, v-half, v-min, interleaved-zb, auto) take costs,
/// transfers and the limit into account; those with a limit of their own keep within the smaller of the two.
Result<Schedule> generate(Kind kind, const Problem &problem);

/// A schedule with the kind it came from and the problem that it solves.
struct Choice {
  Kind kind = Kind::Auto;
  Problem problem;
  Schedule schedule;
};

/// The least makespan over all kinds that apply to one of the candidates, and over a free search on each.
/// With equal makespans, less memory wins. The candidates may differ in placement and in stages per rank.
Result<Choice> choose(const std::vector<Problem> &candidates);

} // namespace plumb::schedule

#endif // PLUMB_SCHEDULE_GENERATORS_H
