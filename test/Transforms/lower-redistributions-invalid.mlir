// RUN: plumb-opt %s --lower-redistributions --split-input-file --verify-diagnostics

plumb.mesh @mesh ["tp" = 4]
plumb.pipeline axis "pp" schedule "1f1b" microbatches 1 stages_per_rank 1
plumb.stage @submod_pp_0 index 0 {
  %x = plumb.input "x" index 0 : tensor<8x8xf32>
  // expected-error @+1 {{names the axis "dp", which is not on the mesh tp=4}}
  %0 = plumb.redistribute %x from <@mesh, [{}, {}]> to <@mesh, [{}, {"dp"}]> global tensor<8x8xf32> : (tensor<8x8xf32>) -> tensor<8x2xf32>
}

// -----

plumb.mesh @mesh ["dp" = 64, "tp" = 3]
plumb.pipeline axis "pp" schedule "1f1b" microbatches 1 stages_per_rank 1
plumb.stage @submod_pp_0 index 0 {
  %x = plumb.input "x" index 0 : tensor<8x1001xf32>
  // expected-error @+1 {{moves shards of 8,1001 that differ in size by several axes of a dim, which takes too large a table of messages on the mesh dp=64,tp=3; choose sizes that the axes divide}}
  %0 = plumb.redistribute %x from <@mesh, [{}, {}]> to <@mesh, [{}, {"dp", "tp"}]> global tensor<8x1001xf32> : (tensor<8x1001xf32>) -> tensor<8x6xf32>
}

// -----

plumb.mesh @mesh ["tp" = 2]
plumb.pipeline axis "pp" schedule "1f1b" microbatches 1 stages_per_rank 1
plumb.stage @submod_pp_0 index 0 {
  %x = plumb.input "x" index 0 : tensor<8x8xf32>
  // expected-error @+1 {{would have to make a factor out of a value, which is not supported}}
  %0 = plumb.redistribute %x from <@mesh, [{}, {}]> to <@mesh, [{}, {}], partial = {"tp" : product}> global tensor<8x8xf32> : (tensor<8x8xf32>) -> tensor<8x8xf32>
}

// -----

// expected-error @+1 {{topology: bandwidth must be a number from 1000 to 1e+15, not -1}}
plumb.mesh @mesh ["tp" = 2] {plumb.topology = "{\"node\": {\"bandwidth\": -1}}"}
plumb.pipeline axis "pp" schedule "1f1b" microbatches 1 stages_per_rank 1
plumb.stage @submod_pp_0 index 0 {
  %x = plumb.input "x" index 0 : tensor<8x8xf32>
  %0 = plumb.redistribute %x from <@mesh, [{}, {}]> to <@mesh, [{}, {"tp"}]> global tensor<8x8xf32> : (tensor<8x8xf32>) -> tensor<8x4xf32>
}
