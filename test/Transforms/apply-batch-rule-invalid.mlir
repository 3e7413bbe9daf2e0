// RUN: plumb-opt %s --split-input-file --apply-spec --verify-diagnostics

plumb.mesh @mesh ["dp" = 1]
// expected-error @+1 {{the batch of this export is not known: input "y" has 12 rows in dim 0, another has 8; say in "inputs" what is no batch}}
plumb.batch_rule "global" size 16
plumb.program @model {
  %x = plumb.input "x" index 0 : tensor<8x2xf32>
  %y = plumb.input "y" index 1 : tensor<12x2xf32>
}

// -----

plumb.mesh @mesh ["dp" = 1]
// expected-error @+1 {{the batch of "rank" is unknown; there are global, replica and microbatch}}
plumb.batch_rule "rank" size 16
plumb.program @model {}

// -----

// A parameter of the batch's size cannot grow.

plumb.mesh @mesh ["dp" = 1]
// expected-note @+1 {{the batch is changed from 8 to 16 here}}
plumb.batch_rule "global" size 16
plumb.parameter @w : tensor<8x2xf32>
plumb.program @model {
  %x = plumb.input "x" index 0 : tensor<8x2xf32>
  %w = plumb.load @w : tensor<8x2xf32>
  // expected-error @+1 {{needs the batch in dim 0 of a value that does not hold it}}
  %y = nn.add %x, %w : (tensor<8x2xf32>, tensor<8x2xf32>) -> tensor<8x2xf32>
  plumb.output "y" index 0 %y : tensor<8x2xf32>
}

// -----

// A batch of 1 that is folded into positions: attention would go from sample to sample.

plumb.mesh @mesh ["dp" = 1]
// expected-note @+1 {{the batch is changed from 1 to 4 here}}
plumb.batch_rule "global" size 4
plumb.program @model {
  %x = plumb.input "x" index 0 : tensor<1x3x2xf32>
  %y = nn.view %x : (tensor<1x3x2xf32>) -> tensor<3x2xf32>
  // expected-error @+1 {{'nn.einsum' combines rows of different samples, and an export of one sample does not say whether each is meant by itself; keep the batch as a dim of its own, or export with a batch of 2}}
  %s = nn.einsum "id,jd->ij"(%y, %y) : (tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<3x3xf32>
  plumb.output "s" index 0 %s : tensor<3x3xf32>
}

// -----

plumb.mesh @mesh ["dp" = 1]
// expected-note @+1 {{the batch is changed from 1 to 4 here}}
plumb.batch_rule "global" size 4
plumb.program @model {
  %x = plumb.input "x" index 0 : tensor<1x3x2xf32>
  %y = nn.view %x : (tensor<1x3x2xf32>) -> tensor<3x2xf32>
  // expected-error @+1 {{'nn.sum' sums over the rows of all samples}}
  %s = nn.sum %y dims [0] : (tensor<3x2xf32>) -> tensor<2xf32>
  plumb.output "s" index 0 %s : tensor<2xf32>
}

// -----

// Of the positions of each sample, or of all?

plumb.mesh @mesh ["dp" = 1]
// expected-note @+1 {{the batch is changed from 1 to 4 here}}
plumb.batch_rule "global" size 4
plumb.program @model {
  %x = plumb.input "x" index 0 : tensor<1x3x2xf32>
  %y = nn.view %x : (tensor<1x3x2xf32>) -> tensor<3x2xf32>
  %t = nn.transpose %y [1, 0] : (tensor<3x2xf32>) -> tensor<2x3xf32>
  // expected-error @+1 {{'nn.softmax' needs the rows of all samples at once}}
  %s = nn.softmax %t : (tensor<2x3xf32>) -> tensor<2x3xf32>
  plumb.output "s" index 0 %s : tensor<2x3xf32>
}

// -----

// A batch is not larger than the rows and bytes that can be counted.

plumb.mesh @mesh ["dp" = 4]
plumb.pipeline axis "pp" schedule "gpipe" microbatches 2147483647
// expected-error @+1 {{2147483647 rows for each microbatch are more in all than a batch can have, 2147483647}}
plumb.batch_rule "microbatch" size 2147483647
plumb.program @model {
  %x = plumb.input "x" index 0 : tensor<8x2xf32>
}

// -----

plumb.mesh @mesh ["dp" = 1]
// expected-note @+1 {{the batch is changed from 8 to 2147483647 here}}
plumb.batch_rule "global" size 2147483647
plumb.program @model {
  %x = plumb.input "x" index 0 : tensor<8x2xf32>
  // expected-error @+1 {{'nn.einsum' makes a value of type 'tensor<2147483647x2147483647xf32>', more than 2^50 bytes}}
  %y = nn.einsum "ab,cb->ac"(%x, %x) : (tensor<8x2xf32>, tensor<8x2xf32>) -> tensor<8x8xf32>
  plumb.output "y" index 0 %y : tensor<8x8xf32>
}

// -----

// Nor is a value of the model itself.

plumb.mesh @mesh ["dp" = 1]
plumb.program @model {
  // expected-error @+1 {{'plumb.input' makes a value of type 'tensor<4611686018427387904x4611686018427387904xf32>', more than 2^50 bytes}}
  %x = plumb.input "x" index 0 : tensor<4611686018427387904x4611686018427387904xf32>
  plumb.output "y" index 0 %x : tensor<4611686018427387904x4611686018427387904xf32>
}

// -----

// A buffer cannot follow the batch.

plumb.mesh @mesh ["dp" = 1]
// expected-note @+1 {{the batch is changed from 8 to 16 here}}
plumb.batch_rule "global" size 16
plumb.parameter @last : tensor<8x2xf32>
plumb.program @model {
  %x = plumb.input "x" index 0 : tensor<8x2xf32>
  // expected-error @+1 {{sets buffer last to rows of the batch; a buffer keeps the size of the export}}
  plumb.store @last, %x : tensor<8x2xf32>
  plumb.output "x" index 0 %x : tensor<8x2xf32>
}
