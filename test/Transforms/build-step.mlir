// RUN: plumb-opt %s --split-input-file --build-step | FileCheck %s

// Outputs and loss become states; each holder updates its copy from the whole gradient, which is kept.

// CHECK-NOT: plumb.optimizer
// CHECK: plumb.state @output.0 "output" index 0 label "y" : tensor<16x4xf32>
// CHECK: plumb.state @loss "loss" : tensor<f32>
// CHECK: plumb.store @output.0, %{{.*}} {plumb.phase = #plumb.phase<forward>, plumb.stage = 1 : i64}
// CHECK: plumb.store @loss, %{{.*}} {plumb.phase = #plumb.phase<forward>, plumb.stage = 1 : i64}
// CHECK: %[[G:.*]] = plumb.load @grad.w {plumb.phase = #plumb.phase<update>, plumb.stage = 0 : i64}
// CHECK: plumb.store @grad.w, %[[G]]
// CHECK: %[[W:.*]] = plumb.load @grad.w
// CHECK: %[[P:.*]] = plumb.load @w
// CHECK: %[[N:.*]] = nn.sgd %[[P]], %[[W]] rate 1.000000e-01 {plumb.phase = #plumb.phase<update>, plumb.stage = 0 : i64}
// CHECK: plumb.store @w, %[[N]]
// CHECK: plumb.load @grad.w {plumb.phase = #plumb.phase<update>, plumb.stage = 1 : i64}
plumb.mesh @mesh ["pp" = 2]
plumb.pipeline axis "pp" schedule "1f1b" microbatches 1 stages_per_rank 1
plumb.optimizer "sgd" rate 0.1
plumb.parameter @w trainable : tensor<4xf32> owner 0 holders [0, 1]
plumb.state @grad.w "gradient" of "w" : tensor<4xf32>
plumb.program @model {
  %x = plumb.input "x" index 0 {plumb.stage = 1 : i64} : tensor<16x4xf32>
  %b = plumb.load @w {plumb.stage = 1 : i64} : tensor<4xf32>
  %0 = nn.mul %x, %b {plumb.stage = 1 : i64} : (tensor<16x4xf32>, tensor<4xf32>) -> tensor<16x4xf32>
  %1 = nn.sum %0 dims [0, 1] {plumb.stage = 1 : i64} : (tensor<16x4xf32>) -> tensor<f32>
  plumb.output "y" index 0 %0 : tensor<16x4xf32>
  plumb.loss %1 {plumb.stage = 1 : i64} : tensor<f32>
}

// -----

// A transmitted parameter: the reader's rank returns its gradient to the owner's, where both are summed. Both stand in the first
// stage of their rank, although the readers are stages 2 and 3.

// CHECK: %[[OWN:.*]] = plumb.load @grad.w {plumb.phase = #plumb.phase<update>, plumb.stage = 0 : i64}
// CHECK: %[[RETURNED:.*]] = plumb.load @grad.w {plumb.phase = #plumb.phase<update>, plumb.stage = 1 : i64}
// CHECK: %[[SUM:.*]] = nn.add %[[OWN]], %[[RETURNED]] {plumb.phase = #plumb.phase<update>, plumb.stage = 0 : i64}
// CHECK: plumb.store @grad.w, %[[SUM]] {plumb.phase = #plumb.phase<update>, plumb.stage = 0 : i64}
plumb.mesh @mesh ["pp" = 2]
plumb.pipeline axis "pp" schedule "1f1b" microbatches 1 stages_per_rank 2
plumb.optimizer "sgd" rate 0.1
plumb.parameter @w trainable : tensor<4xf32> owner 2 holders [2]
plumb.state @copy.w "copy" of "w" : tensor<4xf32>
plumb.state @grad.w "gradient" of "w" : tensor<4xf32>
plumb.program @model {
  %l = nn.fill 1.0 {plumb.stage = 3 : i64} : tensor<f32>
  %g = nn.fill 1.0 {plumb.stage = 3 : i64} : tensor<4xf32>
  plumb.loss %l {plumb.stage = 3 : i64} : tensor<f32>
  plumb.accumulate @grad.w, %g {plumb.phase = #plumb.phase<backward_weight>, plumb.stage = 2 : i64} : tensor<4xf32>
  plumb.accumulate @grad.w, %g {plumb.phase = #plumb.phase<backward_weight>, plumb.stage = 3 : i64} : tensor<4xf32>
}
