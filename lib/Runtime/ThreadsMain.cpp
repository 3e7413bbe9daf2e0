//===- ThreadsMain.cpp - `main` of the provider `threads` ----------------------===//
//
// Alone in its object, so that it is linked only where nothing else defines `main`.
//
//===----------------------------------------------------------------------===//

#include "plumb/Runtime/Threads.h"

int main(int argc, char **argv) { return plumb::runThreads(plumb_program, argc, argv); }
