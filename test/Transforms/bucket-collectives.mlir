// RUN: plumb-opt %s --bucket-collectives | FileCheck %s
// RUN: sed 's/plumb.bucket_bytes = 64/plumb.bucket_bytes = 0/' %s | plumb-opt --bucket-collectives | FileCheck %s --check-prefix=NONE

// At most 64 bytes: a and b share a launch, c is alone since d does not fit beside it, e is large, the ranks that sum t run
// different programs.

// NONE-NOT: ccl.all_reduce %{{.*}}, %{{.*}} on
module {
  plumb.mesh @mesh ["pp" = 2, "dp" = 2, "cp" = 2]
  plumb.pipeline axis "pp" schedule "gpipe" microbatches 1 stages_per_rank 1 {plumb.bucket_bytes = 64}
  ccl.communicator @dp axes ["dp"] pipeline []
  ccl.communicator @cp axes ["cp"] pipeline []
  ccl.communicator @tied axes ["dp"] pipeline [0, 1]
  plumb.state @a "gradient" : tensor<4xf32>
  plumb.state @b "gradient" : tensor<8xf32>
  plumb.state @c "gradient" : tensor<8xf32>
  plumb.state @d "gradient" : tensor<10xf32>
  plumb.state @e "gradient" : tensor<100xf32>
  plumb.state @t "gradient" : tensor<4xf32>

  // CHECK-LABEL: plumb.stage @sums
  plumb.stage @sums index 0 {
    // CHECK: %[[A:.*]] = plumb.load @a
    // CHECK: %[[B:.*]] = plumb.load @b
    // CHECK: ccl.all_reduce %{{.*}} on @tied {{.*}}(tensor<4xf32>) -> tensor<4xf32>
    // CHECK: plumb.store @t
    // CHECK: %[[AB:.*]]:2 = ccl.all_reduce %[[A]], %[[B]] on @dp {plumb.phase = #plumb.phase<reduce>}
    // CHECK: plumb.store @a, %[[AB]]#0
    // CHECK: plumb.store @b, %[[AB]]#1
    // CHECK: ccl.all_reduce %{{.*}} on @dp {{.*}}(tensor<100xf32>) -> tensor<100xf32>
    // CHECK: ccl.all_reduce %{{.*}} on @dp {{.*}}(tensor<8xf32>) -> tensor<8xf32>
    // CHECK: plumb.store @c
    // CHECK: ccl.all_reduce %{{.*}} on @dp {{.*}}(tensor<10xf32>) -> tensor<10xf32>
    %0 = plumb.load @a {plumb.phase = #plumb.phase<reduce>} : tensor<4xf32>
    %1 = ccl.all_reduce %0 on @dp {plumb.phase = #plumb.phase<reduce>} : (tensor<4xf32>) -> tensor<4xf32>
    plumb.store @a, %1 {plumb.phase = #plumb.phase<reduce>} : tensor<4xf32>
    %2 = plumb.load @b {plumb.phase = #plumb.phase<reduce>} : tensor<8xf32>
    %3 = ccl.all_reduce %2 on @dp {plumb.phase = #plumb.phase<reduce>} : (tensor<8xf32>) -> tensor<8xf32>
    plumb.store @b, %3 {plumb.phase = #plumb.phase<reduce>} : tensor<8xf32>
    %4 = plumb.load @t {plumb.phase = #plumb.phase<reduce>} : tensor<4xf32>
    %5 = ccl.all_reduce %4 on @tied {plumb.phase = #plumb.phase<reduce>} : (tensor<4xf32>) -> tensor<4xf32>
    plumb.store @t, %5 {plumb.phase = #plumb.phase<reduce>} : tensor<4xf32>
    %6 = plumb.load @c {plumb.phase = #plumb.phase<reduce>} : tensor<8xf32>
    %7 = ccl.all_reduce %6 on @dp {plumb.phase = #plumb.phase<reduce>} : (tensor<8xf32>) -> tensor<8xf32>
    plumb.store @c, %7 {plumb.phase = #plumb.phase<reduce>} : tensor<8xf32>
    %8 = plumb.load @e {plumb.phase = #plumb.phase<reduce>} : tensor<100xf32>
    %9 = ccl.all_reduce %8 on @dp {plumb.phase = #plumb.phase<reduce>} : (tensor<100xf32>) -> tensor<100xf32>
    plumb.store @e, %9 {plumb.phase = #plumb.phase<reduce>} : tensor<100xf32>
    %10 = plumb.load @d {plumb.phase = #plumb.phase<reduce>} : tensor<10xf32>
    %11 = ccl.all_reduce %10 on @dp {plumb.phase = #plumb.phase<reduce>} : (tensor<10xf32>) -> tensor<10xf32>
    plumb.store @d, %11 {plumb.phase = #plumb.phase<reduce>} : tensor<10xf32>
  }

  // A sum over two groups, one after the other, makes two buckets.
  // CHECK-LABEL: plumb.stage @chains
  plumb.stage @chains index 1 {
    // CHECK: %[[FIRST:.*]]:2 = ccl.reduce_scatter %{{.*}}, %{{.*}} on @dp
    // CHECK-NEXT: %[[SECOND:.*]]:2 = ccl.all_reduce %[[FIRST]]#0, %[[FIRST]]#1 on @cp
    // CHECK-NEXT: plumb.store @a, %[[SECOND]]#0
    // CHECK-NEXT: plumb.store @t, %[[SECOND]]#1
    %0 = plumb.load @b {plumb.phase = #plumb.phase<reduce>} : tensor<8xf32>
    %1 = nn.view %0 {plumb.phase = #plumb.phase<reduce>} : (tensor<8xf32>) -> tensor<2x4xf32>
    %2 = ccl.reduce_scatter %1 on @dp {plumb.phase = #plumb.phase<reduce>} : (tensor<2x4xf32>) -> tensor<4xf32>
    %3 = ccl.all_reduce %2 on @cp {plumb.phase = #plumb.phase<reduce>} : (tensor<4xf32>) -> tensor<4xf32>
    plumb.store @a, %3 {plumb.phase = #plumb.phase<reduce>} : tensor<4xf32>
    %4 = plumb.load @c {plumb.phase = #plumb.phase<reduce>} : tensor<8xf32>
    %5 = nn.view %4 {plumb.phase = #plumb.phase<reduce>} : (tensor<8xf32>) -> tensor<2x4xf32>
    %6 = ccl.reduce_scatter %5 on @dp {plumb.phase = #plumb.phase<reduce>} : (tensor<2x4xf32>) -> tensor<4xf32>
    %7 = ccl.all_reduce %6 on @cp {plumb.phase = #plumb.phase<reduce>} : (tensor<4xf32>) -> tensor<4xf32>
    plumb.store @t, %7 {plumb.phase = #plumb.phase<reduce>} : tensor<4xf32>
  }
}
