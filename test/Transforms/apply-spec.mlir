// RUN: plumb-opt %s --split-input-file --apply-spec | FileCheck %s

// A style finds the output features and the contracted dim by the op that reads the weight; the bias follows.

// CHECK: plumb.pipeline axis "pp" schedule "gpipe" microbatches 1
// CHECK-NOT: layout_rule
// CHECK: plumb.parameter @fc1.weight trainable : tensor<32x16xf32> layout <@mesh, [{"tp"}, {}]>
// CHECK: plumb.parameter @fc1.bias trainable : tensor<32xf32> layout <@mesh, [{"tp"}]>
// CHECK: plumb.parameter @fc2.weight trainable : tensor<16x32xf32> layout <@mesh, [{}, {"tp"}]>
// CHECK: plumb.parameter @fc2.bias trainable : tensor<16xf32> layout <@mesh, [{}]>
// CHECK: plumb.parameter @scale : tensor<16xf32> layout <@mesh, [{}]>
// CHECK: plumb.input "x" index 0 {plumb.layouts = [#plumb.layout<@mesh, [{"dp"}, {}]>]}
// CHECK: %[[Y:.*]] = nn.mul %{{.*}}, %{{.*}} {plumb.module = "fc2"}
// CHECK: %[[Q:.*]] = nn.mul %[[Y]], %[[Y]] {plumb.module = "fc2", plumb.phase = #plumb.phase<forward>}
// CHECK: %[[S:.*]] = nn.sum %[[Q]] dims [0, 1]
// CHECK: %[[L:.*]] = nn.scale %[[S]] by 7.812500e-03
// CHECK: plumb.loss %[[L]] {plumb.module = "fc2", plumb.phase = #plumb.phase<forward>} : tensor<f32>
// CHECK: plumb.pipe_split
// CHECK: plumb.output "y" index 0 %[[Y]]
plumb.mesh @mesh ["dp" = 2, "tp" = 2]
plumb.layout_rule "fc1" style "colwise" axis "tp"
plumb.layout_rule "fc2" style "rowwise" axis "tp"
plumb.split_rule "fc2" end
plumb.loss_rule output 0 reduce "mean_square"
plumb.module @fc1
plumb.module @fc2
plumb.parameter @fc1.weight trainable : tensor<32x16xf32>
plumb.parameter @fc1.bias trainable : tensor<32xf32>
plumb.parameter @fc2.weight trainable : tensor<16x32xf32>
plumb.parameter @fc2.bias trainable : tensor<16xf32>
plumb.parameter @scale : tensor<16xf32>
plumb.program @model {
  %x = plumb.input "x" index 0 : tensor<8x16xf32>
  %w1 = plumb.load @fc1.weight {plumb.module = "fc1"} : tensor<32x16xf32>
  %b1 = plumb.load @fc1.bias {plumb.module = "fc1"} : tensor<32xf32>
  %0 = nn.einsum "ai,oi->ao"(%x, %w1) {plumb.module = "fc1"} : (tensor<8x16xf32>, tensor<32x16xf32>) -> tensor<8x32xf32>
  %1 = nn.add %0, %b1 {plumb.module = "fc1"} : (tensor<8x32xf32>, tensor<32xf32>) -> tensor<8x32xf32>
  %w2 = plumb.load @fc2.weight {plumb.module = "fc2"} : tensor<16x32xf32>
  %b2 = plumb.load @fc2.bias {plumb.module = "fc2"} : tensor<16xf32>
  %2 = nn.einsum "ai,oi->ao"(%1, %w2) {plumb.module = "fc2"} : (tensor<8x32xf32>, tensor<16x32xf32>) -> tensor<8x16xf32>
  %3 = nn.add %2, %b2 {plumb.module = "fc2"} : (tensor<8x16xf32>, tensor<16xf32>) -> tensor<8x16xf32>
  %s = plumb.load @scale : tensor<16xf32>
  %4 = nn.mul %3, %s {plumb.module = "fc2"} : (tensor<8x16xf32>, tensor<16xf32>) -> tensor<8x16xf32>
  plumb.output "y" index 0 %4 : tensor<8x16xf32>
}

// -----

// Explicit layouts, with blocks; an input placed on other axes; a split that repeats a marker of the graph is one marker;
// axes of size 1 shard nothing.

