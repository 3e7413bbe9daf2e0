// RUN: plumb-opt %s --split-input-file --apply-spec --verify-diagnostics

plumb.mesh @mesh ["dp" = 1]
plumb.pipeline axis "pp" schedule "gpipe" microbatches 4
plumb.program @model {
  %x = plumb.input "x" index 0 : tensor<8x2xf32>
  // expected-error @+1 {{module bn: 'plumb.batch_norm' normalises by the statistics of the whole batch, which 4 microbatches do not have at once; "batch_norm": "microbatch" normalises each by its own}}
  %y = plumb.batch_norm %x momentum 0.1 eps 1.0e-05 {plumb.module = "bn"} : (tensor<8x2xf32>) -> tensor<8x2xf32>
  plumb.output "y" index 0 %y : tensor<8x2xf32>
}

// -----

plumb.mesh @mesh ["dp" = 2]
plumb.pipeline axis "pp" schedule "gpipe" microbatches 2
// expected-warning @+1 {{batch normalisation uses the statistics of 2 microbatches on 2 ranks, not those of the batch: results are not those of the model on the whole batch}}
plumb.batch_norm_rule "local"
plumb.program @model {
  %x = plumb.input "x" index 0 : tensor<4x2xf32>
  // expected-error @+1 {{has one value per channel to normalise; it needs more than one}}
  %y = plumb.batch_norm %x momentum 0.1 eps 1.0e-05 {plumb.module = "bn"} : (tensor<4x2xf32>) -> tensor<4x2xf32>
  plumb.output "y" index 0 %y : tensor<4x2xf32>
}

// -----

plumb.mesh @mesh ["dp" = 1]
// expected-error @+1 {{batch normalisation over "rank" is unknown; there are microbatch and local}}
plumb.batch_norm_rule "rank"
plumb.program @model {}

// -----

// Statistics that something else changes between two calls of a module.

plumb.mesh @mesh ["dp" = 1]
plumb.pipeline axis "pp" schedule "gpipe" microbatches 2
// expected-warning @+1 {{batch normalisation uses the statistics of 2 microbatches}}
plumb.batch_norm_rule "microbatch"
plumb.parameter @m : tensor<2xf32>
plumb.parameter @v : tensor<2xf32>
plumb.program @model {
  %x = plumb.input "x" index 0 : tensor<8x2xf32>
  %m = plumb.load @m : tensor<2xf32>
  %v = plumb.load @v : tensor<2xf32>
  %y, %nm, %nv = plumb.batch_norm %x running %m, %v momentum 0.1 eps 1.0e-05 : (tensor<8x2xf32>, tensor<2xf32>, tensor<2xf32>) -> (tensor<8x2xf32>, tensor<2xf32>, tensor<2xf32>)
  %hm = nn.scale %nm by 0.5 : (tensor<2xf32>) -> tensor<2xf32>
  // expected-error @+1 {{moves running statistics that something else than another call of the same normalisation has changed before; with several microbatches these would have to change in turn; use one microbatch}}
  %z, %om, %ov = plumb.batch_norm %y running %hm, %nv momentum 0.1 eps 1.0e-05 : (tensor<8x2xf32>, tensor<2xf32>, tensor<2xf32>) -> (tensor<8x2xf32>, tensor<2xf32>, tensor<2xf32>)
  plumb.store @m, %om : tensor<2xf32>
  plumb.store @v, %ov : tensor<2xf32>
  plumb.output "z" index 0 %z : tensor<8x2xf32>
}
