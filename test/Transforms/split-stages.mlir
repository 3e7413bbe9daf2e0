// RUN: plumb-opt %s --split-input-file --split-stages | FileCheck %s

// Inputs, loads and constants stand in each stage that reads them; dead code is gone; stages_per_rank is found.

// CHECK: plumb.pipeline axis "pp" schedule "1f1b" microbatches 1 stages_per_rank 2
// CHECK: plumb.load @w {plumb.stage = 0 : i64}
// CHECK: plumb.load @w {plumb.stage = 2 : i64}
// CHECK-NOT: nn.tanh
// CHECK: nn.iota start 0 step 1 {plumb.stage = 1 : i64}
// CHECK: %[[A:.*]] = nn.mul %{{.*}}, %{{.*}} {plumb.stage = 0 : i64}
// CHECK-NOT: pipe_split
// CHECK: nn.relu %[[A]] {plumb.stage = 1 : i64}
// CHECK: nn.mul %{{.*}}, %{{.*}} {plumb.stage = 2 : i64}
// CHECK: plumb.output "y" index 0 %{{.*}} {plumb.stage = 2 : i64}
plumb.mesh @mesh ["pp" = 2]
plumb.pipeline axis "pp" schedule "1f1b" microbatches 1
plumb.parameter @w : tensor<4xf32>
plumb.program @model {
  %x = plumb.input "x" index 0 : tensor<8x4xf32>
  %w = plumb.load @w : tensor<4xf32>
  %dead = nn.tanh %x : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %i = nn.iota start 0 step 1 : tensor<8xi64>
  %0 = nn.mul %x, %w : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
  plumb.pipe_split
  %1 = nn.relu %0 : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %2 = nn.embedding %1, %i : (tensor<8x4xf32>, tensor<8xi64>) -> tensor<8x4xf32>
  plumb.pipe_split
  %3 = nn.mul %2, %w : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
  plumb.output "y" index 0 %3 : tensor<8x4xf32>
}

// -----

// A value computed from a parameter alone is recomputed by its readers, never sent.

// CHECK: %[[T0:.*]] = nn.transpose %{{.*}} [1, 0] {plumb.stage = 0 : i64}
// CHECK: %[[T1:.*]] = nn.transpose %{{.*}} [1, 0] {plumb.stage = 1 : i64}
// CHECK: nn.einsum {{.*}}, %[[T0]]) {plumb.stage = 0 : i64}
// CHECK: nn.einsum {{.*}}, %[[T1]]) {plumb.stage = 1 : i64}
plumb.mesh @mesh ["pp" = 2]
plumb.pipeline axis "pp" schedule "1f1b" microbatches 1
plumb.parameter @w : tensor<4x4xf32>
plumb.program @model {
  %x = plumb.input "x" index 0 : tensor<8x4xf32>
  %w = plumb.load @w : tensor<4x4xf32>
  %t = nn.transpose %w [1, 0] : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %0 = nn.einsum "ai,oi->ao"(%x, %t) : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  plumb.pipe_split
  %1 = nn.einsum "ai,oi->ao"(%0, %t) : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  plumb.output "y" index 0 %1 : tensor<8x4xf32>
}
