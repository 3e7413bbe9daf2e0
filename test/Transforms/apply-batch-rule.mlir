// RUN: plumb-opt %s --split-input-file --apply-spec | FileCheck %s

// An export of batch 1, compiled for 6: views that merge and split the batch follow, the means over it too; positions and the mask
// are broadcast and stay.

// CHECK: module attributes {plumb.batch = 6 : i64}
// CHECK-LABEL: plumb.program @one
// CHECK: %[[X:.*]] = plumb.input "x" index 0 {{.*}} : tensor<6x4x8xf32>
// CHECK: %[[P:.*]] = nn.fill 1.{{.*}} : tensor<1x4x8xf32>
// CHECK: %[[A:.*]] = nn.add %[[X]], %[[P]] : (tensor<6x4x8xf32>, tensor<1x4x8xf32>) -> tensor<6x4x8xf32>
// CHECK: %[[B:.*]] = nn.view %[[A]] : (tensor<6x4x8xf32>) -> tensor<24x8xf32>
// CHECK: %[[C:.*]] = nn.view %[[B]] : (tensor<24x8xf32>) -> tensor<6x4x2x4xf32>
// CHECK: %[[D:.*]] = nn.transpose %[[C]] [0, 2, 1, 3] : (tensor<6x4x2x4xf32>) -> tensor<6x2x4x4xf32>
// CHECK: %[[S:.*]] = nn.sum %[[B]] dims [0, 1] : (tensor<24x8xf32>) -> tensor<f32>
// CHECK: nn.scale %[[S]] by {{0.005208333.*|5.208333.*e-03}}
// CHECK: nn.scale %[[S]] by 5.000000e-01
// CHECK: plumb.output "d" index 1 %[[D]] : tensor<6x2x4x4xf32>
plumb.mesh @mesh ["dp" = 3]
plumb.pipeline axis "pp" schedule "gpipe" microbatches 2
plumb.batch_rule "microbatch" size 1
plumb.program @one {
  %x = plumb.input "x" index 0 : tensor<1x4x8xf32>
  %p = nn.fill 1.0 : tensor<1x4x8xf32>
  %a = nn.add %x, %p : (tensor<1x4x8xf32>, tensor<1x4x8xf32>) -> tensor<1x4x8xf32>
  %b = nn.view %a : (tensor<1x4x8xf32>) -> tensor<4x8xf32>
  %c = nn.view %b : (tensor<4x8xf32>) -> tensor<1x4x2x4xf32>
  %d = nn.transpose %c [0, 2, 1, 3] : (tensor<1x4x2x4xf32>) -> tensor<1x2x4x4xf32>
  %s = nn.sum %b dims [0, 1] : (tensor<4x8xf32>) -> tensor<f32>
  %m = nn.scale %s by 0.03125 {plumb.mean = 0.0} : (tensor<f32>) -> tensor<f32>
  %h = nn.scale %s by 0.5 : (tensor<f32>) -> tensor<f32>
  plumb.output "m" index 0 %m : tensor<f32>
  plumb.output "d" index 1 %d : tensor<1x2x4x4xf32>
  plumb.output "h" index 2 %h : tensor<f32>
}

// -----

// A smaller batch than exported. A factory of the batch's size grows where it meets the batch, and stays for other readers; an
// input that is no batch stays.

// CHECK-LABEL: plumb.program @four
// CHECK: %[[X:.*]] = plumb.input "x" index 0 {{.*}} : tensor<4x2xf32>
// CHECK: plumb.input "table" index 1 {{.*}} : tensor<8x2xf32>
// CHECK-DAG: %[[SMALL:.*]] = nn.fill 0.{{.*}} : tensor<4x3xf32>
// CHECK-DAG: %[[LARGE:.*]] = nn.fill 0.{{.*}} : tensor<8x3xf32>
// CHECK: nn.cat %[[X]], %[[SMALL]] {{.*}} -> tensor<4x5xf32>
// CHECK: plumb.output "z" index 1 %[[LARGE]] : tensor<8x3xf32>
plumb.mesh @mesh ["dp" = 1]
plumb.batch_rule "global" size 4
plumb.input_rule "table" {}
plumb.program @four {
  %x = plumb.input "x" index 0 : tensor<8x2xf32>
  %t = plumb.input "table" index 1 : tensor<8x2xf32>
  %z = nn.fill 0.0 : tensor<8x3xf32>
  %c = nn.cat %x, %z dim 1 : (tensor<8x2xf32>, tensor<8x3xf32>) -> tensor<8x5xf32>
  plumb.output "c" index 0 %c : tensor<8x5xf32>
  plumb.output "z" index 1 %z : tensor<8x3xf32>
}

// -----

// A batch of 1 that is folded into positions and unfolded again: what is of one sample's positions is repeated for each.

