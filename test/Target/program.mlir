// RUN: plumb-opt --form-kernels --schedule --assign-streams --plan-memory --verify-plan --emit-program %S/../Transforms/verify-plan.mlir -o %t.mlir > %t.cpp
// RUN: FileCheck %s < %t.cpp
// RUN: %clangxx -std=c++20 -Wall -Wextra -Werror -fsyntax-only -I %plumb-include -I %plumb-include/plumb/Runtime/Host %t.cpp

// The program is the same, to the byte, however often it is made.
// RUN: plumb-opt --emit-program %t.mlir -o /dev/null | diff - %t.cpp

// Its size does not depend on the number of ranks of a coordinate.
// RUN: sed 's/"pp" = 2, "tp" = 2/"pp" = 2, "tp" = 2, "dp" = 512/' %t.mlir | plumb-opt --emit-program -o /dev/null | grep -c '' > %t.large
// RUN: grep -c '' %t.cpp > %t.small
// RUN: not diff %t.small %t.large
// RUN: sed 's/"pp" = 2, "tp" = 2/"pp" = 2, "tp" = 2, "dp" = 2/' %t.mlir | plumb-opt --emit-program -o /dev/null | grep -c '' | diff - %t.large

// CHECK: // two_stage: mesh pp=2, tp=2; schedule 1f1b, 4 microbatches.
// CHECK: #include <cuda_runtime.h>
// CHECK-NEXT: #include <nccl.h>
// CHECK-NEXT: #include "plumb/Runtime/Program.h"
// CHECK: cudaError_t k_einsum_nt_4x4x6_add_relu(const float *, const float *, const float *, float *, cudaStream_t);
// An operand that is overwritten is one argument.
// CHECK: cudaError_t k_sgd_4x6(float *, const float *, cudaStream_t);

// CHECK: static const plumb::Axis kMesh[2] = {
// CHECK-NEXT: {"pp", 2},
// CHECK-NEXT: {"tp", 2},
// CHECK: enum Communicator { comm_tp, comm_forward_0_1, comm_backward_1_0 };
// CHECK: {"tp", comm_tp_axes, {}},
// CHECK: {"forward_0_1", {}, comm_forward_0_1_members},
// CHECK: enum Stream { stream_compute, stream_tensor, stream_forward_0_1, stream_backward_1_0 };

// CHECK: namespace pp0 {
// CHECK-NEXT: enum Offset : std::size_t {
// CHECK-NEXT: up_weight = 320,
// CHECK: namespace submod_pp_0 {
// CHECK-NEXT: enum Offset : std::size_t {
// CHECK-NEXT: up = 1664,

// CHECK: void submod_pp_0_forward(plumb::Rank & v1, std::size_t v2) {
// CHECK-NEXT: plumb::Rank &rank = v1;
// CHECK-NEXT: const std::size_t microbatch = v2;
// CHECK-NEXT: plumb::enter("submod_pp_0_forward", microbatch);
// CHECK-NEXT: const cudaStream_t stream = rank.stream(stream_compute);
// CHECK-NEXT: // up (model.py:10)
// CHECK-NEXT: float *input_x = rank.at<float>(pp0::input_x + microbatch * 128);
// CHECK-NEXT: float *up_weight = rank.at<float>(pp0::up_weight);
// CHECK-NEXT: float *up_bias = rank.at<float>(pp0::up_bias);
// CHECK-NEXT: float *up = rank.at<float>(submod_pp_0::up + (microbatch % 2) * 64);
// CHECK-NEXT: PLUMB_LAUNCH(k_einsum_nt_4x4x6_add_relu(input_x, up_weight, up_bias, up, stream));
// What a kernel overwrites must have been sent.
// CHECK: PLUMB_CUDA(cudaStreamWaitEvent(stream, rank.event(5 + microbatch % 2), 0)); // after send_forward_to_1 of down
// CHECK: PLUMB_LAUNCH(k_einsum_nt_4x6x4(up, down_weight, down, stream));
// CHECK-NEXT: PLUMB_CUDA(cudaEventRecord(rank.event(0), stream));
// CHECK-NEXT: PLUMB_CUDA(cudaStreamWaitEvent(rank.stream(stream_tensor), rank.event(0), 0)); // for forward of down
// CHECK-NEXT: // down (model.py:12): all_reduce over tp
// CHECK-NEXT: PLUMB_NCCL(ncclAllReduce(down, down, 24, ncclFloat32, ncclSum, rank.comm(comm_tp), rank.stream(stream_tensor)));
// CHECK-NEXT: PLUMB_CUDA(cudaEventRecord(rank.event(1 + microbatch % 2), rank.stream(stream_tensor)));

// CHECK: void submod_pp_0_send_forward_to_1(
// CHECK: const cudaStream_t stream = rank.stream(stream_forward_0_1);
// CHECK-NEXT: PLUMB_CUDA(cudaStreamWaitEvent(stream, rank.event(1 + microbatch % 2), 0)); // for forward of down
// CHECK-NEXT: // down (model.py:12): to stage 1
// CHECK-NEXT: float *down = rank.at<float>(submod_pp_0::down + (microbatch % 2) * 128);
// CHECK-NEXT: PLUMB_NCCL(ncclSend(down, 24, ncclFloat32, 1, rank.comm(comm_forward_0_1), stream));

// CHECK: void submod_pp_0_backward_input(
// CHECK: void submod_pp_0_backward_weight(
// CHECK: void submod_pp_0_update(plumb::Rank & v1) {
// CHECK: PLUMB_LAUNCH(k_sgd_4x6(up_weight, grad_up_weight, stream));

// CHECK: static const plumb::Action kActions0[
// CHECK-NEXT: {plumb::F, 0, 0, -1}, {plumb::SEND_F, 0, 0, 1},
// CHECK: void run(plumb::Rank &rank, const plumb::Action &action) {
// CHECK: case plumb::B:
// CHECK-NEXT: if (action.stage == 0) {
// CHECK-NEXT: submod_pp_0_backward_input(rank, microbatch);
// CHECK-NEXT: submod_pp_0_backward_weight(rank, microbatch);

// CHECK: void step(plumb::Rank & v1) {
// CHECK: switch (rank.pipeline()) {
// CHECK-NEXT: case 0:
// CHECK-NEXT: PLUMB_CUDA(cudaMemsetAsync(rank.at<void>(0), 0, 320, rank.stream(stream_compute)));
// CHECK-NEXT: for (const plumb::Action &action : kActions0)
// CHECK-NEXT: run(rank, action);
// CHECK-NEXT: submod_pp_0_update(rank);

// CHECK: {"head.weight", plumb::DType::F32, 2, {{[{][{]}}4, 1, {}}, {6, 1, {}}}, kParameters_offsets[3], 0, kParameters_aliases_3},
// The axis after the last one of the mesh stands for microbatches.
// CHECK: {"input.0", plumb::DType::F32, 2, {{[{][{]}}16, 1, {{[{][{]}}2}}}, {6, 1, {}}}, kInputs_offsets[0], 128, kInputs_aliases_0},
// CHECK: const plumb::Program plumb_program = {
// CHECK-NEXT: .name = "two_stage",
