// RUN: plumb-opt %s --lower-redistributions --split-input-file | FileCheck %s

// CHECK: ccl.communicator @tp axes ["tp"] pipeline []
// CHECK: ccl.communicator @dp_copies_0_1 axes ["dp"] pipeline [0, 1]
// CHECK-NOT: plumb.redistribute

plumb.mesh @mesh ["pp" = 2, "dp" = 2, "tp" = 2]
plumb.pipeline axis "pp" schedule "1f1b" microbatches 1 stages_per_rank 1
plumb.parameter @w trainable : tensor<8x4xf32> layout <@mesh, [{}, {}]> owner 0 holders [0, 1]
plumb.state @grad.w "gradient" of "w" : tensor<8x4xf32>
plumb.stage @submod_pp_0 index 0 {
  // A sum: one call on the local tensor, which says what it serves.
  // CHECK: %[[X:.*]] = plumb.input
  // CHECK: ccl.all_reduce %[[X]] on @tp {plumb.boundary = "[{}, {}] partial(tp) -> [{}, {}]"
  %x = plumb.input "x" index 0 : tensor<8x4xf32>
  %0 = plumb.redistribute %x from <@mesh, [{}, {}], partial = {"tp" : sum}> to <@mesh, [{}, {}]> global tensor<8x4xf32> : (tensor<8x4xf32>) -> tensor<8x4xf32>

  // Gathering dim 0 needs no packing, another dim a permutation of blocks.
  // CHECK: %[[G0:.*]] = ccl.all_gather %{{.*}} on @tp {{.*}}: (tensor<4x4xf32>) -> tensor<2x4x4xf32>
  // CHECK-NOT: nn.transpose
  // CHECK: nn.view
  // CHECK: %[[G1:.*]] = ccl.all_gather %{{.*}} on @tp {{.*}}: (tensor<8x2xf32>) -> tensor<2x8x2xf32>
  // CHECK: nn.transpose
  %a = plumb.input "a" index 1 : tensor<4x4xf32>
  %1 = plumb.redistribute %a from <@mesh, [{"tp"}, {}]> to <@mesh, [{}, {}]> global tensor<8x4xf32> : (tensor<4x4xf32>) -> tensor<8x4xf32>
  %b = plumb.input "b" index 2 : tensor<8x2xf32>
  %2 = plumb.redistribute %b from <@mesh, [{}, {"tp"}]> to <@mesh, [{}, {}]> global tensor<8x4xf32> : (tensor<8x2xf32>) -> tensor<8x4xf32>

  // A sum whose reader is sharded.
  // CHECK: ccl.reduce_scatter %{{.*}} on @tp {{.*}}: (tensor<2x4x4xf32>) -> tensor<4x4xf32>
  %3 = plumb.redistribute %x from <@mesh, [{}, {}], partial = {"tp" : sum}> to <@mesh, [{"tp"}, {}]> global tensor<8x4xf32> : (tensor<8x4xf32>) -> tensor<4x4xf32>

  // Taking the own part moves nothing.
  // CHECK: ccl.slice %{{.*}} over ["tp"] {{.*}}: (tensor<2x4x4xf32>) -> tensor<4x4xf32>
  %4 = plumb.redistribute %x from <@mesh, [{}, {}]> to <@mesh, [{"tp"}, {}]> global tensor<8x4xf32> : (tensor<8x4xf32>) -> tensor<4x4xf32>

  // Shards of one dim become shards of the other.
  // CHECK: ccl.all_to_all %{{.*}} on @tp {{.*}}: (tensor<2x4x2xf32>) -> tensor<2x4x2xf32>
  %6 = plumb.redistribute %a from <@mesh, [{"tp"}, {}]> to <@mesh, [{}, {"tp"}]> global tensor<8x4xf32> : (tensor<4x4xf32>) -> tensor<8x2xf32>

  // The copies of a parameter on several pipeline ranks join the sum over the batch axis.
  // CHECK: ccl.all_reduce %{{.*}} on @dp_copies_0_1
  %g = plumb.load @grad.w {plumb.phase = #plumb.phase<update>} : tensor<8x4xf32>
  %5 = plumb.redistribute %g from <@mesh, [{}, {}], partial = {"dp" : sum, "pp" : sum}> to <@mesh, [{}, {}]> global tensor<8x4xf32> {plumb.phase = #plumb.phase<update>} : (tensor<8x4xf32>) -> tensor<8x4xf32>
}
// The other copy.
plumb.stage @submod_pp_1 index 1 {
  %g = plumb.load @grad.w {plumb.phase = #plumb.phase<update>} : tensor<8x4xf32>
  %0 = plumb.redistribute %g from <@mesh, [{}, {}], partial = {"dp" : sum, "pp" : sum}> to <@mesh, [{}, {}]> global tensor<8x4xf32> {plumb.phase = #plumb.phase<update>} : (tensor<8x4xf32>) -> tensor<8x4xf32>
}

// -----

plumb.mesh @mesh ["tp" = 4]
plumb.pipeline axis "pp" schedule "1f1b" microbatches 1 stages_per_rank 1
plumb.stage @submod_pp_0 index 0 {
  // The own columns are copied, nothing else; the own rows are a part of the tensor.
  // CHECK: %[[ROWS:.*]] = nn.view %{{.*}}: (tensor<8x8xf32>) -> tensor<8x4x2xf32>
  // CHECK-NEXT: ccl.extract %[[ROWS]] over ["tp"] {{.*}}: (tensor<8x4x2xf32>) -> tensor<8x2xf32>
  %x = plumb.input "x" index 0 : tensor<8x8xf32>
  %0 = plumb.redistribute %x from <@mesh, [{}, {}]> to <@mesh, [{}, {"tp"}]> global tensor<8x8xf32> : (tensor<8x8xf32>) -> tensor<8x2xf32>

  // A shard becomes a share of a sum: it is put among zeros.
  // CHECK: ccl.insert %{{.*}} over ["tp"] {{.*}}: (tensor<8x2xf32>) -> tensor<8x4x2xf32>
  %y = plumb.input "y" index 1 : tensor<8x2xf32>
  %1 = plumb.redistribute %y from <@mesh, [{}, {"tp"}]> to <@mesh, [{}, {}], partial = {"tp" : sum}> global tensor<8x8xf32> : (tensor<8x2xf32>) -> tensor<8x8xf32>

  // Other reductions than sums.
  // CHECK: ccl.all_reduce %{{.*}} on @tp {{{.*}}reduction = "max"{{.*}}: (tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = plumb.redistribute %x from <@mesh, [{}, {}], partial = {"tp" : max}> to <@mesh, [{}, {}]> global tensor<8x8xf32> : (tensor<8x8xf32>) -> tensor<8x8xf32>
}

// -----

// A factor of an axis has a communicator of its own.
// CHECK: ccl.communicator @tp_2_2 axes ["tp:(2)2"] pipeline []
plumb.mesh @mesh ["tp" = 4]
plumb.pipeline axis "pp" schedule "1f1b" microbatches 1 stages_per_rank 1
plumb.stage @submod_pp_0 index 0 {
  // CHECK: ccl.all_gather %{{.*}} on @tp_2_2 {{.*}}: (tensor<2x8xf32>) -> tensor<2x2x8xf32>
  %x = plumb.input "x" index 0 : tensor<2x8xf32>
  %0 = plumb.redistribute %x from <@mesh, [{"tp"}, {}]> to <@mesh, [{"tp":(1)2}, {}]> global tensor<8x8xf32> : (tensor<2x8xf32>) -> tensor<4x8xf32>
}

// -----

// Shards change places: each rank sends its own and receives another, as they lie in memory.
plumb.mesh @mesh ["a" = 2, "b" = 2]
plumb.pipeline axis "pp" schedule "1f1b" microbatches 1 stages_per_rank 1
plumb.stage @submod_pp_0 index 0 {
  // CHECK: ccl.exchange %{{.*}} on @a_b sends [array<i64: 0, 0, 32>, array<i64: 2, 0, 32>, array<i64: 1, 0, 32>, array<i64: 3, 0, 32>]
  // CHECK-SAME: receives [array<i64: 0, 0, 32>, array<i64: 2, 0, 32>, array<i64: 1, 0, 32>, array<i64: 3, 0, 32>] {{.*}}: (tensor<4x8xf32>) -> tensor<4x8xf32>
  %x = plumb.input "x" index 0 : tensor<4x8xf32>
  %0 = plumb.redistribute %x from <@mesh, [{"a", "b"}, {}]> to <@mesh, [{"b", "a"}, {}]> global tensor<16x8xf32> : (tensor<4x8xf32>) -> tensor<4x8xf32>
}

// -----

// Shards of different sizes lie padded in tensors of one shape. A dim is padded before it is cut so; where its pieces are joined
// the padding is dropped.

plumb.mesh @mesh ["dp" = 2, "tp" = 4]
plumb.pipeline axis "pp" schedule "1f1b" microbatches 1 stages_per_rank 1
// CHECK-LABEL: plumb.stage @uneven
plumb.stage @uneven index 0 {
  %x = plumb.input "x" index 0 : tensor<4x3xf32>
  %y = plumb.input "y" index 1 : tensor<8x10xf32>
  // CHECK: ccl.all_gather {{.*}} -> tensor<4x4x3xf32>
  // CHECK: [[JOINED:%.*]] = nn.view {{.*}} -> tensor<4x12x1xf32>
  // CHECK: nn.split [[JOINED]] dim 1 {{.*}} -> (tensor<4x10x1xf32>, tensor<4x2x1xf32>)
  %0 = plumb.redistribute %x from <@mesh, [{"dp"}, {"tp"}]> to <@mesh, [{"dp"}, {}]> global tensor<8x10xf32> : (tensor<4x3xf32>) -> tensor<4x10xf32>
  // CHECK: [[ZERO:%.*]] = nn.fill 0{{.*}} : tensor<8x2x1xf32>
  // CHECK: nn.cat {{%.*}}, [[ZERO]] dim 1 {{.*}} -> tensor<8x12x1xf32>
  // CHECK: ccl.extract {{.*}} over ["tp"] {{.*}} -> tensor<8x3xf32>
  %1 = plumb.redistribute %y from <@mesh, [{}, {}]> to <@mesh, [{}, {"tp"}]> global tensor<8x10xf32> : (tensor<8x10xf32>) -> tensor<8x3xf32>
  // CHECK: nn.cat
  // CHECK: ccl.reduce_scatter {{.*}} -> tensor<8x3xf32>
  %2 = plumb.redistribute %y from <@mesh, [{}, {}], partial = {"tp" : sum}> to <@mesh, [{}, {"tp"}]> global tensor<8x10xf32> : (tensor<8x10xf32>) -> tensor<8x3xf32>
  // CHECK-NOT: nn.cat
  // CHECK: ccl.all_to_all {{.*}} -> tensor<4x1x3xf32>
  // CHECK: nn.split {{.*}} -> (tensor<1x10x1xf32>, tensor<1x2x1xf32>)
  %3 = plumb.redistribute %x from <@mesh, [{"dp"}, {"tp"}]> to <@mesh, [{"dp", "tp"}, {}]> global tensor<8x10xf32> : (tensor<4x3xf32>) -> tensor<1x10xf32>
}

// -----

// Blocks that differ in size are joined by messages, a dim beside them by a collective.

// CHECK-LABEL: plumb.stage @unequal
plumb.mesh @mesh ["dp" = 2, "tp" = 2]
plumb.pipeline axis "pp" schedule "1f1b" microbatches 1 stages_per_rank 1
plumb.stage @unequal index 0 {
  %x = plumb.input "x" index 0 : tensor<8x4xf32>
  // CHECK-NOT: ccl.all_gather
  // CHECK: ccl.exchange
  // CHECK: ccl.copy {{.*}} -> tensor<16x4xf32>
  %0 = plumb.redistribute %x from <@mesh, [{"tp"} blocks [8, 4, 4], {}]> to <@mesh, [{}, {}]> global tensor<16x4xf32> : (tensor<8x4xf32>) -> tensor<16x4xf32>
  // CHECK: ccl.all_gather {{.*}} -> tensor<2x8x4xf32>
  %1 = plumb.redistribute %x from <@mesh, [{"tp"} blocks [8, 4, 4], {"dp"}]> to <@mesh, [{"tp"} blocks [8, 4, 4], {}]> global tensor<16x8xf32> : (tensor<8x4xf32>) -> tensor<8x8xf32>
}
