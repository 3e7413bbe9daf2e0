// RUN: plumb-opt %s --split-input-file --verify-diagnostics

plumb.stage @s index 0 {
  // expected-error @+1 {{names the communicator @tp, which is not defined}}
  %x = ccl.recv from 1 on @tp : tensor<2x4xf32>
}

// -----

ccl.communicator @tp axes ["tp"] pipeline []
plumb.stage @s index 0 {
  %x = plumb.input "x" index 0 : tensor<2x4xf32>
  // expected-error @+1 {{'tensor<2x2xf32>' is not a row of blocks 'tensor<2x4xf32>'}}
  %0 = ccl.all_gather %x on @tp : (tensor<2x4xf32>) -> tensor<2x2xf32>
}

// -----

ccl.communicator @tp axes ["tp"] pipeline []
plumb.stage @s index 0 {
  %x = plumb.input "x" index 0 : tensor<2x4xf32>
  // expected-error @+1 {{changes 'tensor<2x4xf32>' to 'tensor<4x2xf32>'}}
  %0 = ccl.all_reduce %x on @tp : (tensor<2x4xf32>) -> tensor<4x2xf32>
}

// -----

ccl.communicator @tp axes ["tp"] pipeline []
plumb.stage @s index 0 {
  %x = plumb.input "x" index 0 : tensor<2x4xf32>
  // expected-error @+1 {{'tensor<2x4xf32>' is not a row of blocks 'tensor<2xf32>'}}
  %0 = ccl.reduce_scatter %x on @tp : (tensor<2x4xf32>) -> tensor<2xf32>
}

// -----

ccl.communicator @tp axes ["tp"] pipeline []
plumb.stage @s index 0 {
  %x = plumb.input "x" index 0 : tensor<2x4xf32>
  // expected-error @+1 {{changes 'tensor<2x4xf32>' to 'tensor<8xf32>'}}
  %0 = ccl.all_to_all %x on @tp : (tensor<2x4xf32>) -> tensor<8xf32>
}

// -----

// expected-error @+1 {{names 'tp:2', which is no axis}}
ccl.communicator @tp axes ["tp:2"] pipeline []

// -----

ccl.communicator @tp axes ["tp"] pipeline []
plumb.stage @s index 0 {
  %x = plumb.input "x" index 0 : tensor<2x4xf32>
  // expected-error @+1 {{reduces by 'mean'; there are sum, avg, min, max and product}}
  %0 = ccl.all_reduce %x on @tp {reduction = "mean"} : (tensor<2x4xf32>) -> tensor<2x4xf32>
}

// -----

ccl.communicator @tp axes ["tp"] pipeline []
plumb.stage @s index 0 {
  %x = plumb.input "x" index 0 : tensor<8xf32>
  // expected-error @+1 {{has a message of 4 elements from member 0 to member 1 that is not sent so}}
  %0 = ccl.exchange %x on @tp sends [array<i64: 1, 0, 8>, array<i64>] receives [array<i64>, array<i64: 0, 0, 4>] : (tensor<8xf32>) -> tensor<8xf32>
}

// -----

ccl.communicator @tp axes ["tp"] pipeline []
plumb.stage @s index 0 {
  %x = plumb.input "x" index 0 : tensor<8xf32>
  // expected-error @+1 {{has a message outside of 'tensor<8xf32>'}}
  %0 = ccl.exchange %x on @tp sends [array<i64: 1, 4, 8>, array<i64>] receives [array<i64>, array<i64: 0, 0, 8>] : (tensor<8xf32>) -> tensor<8xf32>
}

// -----

ccl.communicator @tp axes ["tp"] pipeline []
plumb.stage @s index 0 {
  %x = plumb.input "x" index 0 : tensor<8xf32>
  // expected-error @+1 {{has messages that are sent and not received}}
  %0 = ccl.exchange %x on @tp sends [array<i64: 1, 0, 8>, array<i64>] receives [array<i64>, array<i64>] : (tensor<8xf32>) -> tensor<8xf32>
}

// -----

plumb.stage @s index 0 {
  %x = plumb.input "x" index 0 : tensor<4x2xf32>
  // expected-error @+1 {{has a piece outside of 'tensor<4x2xf32>' or 'tensor<4xf32>'}}
  %0 = ccl.copy %x over ["tp"] pieces [[array<i64: 0, 0, 1, 4, 2, 1>, array<i64: 1, 0, 1, 5, 2, 1>]] : (tensor<4x2xf32>) -> tensor<4xf32>
}

// -----

plumb.stage @s index 0 {
  %x = plumb.input "x" index 0 : tensor<4x2x3xf32>
  // expected-error @+1 {{'tensor<4x2x3xf32>' does not have rows of blocks 'tensor<2x3xf32>'}}
  %0 = ccl.extract %x over ["tp"] : (tensor<4x2x3xf32>) -> tensor<2x3xf32>
}
