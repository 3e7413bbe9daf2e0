// RUN: plumb-opt --assign-streams %s | FileCheck %s
// RUN: sed 's/^plumb.schedule.*/plumb.schedule ["0F0,0SEND_F0,0F1,0SEND_F1,0F2,0SEND_F2,0RECV_B0,0B0,0RECV_B1,0B1,0RECV_B2,0B2","1RECV_F0,1F0,1RECV_F1,1F1,1RECV_F2,1F2,1B0,1SEND_B0,1B1,1SEND_B1,1B2,1SEND_B2"]/' %s | plumb-opt --assign-streams | FileCheck %s --check-prefix=GPIPE

// CHECK: plumb.events = 6 : i64, plumb.streams = ["compute", "forward_0_1", "backward_1_0"]
plumb.mesh @mesh ["pp" = 2]
plumb.pipeline axis "pp" schedule "1f1b" microbatches 3 stages_per_rank 1
ccl.communicator @forward_0_1 axes [] pipeline [0, 1]
ccl.communicator @backward_1_0 axes [] pipeline [1, 0]
plumb.state @out "output" index 0 : tensor<12x8xf32> layout <@mesh, [{"microbatch"}, {}]>
plumb.schedule ["0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0F2,0SEND_F2,0RECV_B1,0B1,0RECV_B2,0B2", "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1,1RECV_F2,1F2,1B2,1SEND_B2"]
func.func @k(%x: tensor<4x8xf32>) -> tensor<4x8xf32> { return %x : tensor<4x8xf32> }

// Stage 0. Two microbatches are in flight, so that what the backward reads has two slots, under gpipe three. What is
// sent has two: its maker need not wait for the send.
// CHECK-LABEL: plumb.stage @submod_pp_0
// CHECK-SAME: {name = "forward_send_forward_to_1", table = array<i64: 0, 1, 0>}
// CHECK-SAME: {name = "forward_backward_input", table = array<i64: 0, 1, 0>}
// CHECK-SAME: {name = "recv_backward_from_1_backward_input", table = array<i64: 0, 0, 0>}
// CHECK-SAME: {name = "input_0", table = array<i64: 0, 1, 2>}
// GPIPE: {name = "forward_backward_input", table = array<i64: 0, 1, 2>}
plumb.stage @submod_pp_0 index 0 {
  // CHECK: plumb.input {{.*}}plumb.slot = array<i64: 3>
  %x = plumb.input "x" index 0 {plumb.layouts = [#plumb.layout<@mesh, [{"microbatch"}, {}]>]} : tensor<4x8xf32>
  // The kernel waits for the send that still reads its slot, the send for the kernel.
  // CHECK: plumb.launch @k({{.*}}plumb.records = array<i64: 0, 0>, plumb.slot = array<i64: 0>, plumb.waits = array<i64: 3, 0>
  %y = plumb.launch @k(%x) inplace [-1] : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: plumb.launch @k({{.*}}{plumb.slot = array<i64: 1>}
  %z = plumb.launch @k(%y) inplace [-1] : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: ccl.send {{.*}}{plumb.records = array<i64: 3, 0>, plumb.stream = 1 : i64, plumb.waits = array<i64: 0, 0>}
  ccl.send %y to 1 on @forward_0_1 : tensor<4x8xf32>
  // The backward waits for the receive, the receive for what reads its only slot.
  // CHECK: ccl.recv {{.*}}plumb.records = array<i64: 2, -1>, plumb.slot = array<i64: 2>, plumb.stream = 2 : i64, plumb.waits = array<i64: 5, -1>
  %d = ccl.recv from 1 on @backward_1_0 {plumb.phase = #plumb.phase<backward_input>} : tensor<4x8xf32>
  // A value that one phase alone uses has no slots.
  // CHECK: plumb.launch @k
  // CHECK-NOT: plumb.slot
  // CHECK: plumb.launch @k({{.*}}plumb.records = array<i64: 5, -1>, plumb.waits = array<i64: 2, -1>
  %e = plumb.launch @k(%z) inplace [-1] {plumb.phase = #plumb.phase<backward_input>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %f = plumb.launch @k(%d) inplace [-1] {plumb.phase = #plumb.phase<backward_input>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
}

// Stage 1. The output is made where it stays; a view lies where its operand does.
// CHECK-LABEL: plumb.stage @submod_pp_1
plumb.stage @submod_pp_1 index 1 {
  // CHECK: ccl.recv {{.*}}plumb.slot = array<i64: 0>, plumb.stream = 1 : i64, plumb.waits = array<i64: 3, -1>
  %x = ccl.recv from 0 on @forward_0_1 : tensor<4x8xf32>
  // CHECK: nn.view {{.*}} {plumb.slot = array<i64: 0>}
  %v = nn.view %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: plumb.launch @k({{.*}}plumb.slot = array<i64: [[OUT:[0-9]]]>, plumb.waits = array<i64: 0, -1>
  %y = plumb.launch @k(%v) inplace [-1] : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: plumb.store {{.*}}plumb.slot = array<i64: [[OUT]]>
  plumb.store @out, %y : tensor<4x8xf32>
  %z = plumb.launch @k(%y) inplace [-1] {plumb.phase = #plumb.phase<backward_input>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  ccl.send %z to 0 on @backward_1_0 {plumb.phase = #plumb.phase<backward_input>} : tensor<4x8xf32>
}
