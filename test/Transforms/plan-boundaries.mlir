// RUN: plumb-opt %s --split-input-file --propagate-layouts --plan-boundaries | FileCheck %s

// A sum over a model axis is completed where it arises, once for all readers; the bias is added afterwards.

// CHECK: %[[Y:.*]] = nn.einsum {{.*}}partial = {"tp" : sum}
// CHECK: %[[R:.*]] = plumb.redistribute %[[Y]] from <@mesh, [{}, {}], partial = {"tp" : sum}> to <@mesh, [{}, {}]>
// CHECK-NOT: plumb.redistribute
// CHECK: nn.add %[[R]]
// CHECK: nn.relu %[[R]]
plumb.mesh @mesh ["tp" = 2]
plumb.pipeline axis "pp" schedule "1f1b" microbatches 1
plumb.parameter @w : tensor<4x8xf32> layout <@mesh, [{}, {"tp"}]>
plumb.parameter @b : tensor<4xf32> layout <@mesh, [{}]>
plumb.state @output.0 "output" index 0 : tensor<16x4xf32>
plumb.state @output.1 "output" index 1 : tensor<16x4xf32>
plumb.program @model {
  %x = plumb.input "x" index 0 {plumb.layouts = [#plumb.layout<@mesh, [{}, {"tp"}]>]} : tensor<16x8xf32>
  %w = plumb.load @w : tensor<4x8xf32>
  %b = plumb.load @b : tensor<4xf32>
  %y = nn.einsum "ai,oi->ao"(%x, %w) : (tensor<16x8xf32>, tensor<4x8xf32>) -> tensor<16x4xf32>
  %z = nn.add %y, %b : (tensor<16x4xf32>, tensor<4xf32>) -> tensor<16x4xf32>
  %r = nn.relu %y : (tensor<16x4xf32>) -> tensor<16x4xf32>
  plumb.store @output.0, %z : tensor<16x4xf32>
  plumb.store @output.1, %r : tensor<16x4xf32>
}

// -----

// The count of valid labels is summed over all microbatches in the prologue; the loss, divided by it, waits for the
// update; gradients are reduced once, over the batch axis and the copies on both pipeline ranks together.

// CHECK: plumb.state @stat.0 "statistic" : tensor<f32>
// CHECK: %[[V:.*]] = nn.is_valid {{.*}}plumb.phase = #plumb.phase<prologue>
// CHECK: %[[N:.*]] = nn.sum %[[V]] {{.*}}plumb.phase = #plumb.phase<prologue>
// CHECK: plumb.accumulate @stat.0, %[[N]] {plumb.phase = #plumb.phase<prologue>
// CHECK: %[[S:.*]] = plumb.load @stat.0 {plumb.layouts = [#plumb.layout<@mesh, [], partial = {"dp" : sum}>], plumb.phase = #plumb.phase<begin>
// CHECK: %[[W:.*]] = plumb.redistribute %[[S]] from <@mesh, [], partial = {"dp" : sum}> to <@mesh, []> {{.*}}plumb.phase = #plumb.phase<begin>
// CHECK: %[[L:.*]] = nn.div %{{.*}}, %[[W]] {plumb.layouts = [#plumb.layout<@mesh, [], partial = {"dp" : sum, "microbatch" : sum}>]
// CHECK: plumb.accumulate @loss, %[[L]]
// CHECK: %[[G:.*]] = plumb.load @grad.w {plumb.layouts = [#plumb.layout<@mesh, [{}], partial = {"dp" : sum, "pp" : sum}>]
// CHECK: plumb.redistribute %[[G]] from <@mesh, [{}], partial = {"dp" : sum, "pp" : sum}> to <@mesh, [{}]>
// CHECK: %[[T:.*]] = plumb.load @loss {plumb.layouts = [#plumb.layout<@mesh, [], partial = {"dp" : sum}>], plumb.phase = #plumb.phase<update>
// CHECK: plumb.redistribute %[[T]]
plumb.mesh @mesh ["pp" = 2, "dp" = 2]
plumb.pipeline axis "pp" schedule "1f1b" microbatches 2 stages_per_rank 1
plumb.parameter @w trainable : tensor<4xf32> layout <@mesh, [{}]> owner 0 holders [0, 1]
plumb.state @grad.w "gradient" of "w" : tensor<4xf32>
plumb.state @loss "loss" : tensor<f32>
plumb.program @model {
  %x = plumb.input "x" index 0 {plumb.layouts = [#plumb.layout<@mesh, [{"dp", "microbatch"}, {}]>]} : tensor<8x4xf32>
  %t = plumb.input "t" index 1 {plumb.layouts = [#plumb.layout<@mesh, [{"dp", "microbatch"}]>]} : tensor<8xi64>
  %w = plumb.load @w : tensor<4xf32>
  %y = nn.mul %x, %w : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
  %l, %e = nn.cross_entropy %y, %t ignore -100 : (tensor<8x4xf32>, tensor<8xi64>) -> (tensor<8xf32>, tensor<8xf32>)
  %s = nn.sum %l dims [0] : (tensor<8xf32>) -> tensor<f32>
  %v = nn.is_valid %t ignore -100 : (tensor<8xi64>) -> tensor<8xf32>
  %n = nn.sum %v dims [0] : (tensor<8xf32>) -> tensor<f32>
  %m = nn.div %s, %n : (tensor<f32>, tensor<f32>) -> tensor<f32>
  plumb.store @loss, %m : tensor<f32>
  %g = nn.sum %y dims [0] : (tensor<8x4xf32>) -> tensor<4xf32>
  plumb.accumulate @grad.w, %g : tensor<4xf32>
  %h = plumb.load @grad.w {plumb.phase = #plumb.phase<update>} : tensor<4xf32>
  plumb.store @grad.w, %h {plumb.phase = #plumb.phase<update>} : tensor<4xf32>
}

// -----

// A gradient that arises in other shards than its parameter's is accumulated in a state of its own; the update happens in
// the parameter's layout.

// CHECK: plumb.state @sum.w "accumulator" of "w" : tensor<4x8xf32> layout <@mesh, [{}, {"tp"}]>
// CHECK: plumb.state @grad.w "gradient" of "w" : tensor<4x8xf32> layout <@mesh, [{}, {}]>
// CHECK: plumb.accumulate @sum.w
// CHECK: %[[S:.*]] = plumb.load @sum.w
// CHECK: %[[R:.*]] = plumb.redistribute %[[S]] from <@mesh, [{}, {"tp"}]> to <@mesh, [{}, {}]>
// CHECK: plumb.store @grad.w, %[[R]]
// CHECK: %[[G:.*]] = plumb.load @grad.w
// CHECK: nn.sgd %{{.*}}, %[[G]], %{{.*}} {{.*}}plumb.layouts = [#plumb.layout<@mesh, [{}, {}]>]
// CHECK-NOT: plumb.redistribute
plumb.mesh @mesh ["tp" = 2]
plumb.pipeline axis "pp" schedule "1f1b" microbatches 1
plumb.parameter @w trainable : tensor<4x8xf32> layout <@mesh, [{}, {}]> owner 0 holders [0]
plumb.state @grad.w "gradient" of "w" : tensor<4x8xf32>
plumb.program @model {
  %x = plumb.input "x" index 0 {plumb.layouts = [#plumb.layout<@mesh, [{}, {"tp"}]>]} : tensor<16x8xf32>
  %y = plumb.input "y" index 1 {plumb.layouts = [#plumb.layout<@mesh, [{}, {}]>]} : tensor<16x4xf32>
  %g = nn.einsum "ao,ai->oi"(%y, %x) : (tensor<16x4xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>
  plumb.accumulate @grad.w, %g : tensor<4x8xf32>
  %h = plumb.load @grad.w {plumb.phase = #plumb.phase<update>} : tensor<4x8xf32>
  plumb.store @grad.w, %h {plumb.phase = #plumb.phase<update>} : tensor<4x8xf32>
  %w = plumb.load @grad.w {plumb.phase = #plumb.phase<update>} : tensor<4x8xf32>
  %p = plumb.load @w {plumb.phase = #plumb.phase<update>} : tensor<4x8xf32>
  %r = nn.fill 0.1 {plumb.phase = #plumb.phase<update>} : tensor<f32>
  %q = nn.sgd %p, %w, %r {plumb.phase = #plumb.phase<update>} : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  plumb.store @w, %q {plumb.phase = #plumb.phase<update>} : tensor<4x8xf32>
}

// -----

// Both ranks have a copy of each stage, rank 0 stages 0 and 3, rank 1 stages 1 and 2. They complete sums over the copies
// in the first of them, so that both do so in the order of the program.

// CHECK-DAG: plumb.accumulate @written.0, %{{.*}}plumb.stage = 0
// CHECK-DAG: plumb.accumulate @written.1, %{{.*}}plumb.stage = 1
// CHECK: %[[A:.*]] = plumb.load @written.0 {{.*}}partial = {"pp" : sum}>], plumb.phase = #plumb.phase<reduce>, plumb.stage = 0
// CHECK: plumb.redistribute %[[A]] {{.*}}plumb.stage = 0
// CHECK: %[[B:.*]] = plumb.load @written.0 {{.*}}plumb.stage = 1
// CHECK: plumb.redistribute %[[B]] {{.*}}plumb.stage = 1
// CHECK: plumb.load @written.1 {{.*}}plumb.stage = 1
// CHECK: plumb.load @written.1 {{.*}}plumb.stage = 0
plumb.mesh @mesh ["pp" = 2]
plumb.pipeline axis "pp" schedule "dualpipe" microbatches 4 stages_per_rank 2 {plumb.copies = 2 : i64, plumb.ranks = array<i64: 0, 1, 1, 0>}
plumb.state @written.0 "statistic" : tensor<4xf32>
plumb.state @written.1 "statistic" : tensor<4xf32>
plumb.program @model {
  %x = plumb.input "x" index 0 {plumb.layouts = [#plumb.layout<@mesh, [{"microbatch"}, {}]>], plumb.stage = 0 : i64} : tensor<8x4xf32>
  %s = nn.sum %x dims [0] {plumb.stage = 0 : i64} : (tensor<8x4xf32>) -> tensor<4xf32>
  plumb.store @written.0, %s {plumb.stage = 0 : i64} : tensor<4xf32>
  %y = nn.relu %x {plumb.stage = 1 : i64} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %t = nn.sum %y dims [0] {plumb.stage = 1 : i64} : (tensor<8x4xf32>) -> tensor<4xf32>
  plumb.store @written.1, %t {plumb.stage = 1 : i64} : tensor<4xf32>
}
