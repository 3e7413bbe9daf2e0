// RUN: plumb-opt %s --split-input-file --apply-spec --verify-diagnostics

plumb.mesh @mesh ["tp" = 2]
// expected-error @+1 {{pattern "encoder.*" matches 0 of 1 modules}}
plumb.layout_rule "encoder.*" style "colwise"
plumb.module @decoder
plumb.program @model {}

// -----

// expected-note @+1 {{the mesh has tp}}
plumb.mesh @mesh ["tp" = 2]
// expected-error @+1 {{the mesh has no axis "tpp"; did you mean "tp"?}}
plumb.layout_rule "fc" style "colwise" axis "tpp"
plumb.module @fc
plumb.program @model {}

// -----

plumb.mesh @mesh ["tp" = 2]
// expected-error @+1 {{style "colwise" cannot serve module act, which has no parameters of its own}}
plumb.layout_rule "act" style "colwise"
plumb.module @act
plumb.program @model {}

// -----

plumb.mesh @mesh ["tp" = 3]
// expected-error @+1 {{parameter fc.weight has 32 rows in dim 0, which tp = 3 times 2 blocks does not divide}}
plumb.layout_rule "fc" params {weight = {tp = "shard(0, blocks=2)"}}
plumb.module @fc
// expected-note @+1 {{the parameter, 'tensor<32x4xf32>'}}
plumb.parameter @fc.weight : tensor<32x4xf32>
plumb.program @model {}

// -----

// The same sizes in every layer are one cause.
plumb.mesh @mesh ["tp" = 3]
// expected-error @+1 {{parameter h.0.weight has 32 rows in dim 0, which tp = 3 times 2 blocks does not divide}}
plumb.layout_rule "h.*" params {weight = {tp = "shard(0, blocks=2)"}}
plumb.module @h.0
plumb.module @h.1
// expected-note @+1 {{the parameter, 'tensor<32x4xf32>'}}
plumb.parameter @h.0.weight : tensor<32x4xf32>
plumb.parameter @h.1.weight : tensor<32x4xf32>
plumb.program @model {}

// -----

// An export with fake weights reads one of two names of a parameter.
plumb.mesh @mesh ["tp" = 2]
// expected-error @+1 {{style "rowwise" cannot serve module wte: no op reads wte.weight; the module reads head.weight: if both are one parameter, say so in "aliases"}}
plumb.layout_rule "wte" style "rowwise" axis "tp"
plumb.module @wte
plumb.parameter @wte.weight : tensor<32x4xf32>
plumb.parameter @head.weight : tensor<32x4xf32>
plumb.program @model {
  %i = plumb.input "i" index 0 : tensor<8xi64>
  %w = plumb.load @head.weight {plumb.module = "wte"} : tensor<32x4xf32>
  %x = nn.embedding %w, %i {plumb.module = "wte"} : (tensor<32x4xf32>, tensor<8xi64>) -> tensor<8x4xf32>
  plumb.output "x" index 0 %x : tensor<8x4xf32>
}

// -----

// expected-note @+1 {{the mesh has pp, tp}}
plumb.mesh @mesh ["pp" = 2, "tp" = 2]
// expected-error @+1 {{the pipeline axis "pp" cannot shard a parameter}}
plumb.layout_rule "fc" params {weight = {pp = "shard(0)"}}
plumb.module @fc
plumb.parameter @fc.weight : tensor<32x4xf32>
plumb.program @model {}

// -----

plumb.mesh @mesh ["tp" = 2]
// expected-error @+1 {{parameter fc.weight cannot be partial over "tp"; parameters are values, of which shards may be stored}}
plumb.layout_rule "fc" params {weight = {tp = "partial(sum)"}}
plumb.module @fc
// expected-note @+1 {{the parameter}}
plumb.parameter @fc.weight : tensor<32x4xf32>
plumb.program @model {}

// -----

plumb.mesh @mesh ["tp" = 2]
// expected-note @+1 {{the other entry}}
plumb.layout_rule "fc" params {weight = {tp = "shard(0)"}}
// expected-error @+1 {{module fc is laid out by two entries}}
plumb.layout_rule "f*" params {weight = {tp = "shard(1)"}}
plumb.module @fc
plumb.parameter @fc.weight : tensor<32x4xf32>
plumb.program @model {}

