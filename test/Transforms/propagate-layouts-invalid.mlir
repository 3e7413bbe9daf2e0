// RUN: plumb-opt %s --split-input-file --propagate-layouts --verify-diagnostics

// Heads that the axis does not divide are gathered; the same line in two modules is one cause.

plumb.mesh @mesh ["tp" = 4]
plumb.pipeline axis "pp" schedule "1f1b" microbatches 1
plumb.parameter @q : tensor<48x16xf32> layout <@mesh, [{"tp"}, {}]>
plumb.program @model {
  %x = plumb.input "x" index 0 {plumb.layouts = [#plumb.layout<@mesh, [{}, {}]>]} : tensor<8x16xf32>
  %w = plumb.load @q : tensor<48x16xf32>
  %0 = nn.einsum "ai,oi->ao"(%x, %w) : (tensor<8x16xf32>, tensor<48x16xf32>) -> tensor<8x48xf32>
  // expected-remark @+1 {{module h.0.attn, m.py:9: 'nn.view' dim 1 of operand 0 is sharded by "tp" = 4, but it is made of 3 x 16, which that does not divide: it is gathered first; so in 1 more operations of this line}}
  %1 = nn.view %0 {plumb.module = "h.0.attn", plumb.source = "m.py:9"} : (tensor<8x48xf32>) -> tensor<8x3x16xf32>
  %2 = nn.view %0 {plumb.module = "h.1.attn", plumb.source = "m.py:9"} : (tensor<8x48xf32>) -> tensor<8x3x16xf32>
}

// -----

// Microbatches are not: a step has one at a time.

plumb.mesh @mesh ["tp" = 1]
plumb.pipeline axis "pp" schedule "1f1b" microbatches 4
plumb.program @model {
  %x = plumb.input "x" index 0 {plumb.layouts = [#plumb.layout<@mesh, [{"microbatch"}]>]} : tensor<48xf32>
  // expected-error @+1 {{module attn, m.py:9: 'nn.view' dim 0 of operand 0 is sharded by "microbatch" = 4, but it is made of 3 x 16, which that does not divide}}
  %1 = nn.view %x {plumb.module = "attn", plumb.source = "m.py:9"} : (tensor<48xf32>) -> tensor<3x16xf32>
}

// -----

// An axis that nothing uses.

// expected-warning @+1 {{the axis "tp" of 2 ranks shards nothing: all of them compute the same}}
plumb.mesh @mesh ["dp" = 2, "tp" = 2]
plumb.pipeline axis "pp" schedule "1f1b" microbatches 1
plumb.program @model {
  %x = plumb.input "x" index 0 {plumb.layouts = [#plumb.layout<@mesh, [{"dp"}, {}]>]} : tensor<8x16xf32>
  %y = nn.relu %x : (tensor<8x16xf32>) -> tensor<8x16xf32>
}
