// RUN: plumb-opt %s --assign-ownership | FileCheck %s

// The first reader owns; one holder per rank: stages 0 and 2 live on pipeline coordinate 0 and share a copy.

// CHECK: plumb.parameter @tied trainable : tensor<4xf32> aliases ["head"] owner 0 holders [0, 1]
// CHECK: plumb.parameter @late : tensor<4xf32> owner 2 holders [2]
// CHECK: plumb.parameter @unused : tensor<4xf32>{{$}}
plumb.mesh @mesh ["pp" = 2]
plumb.pipeline axis "pp" schedule "1f1b" microbatches 1 stages_per_rank 2
plumb.parameter @tied trainable : tensor<4xf32> aliases ["head"]
plumb.parameter @late : tensor<4xf32>
plumb.parameter @unused : tensor<4xf32>
plumb.program @model {
  %0 = plumb.load @tied {plumb.stage = 0 : i64} : tensor<4xf32>
  %1 = plumb.load @tied {plumb.stage = 1 : i64} : tensor<4xf32>
  %2 = plumb.load @tied {plumb.stage = 2 : i64} : tensor<4xf32>
  %3 = plumb.load @late {plumb.stage = 2 : i64} : tensor<4xf32>
}
