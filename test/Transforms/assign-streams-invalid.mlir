// RUN: plumb-opt --split-input-file --verify-diagnostics --assign-streams %s

plumb.mesh @mesh ["pp" = 1]
plumb.pipeline axis "pp" schedule "gpipe" microbatches 2
plumb.schedule ["0F0,0F1"]
func.func @k(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }
plumb.stage @submod_pp_0 index 0 {
  %x = plumb.input "x" index 0 : tensor<4xf32>
  // expected-error@+1 {{module fc: 'plumb.launch' makes one value per microbatch, but update reads it once per step; sum it in a plumb.state}}
  %y = plumb.launch @k(%x) inplace [-1] {plumb.module = "fc"} : (tensor<4xf32>) -> tensor<4xf32>
  %z = plumb.launch @k(%y) inplace [-1] {plumb.phase = #plumb.phase<update>} : (tensor<4xf32>) -> tensor<4xf32>
}

// -----

plumb.mesh @mesh ["pp" = 1]
plumb.pipeline axis "pp" schedule "gpipe" microbatches 2
plumb.schedule ["0F0,0F1"]
func.func @k(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }
plumb.stage @submod_pp_0 index 0 {
  %x = plumb.input "x" index 0 : tensor<4xf32>
  // expected-error@+1 {{'plumb.launch' is used in backward_input, but the schedule has no such action for stage 0, microbatch 0}}
  %y = plumb.launch @k(%x) inplace [-1] : (tensor<4xf32>) -> tensor<4xf32>
  %z = plumb.launch @k(%y) inplace [-1] {plumb.phase = #plumb.phase<backward_input>} : (tensor<4xf32>) -> tensor<4xf32>
}

// -----

plumb.mesh @mesh ["pp" = 2]
plumb.pipeline axis "pp" schedule "gpipe" microbatches 1
ccl.communicator @a axes [] pipeline [0, 1]
ccl.communicator @b axes [] pipeline [0, 1]
plumb.schedule ["0F0,0SEND_F0", "1RECV_F0,1F0"]
plumb.stage @submod_pp_0 index 0 {
  %x = plumb.input "x" index 0 : tensor<4xf32>
  ccl.send %x to 1 on @a : tensor<4xf32>
  // expected-error@+1 {{'ccl.send' uses the communicator @b, another op of send_forward_to_1 uses a different one; one edge and direction has one communicator}}
  ccl.send %x to 1 on @b : tensor<4xf32>
}
plumb.stage @submod_pp_1 index 1 {
}

// -----

// expected-error@+1 {{there is no plumb.schedule; run the pass schedule first}}
module {
  plumb.mesh @mesh ["pp" = 1]
  plumb.stage @submod_pp_0 index 0 {
  }
}

// -----

plumb.mesh @mesh ["pp" = 1]
plumb.pipeline axis "pp" schedule "gpipe" microbatches 2
// expected-error@+1 {{coordinate 0, action 1: 0F2 is out of range: there are 1 stages and 2 microbatches}}
plumb.schedule ["0F0,0F2"]
plumb.stage @submod_pp_0 index 0 {
}

// -----

plumb.mesh @mesh ["pp" = 1]
plumb.pipeline axis "pp" schedule "gpipe" microbatches 2
// expected-error@+1 {{coordinate 0, action 1: }}
plumb.schedule ["0F0,hello"]
plumb.stage @submod_pp_0 index 0 {
}

// -----

plumb.mesh @mesh ["pp" = 1]
plumb.pipeline axis "pp" schedule "gpipe" microbatches 2
// expected-error@+1 {{coordinate 0, action 1: (0F1;9B0)OVERLAP_F_B is out of range: there are 1 stages and 2 microbatches}}
plumb.schedule ["0F0,(0F1;9B0)OVERLAP_F_B"]
plumb.stage @submod_pp_0 index 0 {
}
