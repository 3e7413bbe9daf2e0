// RUN: plumb-opt %s --split-input-file --propagate-layouts | FileCheck %s

// Fused QKV in three blocks, through split, view, transpose and attention, to a row-wise product that is partial.

// CHECK: nn.einsum "abi,oi->abo"{{.*}} {plumb.layouts = [#plumb.layout<@mesh, [{"dp", "microbatch"}, {}, {"tp"} blocks 3]>]
// CHECK: nn.split {{.*}}plumb.layouts = [#plumb.layout<@mesh, [{"dp", "microbatch"}, {}, {"tp"}]>, #plumb.layout<@mesh, [{"dp", "microbatch"}, {}, {"tp"}]>, #plumb.layout<@mesh, [{"dp", "microbatch"}, {}, {"tp"}]>]
// CHECK: nn.view {{.*}}plumb.layouts = [#plumb.layout<@mesh, [{"dp", "microbatch"}, {}, {"tp"}, {}]>]
// CHECK: nn.transpose {{.*}}plumb.layouts = [#plumb.layout<@mesh, [{"dp", "microbatch"}, {"tp"}, {}, {}]>]
// CHECK: nn.einsum "abid,abjd->abij"{{.*}}plumb.layouts = [#plumb.layout<@mesh, [{"dp", "microbatch"}, {"tp"}, {}, {}]>]
// CHECK: nn.softmax {{.*}}plumb.layouts = [#plumb.layout<@mesh, [{"dp", "microbatch"}, {"tp"}, {}, {}]>]
// CHECK: nn.transpose {{.*}}plumb.layouts = [#plumb.layout<@mesh, [{"dp", "microbatch"}, {}, {"tp"}, {}]>]
// CHECK: nn.view {{.*}}plumb.layouts = [#plumb.layout<@mesh, [{"dp", "microbatch"}, {}, {"tp"}]>]
// CHECK: nn.einsum "abi,oi->abo"{{.*}}plumb.layouts = [#plumb.layout<@mesh, [{"dp", "microbatch"}, {}, {}], partial = {"tp" : sum}>]
// CHECK: nn.relu {{.*}}plumb.layouts = [#plumb.layout<@mesh, [{"dp", "microbatch"}, {}, {}]>]
// CHECK: nn.view {{.*}}plumb.layouts = [#plumb.layout<@mesh, [{"dp", "microbatch"}, {}]>]
// CHECK: nn.sum {{.*}}plumb.layouts = [#plumb.layout<@mesh, [], partial = {"dp" : sum, "microbatch" : sum}>]
plumb.mesh @mesh ["dp" = 2, "tp" = 2]
plumb.pipeline axis "pp" schedule "1f1b" microbatches 2
plumb.parameter @qkv : tensor<192x64xf32> layout <@mesh, [{"tp"} blocks 3, {}]>
plumb.parameter @proj : tensor<64x64xf32> layout <@mesh, [{}, {"tp"}]>
plumb.program @model {
  %x = plumb.input "x" index 0 {plumb.layouts = [#plumb.layout<@mesh, [{"dp", "microbatch"}, {}, {}]>]} : tensor<8x32x64xf32>
  %w = plumb.load @qkv : tensor<192x64xf32>
  %0 = nn.einsum "abi,oi->abo"(%x, %w) : (tensor<8x32x64xf32>, tensor<192x64xf32>) -> tensor<8x32x192xf32>
  %q, %k, %v = nn.split %0 dim 2 : (tensor<8x32x192xf32>) -> (tensor<8x32x64xf32>, tensor<8x32x64xf32>, tensor<8x32x64xf32>)
  %q1 = nn.view %q : (tensor<8x32x64xf32>) -> tensor<8x32x4x16xf32>
  %q2 = nn.transpose %q1 [0, 2, 1, 3] : (tensor<8x32x4x16xf32>) -> tensor<8x4x32x16xf32>
  %s = nn.einsum "abid,abjd->abij"(%q2, %q2) : (tensor<8x4x32x16xf32>, tensor<8x4x32x16xf32>) -> tensor<8x4x32x32xf32>
  %p = nn.softmax %s causal : (tensor<8x4x32x32xf32>) -> tensor<8x4x32x32xf32>
  %y = nn.einsum "abij,abjd->abid"(%p, %q2) : (tensor<8x4x32x32xf32>, tensor<8x4x32x16xf32>) -> tensor<8x4x32x16xf32>
  %y1 = nn.transpose %y [0, 2, 1, 3] : (tensor<8x4x32x16xf32>) -> tensor<8x32x4x16xf32>
  %y2 = nn.view %y1 : (tensor<8x32x4x16xf32>) -> tensor<8x32x64xf32>
  %wp = plumb.load @proj : tensor<64x64xf32>
  %o = nn.einsum "abi,oi->abo"(%y2, %wp) : (tensor<8x32x64xf32>, tensor<64x64xf32>) -> tensor<8x32x64xf32>
  %r = nn.relu %o : (tensor<8x32x64xf32>) -> tensor<8x32x64xf32>
  %f = nn.view %r : (tensor<8x32x64xf32>) -> tensor<256x64xf32>
  %l = nn.sum %f dims [0, 1] : (tensor<256x64xf32>) -> tensor<f32>
}

// -----

// Where operands disagree, the larger wins; an unsharded one never does.

// CHECK: nn.add {{.*}}plumb.layouts = [#plumb.layout<@mesh, [{}, {"tp"}]>]
plumb.mesh @mesh ["tp" = 2]
plumb.pipeline axis "pp" schedule "1f1b" microbatches 1
plumb.parameter @a : tensor<4x8xf32> layout <@mesh, [{}, {"tp"}]>
plumb.parameter @b : tensor<4x1xf32> layout <@mesh, [{"tp"}, {}]>
plumb.program @model {
  %a = plumb.load @a : tensor<4x8xf32>
  %b = plumb.load @b : tensor<4x1xf32>
  %c = nn.add %a, %b : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
}

// -----

// Queries, keys and values of different sizes, from one product: each is sharded by heads, and so is its gradient.

// CHECK-LABEL: plumb.program @grouped
// CHECK: %[[Y:.*]] = nn.einsum "bi,oi->bo"{{.*}}plumb.layouts = [#plumb.layout<@mesh, [{}, {"tp"} blocks [8, 4, 4]]>]
// CHECK: nn.split %[[Y]] dim 1 {plumb.layouts = [#plumb.layout<@mesh, [{}, {"tp"}]>, #plumb.layout<@mesh, [{}, {"tp"}]>, #plumb.layout<@mesh, [{}, {"tp"}]>]
// CHECK: nn.view %{{.*}}plumb.layouts = [#plumb.layout<@mesh, [{}, {"tp"}, {}]>]
// CHECK: %[[C:.*]] = nn.cat {{.*}}plumb.layouts = [#plumb.layout<@mesh, [{}, {"tp"} blocks [8, 4, 4]]>]
// CHECK: nn.view %[[C]] {{.*}}plumb.layouts = [#plumb.layout<@mesh, [{}, {"tp"} blocks [4, 2, 2], {}]>]
plumb.mesh @mesh ["tp" = 2]
plumb.pipeline axis "pp" schedule "1f1b" microbatches 1
plumb.parameter @qkv : tensor<16x6xf32> layout <@mesh, [{"tp"} blocks [8, 4, 4], {}]>
plumb.program @grouped {
  %x = plumb.input "x" index 0 {plumb.layouts = [#plumb.layout<@mesh, [{}, {}]>]} : tensor<3x6xf32>
  %w = plumb.load @qkv : tensor<16x6xf32>
  %y = nn.einsum "bi,oi->bo"(%x, %w) : (tensor<3x6xf32>, tensor<16x6xf32>) -> tensor<3x16xf32>
  %q, %k, %v = nn.split %y dim 1 : (tensor<3x16xf32>) -> (tensor<3x8xf32>, tensor<3x4xf32>, tensor<3x4xf32>)
  %h = nn.view %q : (tensor<3x8xf32>) -> tensor<3x4x2xf32>
  %c = nn.cat %q, %k, %v dim 1 : (tensor<3x8xf32>, tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x16xf32>
  %r = nn.view %c : (tensor<3x16xf32>) -> tensor<3x8x2xf32>
  plumb.output "h" index 0 %h : tensor<3x4x2xf32>
  plumb.output "r" index 1 %r : tensor<3x8x2xf32>
}
