// RUN: plumb-opt %s --split-input-file --apply-spec --verify-diagnostics

// Rule by rule what modules that own their layouts may not do; each error names both places.

plumb.mesh @mesh ["tp" = 2]
// expected-note @+1 {{the other entry}}
plumb.layout_rule "fc" style "colwise"
// expected-error @+1 {{module fc is laid out by two entries}}
plumb.layout_rule "f*" style "replicate"
plumb.module @fc
plumb.program @model {}

// -----

plumb.mesh @mesh ["tp" = 2]
// expected-error @+1 {{pattern "head" matches 0 of 1 modules}}
plumb.layout_rule "**" params {weight = {}} {bind = ["head"]}
plumb.module @fc
plumb.program @model {}

// -----

plumb.mesh @mesh ["tp" = 2]
// expected-note @+1 {{the other entry}}
plumb.layout_rule "mlp" params {}
// expected-error @+1 {{module mlp.fc is bound, but it overlaps module mlp, which has an owner already}}
plumb.layout_rule "**" params {weight = {}} {bind = ["mlp.*"]}
plumb.module @mlp
plumb.module @mlp.fc
plumb.program @model {}

// -----

plumb.mesh @mesh ["tp" = 2]
// expected-note @+2 {{the other entry}}
// expected-error @+1 {{module fc is bound, but it overlaps module fc, which has an owner already}}
plumb.layout_rule "**" params {weight = {}} {bind = ["fc", "f*"]}
plumb.module @fc
plumb.program @model {}

// -----

plumb.mesh @mesh ["tp" = 2]
// expected-error @+1 {{an entry with "params" declares both "in_src" and "in_dst", or neither}}
plumb.layout_rule "fc" params {weight = {}} {in_dst = {input.0 = {}}}
plumb.module @fc
plumb.program @model {}

// -----

plumb.mesh @mesh ["tp" = 2]
// expected-error @+1 {{port "input.0" is missing in "in_dst"; the two sides of the inputs must name the same ports}}
plumb.layout_rule "fc" params {weight = {}} {in_src = {input.0 = {}}, in_dst = {input.1 = {}}}
plumb.module @fc
plumb.program @model {}

// -----

plumb.mesh @mesh ["tp" = 2]
// expected-error @+1 {{output name "y" is given twice}}
plumb.layout_rule "fc" params {weight = {}} {out_names = ["y", "y"]}
plumb.module @fc
plumb.program @model {}

// -----

plumb.mesh @mesh ["tp" = 2]
// expected-error @+1 {{parameter fc.bias of module fc is missing in "params"; {} replicates it}}
plumb.layout_rule "fc" params {weight = {tp = "shard(0)"}}
plumb.module @fc
plumb.parameter @fc.weight trainable : tensor<8x8xf32>
// expected-note @+1 {{the parameter}}
plumb.parameter @fc.bias trainable : tensor<8xf32>
plumb.program @model {}

// -----

plumb.mesh @mesh ["tp" = 2]
// expected-error @+1 {{parameter mlp.fc.weight belongs to a nested module that has an entry of its own}}
plumb.layout_rule "mlp" params {fc.weight = {tp = "shard(0)"}}
// expected-note @+1 {{the other entry}}
plumb.layout_rule "mlp.fc" params {weight = {tp = "shard(0)"}}
plumb.module @mlp
plumb.module @mlp.fc
plumb.parameter @mlp.fc.weight trainable : tensor<8x8xf32>
plumb.program @model {}

// -----

plumb.mesh @mesh ["tp" = 2]
// expected-note @+1 {{and the layout #plumb.layout<@mesh, [{"tp"}, {}]> here}}
plumb.layout_rule "wte" params {weight = {tp = "shard(0)"}}
// expected-error @+1 {{parameter wte.weight is given the layout #plumb.layout<@mesh, [{}, {"tp"}]> here}}
plumb.layout_rule "lm_head" params {weight = {tp = "shard(1)"}}
plumb.module @wte
plumb.module @lm_head
plumb.parameter @wte.weight trainable : tensor<16x8xf32> aliases ["lm_head.weight"]
plumb.program @model {}

