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

// -----

// A value that two later stages read: the second takes it from the first, which has it.

// CHECK-LABEL: plumb.program @chain
// CHECK: %[[A:.*]] = nn.relu %{{.*}} {plumb.stage = 0 : i64}
// CHECK: %[[V:.*]] = nn.view %[[A]] {{.*}}plumb.stage = 1 : i64
// CHECK: %[[B:.*]] = nn.tanh %[[A]] {plumb.stage = 1 : i64}
// CHECK: nn.add %[[B]], %[[V]] {plumb.stage = 2 : i64}
plumb.mesh @mesh ["pp" = 3]
plumb.pipeline axis "pp" schedule "1f1b" microbatches 1
plumb.program @chain {
  %x = plumb.input "x" index 0 : tensor<8x4xf32>
  %a = nn.relu %x : (tensor<8x4xf32>) -> tensor<8x4xf32>
  plumb.pipe_split
  %b = nn.tanh %a : (tensor<8x4xf32>) -> tensor<8x4xf32>
  plumb.pipe_split
  %c = nn.add %b, %a : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  plumb.output "y" index 0 %c : tensor<8x4xf32>
}

// -----

// On a V the last stage lives on the maker's rank, which hands the value over in place.

// CHECK-LABEL: plumb.program @turn
// CHECK: %[[A:.*]] = nn.relu %{{.*}} {plumb.stage = 0 : i64}
// CHECK-NOT: nn.view
// CHECK: nn.add %{{.*}}, %[[A]] {plumb.stage = 3 : i64}
plumb.mesh @mesh ["pp" = 2]
plumb.pipeline axis "pp" schedule "1f1b" microbatches 1 placement "v"
plumb.program @turn {
  %x = plumb.input "x" index 0 : tensor<8x4xf32>
  %a = nn.relu %x : (tensor<8x4xf32>) -> tensor<8x4xf32>
  plumb.pipe_split
  %b = nn.tanh %a : (tensor<8x4xf32>) -> tensor<8x4xf32>
  plumb.pipe_split
  %c = nn.tanh %b : (tensor<8x4xf32>) -> tensor<8x4xf32>
  plumb.pipe_split
  %d = nn.add %c, %a : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  plumb.output "y" index 0 %d : tensor<8x4xf32>
}

// -----

// Through the stages between, also those that do not read it.

// CHECK-LABEL: plumb.program @through
// CHECK: %[[A:.*]] = nn.relu %{{.*}} {plumb.stage = 0 : i64}
// CHECK: %[[V:.*]] = nn.view %[[A]] {{.*}}plumb.stage = 1 : i64
// CHECK: nn.add %{{.*}}, %[[V]] {plumb.stage = 2 : i64}
plumb.mesh @mesh ["pp" = 3]
plumb.pipeline axis "pp" schedule "1f1b" microbatches 1 {plumb.skip_connections = "forward"}
plumb.program @through {
  %x = plumb.input "x" index 0 : tensor<8x4xf32>
  %a = nn.relu %x : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %s = nn.sum %a dims [1] : (tensor<8x4xf32>) -> tensor<8xf32>
  plumb.pipe_split
  %b = nn.tanh %s : (tensor<8xf32>) -> tensor<8xf32>
  plumb.pipe_split
  %c = nn.view %b : (tensor<8xf32>) -> tensor<8x1xf32>
  %d = nn.add %c, %a : (tensor<8x1xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  plumb.output "y" index 0 %d : tensor<8x4xf32>
}

// -----

// A stage of constants alone would be empty: the marker before it delimits nothing.

// CHECK-LABEL: plumb.program @constants
// CHECK: nn.iota start 0 step 1 {plumb.stage = 1 : i64}
// CHECK: nn.embedding {{.*}} {plumb.stage = 1 : i64}
plumb.mesh @mesh ["pp" = 2]
plumb.pipeline axis "pp" schedule "1f1b" microbatches 1
plumb.program @constants {
  %x = plumb.input "x" index 0 : tensor<8x4xf32>
  %0 = nn.relu %x : (tensor<8x4xf32>) -> tensor<8x4xf32>
  plumb.pipe_split
  %i = nn.iota start 0 step 1 : tensor<8xi64>
  plumb.pipe_split
  %1 = nn.embedding %0, %i : (tensor<8x4xf32>, tensor<8xi64>) -> tensor<8x4xf32>
  plumb.output "y" index 0 %1 : tensor<8x4xf32>
}
