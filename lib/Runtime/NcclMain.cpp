//===- NcclMain.cpp - `main` of the provider `nccl` ------------------------------===//

#include "plumb/Runtime/Nccl.h"

int main(int argc, char **argv) { return plumb::runNccl(plumb_program, argc, argv); }