// -----

plumb.mesh @mesh ["tp" = 2]
// expected-note @+1 {{the other entry}}
plumb.layout_rule "moe" params {} {communication = "mesh"}
// expected-error @+1 {{module moe.experts does its own collectives over "tp" inside module moe, which does so over "mesh"}}
plumb.layout_rule "moe.experts" params {} {communication = "tp"}
plumb.module @moe
plumb.module @moe.experts
plumb.program @model {}

// -----

// After overrides the claims are checked again: two names of one parameter may not part.

plumb.mesh @mesh ["tp" = 2]
plumb.layout_rule "wte" params {weight = {tp = "shard(0)"}}
// expected-error @+1 {{shard(2) names a dim}}
plumb.layout_rule "wte" params {weight = {tp = "shard(2)"}} {override}
plumb.module @wte
// expected-note @+1 {{the parameter}}
plumb.parameter @wte.weight trainable : tensor<16x8xf32>
plumb.program @model {}

// -----

plumb.mesh @mesh ["dp" = 2]
// expected-error @+1 {{the axis "dp" shards the batch; style "colwise" needs an axis whose ranks compute with the same tokens}}
plumb.layout_rule "fc" style "colwise" axis "dp"
plumb.module @fc
plumb.parameter @fc.weight trainable : tensor<8x8xf32>
plumb.program @model {
  %x = plumb.input "x" index 0 : tensor<4x8xf32>
}

// -----

plumb.mesh @mesh ["tp" = 2]
// expected-error @+1 {{parameters are stored over axes that shard the batch, but no input is sharded over "tp"}}
plumb.storage_rule "*" axis "tp" gather "pass"
plumb.parameter @w trainable : tensor<8x8xf32>
plumb.program @model {}

// -----

plumb.mesh @mesh ["tp" = 2]
// expected-error @+1 {{the template "llama" fits no module of this model; it expects modules such as "layers.*.self_attn.q_proj"}}
plumb.layout_rule "**" template "llama" axis "tp"
plumb.module @fc
plumb.program @model {}

// -----

// Heads: 3 of 8 over 2 ranks.

plumb.mesh @mesh ["tp" = 2]
// expected-error @+1 {{parameter q.weight has 24 rows in dim 0, 3 units of 8, which tp = 2 does not divide}}
plumb.layout_rule "q" style "colwise"
plumb.module @q
// expected-note @+1 {{the parameter, 'tensor<24x8xf32>'}}
plumb.parameter @q.weight trainable : tensor<24x8xf32>
plumb.program @model {
  %x = plumb.input "x" index 0 : tensor<4x8xf32>
  %w = plumb.load @q.weight {plumb.module = "q"} : tensor<24x8xf32>
  %y = nn.einsum "bi,oi->bo"(%x, %w) {plumb.module = "q"} : (tensor<4x8xf32>, tensor<24x8xf32>) -> tensor<4x24xf32>
  %z = nn.view %y : (tensor<4x24xf32>) -> tensor<4x3x8xf32>
  plumb.output "z" index 0 %z : tensor<4x3x8xf32>
}

// -----

// Key and value heads: 2 of 8 over 3 ranks.

plumb.mesh @mesh ["tp" = 3]
// expected-error @+1 {{parameter k.weight has 16 rows in dim 0, 2 units of 8, which tp = 3 does not divide}}
plumb.layout_rule "k" style "colwise" {unit = 8}
plumb.module @k
// expected-note @+1 {{the parameter}}
plumb.parameter @k.weight trainable : tensor<16x8xf32>
plumb.program @model {
  %x = plumb.input "x" index 0 : tensor<4x8xf32>
  %w = plumb.load @k.weight {plumb.module = "k"} : tensor<16x8xf32>
  %y = nn.einsum "bi,oi->bo"(%x, %w) {plumb.module = "k"} : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  plumb.output "y" index 0 %y : tensor<4x16xf32>
}

// -----

