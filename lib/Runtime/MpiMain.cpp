//===- MpiMain.cpp - `main` of the provider `mpi` -------------------------------===//

#include "plumb/Runtime/Mpi.h"

int main(int argc, char **argv) { return plumb::runMpi(plumb_program, argc, argv); }
