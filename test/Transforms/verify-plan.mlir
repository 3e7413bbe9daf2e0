// Two stages on two pipeline coordinates, each of two ranks of tensor parallelism: up, relu, down | head, loss.
// RUN: plumb-opt --form-kernels --schedule --assign-streams --plan-memory --verify-plan %s | FileCheck %s
// CHECK: plumb.verified = ["actions", "transfers", "order", "memory", "layouts", "updates"]

// Any kind of schedule, any number of microbatches.
// RUN: sed 's/"1f1b" microbatches 4/"gpipe" microbatches 7/; s/16x/28x/' %s | plumb-opt --form-kernels --schedule --assign-streams --plan-memory --verify-plan | FileCheck %s
// RUN: sed 's/"1f1b" microbatches 4/"zb-h2" microbatches 9/; s/16x/36x/' %s | plumb-opt --form-kernels --schedule --assign-streams --plan-memory --verify-plan | FileCheck %s
// RUN: sed 's/"1f1b" microbatches 4/"eager-1f1b" microbatches 1/; s/16x/4x/' %s | plumb-opt --form-kernels --schedule --assign-streams --plan-memory --verify-plan | FileCheck %s

module attributes {plumb.model = "two_stage"} {
plumb.mesh @mesh ["pp" = 2, "tp" = 2]
plumb.pipeline axis "pp" schedule "1f1b" microbatches 4 stages_per_rank 1
plumb.optimizer "sgd" rate 0.1
ccl.communicator @tp axes ["tp"] pipeline []
ccl.communicator @forward_0_1 axes [] pipeline [0, 1]
ccl.communicator @backward_1_0 axes [] pipeline [1, 0]
plumb.parameter @up.weight trainable : tensor<8x6xf32> layout <@mesh, [{"tp"}, {}]> owner 0 holders [0]
plumb.parameter @up.bias trainable : tensor<8xf32> layout <@mesh, [{"tp"}]> owner 0 holders [0]
plumb.parameter @down.weight trainable : tensor<6x8xf32> layout <@mesh, [{}, {"tp"}]> owner 0 holders [0]
plumb.parameter @head.weight trainable : tensor<4x6xf32> aliases ["tied.weight"] layout <@mesh, [{}, {}]> owner 1 holders [1]
plumb.parameter @unused : tensor<3xf32> layout <@mesh, [{}]>
plumb.state @grad.up.weight "gradient" of "up.weight" : tensor<8x6xf32> layout <@mesh, [{"tp"}, {}]>
plumb.state @grad.up.bias "gradient" of "up.bias" : tensor<8xf32> layout <@mesh, [{"tp"}]>
plumb.state @grad.down.weight "gradient" of "down.weight" : tensor<6x8xf32> layout <@mesh, [{}, {"tp"}]>
plumb.state @grad.head.weight "gradient" of "head.weight" : tensor<4x6xf32> layout <@mesh, [{}, {}]>
plumb.state @loss "loss" : tensor<f32> layout <@mesh, []>
plumb.state @output.0 "output" index 0 label "scores" : tensor<16x4xf32> layout <@mesh, [{"microbatch"}, {}]>
plumb.stage @submod_pp_0 index 0 {
  %x = plumb.input "x" index 0 {plumb.phase = #plumb.phase<forward>, plumb.layouts = [#plumb.layout<@mesh, [{"microbatch"}, {}]>]} : tensor<4x6xf32>
  %w0 = plumb.load @up.weight {plumb.layouts = [#plumb.layout<@mesh, [{"tp"}, {}]>], plumb.phase = #plumb.phase<forward>, plumb.module = "up", plumb.source = "model.py:10"} : tensor<4x6xf32>
  %h = nn.einsum "bi,oi->bo"(%x, %w0) {plumb.layouts = [#plumb.layout<@mesh, [{"microbatch"}, {"tp"}]>], plumb.phase = #plumb.phase<forward>, plumb.module = "up", plumb.source = "model.py:10"} : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x4xf32>
  %b0 = plumb.load @up.bias {plumb.layouts = [#plumb.layout<@mesh, [{"tp"}]>], plumb.phase = #plumb.phase<forward>, plumb.module = "up", plumb.source = "model.py:10"} : tensor<4xf32>
  %hb = nn.add %h, %b0 {plumb.layouts = [#plumb.layout<@mesh, [{"microbatch"}, {"tp"}]>], plumb.phase = #plumb.phase<forward>, plumb.module = "up", plumb.source = "model.py:10"} : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32>
  %r = nn.relu %hb {plumb.layouts = [#plumb.layout<@mesh, [{"microbatch"}, {"tp"}]>], plumb.phase = #plumb.phase<forward>, plumb.module = "act", plumb.source = "model.py:11"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %w1 = plumb.load @down.weight {plumb.layouts = [#plumb.layout<@mesh, [{}, {"tp"}]>], plumb.phase = #plumb.phase<forward>, plumb.module = "down", plumb.source = "model.py:12"} : tensor<6x4xf32>
  %p = nn.einsum "bi,oi->bo"(%r, %w1) {plumb.layouts = [#plumb.layout<@mesh, [{"microbatch"}, {}], partial = {"tp" : sum}>], plumb.phase = #plumb.phase<forward>, plumb.module = "down", plumb.source = "model.py:12"} : (tensor<4x4xf32>, tensor<6x4xf32>) -> tensor<4x6xf32>
  %y = ccl.all_reduce %p on @tp {plumb.layouts = [#plumb.layout<@mesh, [{"microbatch"}, {}]>], plumb.phase = #plumb.phase<forward>, plumb.module = "down", plumb.source = "model.py:12"} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  ccl.send %y to 1 on @forward_0_1 {plumb.phase = #plumb.phase<forward>, plumb.module = "down", plumb.source = "model.py:12"} : tensor<4x6xf32>
  %dy = ccl.recv from 1 on @backward_1_0 {plumb.layouts = [#plumb.layout<@mesh, [{"microbatch"}, {}]>], plumb.phase = #plumb.phase<backward_input>, plumb.module = "down", plumb.source = "model.py:12"} : tensor<4x6xf32>
  %dr = nn.einsum "bo,oi->bi"(%dy, %w1) {plumb.layouts = [#plumb.layout<@mesh, [{"microbatch"}, {"tp"}]>], plumb.phase = #plumb.phase<backward_input>, plumb.module = "down", plumb.source = "model.py:12"} : (tensor<4x6xf32>, tensor<6x4xf32>) -> tensor<4x4xf32>
  %dh = nn.relu_backward %dr, %r {plumb.layouts = [#plumb.layout<@mesh, [{"microbatch"}, {"tp"}]>], plumb.phase = #plumb.phase<backward_input>, plumb.module = "act", plumb.source = "model.py:11"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %dw1 = nn.einsum "bo,bi->oi"(%dy, %r) {plumb.layouts = [#plumb.layout<@mesh, [{}, {"tp"}], partial = {"microbatch" : sum}>], plumb.phase = #plumb.phase<backward_weight>, plumb.module = "down", plumb.source = "model.py:12"} : (tensor<4x6xf32>, tensor<4x4xf32>) -> tensor<6x4xf32>
  %a1 = plumb.load @grad.down.weight {plumb.layouts = [#plumb.layout<@mesh, [{}, {"tp"}], partial = {"microbatch" : sum}>], plumb.phase = #plumb.phase<backward_weight>, plumb.module = "down", plumb.source = "model.py:12"} : tensor<6x4xf32>
  %c1 = nn.add %a1, %dw1 {plumb.layouts = [#plumb.layout<@mesh, [{}, {"tp"}], partial = {"microbatch" : sum}>], plumb.phase = #plumb.phase<backward_weight>, plumb.module = "down", plumb.source = "model.py:12"} : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
  plumb.store @grad.down.weight, %c1 {plumb.phase = #plumb.phase<backward_weight>, plumb.module = "down", plumb.source = "model.py:12"} : tensor<6x4xf32>
  %db = nn.sum %dh dims [0] {plumb.layouts = [#plumb.layout<@mesh, [{"tp"}], partial = {"microbatch" : sum}>], plumb.phase = #plumb.phase<backward_weight>, plumb.module = "up", plumb.source = "model.py:10"} : (tensor<4x4xf32>) -> tensor<4xf32>
  %a2 = plumb.load @grad.up.bias {plumb.layouts = [#plumb.layout<@mesh, [{"tp"}], partial = {"microbatch" : sum}>], plumb.phase = #plumb.phase<backward_weight>, plumb.module = "up", plumb.source = "model.py:10"} : tensor<4xf32>
  %c2 = nn.add %a2, %db {plumb.layouts = [#plumb.layout<@mesh, [{"tp"}], partial = {"microbatch" : sum}>], plumb.phase = #plumb.phase<backward_weight>, plumb.module = "up", plumb.source = "model.py:10"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  plumb.store @grad.up.bias, %c2 {plumb.phase = #plumb.phase<backward_weight>, plumb.module = "up", plumb.source = "model.py:10"} : tensor<4xf32>
  %dw0 = nn.einsum "bo,bi->oi"(%dh, %x) {plumb.layouts = [#plumb.layout<@mesh, [{"tp"}, {}], partial = {"microbatch" : sum}>], plumb.phase = #plumb.phase<backward_weight>, plumb.module = "up", plumb.source = "model.py:10"} : (tensor<4x4xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  %a0 = plumb.load @grad.up.weight {plumb.layouts = [#plumb.layout<@mesh, [{"tp"}, {}], partial = {"microbatch" : sum}>], plumb.phase = #plumb.phase<backward_weight>, plumb.module = "up", plumb.source = "model.py:10"} : tensor<4x6xf32>
  %c0 = nn.add %a0, %dw0 {plumb.layouts = [#plumb.layout<@mesh, [{"tp"}, {}], partial = {"microbatch" : sum}>], plumb.phase = #plumb.phase<backward_weight>, plumb.module = "up", plumb.source = "model.py:10"} : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  plumb.store @grad.up.weight, %c0 {plumb.phase = #plumb.phase<backward_weight>, plumb.module = "up", plumb.source = "model.py:10"} : tensor<4x6xf32>
  %g0 = plumb.load @grad.up.weight {plumb.layouts = [#plumb.layout<@mesh, [{"tp"}, {}]>], plumb.phase = #plumb.phase<update>} : tensor<4x6xf32>
  %p0 = plumb.load @up.weight {plumb.layouts = [#plumb.layout<@mesh, [{"tp"}, {}]>], plumb.phase = #plumb.phase<update>} : tensor<4x6xf32>
  %rate1 = nn.fill 0.1 {plumb.layouts = [#plumb.layout<@mesh, []>], plumb.phase = #plumb.phase<update>} : tensor<f32>
  %q0 = nn.sgd %p0, %g0, %rate1 {plumb.layouts = [#plumb.layout<@mesh, [{"tp"}, {}]>], plumb.phase = #plumb.phase<update>} : (tensor<4x6xf32>, tensor<4x6xf32>, tensor<f32>) -> tensor<4x6xf32>
  plumb.store @up.weight, %q0 {plumb.phase = #plumb.phase<update>} : tensor<4x6xf32>
  %g2 = plumb.load @grad.up.bias {plumb.layouts = [#plumb.layout<@mesh, [{"tp"}]>], plumb.phase = #plumb.phase<update>} : tensor<4xf32>
  %p2 = plumb.load @up.bias {plumb.layouts = [#plumb.layout<@mesh, [{"tp"}]>], plumb.phase = #plumb.phase<update>} : tensor<4xf32>
  %rate2 = nn.fill 0.1 {plumb.layouts = [#plumb.layout<@mesh, []>], plumb.phase = #plumb.phase<update>} : tensor<f32>
  %q2 = nn.sgd %p2, %g2, %rate2 {plumb.layouts = [#plumb.layout<@mesh, [{"tp"}]>], plumb.phase = #plumb.phase<update>} : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  plumb.store @up.bias, %q2 {plumb.phase = #plumb.phase<update>} : tensor<4xf32>
  %g1 = plumb.load @grad.down.weight {plumb.layouts = [#plumb.layout<@mesh, [{}, {"tp"}]>], plumb.phase = #plumb.phase<update>} : tensor<6x4xf32>
  %p1 = plumb.load @down.weight {plumb.layouts = [#plumb.layout<@mesh, [{}, {"tp"}]>], plumb.phase = #plumb.phase<update>} : tensor<6x4xf32>
  %rate3 = nn.fill 0.1 {plumb.layouts = [#plumb.layout<@mesh, []>], plumb.phase = #plumb.phase<update>} : tensor<f32>
  %q1 = nn.sgd %p1, %g1, %rate3 {plumb.layouts = [#plumb.layout<@mesh, [{}, {"tp"}]>], plumb.phase = #plumb.phase<update>} : (tensor<6x4xf32>, tensor<6x4xf32>, tensor<f32>) -> tensor<6x4xf32>
  plumb.store @down.weight, %q1 {plumb.phase = #plumb.phase<update>} : tensor<6x4xf32>
}
plumb.stage @submod_pp_1 index 1 {
  %y = ccl.recv from 0 on @forward_0_1 {plumb.layouts = [#plumb.layout<@mesh, [{"microbatch"}, {}]>], plumb.phase = #plumb.phase<forward>, plumb.module = "head", plumb.source = "model.py:20"} : tensor<4x6xf32>
  %w2 = plumb.load @head.weight {plumb.layouts = [#plumb.layout<@mesh, [{}, {}]>], plumb.phase = #plumb.phase<forward>, plumb.module = "head", plumb.source = "model.py:20"} : tensor<4x6xf32>
  %z = nn.einsum "bi,oi->bo"(%y, %w2) {plumb.layouts = [#plumb.layout<@mesh, [{"microbatch"}, {}]>], plumb.phase = #plumb.phase<forward>, plumb.module = "head", plumb.source = "model.py:20"} : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x4xf32>
  plumb.store @output.0, %z {plumb.phase = #plumb.phase<forward>} : tensor<4x4xf32>
  %q = nn.mul %z, %z {plumb.layouts = [#plumb.layout<@mesh, [{"microbatch"}, {}]>], plumb.phase = #plumb.phase<forward>, plumb.module = "loss", plumb.source = "model.py:21"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %s = nn.sum %q dims [0, 1] {plumb.layouts = [#plumb.layout<@mesh, [], partial = {"microbatch" : sum}>], plumb.phase = #plumb.phase<forward>, plumb.module = "loss", plumb.source = "model.py:21"} : (tensor<4x4xf32>) -> tensor<f32>
  %l = nn.scale %s by 1.562500e-02 {plumb.layouts = [#plumb.layout<@mesh, [], partial = {"microbatch" : sum}>], plumb.phase = #plumb.phase<forward>, plumb.module = "loss", plumb.source = "model.py:21"} : (tensor<f32>) -> tensor<f32>
  %al = plumb.load @loss {plumb.layouts = [#plumb.layout<@mesh, [], partial = {"microbatch" : sum}>], plumb.phase = #plumb.phase<forward>} : tensor<f32>
  %bl = nn.add %al, %l {plumb.layouts = [#plumb.layout<@mesh, [], partial = {"microbatch" : sum}>], plumb.phase = #plumb.phase<forward>} : (tensor<f32>, tensor<f32>) -> tensor<f32>
  plumb.store @loss, %bl {plumb.phase = #plumb.phase<forward>} : tensor<f32>
  %one = nn.fill 1.0 {plumb.layouts = [#plumb.layout<@mesh, []>], plumb.phase = #plumb.phase<backward_input>, plumb.module = "loss", plumb.source = "model.py:21"} : tensor<f32>
  %c = nn.scale %one by 1.562500e-02 {plumb.layouts = [#plumb.layout<@mesh, []>], plumb.phase = #plumb.phase<backward_input>, plumb.module = "loss", plumb.source = "model.py:21"} : (tensor<f32>) -> tensor<f32>
  %t = nn.broadcast %c {plumb.layouts = [#plumb.layout<@mesh, [{"microbatch"}, {}]>], plumb.phase = #plumb.phase<backward_input>, plumb.module = "loss", plumb.source = "model.py:21"} : (tensor<f32>) -> tensor<4x4xf32>
  %d1 = nn.mul %t, %z {plumb.layouts = [#plumb.layout<@mesh, [{"microbatch"}, {}]>], plumb.phase = #plumb.phase<backward_input>, plumb.module = "loss", plumb.source = "model.py:21"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %dz = nn.add %d1, %d1 {plumb.layouts = [#plumb.layout<@mesh, [{"microbatch"}, {}]>], plumb.phase = #plumb.phase<backward_input>, plumb.module = "loss", plumb.source = "model.py:21"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %dy = nn.einsum "bo,oi->bi"(%dz, %w2) {plumb.layouts = [#plumb.layout<@mesh, [{"microbatch"}, {}]>], plumb.phase = #plumb.phase<backward_input>, plumb.module = "head", plumb.source = "model.py:20"} : (tensor<4x4xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  ccl.send %dy to 0 on @backward_1_0 {plumb.phase = #plumb.phase<backward_input>, plumb.module = "head", plumb.source = "model.py:20"} : tensor<4x6xf32>
  %dw2 = nn.einsum "bo,bi->oi"(%dz, %y) {plumb.layouts = [#plumb.layout<@mesh, [{}, {}], partial = {"microbatch" : sum}>], plumb.phase = #plumb.phase<backward_weight>, plumb.module = "head", plumb.source = "model.py:20"} : (tensor<4x4xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  %a2 = plumb.load @grad.head.weight {plumb.layouts = [#plumb.layout<@mesh, [{}, {}], partial = {"microbatch" : sum}>], plumb.phase = #plumb.phase<backward_weight>, plumb.module = "head", plumb.source = "model.py:20"} : tensor<4x6xf32>
  %c2 = nn.add %a2, %dw2 {plumb.layouts = [#plumb.layout<@mesh, [{}, {}], partial = {"microbatch" : sum}>], plumb.phase = #plumb.phase<backward_weight>, plumb.module = "head", plumb.source = "model.py:20"} : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  plumb.store @grad.head.weight, %c2 {plumb.phase = #plumb.phase<backward_weight>, plumb.module = "head", plumb.source = "model.py:20"} : tensor<4x6xf32>
  %g2 = plumb.load @grad.head.weight {plumb.layouts = [#plumb.layout<@mesh, [{}, {}]>], plumb.phase = #plumb.phase<update>} : tensor<4x6xf32>
  %p2 = plumb.load @head.weight {plumb.layouts = [#plumb.layout<@mesh, [{}, {}]>], plumb.phase = #plumb.phase<update>} : tensor<4x6xf32>
  %rate4 = nn.fill 0.1 {plumb.layouts = [#plumb.layout<@mesh, []>], plumb.phase = #plumb.phase<update>} : tensor<f32>
  %q2 = nn.sgd %p2, %g2, %rate4 {plumb.layouts = [#plumb.layout<@mesh, [{}, {}]>], plumb.phase = #plumb.phase<update>} : (tensor<4x6xf32>, tensor<4x6xf32>, tensor<f32>) -> tensor<4x6xf32>
  plumb.store @head.weight, %q2 {plumb.phase = #plumb.phase<update>} : tensor<4x6xf32>
}
}
