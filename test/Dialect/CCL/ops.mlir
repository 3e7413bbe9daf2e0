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
  // CHECK: ccl.all_reduce %[[X]] on @tp {reduction = "max"} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %6 = ccl.all_reduce %x on @tp {reduction = "max"} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  // CHECK: ccl.extract %[[X]] over ["tp:(2)4"] : (tensor<2x4xf32>) -> tensor<2xf32>
  %7 = ccl.extract %x over ["tp:(2)4"] : (tensor<2x4xf32>) -> tensor<2xf32>
  // CHECK: ccl.insert %{{.*}} over ["tp"] : (tensor<2xf32>) -> tensor<2x4xf32>
  %8 = ccl.insert %7 over ["tp"] : (tensor<2xf32>) -> tensor<2x4xf32>
  // CHECK: ccl.exchange %[[X]] on @tp sends [array<i64: 1, 0, 8>, array<i64: 0, 0, 8>]
  // CHECK-SAME: receives [array<i64: 1, 0, 8>, array<i64: 0, 0, 8>] : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %9 = ccl.exchange %x on @tp sends [array<i64: 1, 0, 8>, array<i64: 0, 0, 8>] receives [array<i64: 1, 0, 8>, array<i64: 0, 0, 8>] : (tensor<2x4xf32>) -> tensor<2x4xf32>
  // CHECK: ccl.copy %[[X]], %{{.*}} over ["tp"] pieces {{\[}}[array<i64: 0, 0, 1, 4, 2, 1>, array<i64>], [array<i64>, array<i64: 0, 0, 4, 1, 4, 4>]]
  %10 = ccl.copy %x, %9 over ["tp"] pieces [[array<i64: 0, 0, 1, 4, 2, 1>, array<i64>], [array<i64>, array<i64: 0, 0, 4, 1, 4, 4>]] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4xf32>
  // CHECK: ccl.send %[[X]] to 1 on @forward_0_1 : tensor<2x4xf32>
  ccl.send %x to 1 on @forward_0_1 : tensor<2x4xf32>
}
