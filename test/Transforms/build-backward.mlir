// RUN: plumb-opt %s --split-input-file --build-backward | FileCheck %s

// The chain of activation gradients is backward_input, also in the first stage; products that end in a parameter
// gradient are backward_weight. A frozen parameter gets none.

// CHECK: plumb.state @grad.w2 "gradient" of "w2" : tensor<2x4xf32>
// CHECK: plumb.state @grad.w1 "gradient" of "w1" : tensor<4x8xf32>
// CHECK-NOT: @grad.frozen
// CHECK: plumb.loss
// CHECK: nn.fill 1.000000e+00 {plumb.phase = #plumb.phase<backward_input>, plumb.stage = 1 : i64} : tensor<f32>
// CHECK: %[[DY:.*]] = nn.broadcast {{.*}}plumb.phase = #plumb.phase<backward_input>, plumb.stage = 1 : i64}
// CHECK-DAG: %[[DH:.*]] = nn.einsum "ao,oi->ai"(%[[DY]], %{{.*}}) {plumb.module = "fc2", plumb.phase = #plumb.phase<backward_input>, plumb.source = "m.py:7", plumb.stage = 1 : i64}
// CHECK-DAG: %[[DW2:.*]] = nn.einsum "ao,ai->oi"(%[[DY]], %{{.*}}) {plumb.module = "fc2", plumb.phase = #plumb.phase<backward_weight>, plumb.source = "m.py:7", plumb.stage = 1 : i64}
// CHECK: plumb.accumulate @grad.w2, %[[DW2]] {plumb.phase = #plumb.phase<backward_weight>, plumb.stage = 1 : i64}
// CHECK: %[[DA:.*]] = nn.relu_backward %[[DH]], %{{.*}} {plumb.phase = #plumb.phase<backward_input>, plumb.stage = 0 : i64}
// CHECK: %[[DM:.*]] = nn.mul %[[DA]], %{{.*}} {plumb.phase = #plumb.phase<backward_input>, plumb.stage = 0 : i64}
// CHECK: %[[DW1:.*]] = nn.einsum {{.*}}(%[[DM]], %{{.*}}) {plumb.phase = #plumb.phase<backward_weight>, plumb.stage = 0 : i64}
// CHECK: plumb.accumulate @grad.w1, %[[DW1]]
plumb.parameter @w1 trainable : tensor<4x8xf32>
plumb.parameter @w2 trainable : tensor<2x4xf32>
plumb.parameter @frozen : tensor<4xf32>
plumb.program @model {
  %x = plumb.input "x" index 0 {plumb.stage = 0 : i64} : tensor<16x8xf32>
  %w1 = plumb.load @w1 {plumb.stage = 0 : i64} : tensor<4x8xf32>
  %f = plumb.load @frozen {plumb.stage = 0 : i64} : tensor<4xf32>
  %0 = nn.einsum "ai,oi->ao"(%x, %w1) {plumb.stage = 0 : i64} : (tensor<16x8xf32>, tensor<4x8xf32>) -> tensor<16x4xf32>
  %1 = nn.mul %0, %f {plumb.stage = 0 : i64} : (tensor<16x4xf32>, tensor<4xf32>) -> tensor<16x4xf32>
  %2 = nn.relu %1 {plumb.stage = 0 : i64} : (tensor<16x4xf32>) -> tensor<16x4xf32>
  %w2 = plumb.load @w2 {plumb.stage = 1 : i64} : tensor<2x4xf32>
  %3 = nn.einsum "ai,oi->ao"(%2, %w2) {plumb.module = "fc2", plumb.source = "m.py:7", plumb.stage = 1 : i64} : (tensor<16x4xf32>, tensor<2x4xf32>) -> tensor<16x2xf32>
  %4 = nn.sum %3 dims [0, 1] {plumb.stage = 1 : i64} : (tensor<16x2xf32>) -> tensor<f32>
  plumb.loss %4 {plumb.stage = 1 : i64} : tensor<f32>
}

