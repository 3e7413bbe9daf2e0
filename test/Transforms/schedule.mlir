// RUN: plumb-opt --schedule %s | FileCheck %s
// RUN: sed 's/"1f1b"/"gpipe"/' %s | plumb-opt --schedule | FileCheck %s --check-prefix=GPIPE
// RUN: sed 's/"1f1b"/"zb-h1"/' %s | plumb-opt --schedule | FileCheck %s --check-prefix=ZB
// RUN: sed '/backward/d' %s | plumb-opt --schedule | FileCheck %s --check-prefix=FORWARD
// RUN: sed 's/schedule "1f1b" \(.*\)$/schedule "custom" \1 {plumb.actions = {file = "own.csv", text = "0F0,0F1,0F2,0B1,0B0,0B2\\0A1F0,1F1,1B1,1I0,1F2,1W0,1B2"}}/' %s | plumb-opt --schedule | FileCheck %s --check-prefix=CUSTOM
// RUN: sed 's/stages_per_rank 1$/& {plumb.ranks = array<i64: 1, 0>}/; s/\[0, 1\]/[1, 0]/' %s | plumb-opt --schedule | FileCheck %s --check-prefix=RANKS
// RUN: plumb-opt --schedule --schedule %s | FileCheck %s --check-prefix=ONCE

// The kind of the plan; transfers are placed where the data is ready.
// CHECK: plumb.schedule ["0F0,0SEND_F0,0F1,0SEND_F1,{{.*}}0B0,0F2,0SEND_F2,{{.*}}0B1,{{.*}}0B2", "1RECV_F0,{{.*}}1F0,1B0,1SEND_B0,{{.*}}1F1,1B1,1SEND_B1,{{.*}}1F2,1B2,1SEND_B2"]
// CHECK-NEXT: plumb.stage @submod_pp_0

// GPIPE: plumb.schedule ["0F0,0SEND_F0,0F1,0SEND_F1,0F2,0SEND_F2,{{.*}}0B{{.*}}0B{{.*}}0B
// ZB: plumb.schedule ["{{.*}}0I0,0W0,{{.*}}0I2,0W2", "{{.*}}1I1,1SEND_B1,1W0,
// Without a backward phase there is only one way.
// FORWARD: plumb.schedule ["0F0,0SEND_F0,0F1,0SEND_F1,0F2,0SEND_F2", "1RECV_F0,{{.*}}1F0,{{.*}}1F1,{{.*}}1F2"]
// The user's own order, with the transfers placed.
// CUSTOM: plumb.schedule ["0F0,0SEND_F0,{{.*}}0B1,{{.*}}0B0,{{.*}}0B2", "1RECV_F0,{{.*}}1F0,{{.*}}1F1,{{.*}}1B1,1SEND_B1,{{.*}}1I0,{{.*}}1W0,{{.*}}1B2,1SEND_B2"]
// The stages are placed the other way round.
// RANKS: plumb.schedule ["1RECV_F0,{{.*}}", "0F0,0SEND_F0,{{.*}}"]
// A new schedule replaces the old one.
// ONCE-COUNT-1: plumb.schedule [
// ONCE-NOT: plumb.schedule [

plumb.mesh @mesh ["pp" = 2]
plumb.pipeline axis "pp" schedule "1f1b" microbatches 3 stages_per_rank 1
ccl.communicator @forward_0_1 axes [] pipeline [0, 1]
ccl.communicator @backward_1_0 axes [] pipeline [1, 0]
plumb.stage @submod_pp_0 index 0 {
  %x = plumb.input "x" index 0 {plumb.phase = #plumb.phase<forward>} : tensor<4x8xf32>
  ccl.send %x to 1 on @forward_0_1 {plumb.phase = #plumb.phase<forward>} : tensor<4x8xf32>
  %d = ccl.recv from 1 on @backward_1_0 {plumb.phase = #plumb.phase<backward_input>} : tensor<4x8xf32>
}
plumb.stage @submod_pp_1 index 1 {
  %x = ccl.recv from 0 on @forward_0_1 {plumb.phase = #plumb.phase<forward>} : tensor<4x8xf32>
  ccl.send %x to 0 on @backward_1_0 {plumb.phase = #plumb.phase<backward_input>} : tensor<4x8xf32>
}
