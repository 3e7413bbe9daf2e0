// Collectives of the wrong size or group, and sums that are never completed.
// RUN: plumb-opt --split-input-file --verify-diagnostics --schedule --assign-streams --plan-memory --verify-plan %s

plumb.mesh @mesh ["pp" = 1, "tp" = 2]
plumb.pipeline axis "pp" schedule "gpipe" microbatches 1
ccl.communicator @tp axes ["tp"] pipeline []
plumb.stage @submod_pp_0 index 0 {
  %x = plumb.input "x" index 0 {plumb.layouts = [#plumb.layout<@mesh, [{"tp"}]>]} : tensor<4xf32>
  // expected-error@+1 {{'ccl.all_gather' has a row 'tensor<3x4xf32>', but @tp has 2 ranks, each with one block of it}}
  %y = ccl.all_gather %x on @tp {plumb.layouts = [#plumb.layout<@mesh, [{}, {}]>]} : (tensor<4xf32>) -> tensor<3x4xf32>
}

// -----

// The communicator joins ranks that all hold the same.
plumb.mesh @mesh ["pp" = 1, "tp" = 2, "dp" = 2]
plumb.pipeline axis "pp" schedule "gpipe" microbatches 1
ccl.communicator @dp axes ["dp"] pipeline []
plumb.stage @submod_pp_0 index 0 {
  %x = plumb.input "x" index 0 {plumb.layouts = [#plumb.layout<@mesh, [{"tp"}]>]} : tensor<4xf32>
  // expected-error@+1 {{'ccl.all_gather' over dp does not make #plumb.layout<@mesh, [{}, {}]> of #plumb.layout<@mesh, [{"tp"}]>; it is of the wrong group, or there is one too many or too few}}
  %y = ccl.all_gather %x on @dp {plumb.layouts = [#plumb.layout<@mesh, [{}, {}]>]} : (tensor<4xf32>) -> tensor<2x4xf32>
}

// -----

plumb.mesh @mesh ["pp" = 1, "tp" = 2]
plumb.pipeline axis "pp" schedule "gpipe" microbatches 1
plumb.stage @submod_pp_0 index 0 {
  %x = plumb.input "x" index 0 {plumb.layouts = [#plumb.layout<@mesh, [{"tp"}, {}]>]} : tensor<2x4xf32>
  // expected-error@+1 {{'ccl.slice' over tp does not make #plumb.layout<@mesh, [{"tp"}]> of #plumb.layout<@mesh, [{"tp"}, {}]>}}
  %y = ccl.slice %x over ["tp"] {plumb.layouts = [#plumb.layout<@mesh, [{"tp"}]>]} : (tensor<2x4xf32>) -> tensor<4xf32>
}

// -----

plumb.mesh @mesh ["pp" = 1, "tp" = 2]
plumb.pipeline axis "pp" schedule "gpipe" microbatches 1
ccl.communicator @tp axes ["tp"] pipeline []
func.func @k(%x: tensor<4xf32>) -> tensor<2x4xf32> { %0 = arith.constant dense<0.0> : tensor<2x4xf32> return %0 : tensor<2x4xf32> }
plumb.stage @submod_pp_0 index 0 {
  %x = plumb.input "x" index 0 {plumb.layouts = [#plumb.layout<@mesh, [{}]>]} : tensor<4xf32>
  %y = plumb.launch @k(%x) inplace [-1] {plumb.layouts = [#plumb.layout<@mesh, [{}, {}], partial = {"tp" : sum}>], plumb.operand_layouts = [#plumb.layout<@mesh, [{}]>]} : (tensor<4xf32>) -> tensor<2x4xf32>
  // expected-error@+1 {{'ccl.reduce_scatter' over tp does not make #plumb.layout<@mesh, [{}]> of #plumb.layout<@mesh, [{}, {}]>}}
  %z = ccl.reduce_scatter %y on @tp {plumb.layouts = [#plumb.layout<@mesh, [{}]>]} : (tensor<2x4xf32>) -> tensor<4xf32>
}

// -----

// The reader needs the sum.
plumb.mesh @mesh ["pp" = 1, "tp" = 2]
plumb.pipeline axis "pp" schedule "gpipe" microbatches 1
func.func @k(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }
plumb.stage @submod_pp_0 index 0 {
  %x = plumb.input "x" index 0 {plumb.layouts = [#plumb.layout<@mesh, [{}]>]} : tensor<4xf32>
  // expected-note@+1 {{the operand}}
  %y = plumb.launch @k(%x) inplace [-1] {plumb.layouts = [#plumb.layout<@mesh, [{}], partial = {"tp" : sum}>], plumb.operand_layouts = [#plumb.layout<@mesh, [{}]>]} : (tensor<4xf32>) -> tensor<4xf32>
  // expected-error@+1 {{'plumb.launch' reads operand 0 in the layout #plumb.layout<@mesh, [{}], partial = {"tp" : sum}>, but needs #plumb.layout<@mesh, [{}]>; a reduction or gather is missing, or of the wrong group}}
  %z = plumb.launch @k(%y) inplace [-1] {plumb.layouts = [#plumb.layout<@mesh, [{}]>], plumb.operand_layouts = [#plumb.layout<@mesh, [{}]>]} : (tensor<4xf32>) -> tensor<4xf32>
}

// -----

plumb.mesh @mesh ["pp" = 1, "dp" = 2]
plumb.pipeline axis "pp" schedule "gpipe" microbatches 1
// expected-error@+1 {{@loss is left as #plumb.layout<@mesh, [], partial = {"dp" : sum}>; its sum is never completed}}
plumb.state @loss "loss" : tensor<f32> layout <@mesh, []>
func.func @k() -> tensor<f32> { %0 = arith.constant dense<0.0> : tensor<f32> return %0 : tensor<f32> }
plumb.stage @submod_pp_0 index 0 {
  %l = plumb.launch @k() inplace [-1] {plumb.layouts = [#plumb.layout<@mesh, [], partial = {"dp" : sum}>]} : () -> tensor<f32>
  plumb.store @loss, %l : tensor<f32>
}

// -----

plumb.mesh @mesh ["pp" = 2]
plumb.pipeline axis "pp" schedule "gpipe" microbatches 1
// expected-error@+1 {{@pair has the pipeline coordinate 1 twice; a rank has one place in a communicator}}
ccl.communicator @pair axes [] pipeline [1, 1]
plumb.stage @submod_pp_0 index 0 {
}
plumb.stage @submod_pp_1 index 1 {
}

// -----

plumb.mesh @mesh ["pp" = 1]
plumb.pipeline axis "pp" schedule "gpipe" microbatches 1
plumb.stage @submod_pp_0 index 0 {
  %x = plumb.input "x" index 0 : tensor<4xf32>
  // expected-error@+1 {{'nn.relu' is no call that a program can make; run the pass form-kernels first}}
  %y = nn.relu %x : (tensor<4xf32>) -> tensor<4xf32>
}

// -----

plumb.mesh @mesh ["pp" = 1]
plumb.pipeline axis "pp" schedule "gpipe" microbatches 1
// expected-error@+1 {{@output.0, a result of the step, is set by no stage}}
plumb.state @output.0 "output" index 0 : tensor<4xf32> layout <@mesh, [{}]>
plumb.stage @submod_pp_0 index 0 {
}

// -----

// Microbatch 0 would have the rows 0, 2, 4 and 6 of x, but 0, 1, 4 and 5 of the labels.
plumb.mesh @mesh ["pp" = 1, "dp" = 2, "tp" = 2]
plumb.pipeline axis "pp" schedule "gpipe" microbatches 2
plumb.stage @submod_pp_0 index 0 {
  // expected-note@+1 {{the other input}}
  %x = plumb.input "x" index 0 {plumb.layouts = [#plumb.layout<@mesh, [{"dp", "tp", "microbatch"}]>]} : tensor<1xf32>
  // expected-error@+1 {{'plumb.input' is #plumb.layout<@mesh, [{"dp", "microbatch"}]>, and input "x" is #plumb.layout<@mesh, [{"dp", "tp", "microbatch"}]>: their microbatches have different rows}}
  %y = plumb.input "labels" index 1 {plumb.layouts = [#plumb.layout<@mesh, [{"dp", "microbatch"}]>]} : tensor<2xf32>
}

// -----

// Within them, a microbatch may be cut further.
plumb.mesh @mesh ["pp" = 1, "dp" = 2, "tp" = 2]
plumb.pipeline axis "pp" schedule "gpipe" microbatches 2
plumb.stage @submod_pp_0 index 0 {
  %x = plumb.input "x" index 0 {plumb.layouts = [#plumb.layout<@mesh, [{"dp", "microbatch", "tp"}]>]} : tensor<1xf32>
  %y = plumb.input "labels" index 1 {plumb.layouts = [#plumb.layout<@mesh, [{"dp", "microbatch"}]>]} : tensor<2xf32>
}
