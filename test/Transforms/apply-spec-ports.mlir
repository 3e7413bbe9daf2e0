// RUN: plumb-opt %s --split-input-file --apply-spec | FileCheck %s --check-prefix=APPLY
// RUN: plumb-opt %s --split-input-file --apply-spec --propagate-layouts --plan-boundaries | FileCheck %s --check-prefix=PLAN

// Four sides of a port: the input enters whole, the output leaves sharded along the sequence; batch axes stay. A sum that is
// scattered is never reduced everywhere.

// APPLY: %[[IN:.*]] = plumb.boundary %{{.*}} port "input.0" of "fc" from <@mesh, [{}, {"tp"}, {}]> to <@mesh, [{}, {}, {}]> keep ["dp", "pp", "microbatch"] {plumb.module = "fc"}
// APPLY: nn.einsum "bti,oi->bto"(%[[IN]]
// APPLY: plumb.boundary %{{.*}} port "output.0" of "fc" from <@mesh, [{}, {}, {}], partial = {"tp" : sum}> to <@mesh, [{}, {"tp"}, {}]>
// PLAN: %[[X:.*]] = plumb.redistribute %{{.*}} from <@mesh, [{"dp"}, {"tp"}, {}]> to <@mesh, [{"dp"}, {}, {}]> {{.*}}plumb.port = "fc input.0"
// PLAN: plumb.redistribute %[[X]] from <@mesh, [{"dp"}, {}, {}]> to <@mesh, [{"dp"}, {}, {"tp"}]>
// PLAN: %[[Y:.*]] = nn.einsum
// PLAN: plumb.redistribute %[[Y]] from <@mesh, [{"dp"}, {}, {}], partial = {"tp" : sum}> to <@mesh, [{"dp"}, {"tp"}, {}]> {{.*}}plumb.port = "fc output.0"
// PLAN-NOT: plumb.boundary
plumb.mesh @mesh ["dp" = 2, "pp" = 1, "tp" = 2]
plumb.layout_rule "pre" {out_dst = {y = {tp = "shard(1)"}}}
plumb.layout_rule "fc" params {weight = {tp = "shard(1)"}} {
    in_src = {x = {dp = "keep", tp = "shard(1)"}}, in_dst = {x = {tp = "replicate"}},
    out_names = ["y"], out_src = {y = {tp = "partial(sum)"}}, out_dst = {y = {tp = "shard(1)"}}}
plumb.module @pre
plumb.module @fc
plumb.parameter @fc.weight : tensor<8x8xf32>
plumb.state @output.0 "output" index 0 : tensor<4x2x8xf32>
plumb.program @model {
  %x = plumb.input "x" index 0 : tensor<4x2x8xf32>
  %p = nn.relu %x {plumb.module = "pre"} : (tensor<4x2x8xf32>) -> tensor<4x2x8xf32>
  %w = plumb.load @fc.weight {plumb.module = "fc"} : tensor<8x8xf32>
  %y = nn.einsum "bti,oi->bto"(%p, %w) {plumb.module = "fc"} : (tensor<4x2x8xf32>, tensor<8x8xf32>) -> tensor<4x2x8xf32>
  %z = nn.relu %y : (tensor<4x2x8xf32>) -> tensor<4x2x8xf32>
  plumb.store @output.0, %z : tensor<4x2x8xf32>
}

// -----

// A sequence style speaks of its axis alone; identity ports emit nothing.

// APPLY: plumb.boundary %{{.*}} port "input.0" of "norm" to <@mesh, [{}, {"tp"}, {}]> keep ["dp", "microbatch"]
// APPLY: plumb.boundary %{{.*}} port "output.0" of "norm" to <@mesh, [{}, {"tp"}, {}]> keep ["dp", "microbatch"]
// PLAN: nn.relu {{.*}}[{"dp"}, {"tp"}, {}]
// PLAN-NEXT: plumb.store
plumb.mesh @mesh ["dp" = 2, "tp" = 2]
plumb.input_rule "x" {dp = "shard(0)", tp = "shard(1)"}
plumb.layout_rule "norm" style "sequence" axis "tp"
plumb.module @norm
plumb.state @output.0 "output" index 0 : tensor<4x2x8xf32>
plumb.program @model {
  %x = plumb.input "x" index 0 : tensor<4x2x8xf32>
  %y = nn.relu %x {plumb.module = "norm"} : (tensor<4x2x8xf32>) -> tensor<4x2x8xf32>
  plumb.store @output.0, %y : tensor<4x2x8xf32>
}
