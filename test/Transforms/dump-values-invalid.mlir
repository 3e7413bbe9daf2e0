// RUN: plumb-opt %s --dump-values=modules=h.O -verify-diagnostics

// expected-error @+1 {{no module of the model is called "h.O"; did you mean "h.0"?}}
plumb.program @model {
  %x = plumb.input "x" index 0 : tensor<2x8xf32>
  %y = nn.relu %x {plumb.module = "h.0.fc"} : (tensor<2x8xf32>) -> tensor<2x8xf32>
  plumb.output "y" index 0 %y : tensor<2x8xf32>
}
