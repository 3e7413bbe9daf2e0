// RUN: plumb-opt %s | plumb-opt | FileCheck %s
// RUN: plumb-opt %s --mlir-print-op-generic | plumb-opt | FileCheck %s

// CHECK: ccl.communicator @tp axes ["tp"] pipeline []
ccl.communicator @tp axes ["tp"] pipeline []
// CHECK: ccl.communicator @forward_0_1 axes [] pipeline [0, 1]
ccl.communicator @forward_0_1 axes [] pipeline [0, 1]

plumb.stage @s index 0 {
  // CHECK: %[[X:.*]] = ccl.recv from 1 on @forward_0_1 : tensor<2x4xf32>
  %x = ccl.recv from 1 on @forward_0_1 : tensor<2x4xf32>
  // CHECK: ccl.all_reduce %[[X]] on @tp : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %0 = ccl.all_reduce %x on @tp : (tensor<2x4xf32>) -> tensor<2x4xf32>
  // CHECK: ccl.all_gather %[[X]] on @tp : (tensor<2x4xf32>) -> tensor<2x2x4xf32>
  %1 = ccl.all_gather %x on @tp : (tensor<2x4xf32>) -> tensor<2x2x4xf32>
  // CHECK: ccl.reduce_scatter %[[X]] on @tp : (tensor<2x4xf32>) -> tensor<4xf32>
  %2 = ccl.reduce_scatter %x on @tp : (tensor<2x4xf32>) -> tensor<4xf32>
  // CHECK: ccl.all_to_all %[[X]] on @tp : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %3 = ccl.all_to_all %x on @tp : (tensor<2x4xf32>) -> tensor<2x4xf32>
  // CHECK: ccl.slice %[[X]] over ["tp"] : (tensor<2x4xf32>) -> tensor<4xf32>
  %4 = ccl.slice %x over ["tp"] : (tensor<2x4xf32>) -> tensor<4xf32>
  // CHECK: ccl.keep_first %[[X]] over ["tp"] : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %5 = ccl.keep_first %x over ["tp"] : (tensor<2x4xf32>) -> tensor<2x4xf32>
  // CHECK: ccl.send %[[X]] to 1 on @forward_0_1 : tensor<2x4xf32>
  ccl.send %x to 1 on @forward_0_1 : tensor<2x4xf32>
}
