// RUN: plumb-opt %s --split-input-file --apply-spec --verify-diagnostics | FileCheck %s
// RUN: not plumb-opt %s --split-input-file --apply-spec --build-backward 2>/dev/null | FileCheck %s --check-prefix=BACKWARD

// Two blocks: the second step computes with the keys and values of the other rank and merges; the causal mask knows which they are.

// CHECK-LABEL: plumb.program @model
// CHECK: %[[Q:.*]] = nn.view %{{.*}} : (tensor<2x8x4xf32>) -> tensor<2x2x4x4xf32>
// CHECK: %[[K:.*]] = nn.view %{{.*}} : (tensor<2x8x4xf32>) -> tensor<2x2x4x4xf32>
// CHECK: %[[V:.*]] = nn.view %{{.*}} : (tensor<2x8x4xf32>) -> tensor<2x2x4x4xf32>
// CHECK: nn.einsum "abce,abde->abcd"(%[[Q]], %[[K]])
// CHECK: nn.einsum "abcd,abde->abce"(%{{.*}}, %[[V]])
// CHECK: %[[K1:.*]] = ccl.rotate %[[K]] dim 1 by 1
// CHECK: %[[V1:.*]] = ccl.rotate %[[V]] dim 1 by 1
// CHECK: nn.einsum "abce,abde->abcd"(%[[Q]], %[[K1]])
// CHECK: nn.less
// CHECK: nn.maximum
// CHECK: nn.einsum "abcd,abde->abce"(%{{.*}}, %[[V1]])
// CHECK: nn.div
// CHECK: nn.view %{{.*}} -> tensor<2x8x4xf32>
// CHECK-NOT: nn.softmax

// The backward pass walks anew, and takes the gradients of keys and values back.
// BACKWARD: ccl.rotate {{.*}} by 1 {{.*}}phase<forward>
// BACKWARD: ccl.rotate {{.*}} by 1 {{.*}}phase<forward>
// BACKWARD-DAG: ccl.rotate {{.*}} by 1 {{.*}}phase<backward
// BACKWARD-DAG: ccl.rotate {{.*}} by -1 {{.*}}phase<backward
plumb.mesh @mesh ["cp" = 2]
plumb.pipeline axis "pp" schedule "gpipe" microbatches 1 {plumb.context_parallel = {attention = "ring", axis = "cp"}}
plumb.input_rule "x" {cp = "shard(1)"}
plumb.loss_rule output 0 reduce "sum"
plumb.parameter @w trainable : tensor<2x8x4xf32>
plumb.program @model {
  %x = plumb.input "x" index 0 : tensor<2x8x4xf32>
  %w = plumb.load @w : tensor<2x8x4xf32>
  %k = nn.mul %x, %w : (tensor<2x8x4xf32>, tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  %s = nn.einsum "aid,ajd->aij"(%x, %k) : (tensor<2x8x4xf32>, tensor<2x8x4xf32>) -> tensor<2x8x8xf32>
  %t = nn.scale %s by 5.0e-1 : (tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %p = nn.softmax %t causal : (tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %y = nn.einsum "aij,ajd->aid"(%p, %k) : (tensor<2x8x8xf32>, tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  plumb.output "y" index 0 %y : tensor<2x8x4xf32>
}

// -----

plumb.mesh @mesh ["cp" = 2]
// expected-error @+1 {{no attention of this model can walk around the ranks of "cp"}}
plumb.pipeline axis "pp" schedule "gpipe" microbatches 1 {plumb.context_parallel = {attention = "ring", axis = "cp"}}
plumb.program @model {
  %x = plumb.input "x" index 0 : tensor<2x8xf32>
  %p = nn.softmax %x : (tensor<2x8xf32>) -> tensor<2x8xf32>
  plumb.output "y" index 0 %p : tensor<2x8xf32>
}

// -----

// Of long sequences the products of a block hide the way of the next one. (The rule is found by the input.)
// CHECK-LABEL: plumb.program @long
// CHECK-COUNT-14: ccl.rotate
// CHECK-NOT: ccl.rotate
plumb.mesh @mesh ["cp" = 8]
plumb.pipeline axis "pp" schedule "gpipe" microbatches 1
plumb.input_rule "x" {cp = "shard(1)"}
plumb.program @long {
  %x = plumb.input "x" index 0 : tensor<32x8192x128xf32>
  %s = nn.einsum "aid,ajd->aij"(%x, %x) : (tensor<32x8192x128xf32>, tensor<32x8192x128xf32>) -> tensor<32x8192x8192xf32>
  %p = nn.softmax %s causal : (tensor<32x8192x8192xf32>) -> tensor<32x8192x8192xf32>
  %y = nn.einsum "aij,ajd->aid"(%p, %x) : (tensor<32x8192x8192xf32>, tensor<32x8192x128xf32>) -> tensor<32x8192x128xf32>
  plumb.output "y" index 0 %y : tensor<32x8192x128xf32>
}

// -----

// Of short ones they do not, and each step has its latency.
// CHECK-LABEL: plumb.program @short
// CHECK-NOT: ccl.rotate
// CHECK: nn.softmax
plumb.mesh @mesh ["cp" = 8]
plumb.pipeline axis "pp" schedule "gpipe" microbatches 1 {plumb.context_parallel = {attention = "auto", axis = "cp"}}
plumb.input_rule "x" {cp = "shard(1)"}
plumb.program @short {
  %x = plumb.input "x" index 0 : tensor<32x256x128xf32>
  %s = nn.einsum "aid,ajd->aij"(%x, %x) : (tensor<32x256x128xf32>, tensor<32x256x128xf32>) -> tensor<32x256x256xf32>
  %p = nn.softmax %s causal : (tensor<32x256x256xf32>) -> tensor<32x256x256xf32>
  %y = nn.einsum "aij,ajd->aid"(%p, %x) : (tensor<32x256x256xf32>, tensor<32x256x128xf32>) -> tensor<32x256x128xf32>
  plumb.output "y" index 0 %y : tensor<32x256x128xf32>
}

// -----

plumb.mesh @mesh ["cp" = 8]
// expected-error @+1 {{'plumb.context_parallel' must be on a plumb.pipeline and hold an axis and one of "auto", "gather" and "ring"}}
plumb.pipeline axis "pp" schedule "gpipe" microbatches 1 {plumb.context_parallel = {attention = "rings", axis = "cp"}}
