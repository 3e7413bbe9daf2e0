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
