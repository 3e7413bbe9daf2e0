// RUN: plumb-opt %s --split-input-file --assign-ownership | FileCheck %s

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

// -----

// Transmitted: the value goes from the first stage of the owner's rank to that of each other reader's rank, before the first
// forward. Stage 2 lives on the owner's rank and reads the parameter itself. The last rule that matches counts.

// CHECK-NOT: sharing_rule
// CHECK: plumb.parameter @tied trainable : tensor<4xf32> aliases ["head"] owner 1 holders [1]
// CHECK: plumb.parameter @other : tensor<4xf32> owner 0 holders [0, 1]
// CHECK: plumb.state @copy.tied "copy" of "tied" : tensor<4xf32>
// CHECK: %[[V:.*]] = plumb.load @tied {plumb.phase = #plumb.phase<begin>, plumb.stage = 1 : i64}
// CHECK-NEXT: plumb.store @copy.tied, %[[V]] {plumb.phase = #plumb.phase<begin>, plumb.stage = 0 : i64}
// CHECK-NEXT: plumb.load @tied {plumb.stage = 1 : i64}
// CHECK-NEXT: plumb.load @copy.tied {plumb.stage = 2 : i64}
// CHECK-NEXT: plumb.load @tied {plumb.stage = 3 : i64}
plumb.mesh @mesh ["pp" = 2]
plumb.pipeline axis "pp" schedule "1f1b" microbatches 1 stages_per_rank 2
plumb.sharing_rule "*" "replicate"
plumb.sharing_rule "he*" "transmit"
plumb.parameter @tied trainable : tensor<4xf32> aliases ["head"]
plumb.parameter @other : tensor<4xf32>
plumb.program @model {
  %1 = plumb.load @tied {plumb.stage = 1 : i64} : tensor<4xf32>
  %2 = plumb.load @tied {plumb.stage = 2 : i64} : tensor<4xf32>
  %3 = plumb.load @tied {plumb.stage = 3 : i64} : tensor<4xf32>
  %4 = plumb.load @other {plumb.stage = 0 : i64} : tensor<4xf32>
  %5 = plumb.load @other {plumb.stage = 1 : i64} : tensor<4xf32>
}

// -----

// By cost: sgd keeps nothing of a parameter, so that a copy costs no more than its transmission; adam keeps two tensors. A
// frozen parameter would be sent in every step for nothing.

// CHECK: plumb.parameter @trained trainable : tensor<4xf32> owner 0 holders [0, 1]
plumb.mesh @mesh ["pp" = 2]
plumb.pipeline axis "pp" schedule "1f1b" microbatches 1 stages_per_rank 1
plumb.sharing_rule "*" "auto"
plumb.optimizer "sgd" rate 1.0
plumb.parameter @trained trainable : tensor<4xf32>
plumb.program @model {
  %0 = plumb.load @trained {plumb.stage = 0 : i64} : tensor<4xf32>
  %1 = plumb.load @trained {plumb.stage = 1 : i64} : tensor<4xf32>
}

// -----

// CHECK: plumb.parameter @trained trainable : tensor<4xf32> owner 0 holders [0]
// CHECK: plumb.parameter @frozen : tensor<4xf32> owner 0 holders [0, 1]
plumb.mesh @mesh ["pp" = 2]
plumb.pipeline axis "pp" schedule "1f1b" microbatches 1 stages_per_rank 1
plumb.sharing_rule "*" "auto"
plumb.optimizer "adam" rate 1.0
plumb.parameter @trained trainable : tensor<4xf32>
plumb.parameter @frozen : tensor<4xf32>
plumb.program @model {
  %0 = plumb.load @trained {plumb.stage = 0 : i64} : tensor<4xf32>
  %1 = plumb.load @trained {plumb.stage = 1 : i64} : tensor<4xf32>
  %2 = plumb.load @frozen {plumb.stage = 0 : i64} : tensor<4xf32>
  %3 = plumb.load @frozen {plumb.stage = 1 : i64} : tensor<4xf32>
}