// CHECK: plumb.parameter @a.b.weight : tensor<12x4xf32> layout <@mesh, [{"tp"} blocks 3, {}]>
// CHECK: plumb.input "x" index 0 {plumb.layouts = [#plumb.layout<@mesh, [{"microbatch"}, {"tp"}]>]}
// CHECK: plumb.pipe_split
// CHECK-NOT: plumb.pipe_split
plumb.mesh @mesh ["dp" = 1, "tp" = 2]
plumb.pipeline axis "pp" schedule "1f1b" microbatches 2
plumb.split_rule "a.b"
plumb.layout_rule "a.*" params {weight = {tp = "shard(0, blocks=3)", dp = "shard(1)"}}
plumb.input_rule "x" {dp = "shard(0)", tp = "shard(-1)"}
plumb.module @a
plumb.module @a.b
plumb.parameter @a.b.weight : tensor<12x4xf32>
plumb.program @model {
  %x = plumb.input "x" index 0 : tensor<8x4xf32>
  %0 = nn.relu %x {plumb.module = ""} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  plumb.pipe_split {plumb.module = ""}
  %w = plumb.load @a.b.weight {plumb.module = "a.b@1"} : tensor<12x4xf32>
  %1 = nn.einsum "ai,oi->ao"(%0, %w) {plumb.module = "a.b@1"} : (tensor<8x4xf32>, tensor<12x4xf32>) -> tensor<8x12xf32>
  plumb.output "y" index 0 %1 : tensor<8x12xf32>
}

// -----

// An axis that shards the batch of some inputs only cuts each microbatch, whatever its place in the mesh; one that shards another
// dim is none of the batch.

// CHECK-LABEL: plumb.program @stages
// CHECK: plumb.input "x" index 0 {plumb.layouts = [#plumb.layout<@mesh, [{"dp", "microbatch", "b"}, {}]>]}
// CHECK: plumb.input "labels" index 1 {plumb.layouts = [#plumb.layout<@mesh, [{"dp", "microbatch"}, {"b"}]>]}
// CHECK: plumb.input "table" index 2 {plumb.layouts = [#plumb.layout<@mesh, [{}]>]}
plumb.mesh @mesh ["b" = 2, "dp" = 2]
plumb.pipeline axis "pp" schedule "1f1b" microbatches 2
plumb.input_rule "x" {b = "shard(0)"}
plumb.input_rule "labels" {b = "shard(1)"}
plumb.input_rule "table" {}
plumb.program @stages {
  %x = plumb.input "x" index 0 : tensor<8x4xf32>
  %l = plumb.input "labels" index 1 : tensor<8x4xf32>
  %t = plumb.input "table" index 2 : tensor<3xf32>
  plumb.output "x" index 0 %x : tensor<8x4xf32>
  plumb.output "l" index 1 %l : tensor<8x4xf32>
  plumb.output "t" index 2 %t : tensor<3xf32>
}

// -----

// A cross entropy against labels from outside: a further input, which is cut like the others; the mean divides by the count of
// labels that are not ignored, in the graph.

// CHECK-LABEL: plumb.program @labels
// CHECK: %[[L:.*]] = plumb.input "labels" index 1 {plumb.layouts = [#plumb.layout<@mesh, [{"dp"}, {}]>]} : tensor<4x3xi64>
// CHECK: %[[LOSSES:.*]], %{{.*}} = nn.cross_entropy %[[Y:.*]], %[[L]] ignore -1
// CHECK: %[[V:.*]] = nn.is_valid %[[L]] ignore -1
// CHECK: %[[T:.*]] = nn.sum %[[LOSSES]] dims [0, 1]
// CHECK: %[[N:.*]] = nn.sum %[[V]] dims [0, 1]
// CHECK: %[[M:.*]] = nn.div %[[T]], %[[N]]
// CHECK: plumb.loss %[[M]]
plumb.mesh @mesh ["dp" = 2]
plumb.loss_rule name "out.logits" reduce "cross_entropy" target "labels" : i64 ignore -1
plumb.program @labels {
  %x = plumb.input "x" index 0 : tensor<4x3x10xf32>
  %y = nn.relu %x : (tensor<4x3x10xf32>) -> tensor<4x3x10xf32>
  plumb.output "out.logits" index 0 %y : tensor<4x3x10xf32>
}
