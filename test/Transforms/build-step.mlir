// RUN: plumb-opt %s --build-step | FileCheck %s

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
