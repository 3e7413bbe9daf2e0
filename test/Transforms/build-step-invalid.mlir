// RUN: plumb-opt %s --build-step --verify-diagnostics

// expected-error @+1 {{the optimizer "lion" is not supported by this version; use "sgd"}}
plumb.optimizer "lion" rate 0.1
plumb.parameter @w trainable : tensor<4xf32> owner 0 holders [0]
plumb.state @grad.w "gradient" of "w" : tensor<4xf32>
plumb.program @model {
  %x = plumb.input "x" index 0 : tensor<4xf32>
  %1 = nn.sum %x dims [0] : (tensor<4xf32>) -> tensor<f32>
  plumb.loss %1 : tensor<f32>
}
