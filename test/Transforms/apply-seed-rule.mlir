// RUN: plumb-opt %s --split-input-file --apply-spec | FileCheck %s

// Rows that microbatches cut are numbered by an input, also where a dim has several elements for each row; all other positions are
// constants. Each dropout has a stream of its own.

// CHECK: plumb.state @optimizer.step "counter" : tensor<f64>
// CHECK-LABEL: plumb.program @model
// CHECK: %[[ROW:.*]] = plumb.input "row" index 1 counts {{{.*}}{"dp", "microbatch"}{{.*}}} : tensor<8xi64>
// CHECK: %[[X:.*]] = plumb.input "x"
// CHECK: %[[STEP:.*]] = plumb.load @optimizer.step
// CHECK: %[[J:.*]] = nn.iota start 0 step 1 {{.*}}: tensor<4xi64>
// CHECK: %[[K:.*]] = nn.iota start 0 step 1 {{.*}}: tensor<6xi64>
// CHECK: %[[U:.*]] = nn.uniform %[[STEP]] at %[[ROW]], %[[J]], %[[K]] of [8, 4, 6] seed 7 stream 0
// CHECK: %[[P:.*]] = nn.fill 2.500000e-01
// CHECK: %[[KEPT:.*]] = nn.less_equal %[[P]], %[[U]]
// CHECK: %[[MASK:.*]] = nn.convert %[[KEPT]]
// CHECK: %[[M:.*]] = nn.mul %[[X]], %[[MASK]]
// CHECK: %[[Y:.*]] = nn.scale %[[M]] by 1.33333
// CHECK: %[[V:.*]] = nn.view %[[Y]] {{.*}}-> tensor<32x6xf32>
// CHECK: nn.view %[[ROW]] {{.*}}: (tensor<8xi64>) -> tensor<8x1xi64>
// CHECK: %[[ALL:.*]] = nn.view %{{.*}} : (tensor<8x4xi64>) -> tensor<32xi64>
// CHECK: nn.uniform %{{.*}} at %[[ALL]], %{{.*}} of [32, 6] seed 7 stream 1
plumb.mesh @mesh ["dp" = 2]
plumb.pipeline axis "pp" schedule "gpipe" microbatches 2
plumb.seed_rule 7
plumb.program @model {
  %x = plumb.input "x" index 0 : tensor<8x4x6xf32>
  %y, %kept = plumb.dropout %x probability 0.25 : (tensor<8x4x6xf32>) -> (tensor<8x4x6xf32>, tensor<8x4x6xi1>)
  %v = nn.view %y : (tensor<8x4x6xf32>) -> tensor<32x6xf32>
  %z, %others = plumb.dropout %v probability 0.5 : (tensor<32x6xf32>) -> (tensor<32x6xf32>, tensor<32x6xi1>)
  plumb.output "z" index 0 %z : tensor<32x6xf32>
}

// -----

// What depends on no input has rows where its reader has them; without microbatches nothing is an input.

// CHECK-LABEL: plumb.program @factory
// CHECK: %[[ROW:.*]] = plumb.input "row" index 1 counts
// CHECK: nn.uniform %{{.*}} at %[[ROW]], %{{.*}} of [8, 4] seed 0 stream 0
plumb.mesh @mesh ["dp" = 1]
plumb.pipeline axis "pp" schedule "gpipe" microbatches 2
plumb.program @factory {
  %x = plumb.input "x" index 0 : tensor<8x4xf32>
  %o = nn.fill 1.0 : tensor<8x4xf32>
  %m, %kept = plumb.dropout %o probability 0.25 : (tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<8x4xi1>)
  %y = nn.mul %x, %m : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  plumb.output "y" index 0 %y : tensor<8x4xf32>
}

// -----

// CHECK-LABEL: plumb.program @once
// CHECK-NOT: counts
// CHECK: nn.uniform
plumb.mesh @mesh ["dp" = 2]
plumb.program @once {
  %x = plumb.input "x" index 0 : tensor<8x4xf32>
  %y, %kept = plumb.dropout %x probability 0.25 : (tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<8x4xi1>)
  plumb.output "y" index 0 %y : tensor<8x4xf32>
}
