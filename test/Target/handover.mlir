// Two stages on one rank hand over in place: no action, no communicator, a copy on the compute stream.
// RUN: plumb-opt --schedule --assign-streams --plan-memory --verify-plan --emit-program %s -o /dev/null > %t.cpp
// RUN: FileCheck %s < %t.cpp
// RUN: %clangxx -std=c++20 -Wall -Wextra -Werror -fsyntax-only -I %plumb-include -I %plumb-include/plumb/Runtime/Host %t.cpp

plumb.mesh @mesh ["pp" = 1]
plumb.pipeline axis "pp" schedule "gpipe" microbatches 2 stages_per_rank 2
ccl.communicator @forward_0_1 axes [] pipeline [0]
ccl.communicator @backward_1_0 axes [] pipeline [0]
func.func @k(%x: tensor<2x16xf32>) -> tensor<2x16xf32> { return %x : tensor<2x16xf32> }

// CHECK-NOT: plumb::Communicator
// CHECK: enum Stream { stream_compute };
// CHECK-NOT: submod_pp_0_send
plumb.stage @submod_pp_0 index 0 {
  %x = plumb.input "x" index 0 {plumb.layouts = [#plumb.layout<@mesh, [{"microbatch"}, {}]>]} : tensor<2x16xf32>
  %y = plumb.launch @k(%x) inplace [-1] {plumb.module = "first", plumb.operand_layouts = [#plumb.layout<@mesh, [{"microbatch"}, {}]>]} : (tensor<2x16xf32>) -> tensor<2x16xf32>
  ccl.send %y to 1 on @forward_0_1 : tensor<2x16xf32>
  // CHECK: void submod_pp_0_recv_backward_from_1(
  // CHECK: cudaMemcpyAsync(d_value, rank.at<float>(submod_pp_1::d_second), 128, cudaMemcpyDeviceToDevice, stream)
  %d = ccl.recv from 1 on @backward_1_0 {plumb.phase = #plumb.phase<backward_input>} : tensor<2x16xf32>
  %e = plumb.launch @k(%d) inplace [-1] {plumb.phase = #plumb.phase<backward_input>} : (tensor<2x16xf32>) -> tensor<2x16xf32>
}
plumb.stage @submod_pp_1 index 1 {
  // The value is read in the backward: a slot per microbatch.
  // CHECK: void submod_pp_1_recv_forward_from_0(
  // CHECK: float *value = rank.at<float>(submod_pp_1::value + microbatch * 128);
  // CHECK: cudaMemcpyAsync(value, rank.at<float>(submod_pp_0::first), 128, cudaMemcpyDeviceToDevice, stream)
  %y = ccl.recv from 0 on @forward_0_1 : tensor<2x16xf32>
  %z = plumb.launch @k(%y) inplace [-1] {plumb.phase = #plumb.phase<backward_input>, plumb.module = "second"} : (tensor<2x16xf32>) -> tensor<2x16xf32>
  ccl.send %z to 0 on @backward_1_0 {plumb.phase = #plumb.phase<backward_input>} : tensor<2x16xf32>
}
// CHECK: kActions0[8] = {
// CHECK-NEXT: {plumb::F, 0, 0, -1}, {plumb::F, 1, 0, -1}
// CHECK: case plumb::F:
// CHECK-NEXT: if (action.stage == 0) {
// CHECK-NEXT: submod_pp_0_forward(rank, microbatch);
// CHECK-NEXT: submod_pp_1_recv_forward_from_0(rank, microbatch);
