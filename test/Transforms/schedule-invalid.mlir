// RUN: plumb-opt --split-input-file --verify-diagnostics --schedule %s

plumb.mesh @mesh ["pp" = 1]
// expected-error@+1 {{there is no schedule "1b1f"; there are gpipe, 1f1b, eager-1f1b,}}
plumb.pipeline axis "pp" schedule "1b1f" microbatches 2
plumb.stage @submod_pp_0 index 0 {
}

// -----

plumb.mesh @mesh ["pp" = 2]
// expected-error@+1 {{schedule zb-v: }}
plumb.pipeline axis "pp" schedule "zb-v" microbatches 2
plumb.stage @submod_pp_0 index 0 {
  %x = plumb.input "x" index 0 {plumb.phase = #plumb.phase<backward_input>} : tensor<4xf32>
}
plumb.stage @submod_pp_1 index 1 {
}

// -----

plumb.mesh @mesh ["pp" = 2]
plumb.pipeline axis "pp" schedule "1f1b" microbatches 2
ccl.communicator @forward_0_1 axes [] pipeline [0, 1]
plumb.stage @submod_pp_0 index 0 {
  %x = plumb.input "x" index 0 : tensor<4xf32>
  // expected-error@+1 {{module fc, m.py:3: 'ccl.send' is in the phase backward_weight; a stage sends in its forward and backward_input phases only}}
  ccl.send %x to 1 on @forward_0_1 {plumb.phase = #plumb.phase<backward_weight>, plumb.module = "fc", plumb.source = "m.py:3"} : tensor<4xf32>
}
plumb.stage @submod_pp_1 index 1 {
}

// -----

plumb.mesh @mesh ["pp" = 2]
plumb.pipeline axis "pp" schedule "1f1b" microbatches 2
ccl.communicator @forward_1_0 axes [] pipeline [1, 0]
plumb.stage @submod_pp_0 index 0 {
}
plumb.stage @submod_pp_1 index 1 {
  %x = plumb.input "x" index 0 : tensor<4xf32>
  // expected-error@+1 {{'ccl.send' sends from stage 1 to stage 0; values go to later stages}}
  ccl.send %x to 0 on @forward_1_0 : tensor<4xf32>
}

// -----

plumb.mesh @mesh ["pp" = 2]
plumb.pipeline axis "pp" schedule "1f1b" microbatches 2
ccl.communicator @forward_0_1 axes [] pipeline [0, 1]
plumb.stage @submod_pp_0 index 0 {
  %x = plumb.input "x" index 0 : tensor<4xf32>
  // expected-error@+1 {{'ccl.send' sends to stage 7; the stages are 0 to 1}}
  ccl.send %x to 7 on @forward_0_1 : tensor<4xf32>
}
plumb.stage @submod_pp_1 index 1 {
}

// -----

plumb.mesh @mesh ["pp" = 1]
plumb.pipeline axis "pp" schedule "1f1b" microbatches 2
plumb.stage @submod_pp_0 index 0 {
}
// expected-error@+1 {{stages are to be numbered 0 to 1, each number once; this is 0}}
plumb.stage @submod_pp_1 index 0 {
}

// -----

plumb.mesh @mesh ["pp" = 1]
// expected-error@+1 {{has 1099511627776 microbatches for 1 stages; at most 16777216 pairs of a stage and a microbatch can be scheduled}}
plumb.pipeline axis "pp" schedule "1f1b" microbatches 1099511627776
plumb.stage @submod_pp_0 index 0 {
}

// -----

plumb.mesh @mesh ["pp" = 2]
plumb.pipeline axis "pp" schedule "1f1b" microbatches 2
// expected-note@+1 {{the value}}
%x = arith.constant dense<0.0> : tensor<4xf32>
plumb.stage @submod_pp_0 index 0 {
  // expected-error@+1 {{'nn.relu' reads a value from outside its stage "submod_pp_0"; values come to a stage by ccl.recv or plumb.load}}
  %y = nn.relu %x : (tensor<4xf32>) -> tensor<4xf32>
}
plumb.stage @submod_pp_1 index 1 {
}

// -----

plumb.mesh @mesh ["pp" = 2]
// expected-error@+1 {{costs are given for 1 stages, there are 2}}
plumb.pipeline axis "pp" schedule "1f1b" microbatches 2 {plumb.costs = {stages = array<f64: 1.0, 1.0, 1.0>, transfer = 0.0 : f64}}
plumb.stage @submod_pp_0 index 0 {
}
plumb.stage @submod_pp_1 index 1 {
}

// -----

plumb.mesh @mesh ["pp" = 1]
// expected-error@+1 {{a rank may use 100 bytes, but parameters, gradients, inputs and outputs of pipeline coordinate 0 alone have 128}}
plumb.pipeline axis "pp" schedule "1f1b" microbatches 2 {plumb.memory_limit = 100 : i64}
plumb.stage @submod_pp_0 index 0 {
  %x = plumb.input "x" index 0 : tensor<32xf32>
}

// -----

plumb.mesh @mesh ["pp" = 2]
// expected-error@+1 {{places no stage on coordinate 1}}
plumb.pipeline axis "pp" schedule "1f1b" microbatches 2 {plumb.ranks = array<i64: 0, 0>}
plumb.stage @submod_pp_0 index 0 {
}
plumb.stage @submod_pp_1 index 1 {
}

// -----

plumb.mesh @mesh ["pp" = 2]
// expected-error@+1 {{'plumb.copies' must be on a plumb.pipeline and hold a number of copies, an i64 of at least 1}}
plumb.pipeline axis "pp" schedule "dualpipe" microbatches 2 {plumb.copies = 0 : i64}
