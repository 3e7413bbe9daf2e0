// RUN: plumb-opt --split-input-file --verify-diagnostics --plan-memory %s

module attributes {plumb.events = 0 : i64, plumb.streams = ["compute"]} {
plumb.mesh @mesh ["pp" = 1]
plumb.pipeline axis "pp" schedule "gpipe" microbatches 2
plumb.stage @submod_pp_0 index 0 attributes {plumb.slots = [{name = "forward", table = array<i64: 0, 1>}]} {
  // expected-error@+1 {{'plumb.input' has plumb.slot array<i64: 7>, which must be 1 slot classes below 1 (or -1)}}
  %x = plumb.input "x" index 0 {plumb.slot = array<i64: 7>} : tensor<4xf32>
}
}

// -----

module attributes {plumb.events = 0 : i64, plumb.streams = ["compute"]} {
plumb.mesh @mesh ["pp" = 1]
plumb.pipeline axis "pp" schedule "gpipe" microbatches 2
// expected-error@+1 {{has a slot class {name = "forward", table = array<i64: 0, 5>}, which needs a name, a non-negative stride, and a table of 2 slots below that number}}
plumb.stage @submod_pp_0 index 0 attributes {plumb.slots = [{name = "forward", table = array<i64: 0, 5>}]} {
}
}

// -----

module attributes {plumb.events = 0 : i64, plumb.streams = ["compute"]} {
plumb.mesh @mesh ["pp" = 1]
plumb.pipeline axis "pp" schedule "gpipe" microbatches 2
// expected-error@+1 {{has no attribute plumb.slots; run the pass assign-streams first}}
plumb.stage @submod_pp_0 index 0 {
}
}

// -----

// expected-error@+1 {{streams and slots are not assigned; run the pass assign-streams first}}
module {
plumb.mesh @mesh ["pp" = 1]
plumb.stage @submod_pp_0 index 0 {
}
}

// -----

module attributes {plumb.events = 0 : i64, plumb.streams = ["compute"]} {
plumb.mesh @mesh ["pp" = 1]
// expected-error@+3 {{a rank may use 100 bytes, but a rank of pipeline coordinate 0 needs 256: 0 for parameters, 0 for gradients and sums, 256 for inputs and outputs, 0 for activations}}
// expected-note@+2 {{128 bytes: input x}}
// expected-note@+1 {{128 bytes: inputs of the next step}}
plumb.pipeline axis "pp" schedule "gpipe" microbatches 2 {plumb.memory_limit = 100 : i64}
plumb.schedule ["0F0,0F1"]
plumb.stage @submod_pp_0 index 0 attributes {plumb.slots = []} {
  %x = plumb.input "x" index 0 : tensor<32xf32>
}
}
