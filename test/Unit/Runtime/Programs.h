//===- Programs.h - Tables of programs for the tests of the runtime -----------===//

#ifndef PLUMB_TEST_UNIT_RUNTIME_PROGRAMS_H
#define PLUMB_TEST_UNIT_RUNTIME_PROGRAMS_H

#include "plumb/Runtime/Program.h"

namespace plumb::test {

/// A program of one rank that holds nothing and does nothing; tests fill in what they are about.
inline Program emptyProgram() {
  static const std::size_t arenas[] = {0}, staging[] = {0};
  return {.name = "test",
          .signature = "by hand",
          .mesh = {},
          .pipelineAxis = -1,
          .microbatches = 1,
          .communicators = {},
          .parameters = {},
          .gradients = {},
          .inputs = {},
          .outputs = {},
          .nonPersistent = {},
          .numbers = {},
          .moments = {},
          .loss = nullptr,
          .counter = nullptr,
          .norm = nullptr,
          .rate = nullptr,
          .constantRate = 0,
          .arenaBytes = arenas,
          .staging = staging,
          .streams = 0,
          .events = 0,
          .step = [](Rank &) {}};
}

} // namespace plumb::test

#endif // PLUMB_TEST_UNIT_RUNTIME_PROGRAMS_H
