// RUN: plumb-opt %s --split-input-file --apply-spec --propagate-layouts --plan-boundaries --verify-diagnostics

plumb.mesh @mesh ["tp" = 2]
// expected-error @+1 {{module fc has no port "input.2"; it has input.0}}
plumb.layout_rule "fc" {in_src = {input.2 = {}}, in_dst = {input.2 = {}}}
plumb.module @fc
plumb.program @model {
  %x = plumb.input "x" index 0 : tensor<4x2x8xf32>
  // expected-note @+1 {{the module computes here}}
  %y = nn.relu %x {plumb.module = "fc"} : (tensor<4x2x8xf32>) -> tensor<4x2x8xf32>
  plumb.output "y" index 0 %y : tensor<4x2x8xf32>
}

// -----

plumb.mesh @mesh ["tp" = 2]
// expected-error @+1 {{"shard(3)" names a dim that a port of module fc, with 3 dims, does not have}}
plumb.layout_rule "fc" {in_dst = {input.0 = {tp = "shard(3)"}}}
plumb.module @fc
plumb.program @model {
  // expected-note @+1 {{the value}}
  %x = plumb.input "x" index 0 : tensor<4x2x8xf32>
  %y = nn.relu %x {plumb.module = "fc"} : (tensor<4x2x8xf32>) -> tensor<4x2x8xf32>
  plumb.output "y" index 0 %y : tensor<4x2x8xf32>
}

// -----

plumb.mesh @mesh ["tp" = 4]
// expected-error @+1 {{a port of module fc has 2 elements in dim 1, which 8 parts do not divide}}
plumb.layout_rule "fc" {in_dst = {input.0 = {tp = "shard(1, blocks=2)"}}}
plumb.module @fc
plumb.program @model {
  // expected-note @+1 {{the value}}
  %x = plumb.input "x" index 0 : tensor<4x2x8xf32>
  %y = nn.relu %x {plumb.module = "fc"} : (tensor<4x2x8xf32>) -> tensor<4x2x8xf32>
  plumb.output "y" index 0 %y : tensor<4x2x8xf32>
}

// -----

// The output is whole, so a part of it could be had without communication, but not a value that is still to be gathered.

plumb.mesh @mesh ["tp" = 2]
plumb.input_rule "x" {tp = "shard(2)"}
// expected-error @+2 {{port "output.0" of module fc is said to be produced as #plumb.layout<@mesh, [{}, {}, {}]>, but is produced as #plumb.layout<@mesh, [{}, {}, {"tp"}]>}}
// expected-warning @+1 {{port "input.0" of module fc is said to arrive as #plumb.layout<@mesh, [{}, {"tp"}, {}]>, but arrives as #plumb.layout<@mesh, [{}, {}, {"tp"}]>}}
plumb.layout_rule "fc" {in_src = {input.0 = {tp = "shard(1)"}}, in_dst = {input.0 = {tp = "shard(2)"}}, out_src = {output.0 = {tp = "replicate"}}, out_dst = {output.0 = {tp = "shard(2)"}}}
plumb.module @fc
plumb.state @output.0 "output" index 0 : tensor<4x2x8xf32>
plumb.program @model {
  // expected-note @+1 {{made here}}
  %x = plumb.input "x" index 0 : tensor<4x2x8xf32>
  // expected-note @+1 {{made here}}
  %y = nn.relu %x {plumb.module = "fc"} : (tensor<4x2x8xf32>) -> tensor<4x2x8xf32>
  plumb.store @output.0, %y : tensor<4x2x8xf32>
}

// -----

// expected-note @+1 {{the mesh}}
plumb.mesh @mesh ["tp" = 2]
// expected-error @+1 {{"tpp" is no axis of the mesh that can lay out a port}}
plumb.layout_rule "fc" {in_dst = {input.0 = {tpp = "shard(1)"}}}
plumb.module @fc
plumb.program @model {
  %x = plumb.input "x" index 0 : tensor<4x2x8xf32>
  %y = nn.relu %x {plumb.module = "fc"} : (tensor<4x2x8xf32>) -> tensor<4x2x8xf32>
  plumb.output "y" index 0 %y : tensor<4x2x8xf32>
}

// -----

// What shards the batch stays: with it, 4 rows are cut into 8 parts.

plumb.mesh @mesh ["dp" = 2, "tp" = 2]
plumb.pipeline axis "pp" schedule "gpipe" microbatches 2
// expected-error @+1 {{port "input.0" of module fc has 4 elements in dim 0, which dp = 2 x microbatch = 2 x tp = 2 (8 parts) does not divide; axes that shard the batch stay at ports}}
plumb.layout_rule "fc" {in_dst = {input.0 = {tp = "shard(0)"}}}
plumb.module @fc
plumb.state @output.0 "output" index 0 : tensor<4x2x8xf32>
plumb.program @model {
  // expected-note @+1 {{the value}}
  %x = plumb.input "x" index 0 : tensor<4x2x8xf32>
  %y = nn.relu %x {plumb.module = "fc"} : (tensor<4x2x8xf32>) -> tensor<4x2x8xf32>
  plumb.store @output.0, %y : tensor<4x2x8xf32>
}
