// RUN: plumb-opt %s --propagate-layouts --plan-boundaries --verify-diagnostics

// A mean over the batch of something that depends on a parameter cannot be known before the first forward.

plumb.mesh @mesh ["dp" = 1]
plumb.pipeline axis "pp" schedule "1f1b" microbatches 2
plumb.parameter @w : tensor<4xf32> layout <@mesh, [{}]>
plumb.state @output.0 "output" index 0 : tensor<8x4xf32>
plumb.program @model {
  %x = plumb.input "x" index 0 {plumb.layouts = [#plumb.layout<@mesh, [{"microbatch"}, {}]>]} : tensor<8x4xf32>
  %w = plumb.load @w {plumb.module = "norm"} : tensor<4xf32>
  %0 = nn.mul %x, %w : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
  // expected-note @+1 {{depends on module norm}}
  %1 = nn.sum %0 dims [0] {plumb.module = "norm", plumb.source = "m.py:4"} : (tensor<8x4xf32>) -> tensor<4xf32>
  // expected-error @+1 {{module norm, m.py:5: 'nn.div' needs a sum over the microbatches in the middle of a step}}
  %2 = nn.div %0, %1 {plumb.module = "norm", plumb.source = "m.py:5"} : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
  plumb.store @output.0, %2 : tensor<8x4xf32>
}
