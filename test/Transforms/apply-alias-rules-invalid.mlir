// RUN: plumb-opt %s --split-input-file --apply-spec --verify-diagnostics

plumb.mesh @mesh ["dp" = 1]
// expected-error @+1 {{the model has no parameter "wtf.weight"; did you mean "wte.weight"?}}
plumb.alias_rule ["wte.weight", "wtf.weight"]
plumb.parameter @wte.weight : tensor<4x2xf32>
plumb.program @model {}

// -----

plumb.mesh @mesh ["dp" = 1]
// expected-error @+1 {{a and b cannot be one parameter: one is trained, of type tensor<4x2xf32>, the other trained, of type tensor<2x4xf32>}}
plumb.alias_rule ["a", "b"]
plumb.parameter @a trainable : tensor<4x2xf32>
plumb.parameter @b trainable : tensor<2x4xf32>
plumb.program @model {}
