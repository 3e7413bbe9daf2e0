// RUN: plumb-opt %s --split-input-file --apply-spec | FileCheck %s

// An entry of a module replaces a model-wide one; what nobody claims is replicated.

// CHECK: plumb.parameter @a.weight trainable : tensor<8x8xf32> layout <@mesh, [{}, {"tp"}]>
// CHECK: plumb.parameter @b.weight trainable : tensor<8x8xf32> layout <@mesh, [{"tp"}, {}]>
// CHECK: plumb.parameter @free trainable : tensor<8xf32> layout <@mesh, [{}]>
plumb.mesh @mesh ["tp" = 2]
plumb.layout_rule "a" style "rowwise"
plumb.layout_rule "*" style "colwise"
plumb.module @a
plumb.module @b
plumb.parameter @a.weight trainable : tensor<8x8xf32>
plumb.parameter @b.weight trainable : tensor<8x8xf32>
plumb.parameter @free trainable : tensor<8xf32>
plumb.program @model {
  %x = plumb.input "x" index 0 : tensor<4x8xf32>
  %a = plumb.load @a.weight {plumb.module = "a"} : tensor<8x8xf32>
  %y = nn.einsum "bi,oi->bo"(%x, %a) {plumb.module = "a"} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %b = plumb.load @b.weight {plumb.module = "b"} : tensor<8x8xf32>
  %z = nn.einsum "bi,oi->bo"(%y, %b) {plumb.module = "b"} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  plumb.output "z" index 0 %z : tensor<4x8xf32>
}

// -----

// A nested provider owns its own parameters; an override replaces the layout of one; a module without an owner is bound.

// CHECK: plumb.parameter @mlp.weight trainable : tensor<8x8xf32> layout <@mesh, [{"tp"}, {}]>
// CHECK: plumb.parameter @mlp.inner.weight trainable : tensor<8x8xf32> layout <@mesh, [{"tp"}, {}]>
// CHECK: plumb.parameter @head.weight trainable : tensor<8x8xf32> layout <@mesh, [{}, {"tp"}]>
plumb.mesh @mesh ["tp" = 2]
plumb.layout_rule "mlp" params {weight = {}}
plumb.layout_rule "mlp.inner" params {weight = {tp = "shard(0)"}} {communication = "tp"}
plumb.layout_rule "mlp" params {weight = {tp = "shard(0)"}} {override}
plumb.layout_rule "**" params {weight = {tp = "shard(1)"}} {bind = ["head"]}
plumb.module @mlp
plumb.module @mlp.inner
plumb.module @head
plumb.parameter @mlp.weight trainable : tensor<8x8xf32>
plumb.parameter @mlp.inner.weight trainable : tensor<8x8xf32>
plumb.parameter @head.weight trainable : tensor<8x8xf32>
plumb.program @model {}

// -----

// A tied parameter is claimed under both of its names.

// CHECK: plumb.parameter @wte.weight trainable : tensor<16x8xf32> aliases ["lm_head.weight"] layout <@mesh, [{"tp"}, {}]>
plumb.mesh @mesh ["tp" = 2]
plumb.layout_rule "wte" params {weight = {tp = "shard(0)"}}
plumb.layout_rule "lm_head" params {weight = {tp = "shard(0)"}}
plumb.module @wte
plumb.module @lm_head
plumb.parameter @wte.weight trainable : tensor<16x8xf32> aliases ["lm_head.weight"]
plumb.program @model {}

// -----

// An axis that shards the batch is storage in `params`; stacked experts are computed where they lie. Storage and update in
// shards, within those of the model axis.

// CHECK: plumb.parameter @w trainable : tensor<8x8xf32> layout <@mesh, [{"dp"}, {"tp"}]> gathered <@mesh, [{}, {"tp"}]> gather "pass"
// CHECK: plumb.parameter @moe.w1 trainable : tensor<4x8x8xf32> layout <@mesh, [{"dp"}, {}, {}]>
// CHECK: plumb.parameter @fc.weight trainable : tensor<8x8xf32> layout <@mesh, [{"tp", "dp"}, {}]> gathered <@mesh, [{"tp"}, {}]> gather "step"
// CHECK: plumb.parameter @fc.bias trainable : tensor<8xf32> layout <@mesh, [{}]> updated <@mesh, [{"dp"}]>
plumb.mesh @mesh ["dp" = 2, "tp" = 2]
plumb.layout_rule "." params {w = {dp = "shard(0)", tp = "shard(1)"}}
plumb.layout_rule "moe" style "expert" axis "dp"
plumb.layout_rule "fc" params {weight = {tp = "shard(0)"}, bias = {}}
plumb.storage_rule "fc.weight" axis "dp" gather "step"
plumb.optimizer "sgd" rate 0.1 state {dp = "shard(0)"}
plumb.module @moe
plumb.module @fc
plumb.parameter @w trainable : tensor<8x8xf32>
plumb.parameter @moe.w1 trainable : tensor<4x8x8xf32>
plumb.parameter @fc.weight trainable : tensor<8x8xf32>
plumb.parameter @fc.bias trainable : tensor<8xf32>
plumb.program @model {
  %x = plumb.input "x" index 0 : tensor<4x8xf32>
}

// -----

// Shards of attention weights end at heads, which the view shows; two key heads over four ranks are kept by two ranks each.

// CHECK: plumb.parameter @k.weight trainable : tensor<32x8xf32> layout <@mesh, [{"tp":(1)2}, {}]>
plumb.mesh @mesh ["tp" = 4]
plumb.layout_rule "k" style "colwise"
plumb.module @k
plumb.parameter @k.weight trainable : tensor<32x8xf32>
plumb.program @model {
  %x = plumb.input "x" index 0 : tensor<4x3x8xf32>
  %w = plumb.load @k.weight {plumb.module = "k"} : tensor<32x8xf32>
  %y = nn.einsum "bti,oi->bto"(%x, %w) {plumb.module = "k"} : (tensor<4x3x8xf32>, tensor<32x8xf32>) -> tensor<4x3x32xf32>
  %z = nn.view %y : (tensor<4x3x32xf32>) -> tensor<4x3x2x16xf32>
  plumb.output "z" index 0 %z : tensor<4x3x2x16xf32>
}
