// RUN: plumb-opt %s | plumb-opt | FileCheck %s
// RUN: plumb-opt %s --mlir-print-op-generic | plumb-opt | FileCheck %s

// CHECK: plumb.mesh @mesh ["pp" = 2, "dp" = 1, "tp" = 4]
plumb.mesh @mesh ["pp" = 2, "dp" = 1, "tp" = 4]
// CHECK: plumb.pipeline axis "pp" schedule "1f1b" microbatches 4 stages_per_rank 2
plumb.pipeline axis "pp" schedule "1f1b" microbatches 4 stages_per_rank 2
// CHECK: plumb.split_rule "h.2"
plumb.split_rule "h.2"
// CHECK: plumb.split_rule "h.4" end
plumb.split_rule "h.4" end
// CHECK: plumb.layout_rule "h.*.c_attn" style "colwise" axis "tp" blocks 3
plumb.layout_rule "h.*.c_attn" style "colwise" axis "tp" blocks 3
// CHECK: plumb.layout_rule "h.*.qkv" style "colwise" axis "tp" blocks [64, 32, 32]
plumb.layout_rule "h.*.qkv" style "colwise" axis "tp" blocks [64, 32, 32]
// CHECK: plumb.layout_rule "h.*.mlp" params {c_fc.weight = {tp = "shard(0)"}}
plumb.layout_rule "h.*.mlp" params {c_fc.weight = {tp = "shard(0)"}}
// CHECK: plumb.input_rule "idx" {dp = "shard(0)"}
plumb.input_rule "idx" {dp = "shard(0)"}
// CHECK: plumb.batch_norm_rule "local" parts [2, 4]
plumb.batch_norm_rule "local" parts [2, 4]
// CHECK: plumb.seed_rule 7
plumb.seed_rule 7
// CHECK: plumb.loss_rule output 1 reduce "mean"
plumb.loss_rule output 1 reduce "mean"
// CHECK: plumb.loss_rule name "loss"
plumb.loss_rule name "loss"
// CHECK: plumb.optimizer "sgd" rate 1.000000e-01
plumb.optimizer "sgd" rate 0.1
// CHECK: plumb.module @h.0.attn type "Attn"
plumb.module @h.0.attn type "Attn"
// CHECK: plumb.parameter @wte.weight trainable : tensor<8x4xf32> aliases ["lm_head.weight"] layout <@mesh, [{"tp"}, {}]> owner 0 holders [0, 1]
plumb.parameter @wte.weight trainable : tensor<8x4xf32> aliases ["lm_head.weight"] layout <@mesh, [{"tp"}, {}]> owner 0 holders [0, 1]
// CHECK: plumb.parameter @fused : tensor<8xf32> layout <@mesh, [{"tp"} blocks [4, 2, 2]]>
plumb.parameter @fused : tensor<8xf32> layout <@mesh, [{"tp"} blocks [4, 2, 2]]>
// CHECK: plumb.parameter @angles nonpersistent : tensor<4xf32>
plumb.parameter @angles nonpersistent : tensor<4xf32>
// CHECK: plumb.state @grad.wte "gradient" of "wte.weight" : tensor<8x4xf32>
plumb.state @grad.wte "gradient" of "wte.weight" : tensor<8x4xf32>
// CHECK: plumb.state @output.0 "output" index 0 label "y" : tensor<8x4xf32>
plumb.state @output.0 "output" index 0 label "y" : tensor<8x4xf32>

// CHECK: plumb.program @model {
plumb.program @model {
  // Whole axes and factors of one, blocks, partial sums over both.
  // CHECK: plumb.input "x" index 0 {plumb.layouts = [#plumb.layout<@mesh, [{"dp", "microbatch"}, {"tp":(2)2} blocks 2], partial = {"tp":(1)2 : sum}>]}
  %x = plumb.input "x" index 0 {plumb.layouts = [#plumb.layout<@mesh, [{"dp", "microbatch"}, {"tp":(2)2} blocks 2], partial = {"tp":(1)2 : sum}>]} : tensor<8x4xf32>
  // CHECK: plumb.load @wte.weight {plumb.module = "wte", plumb.phase = #plumb.phase<forward>, plumb.source = "m.py:1", plumb.stage = 0 : i64}
  %w = plumb.load @wte.weight {plumb.module = "wte", plumb.source = "m.py:1", plumb.stage = 0 : i64, plumb.phase = #plumb.phase<forward>} : tensor<8x4xf32>
  // CHECK: plumb.input "row" index 1 counts : tensor<8xi64>
  %rows = plumb.input "row" index 1 counts : tensor<8xi64>
  // CHECK: plumb.batch_norm %{{.*}} momentum 1.000000e-01 eps 1.000000e-05 : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %n = plumb.batch_norm %x momentum 0.1 eps 1.0e-05 : (tensor<8x4xf32>) -> tensor<8x4xf32>
  // CHECK: plumb.dropout %{{.*}} probability 1.000000e-01 : (tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<8x4xi1>)
  %d, %kept = plumb.dropout %x probability 0.1 : (tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<8x4xi1>)
  // CHECK: plumb.pipe_split
  plumb.pipe_split
  // CHECK: plumb.accumulate @grad.wte, %{{.*}} : tensor<8x4xf32>
  plumb.accumulate @grad.wte, %w : tensor<8x4xf32>
  // CHECK: plumb.store @wte.weight, %{{.*}} : tensor<8x4xf32>
  plumb.store @wte.weight, %w : tensor<8x4xf32>
  // CHECK: plumb.redistribute %{{.*}} from <@mesh, [{"tp"}, {}]> to <@mesh, [{}, {}]> : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %r = plumb.redistribute %w from <@mesh, [{"tp"}, {}]> to <@mesh, [{}, {}]> : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %l = nn.sum %x dims [0, 1] : (tensor<8x4xf32>) -> tensor<f32>
  // CHECK: plumb.loss %{{.*}} : tensor<f32>
  plumb.loss %l : tensor<f32>
  // CHECK: plumb.output "y" index 0 %{{.*}} : tensor<8x4xf32>
  plumb.output "y" index 0 %x : tensor<8x4xf32>
}

func.func private @k_add(tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
// CHECK: plumb.schedule ["0F0,0B0", "1F0,1B0"]
plumb.schedule ["0F0,0B0", "1F0,1B0"]
// CHECK: plumb.stage @submod_pp_0 index 0 {
plumb.stage @submod_pp_0 index 0 {
  %a = plumb.input "a" index 0 : tensor<4xf32>
  // CHECK: plumb.launch @k_add(%{{.*}}, %{{.*}}) inplace [0] : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %b = plumb.launch @k_add(%a, %a) inplace [0] : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  // CHECK: plumb.redistribute %{{.*}} from {{.*}} global tensor<8xf32> : (tensor<4xf32>) -> tensor<8xf32>
  %c = plumb.redistribute %b from <@mesh, [{"tp":(1)2}]> to <@mesh, [{}]> global tensor<8xf32> : (tensor<4xf32>) -> tensor<8xf32>
}