// -----

plumb.mesh @mesh ["dp" = 2]
// expected-error @+1 {{input "x" has 6 rows in dim 0, which dp = 2 x microbatch = 2 (4 parts) does not divide}}
plumb.pipeline axis "pp" schedule "1f1b" microbatches 2
plumb.program @model {
  %x = plumb.input "x" index 0 : tensor<6x4xf32>
}

// -----

plumb.mesh @mesh ["dp" = 2]
// expected-error @+1 {{the model has no input "ids"; did you mean "idx"?}}
plumb.input_rule "ids" {}
plumb.program @model {
  %x = plumb.input "idx" index 0 : tensor<6x4xf32>
}

// -----

plumb.mesh @mesh ["dp" = 2]
// expected-error @+1 {{shard(2) names a dim that the input "x" of type 'tensor<6x4xf32>' does not have}}
plumb.input_rule "x" {dp = "shard(2)"}
plumb.program @model {
  %x = plumb.input "x" index 0 : tensor<6x4xf32>
}

// -----

plumb.mesh @mesh ["dp" = 1]
// expected-error @+1 {{split point "h.3" matches no module that computes; did you mean "h.2"?}}
plumb.split_rule "h.3"
plumb.module @h.2
plumb.program @model {}

// -----

plumb.mesh @mesh ["dp" = 1]
// expected-error @+1 {{the loss is output 1, the model has 1 outputs}}
plumb.loss_rule output 1
plumb.program @model {
  %x = plumb.input "x" index 0 : tensor<6x4xf32>
  plumb.output "y" index 0 %x : tensor<6x4xf32>
}

// -----

plumb.mesh @mesh ["dp" = 1]
// expected-error @+1 {{the loss must be a floating-point scalar, output 0 has the type 'tensor<6x4xf32>'; add "reduce"}}
plumb.loss_rule output 0
plumb.program @model {
  %x = plumb.input "x" index 0 : tensor<6x4xf32>
  plumb.output "y" index 0 %x : tensor<6x4xf32>
}

// -----

plumb.mesh @mesh ["dp" = 1]
// expected-note @+1 {{the other one}}
plumb.loss_rule output 0 reduce "sum"
// expected-error @+1 {{there can be only one loss}}
plumb.loss_rule output 0 reduce "mean"
plumb.program @model {
  %x = plumb.input "x" index 0 : tensor<6x4xf32>
  plumb.output "y" index 0 %x : tensor<6x4xf32>
}

// -----

plumb.mesh @mesh ["dp" = 1]
// expected-error @+1 {{the model has an input "x" already; the target of a loss is a further input}}
plumb.loss_rule output 0 reduce "cross_entropy" target "x" : i64
plumb.program @model {
  %x = plumb.input "x" index 0 : tensor<6x4xf32>
  plumb.output "y" index 0 %x : tensor<6x4xf32>
}

// -----

plumb.mesh @mesh ["dp" = 1]
// expected-error @+1 {{the reduction "cross_entropy" needs an output with rows and classes, the last dim; output 0 has the type 'tensor<6xf32>'}}
plumb.loss_rule output 0 reduce "cross_entropy" target "labels" : i64
plumb.program @model {
  %x = plumb.input "x" index 0 : tensor<6xf32>
  plumb.output "y" index 0 %x : tensor<6xf32>
}

// -----

// A sequence in 2 x 2 pieces can be dealt out evenly under a causal mask, one of 6 cannot.

plumb.mesh @mesh ["cp" = 2]
// expected-warning @+1 {{input "x" has 6 elements in dim 1, which twice cp = 2 does not divide}}
plumb.input_rule "x" {cp = "shard(1)"}
plumb.input_rule "y" {cp = "shard(1)"}
plumb.program @model {
  // expected-note @+1 {{the input}}
  %x = plumb.input "x" index 0 : tensor<4x6xf32>
  %y = plumb.input "y" index 1 : tensor<4x4xf32>
}

// -----

plumb.mesh @mesh ["dp" = 2]
// expected-error @+1 {{the state cannot be sharded over "dp": no trained parameter has a dim 7}}
plumb.optimizer "sgd" rate 0.1 state {dp = "shard(7)"}
plumb.parameter @w trainable : tensor<8x4xf32>
plumb.program @model {}