// CHECK-LABEL: plumb.program @folded
// CHECK: %[[W:.*]] = plumb.load @w
// CHECK: %[[V:.*]] = nn.view %[[W]] {{.*}} -> tensor<1x3x2xf32>
// CHECK: %[[B:.*]] = nn.broadcast %[[V]] {{.*}} -> tensor<4x3x2xf32>
// CHECK: %[[R:.*]] = nn.view %[[B]] {{.*}} -> tensor<12x2xf32>
// CHECK: %[[Y:.*]] = nn.view %{{.*}} : (tensor<4x3x2xf32>) -> tensor<12x2xf32>
// CHECK: %[[Z:.*]] = nn.add %[[Y]], %[[R]] : (tensor<12x2xf32>, tensor<12x2xf32>) -> tensor<12x2xf32>
// CHECK: nn.sum %[[Z]] dims [0, 1]
// CHECK: nn.view %[[Z]] : (tensor<12x2xf32>) -> tensor<4x3x2xf32>
plumb.mesh @mesh ["dp" = 1]
plumb.batch_rule "global" size 4
plumb.parameter @w : tensor<3x2xf32>
plumb.program @folded {
  %x = plumb.input "x" index 0 : tensor<1x3x2xf32>
  %w = plumb.load @w : tensor<3x2xf32>
  %y = nn.view %x : (tensor<1x3x2xf32>) -> tensor<3x2xf32>
  %z = nn.add %y, %w : (tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>
  %s = nn.sum %z dims [0, 1] : (tensor<3x2xf32>) -> tensor<f32>
  plumb.output "s" index 0 %s : tensor<f32>
  %u = nn.view %z : (tensor<3x2xf32>) -> tensor<1x3x2xf32>
  plumb.output "u" index 1 %u : tensor<1x3x2xf32>
}

// -----

// One row: what holds the batch in a dim of its own has no loop over it any more, and is what it was.

// CHECK: module attributes {plumb.batch = 1 : i64}
// CHECK: %[[X:.*]] = plumb.input "x" index 0 {{.*}} : tensor<1x4x6xf32>
// CHECK: %[[V:.*]] = nn.view %[[X]] : (tensor<1x4x6xf32>) -> tensor<4x6xf32>
// CHECK: nn.view %[[V]] : (tensor<4x6xf32>) -> tensor<1x4x2x3xf32>
plumb.mesh @mesh ["dp" = 1]
plumb.batch_rule "global" size 1
plumb.program @single {
  %x = plumb.input "x" index 0 : tensor<2x4x6xf32>
  %v = nn.view %x : (tensor<2x4x6xf32>) -> tensor<8x6xf32>
  %h = nn.view %v : (tensor<8x6xf32>) -> tensor<2x4x2x3xf32>
  plumb.output "h" index 0 %h : tensor<2x4x2x3xf32>
}

// -----

// The batch is in dim 0, or where `dp` or the microbatches shard it; axes that shard another dim, such as the sequence, neither move it nor
// count as replicas, whatever their names and whatever other inputs say.

// CHECK-LABEL: plumb.program @sequence
// CHECK: plumb.input "x" index 0 {{.*}} : tensor<12x4xf32>
// CHECK: plumb.input "columns" index 1 {{.*}} : tensor<4x12xf32>
// CHECK: plumb.input "all" index 2 {{.*}} : tensor<12x6xf32>
// CHECK: plumb.input "experts" index 3 {{.*}} : tensor<12x2xf32>
// CHECK: plumb.input "table" index 4 {{.*}} : tensor<6x2xf32>
plumb.mesh @mesh ["cp" = 2, "dp" = 3, "zp" = 2]
plumb.batch_rule "replica" size 2
plumb.input_rule "x" {cp = "shard(1)", zp = "shard(-1)"}
plumb.input_rule "columns" {cp = "shard(0)", dp = "shard(1)", microbatch = "shard(1)"}
plumb.input_rule "all" {dp = "replicate"}
plumb.input_rule "experts" {cp = "shard(0)"}
plumb.input_rule "table" {dp = "replicate", microbatch = "replicate", zp = "shard(1)"}
plumb.program @sequence {
  %x = plumb.input "x" index 0 : tensor<6x4xf32>
  %c = plumb.input "columns" index 1 : tensor<4x6xf32>
  %a = plumb.input "all" index 2 : tensor<6x6xf32>
  %e = plumb.input "experts" index 3 : tensor<6x2xf32>
  %t = plumb.input "table" index 4 : tensor<6x2xf32>
  plumb.output "x" index 0 %x : tensor<6x4xf32>
  plumb.output "c" index 1 %c : tensor<4x6xf32>
  plumb.output "a" index 2 %a : tensor<6x6xf32>
  plumb.output "e" index 3 %e : tensor<6x2xf32>
  plumb.output "t" index 4 %t : tensor<6x2xf32>
}
