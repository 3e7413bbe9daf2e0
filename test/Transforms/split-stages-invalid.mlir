// RUN: plumb-opt %s --split-input-file --split-stages --verify-diagnostics

// Markers that delimit nothing.

plumb.mesh @mesh ["pp" = 2]
plumb.pipeline axis "pp" schedule "1f1b" microbatches 1
plumb.program @model {
  %x = plumb.input "x" index 0 : tensor<8x4xf32>
  // expected-warning @+1 {{model.py:1: this marker stands before everything and is dropped}}
  plumb.pipe_split {plumb.source = "model.py:1"}
  %0 = nn.relu %x : (tensor<8x4xf32>) -> tensor<8x4xf32>
  plumb.pipe_split {plumb.source = "model.py:2"}
  // expected-warning @+1 {{model.py:3: this marker repeats the one before it and is dropped}}
  plumb.pipe_split {plumb.source = "model.py:3"}
  %1 = nn.relu %0 : (tensor<8x4xf32>) -> tensor<8x4xf32>
  // expected-warning @+1 {{model.py:4: this marker stands after everything and is dropped}}
  plumb.pipe_split {plumb.source = "model.py:4"}
  plumb.output "y" index 0 %1 : tensor<8x4xf32>
}

// -----

plumb.mesh @mesh ["pp" = 1]
// expected-remark @+1 {{the pipeline axis "pp" has one rank: split points are ignored}}
plumb.pipeline axis "pp" schedule "1f1b" microbatches 1
plumb.program @model {
  %x = plumb.input "x" index 0 : tensor<8x4xf32>
  %0 = nn.relu %x : (tensor<8x4xf32>) -> tensor<8x4xf32>
  plumb.pipe_split
  %1 = nn.relu %0 : (tensor<8x4xf32>) -> tensor<8x4xf32>
  plumb.output "y" index 0 %1 : tensor<8x4xf32>
}

// -----

plumb.mesh @mesh ["pp" = 2]
// expected-error @+1 {{the model has 1 stages, the pipeline axis "pp" has 2 ranks of 1 stages each; add split points}}
plumb.pipeline axis "pp" schedule "1f1b" microbatches 1
plumb.program @model {
  %x = plumb.input "x" index 0 : tensor<8x4xf32>
  %0 = nn.relu %x : (tensor<8x4xf32>) -> tensor<8x4xf32>
  plumb.output "y" index 0 %0 : tensor<8x4xf32>
}

// -----

plumb.mesh @mesh ["pp" = 2]
// expected-error @+1 {{the model has 3 stages, the pipeline axis "pp" has 2 ranks of 1 stages each; raise "stages_per_rank"}}
plumb.pipeline axis "pp" schedule "1f1b" microbatches 1 stages_per_rank 1
plumb.program @model {
  %x = plumb.input "x" index 0 : tensor<8x4xf32>
  %0 = nn.relu %x : (tensor<8x4xf32>) -> tensor<8x4xf32>
  plumb.pipe_split
  %1 = nn.relu %0 : (tensor<8x4xf32>) -> tensor<8x4xf32>
  plumb.pipe_split
  %2 = nn.relu %1 : (tensor<8x4xf32>) -> tensor<8x4xf32>
  plumb.output "y" index 0 %2 : tensor<8x4xf32>
}