plumb.mesh @mesh ["ep" = 2]
// expected-error @+1 {{parameter moe.w1 has 3 experts, which ep = 2 does not divide}}
plumb.layout_rule "moe" style "expert"
plumb.module @moe
// expected-note @+1 {{the parameter}}
plumb.parameter @moe.w1 trainable : tensor<3x8x8xf32>
plumb.program @model {}

// -----

// A bias follows its weight: the first does, those of the second entry do not, which is one cause.

plumb.mesh @mesh ["tp" = 2]
plumb.layout_rule "a" params {bias = {tp = "shard(0)"}, weight = {tp = "shard(0)"}}
// expected-warning @+2 {{bias b.0.bias is laid out as {}, which does not follow dim 0 of its weight, {"tp": "shard(0)"} of b.0.weight; so are 1 more of this entry}}
// expected-note @+1 {{the layout of the weight}}
plumb.layout_rule "b.*" params {bias = {}, weight = {tp = "shard(0)"}}
plumb.module @a
plumb.module @b
plumb.module @b.0
plumb.module @b.1
plumb.parameter @a.weight trainable : tensor<8x8xf32>
plumb.parameter @a.bias trainable : tensor<8xf32>
plumb.parameter @b.0.weight trainable : tensor<8x8xf32>
plumb.parameter @b.0.bias trainable : tensor<8xf32>
plumb.parameter @b.1.weight trainable : tensor<8x8xf32>
plumb.parameter @b.1.bias trainable : tensor<8xf32>
plumb.program @model {
  %x = plumb.input "x" index 0 : tensor<4x8xf32>
  %0 = plumb.load @a.weight {plumb.module = "a"} : tensor<8x8xf32>
  %1 = nn.einsum "bi,oi->bo"(%x, %0) {plumb.module = "a"} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %2 = plumb.load @a.bias {plumb.module = "a"} : tensor<8xf32>
  %3 = nn.add %1, %2 {plumb.module = "a"} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %4 = plumb.load @b.0.weight {plumb.module = "b.0"} : tensor<8x8xf32>
  %5 = nn.einsum "bi,oi->bo"(%3, %4) {plumb.module = "b.0"} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %6 = plumb.load @b.0.bias {plumb.module = "b.0"} : tensor<8xf32>
  %7 = nn.add %5, %6 {plumb.module = "b.0"} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %8 = plumb.load @b.1.weight {plumb.module = "b.1"} : tensor<8x8xf32>
  %9 = nn.einsum "bi,oi->bo"(%7, %8) {plumb.module = "b.1"} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %10 = plumb.load @b.1.bias {plumb.module = "b.1"} : tensor<8xf32>
  %11 = nn.add %9, %10 {plumb.module = "b.1"} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  plumb.output "y" index 0 %11 : tensor<4x8xf32>
}

// -----

// A scalar has nothing to store in shards, and one rank no use for them: neither is worth a word.

plumb.mesh @mesh ["dp" = 2, "ep" = 1]
// expected-remark @+1 {{no dim of these parameters, as they are cut already, can be cut further over dp = 2, they are stored whole: one}}
plumb.storage_rule "*" axis "dp" gather "pass"
plumb.storage_rule "*" axis "ep" gather "pass"
plumb.parameter @count : tensor<i64>
plumb.parameter @one : tensor<1xf32>
plumb.program @model {
  %x = plumb.input "x" index 0 : tensor<4x8xf32>
  plumb.output "y" index 0 %x : tensor<4x8xf32>
}

// -----

plumb.mesh @mesh ["tp" = 2]
// expected-error @+1 {{parameter b of the model is missing in "params"; {} replicates it}}
plumb.layout_rule "." params {a = {tp = "shard(0)"}}
plumb.module @""
plumb.parameter @a trainable : tensor<4xf32>
// expected-note @+1 {{the parameter}}
plumb.parameter @b trainable : tensor<4xf32>
plumb.program @model {
  %x = plumb.input "x" index 0 : tensor<4x8xf32>
  plumb.output "y" index 0 %x : tensor<4x8xf32>
}
