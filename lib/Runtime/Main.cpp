//===- Main.cpp - `main` of a program ------------------------------------------===//
//
// Alone in its object, so that it is linked only where nothing else defines `main`.
//
//===----------------------------------------------------------------------===//

#include "plumb/Runtime/Run.h"

#include <cstdio>

int main(int argc, char **argv) {
  plumb::Outcome outcome = plumb::runProgram(plumb_program, argc, argv, nullptr);
  if (outcome.code)
    std::fprintf(stderr, "%s\n", outcome.message().c_str());
  return outcome.code;
}
