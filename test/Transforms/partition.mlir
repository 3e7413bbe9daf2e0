// RUN: plumb-opt %s --partition | FileCheck %s

// Local shapes; a value that skips a stage goes straight to its reader; stages of one rank hand over in place but keep
// the receive; accumulation becomes load, add, store; ops stand in the order of the phases.

// CHECK: ccl.communicator @forward_0_1 axes [] pipeline [0, 1]
// CHECK: ccl.communicator @forward_0_2 axes [] pipeline [0, 2]
// CHECK: ccl.communicator @forward_1_2 axes [] pipeline [1, 2]
// CHECK: ccl.communicator @backward_2_0 axes [] pipeline [2, 0]
// CHECK-NOT: plumb.program
// CHECK: plumb.stage @submod_pp_0 index 0 {
// CHECK: %[[A:.*]] = nn.relu %{{.*}} : (tensor<2x4xf32>) -> tensor<2x4xf32>
// CHECK: ccl.send %[[A]] to 1 on @forward_0_1 {plumb.phase = #plumb.phase<forward>} : tensor<2x4xf32>
// CHECK: ccl.send %[[A]] to 2 on @forward_0_2
// CHECK: %[[D:.*]] = ccl.recv from 2 on @backward_2_0 {{.*}}plumb.phase = #plumb.phase<backward_input>} : tensor<2x4xf32>
// CHECK: %[[OLD:.*]] = plumb.load @grad.w {{.*}}: tensor<2x4xf32>
// CHECK: %[[NEW:.*]] = nn.add %[[OLD]], %[[D]]
// CHECK: plumb.store @grad.w, %[[NEW]]
// CHECK: plumb.stage @submod_pp_1 index 1 {
// CHECK: %[[B:.*]] = ccl.recv from 0 on @forward_0_1
// CHECK: nn.tanh %[[B]]
// CHECK: plumb.stage @submod_pp_2 index 2 {
// CHECK: ccl.recv from 0 on @forward_0_2
// CHECK: ccl.recv from 1 on @forward_1_2
plumb.mesh @mesh ["pp" = 3, "dp" = 2]
plumb.pipeline axis "pp" schedule "1f1b" microbatches 2 stages_per_rank 1
plumb.state @grad.w "gradient" of "w" : tensor<8x4xf32>
plumb.state @output.0 "output" index 0 : tensor<8x4xf32>
plumb.program @model {
  %x = plumb.input "x" index 0 {plumb.stage = 0 : i64, plumb.layouts = [#plumb.layout<@mesh, [{"dp", "microbatch"}, {}]>]} : tensor<8x4xf32>
  %0 = nn.relu %x {plumb.stage = 0 : i64, plumb.layouts = [#plumb.layout<@mesh, [{"dp", "microbatch"}, {}]>]} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %1 = nn.tanh %0 {plumb.stage = 1 : i64, plumb.layouts = [#plumb.layout<@mesh, [{"dp", "microbatch"}, {}]>]} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %2 = nn.add %0, %1 {plumb.stage = 2 : i64, plumb.layouts = [#plumb.layout<@mesh, [{"dp", "microbatch"}, {}]>]} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  plumb.store @output.0, %2 {plumb.stage = 2 : i64} : tensor<8x4xf32>
  %3 = nn.scale %2 by 2.0 {plumb.stage = 2 : i64, plumb.phase = #plumb.phase<backward_input>, plumb.layouts = [#plumb.layout<@mesh, [{"dp", "microbatch"}, {}]>]} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  plumb.accumulate @grad.w, %3 {plumb.stage = 0 : i64, plumb.phase = #plumb.phase<backward_weight>} : tensor<8x4xf32>
}
