// RUN: plumb-opt %s --apply-spec -verify-diagnostics

plumb.mesh @mesh ["dp" = 1]
// expected-error@below {{pattern "layer.*" matches 0 of 1 modules; did you mean "layers.0"?}}
plumb.recompute_rule "layer.*"
plumb.module @layers.0
plumb.program @model {
  %x = plumb.input "x" index 0 : tensor<4x4xf32>
  plumb.output "x" index 0 %x : tensor<4x4xf32>
}
