// RUN: plumb-opt %s --split-input-file --assign-ownership --verify-diagnostics

plumb.mesh @mesh ["pp" = 2]
plumb.pipeline axis "pp" schedule "1f1b" microbatches 1
// expected-error @+1 {{pattern "wte.weigth" matches none of 1 parameters; did you mean "wte.weight"?}}
plumb.sharing_rule "wte.weigth" "transmit"
plumb.parameter @wte.weight : tensor<4xf32>
plumb.program @model {}

// -----

plumb.mesh @mesh ["pp" = 2]
plumb.pipeline axis "pp" schedule "1f1b" microbatches 1
// expected-error @+1 {{a parameter cannot be shared by "borrow"; there are replicate, transmit and auto}}
plumb.sharing_rule "*" "borrow"
plumb.parameter @w : tensor<4xf32>
plumb.program @model {}

// -----

plumb.mesh @mesh ["pp" = 2]
plumb.pipeline axis "pp" schedule "dualpipe" microbatches 4 {plumb.copies = 2 : i64}
// expected-error @+1 {{parameter w cannot be transmitted: the schedule gives stages copies, which read it on several ranks anyway; let it be replicated}}
plumb.sharing_rule "*" "transmit"
plumb.parameter @w : tensor<4xf32>
plumb.program @model {}