// -----

// Cotangents of several readers are summed in the producer's stage, in ascending order of the readers, and a tied
// parameter accumulates once per stage that reads it.

// CHECK-COUNT-1: plumb.state @grad.w
// CHECK: %[[LATE:.*]] = nn.mul {{.*}}plumb.phase = #plumb.phase<backward_input>, plumb.stage = 2 : i64}
// CHECK: %[[NEAR:.*]] = nn.relu_backward %[[LATE]], {{.*}}plumb.stage = 1 : i64}
// CHECK: nn.add %[[NEAR]], %[[LATE]] {plumb.phase = #plumb.phase<backward_input>, plumb.stage = 0 : i64}
// CHECK: plumb.accumulate @grad.w, %{{.*}}plumb.stage = 2 : i64}
// CHECK: plumb.accumulate @grad.w, %{{.*}}plumb.stage = 0 : i64}
plumb.parameter @w trainable : tensor<4xf32>
plumb.program @model {
  %x = plumb.input "x" index 0 {plumb.stage = 0 : i64} : tensor<16x4xf32>
  %a = plumb.load @w {plumb.stage = 0 : i64} : tensor<4xf32>
  %b = plumb.load @w {plumb.stage = 2 : i64} : tensor<4xf32>
  %0 = nn.mul %x, %a {plumb.stage = 0 : i64} : (tensor<16x4xf32>, tensor<4xf32>) -> tensor<16x4xf32>
  %1 = nn.relu %0 {plumb.stage = 1 : i64} : (tensor<16x4xf32>) -> tensor<16x4xf32>
  %2 = nn.add %1, %0 {plumb.stage = 2 : i64} : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<16x4xf32>
  %3 = nn.mul %2, %b {plumb.stage = 2 : i64} : (tensor<16x4xf32>, tensor<4xf32>) -> tensor<16x4xf32>
  %4 = nn.sum %3 dims [0, 1] {plumb.stage = 2 : i64} : (tensor<16x4xf32>) -> tensor<f32>
  plumb.loss %4 {plumb.stage = 2 : i64} : tensor<f32>
}

// -----

// A stage that reads a value twice sums its own two gradients, and sends one.

// CHECK: %[[A:.*]] = nn.relu_backward {{.*}}plumb.stage = 1 : i64}
// CHECK: %[[S:.*]] = nn.add %[[A]], %{{.*}} {plumb.phase = #plumb.phase<backward_input>, plumb.stage = 1 : i64}
// CHECK-NOT: nn.add
// CHECK: nn.mul %[[S]], {{.*}}plumb.stage = 0 : i64}
plumb.parameter @w trainable : tensor<4xf32>
plumb.program @model {
  %x = plumb.input "x" index 0 {plumb.stage = 0 : i64} : tensor<16x4xf32>
  %a = plumb.load @w {plumb.stage = 0 : i64} : tensor<4xf32>
  %0 = nn.mul %x, %a {plumb.stage = 0 : i64} : (tensor<16x4xf32>, tensor<4xf32>) -> tensor<16x4xf32>
  %1 = nn.relu %0 {plumb.stage = 1 : i64} : (tensor<16x4xf32>) -> tensor<16x4xf32>
  %2 = nn.add %1, %0 {plumb.stage = 1 : i64} : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<16x4xf32>
  %3 = nn.sum %2 dims [0, 1] {plumb.stage = 1 : i64} : (tensor<16x4xf32>) -> tensor<f32>
  plumb.loss %3 {plumb.stage = 1 : i64} : tensor<f32>
}

// -----

// No loss, no backward.

// CHECK-LABEL: plumb.program @inference
// CHECK-NOT: backward
plumb.program @inference {
  %x = plumb.input "x" index 0 : tensor<16x4xf32>
  %0 = nn.relu %x : (tensor<16x4xf32>) -> tensor<16x4xf32>
  plumb.output "y" index 0 %0 : tensor<16x4xf32>
}
