// The source compiles without warnings against the headers of CUDA and NCCL too.
// REQUIRES: cuda
// RUN: plumb-opt --form-kernels --schedule --assign-streams --plan-memory --verify-plan --emit-program %S/../Transforms/verify-plan.mlir -o /dev/null > %t.cpp
// RUN: %clangxx -std=c++20 -Wall -Wextra -Werror -fsyntax-only -I %plumb-include -isystem %cuda-include %t.cpp
