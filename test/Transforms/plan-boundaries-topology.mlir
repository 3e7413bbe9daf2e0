// RUN: plumb-opt %s --propagate-layouts --plan-boundaries --split-input-file | FileCheck %s

// Stages on two nodes: what both ranks of a stage hold crosses in halves and is gathered behind the network.
plumb.mesh @mesh ["pp" = 2, "tp" = 2] {plumb.topology = "{\"node_size\": 2}"}
plumb.pipeline axis "pp" schedule "1f1b" microbatches 1 stages_per_rank 1
plumb.state @output.0 "output" index 0 : tensor<4096x4096xf32>
plumb.program @model {
  // CHECK-LABEL: plumb.program
  // CHECK: %[[Y:.*]] = nn.relu {{.*}}plumb.stage = 0
  // CHECK-NEXT: %[[HALF:.*]] = plumb.redistribute %[[Y]] from <@mesh, [{}, {}]> to <@mesh, [{"tp"}, {}]> {{.*}}plumb.stage = 0
  // CHECK: %[[WHOLE:.*]] = plumb.redistribute %[[HALF]] from <@mesh, [{"tp"}, {}]> to <@mesh, [{}, {}]> {{.*}}plumb.stage = 1
  // CHECK-NEXT: nn.tanh %[[WHOLE]]
  %x = plumb.input "x" index 0 {plumb.stage = 0 : i64, plumb.layouts = [#plumb.layout<@mesh, [{}, {}]>]} : tensor<4096x4096xf32>
  %y = nn.relu %x {plumb.stage = 0 : i64, plumb.layouts = [#plumb.layout<@mesh, [{}, {}]>]} : (tensor<4096x4096xf32>) -> tensor<4096x4096xf32>
  %z = nn.tanh %y {plumb.stage = 1 : i64, plumb.layouts = [#plumb.layout<@mesh, [{}, {}]>]} : (tensor<4096x4096xf32>) -> tensor<4096x4096xf32>
  plumb.store @output.0, %z {plumb.stage = 1 : i64} : tensor<4096x4096xf32>
}

// -----

// A sum that only the other stage reads is taken in halves.
plumb.mesh @mesh ["pp" = 2, "tp" = 2] {plumb.topology = "{\"node_size\": 2}"}
plumb.pipeline axis "pp" schedule "1f1b" microbatches 1 stages_per_rank 1
plumb.parameter @w trainable : tensor<4096x4096xf32> layout <@mesh, [{}, {"tp"}]> owner 0 holders [0]
plumb.state @output.0 "output" index 0 : tensor<4096x4096xf32>
plumb.program @model {
  // CHECK-LABEL: plumb.program
  // CHECK: %[[SUM:.*]] = nn.einsum
  // CHECK-NEXT: %[[HALF:.*]] = plumb.redistribute %[[SUM]] from <@mesh, [{}, {}], partial = {"tp" : sum}> to <@mesh, [{"tp"}, {}]> {{.*}}plumb.stage = 0
  // CHECK-NEXT: %[[WHOLE:.*]] = plumb.redistribute %[[HALF]] from <@mesh, [{"tp"}, {}]> to <@mesh, [{}, {}]> {{.*}}plumb.stage = 1
  // CHECK-NEXT: nn.tanh %[[WHOLE]]
  %x = plumb.input "x" index 0 {plumb.stage = 0 : i64, plumb.layouts = [#plumb.layout<@mesh, [{}, {"tp"}]>]} : tensor<4096x4096xf32>
  %w = plumb.load @w {plumb.stage = 0 : i64, plumb.layouts = [#plumb.layout<@mesh, [{}, {"tp"}]>]} : tensor<4096x4096xf32>
  %y = nn.einsum "ai,oi->ao"(%x, %w) {plumb.stage = 0 : i64, plumb.layouts = [#plumb.layout<@mesh, [{}, {}], partial = {"tp" : sum}>]} : (tensor<4096x4096xf32>, tensor<4096x4096xf32>) -> tensor<4096x4096xf32>
  %z = nn.tanh %y {plumb.stage = 1 : i64, plumb.layouts = [#plumb.layout<@mesh, [{}, {}]>]} : (tensor<4096x4096xf32>) -> tensor<4096x4096xf32>
  plumb.store @output.0, %z {plumb.stage = 1 : i64} : tensor<4096x4096xf32>
}

// -----

// On one node nothing is gained.
plumb.mesh @mesh ["pp" = 2, "tp" = 2] {plumb.topology = "{\"node_size\": 4}"}
plumb.pipeline axis "pp" schedule "1f1b" microbatches 1 stages_per_rank 1
plumb.state @output.0 "output" index 0 : tensor<4096x4096xf32>
plumb.program @model {
  // CHECK-LABEL: plumb.program
  // CHECK-NOT: plumb.redistribute
  %x = plumb.input "x" index 0 {plumb.stage = 0 : i64, plumb.layouts = [#plumb.layout<@mesh, [{}, {}]>]} : tensor<4096x4096xf32>
  %y = nn.relu %x {plumb.stage = 0 : i64, plumb.layouts = [#plumb.layout<@mesh, [{}, {}]>]} : (tensor<4096x4096xf32>) -> tensor<4096x4096xf32>
  %z = nn.tanh %y {plumb.stage = 1 : i64, plumb.layouts = [#plumb.layout<@mesh, [{}, {}]>]} : (tensor<4096x4096xf32>) -> tensor<4096x4096xf32>
  plumb.store @output.0, %z {plumb.stage = 1 : i64} : tensor<4096x4096xf32>
}
