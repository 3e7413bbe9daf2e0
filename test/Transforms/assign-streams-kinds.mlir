// RUN: plumb-opt --assign-streams %s | FileCheck %s

// A stage with all kinds of communication. Parameters come together on one stream, sums over tp are on another, gradients
// are completed on a third, each by a communicator of its own though two go over the same ranks.
// CHECK: plumb.streams = ["compute", "tensor", "gather", "reduce"]
plumb.mesh @mesh ["dp" = 2, "tp" = 2]
plumb.pipeline axis "pp" schedule "1f1b" microbatches 2 stages_per_rank 1
// CHECK: ccl.communicator @dp axes ["dp"] pipeline []
// CHECK-NEXT: ccl.communicator @dp_reduce axes ["dp"] pipeline []
// CHECK-NEXT: ccl.communicator @tp axes ["tp"] pipeline []
ccl.communicator @dp axes ["dp"] pipeline []
ccl.communicator @tp axes ["tp"] pipeline []
plumb.parameter @w trainable : tensor<8xf32> layout <@mesh, [{"dp"}]> owner 0 holders [0]
plumb.state @grad.w "gradient" of "w" : tensor<8xf32> layout <@mesh, [{"dp"}]>
plumb.schedule ["0F0,0B0,0F1,0B1"]
func.func @k8(%x: tensor<2x4xf32>) -> tensor<2x4xf32> { return %x : tensor<2x4xf32> }
func.func @add(%x: tensor<4xf32>, %y: tensor<4xf32> {plumb.inout, plumb.result = 0 : i64}) -> tensor<4xf32> { return %x : tensor<4xf32> }

plumb.stage @submod_pp_0 index 0 {
  %w = plumb.load @w : tensor<4xf32>
  // The gather waits for the computation before it, so that its memory need not be free earlier: that of the last
  // microbatch.
  // CHECK: ccl.all_gather %{{.*}} on @dp {plumb.records = array<i64: [[GATHERED:[0-9]+]], -1>, plumb.stream = 2 : i64, plumb.waits = array<i64: [[LAST:[0-9]+]], -1>}
  %a = ccl.all_gather %w on @dp : (tensor<4xf32>) -> tensor<2x4xf32>
  // At the end of the part after a reduction that must be over.
  // CHECK: plumb.launch @k8({{.*}}plumb.records = array<i64: [[MADE:[0-9]+]], -1>, {{.*}}plumb.waits = array<i64: [[GATHERED]], -1, [[REDUCED:[0-9]+]], -1>
  %b = plumb.launch @k8(%a) inplace [-1] : (tensor<2x4xf32>) -> tensor<2x4xf32>
  // CHECK: ccl.all_reduce %{{.*}} on @tp {plumb.records = array<i64: [[SUMMED:[0-9]+]], -1>, {{.*}}plumb.stream = 1 : i64, plumb.waits = array<i64: [[MADE]], -1>}
  %c = ccl.all_reduce %b on @tp : (tensor<2x4xf32>) -> tensor<2x4xf32>
  // CHECK: plumb.launch @k8({{.*}}plumb.records = array<i64: [[LAST]], -1>, plumb.waits = array<i64: [[SUMMED]], -1>
  %d = plumb.launch @k8(%c) inplace [-1] {plumb.phase = #plumb.phase<backward_weight>} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  // CHECK: ccl.reduce_scatter %{{.*}} on @dp_reduce {{.*}}plumb.stream = 3 : i64
  %e = ccl.reduce_scatter %d on @dp {plumb.phase = #plumb.phase<backward_weight>} : (tensor<2x4xf32>) -> tensor<4xf32>
  %g = plumb.load @grad.w {plumb.phase = #plumb.phase<backward_weight>} : tensor<4xf32>
  // What is reduced is added on the same stream: the computation goes on, and nothing is waited for.
  // CHECK: plumb.launch @add(
  // CHECK-SAME: {plumb.phase = #plumb.phase<backward_weight>, plumb.records = array<i64: [[REDUCED]], -1>, plumb.stream = 3 : i64}
  %h = plumb.launch @add(%e, %g) inplace [1] {plumb.phase = #plumb.phase<backward_weight>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  plumb.store @grad.w, %h {plumb.phase = #plumb.phase<backward_weight>} : tensor<4xf32>
}
