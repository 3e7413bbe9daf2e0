// RUN: plumb-opt %s --split-input-file --verify-diagnostics

// expected-error @+1 {{has the axis "tp" twice}}
plumb.mesh @mesh ["tp" = 2, "tp" = 4]

// -----

// expected-error @+1 {{axis "tp" has size 0, which must be at least 1}}
plumb.mesh @mesh ["tp" = 0]

// -----

// expected-error @+1 {{the name is reserved}}
plumb.mesh @mesh ["microbatch" = 2]

// -----

// expected-error @+1 {{needs at least one microbatch}}
plumb.pipeline axis "pp" schedule "1f1b" microbatches 0

// -----

// expected-error @+1 {{needs a ranked tensor type of static shape}}
plumb.parameter @w : tensor<?x4xf32>

// -----

// expected-error @+1 {{is trained, and so must be saved}}
plumb.parameter @w trainable nonpersistent : tensor<4xf32>

// -----

plumb.mesh @mesh ["tp" = 2]
// expected-error @+1 {{cannot have the partial layout}}
plumb.parameter @w : tensor<4xf32> layout <@mesh, [{}], partial = {"tp" : sum}>

// -----

plumb.mesh @mesh ["tp" = 2]
plumb.program @model {
  // expected-error @+1 {{layout names the axis "tpp", which the mesh does not have}}
  %x = plumb.input "x" index 0 {plumb.layouts = [#plumb.layout<@mesh, [{"tpp"}]>]} : tensor<4xf32>
}

// -----

plumb.mesh @mesh ["tp" = 2]
plumb.program @model {
  // expected-error @+1 {{layout uses the axis "tp" twice}}
  %x = plumb.input "x" index 0 {plumb.layouts = [#plumb.layout<@mesh, [{"tp"}], partial = {"tp" : sum}>]} : tensor<4xf32>
}

// -----

plumb.program @model {
  // expected-error @+1 {{layout names the mesh @mesh, which is not defined here}}
  %x = plumb.input "x" index 0 {plumb.layouts = [#plumb.layout<@mesh, [{}]>]} : tensor<4xf32>
}

// -----

plumb.mesh @mesh ["tp" = 2]
plumb.program @model {
  // expected-error @+1 {{has 2 dims, the tensor 'tensor<4xf32>' has 1}}
  %x = plumb.input "x" index 0 {plumb.layouts = [#plumb.layout<@mesh, [{}, {}]>]} : tensor<4xf32>
}

// -----

plumb.program @model {
  // expected-error @+1 {{'plumb.layouts' needs one layout for each of the 1 results}}
  %x = plumb.input "x" index 0 {plumb.layouts = []} : tensor<4xf32>
}

// -----

plumb.program @model {
  // expected-error @+1 {{'plumb.stage' must be a non-negative integer}}
  %x = plumb.input "x" index 0 {plumb.stage = -1 : i64} : tensor<4xf32>
}

// -----

plumb.program @model {
  // expected-error @+1 {{names @w, which is no parameter or state}}
  %x = plumb.load @w : tensor<4xf32>
}

// -----

plumb.parameter @w : tensor<4x4xf32>
plumb.program @model {
  // expected-error @+1 {{uses @w as 'tensor<4xf32>', it is declared as 'tensor<4x4xf32>'}}
  %x = plumb.load @w : tensor<4xf32>
}

// -----

plumb.program @model {
  %x = plumb.input "x" index 0 : tensor<4xf32>
  // expected-error @+1 {{needs a floating-point scalar, not 'tensor<4xf32>'}}
  plumb.loss %x : tensor<4xf32>
}

// -----

plumb.mesh @mesh ["tp" = 2]
plumb.program @model {
  %x = plumb.input "x" index 0 : tensor<4xf32>
  // expected-error @+1 {{but names no global type}}
  %y = plumb.redistribute %x from <@mesh, [{"tp"}]> to <@mesh, [{}]> : (tensor<4xf32>) -> tensor<8xf32>
}

// -----

plumb.stage @s index 0 {
  %x = plumb.input "x" index 0 : tensor<4xf32>
  // expected-error @+1 {{overwrites operand 1, which it does not have}}
  %y = plumb.launch @k(%x) inplace [1] : (tensor<4xf32>) -> tensor<4xf32>
}

// -----

// expected-error @+1 {{has the kind "lion", which is not one of sgd, adam, adamw}}
plumb.optimizer "lion" rate 0.1

// -----

// expected-error @+1 {{has the schedule "step", which is not one of constant, linear, cosine}}
plumb.optimizer "sgd" rate 0.1 schedule "step"

// -----

// expected-error @+1 {{has 5 steps of the schedule "linear", which must be more than its 5 steps of warm-up}}
plumb.optimizer "sgd" rate 0.1 schedule "linear" warmup 5 steps 5

// -----

plumb.program @model {
  %x = plumb.input "x" index 0 : tensor<8xf32>
  // expected-error @+1 {{normalises the channels, dim 1, of a tensor to one of its type, not 'tensor<8xf32>' to 'tensor<8xf32>'}}
  %n = plumb.batch_norm %x momentum 0.1 eps 1.0e-05 : (tensor<8xf32>) -> tensor<8xf32>
}

// -----

plumb.program @model {
  %x = plumb.input "x" index 0 : tensor<8x4xf32>
  %m = plumb.input "m" index 1 : tensor<4xf32>
  // expected-error @+1 {{has 1 running statistics and 1 new ones; there are two of each, or none}}
  %n, %o = plumb.batch_norm %x running %m momentum 0.1 eps 1.0e-05 : (tensor<8x4xf32>, tensor<4xf32>) -> (tensor<8x4xf32>, tensor<4xf32>)
}

// -----

plumb.program @model {
  %x = plumb.input "x" index 0 : tensor<8x4xf32>
  %m = plumb.input "m" index 1 : tensor<8xf32>
  // expected-error @+1 {{has running statistics of type 'tensor<8xf32>', one per channel is 'tensor<4xf32>'}}
  %n, %o, %p = plumb.batch_norm %x running %m, %m momentum 0.1 eps 1.0e-05 : (tensor<8x4xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>)
}
