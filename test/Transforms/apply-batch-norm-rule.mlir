// RUN: plumb-opt %s --split-input-file --apply-spec | FileCheck %s

// Statistics of the whole batch: sums over rows and places, from which the running ones move on.

// CHECK-LABEL: plumb.program @whole
// CHECK: %[[X:.*]] = plumb.input "x"
// CHECK: %[[M:.*]] = plumb.load @mean
// CHECK: %[[V:.*]] = plumb.load @variance
// CHECK: %[[S:.*]] = nn.sum %[[X]] dims [0, 2] keepdim {{.*}}: (tensor<8x3x5xf32>) -> tensor<1x3x1xf32>
// CHECK: %[[MEAN:.*]] = nn.scale %[[S]] by 2.500000e-02
// CHECK: %[[D:.*]] = nn.sub %[[X]], %[[MEAN]]
// CHECK: %[[Q:.*]] = nn.mul %[[D]], %[[D]]
// CHECK: %[[SQUARES:.*]] = nn.sum %[[Q]] dims [0, 2] keepdim
// CHECK: %[[VARIANCE:.*]] = nn.scale %[[SQUARES]] by 2.500000e-02
// CHECK: %[[EPS:.*]] = nn.fill 1.000000e-05
// CHECK: nn.add %[[VARIANCE]], %[[EPS]]
// CHECK: %[[R:.*]] = nn.power
// CHECK: %[[Y:.*]] = nn.mul %[[D]], %[[R]]
// CHECK: %[[UNBIASED:.*]] = nn.scale %[[SQUARES]] by 0.02564
// CHECK: %[[A:.*]] = nn.view %[[MEAN]] {{.*}}: (tensor<1x3x1xf32>) -> tensor<3xf32>
// CHECK: %[[NM:.*]] = nn.weighted_sum %[[M]] by {{.*}}, %[[A]] by
// CHECK: %[[B:.*]] = nn.view %[[UNBIASED]]
// CHECK: %[[NV:.*]] = nn.weighted_sum %[[V]] by {{.*}}, %[[B]] by
// CHECK: plumb.store @mean, %[[NM]]
// CHECK: plumb.store @variance, %[[NV]]
// CHECK: plumb.output "y" index 0 %[[Y]]
plumb.mesh @mesh ["dp" = 2]
plumb.parameter @mean : tensor<3xf32>
plumb.parameter @variance : tensor<3xf32>
plumb.program @whole {
  %x = plumb.input "x" index 0 : tensor<8x3x5xf32>
  %m = plumb.load @mean : tensor<3xf32>
  %v = plumb.load @variance : tensor<3xf32>
  %y, %nm, %nv = plumb.batch_norm %x running %m, %v momentum 0.1 eps 1.0e-05 : (tensor<8x3x5xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<8x3x5xf32>, tensor<3xf32>, tensor<3xf32>)
  plumb.store @mean, %nm : tensor<3xf32>
  plumb.store @variance, %nv : tensor<3xf32>
  plumb.output "y" index 0 %y : tensor<8x3x5xf32>
}

// -----

// Of each microbatch, over both ranks: rows are numbered by rank first. Two microbatches move running statistics twice.

// CHECK: module attributes {plumb.batch_parts = array<i64: 2, 2>}
// CHECK-LABEL: plumb.program @microbatches
// CHECK: %[[NUMBERS:.*]] = plumb.input "microbatch" index 1 counts {{.*}}"microbatch"{{.*}} : tensor<2xi64>
// CHECK: %[[X:.*]] = plumb.input "x"
// CHECK: %[[P:.*]] = nn.view %[[X]] {{.*}}: (tensor<8x3xf32>) -> tensor<2x2x2x3xf32>
// CHECK: %[[S:.*]] = nn.sum %[[P]] dims [0, 2] keepdim {{.*}}: (tensor<2x2x2x3xf32>) -> tensor<1x2x1x3xf32>
// CHECK: nn.scale %[[S]] by 2.500000e-01
// CHECK: nn.convert %[[NUMBERS]]
// CHECK: nn.einsum "m,mc->c"
// CHECK: nn.weighted_sum %{{.*}} by {{0.81.*|8.1.*e-01}}, %{{.*}} by 1.000000e+00
plumb.mesh @mesh ["dp" = 2]
plumb.pipeline axis "pp" schedule "gpipe" microbatches 2
// The warning is in apply-batch-norm-rule-invalid.mlir.
plumb.batch_norm_rule "microbatch"
plumb.parameter @mean : tensor<3xf32>
plumb.parameter @variance : tensor<3xf32>
plumb.program @microbatches {
  %x = plumb.input "x" index 0 : tensor<8x3xf32>
  %m = plumb.load @mean : tensor<3xf32>
  %v = plumb.load @variance : tensor<3xf32>
  %y, %nm, %nv = plumb.batch_norm %x running %m, %v momentum 0.1 eps 1.0e-05 : (tensor<8x3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<8x3xf32>, tensor<3xf32>, tensor<3xf32>)
  plumb.store @mean, %nm : tensor<3xf32>
  plumb.store @variance, %nv : tensor<3xf32>
  plumb.output "y" index 0 %y : tensor<8x3xf32>
}

// -----

// Of each microbatch on each rank.

// CHECK-LABEL: plumb.program @local
// CHECK: %[[P:.*]] = nn.view %{{.*}} : (tensor<8x3xf32>) -> tensor<2x2x2x3xf32>
// CHECK: nn.sum %[[P]] dims [2] keepdim {{.*}}: (tensor<2x2x2x3xf32>) -> tensor<2x2x1x3xf32>
plumb.mesh @mesh ["dp" = 2]
plumb.pipeline axis "pp" schedule "gpipe" microbatches 2
plumb.batch_norm_rule "local"
plumb.program @local {
  %x = plumb.input "x" index 0 : tensor<8x3xf32>
  %y = plumb.batch_norm %x momentum 0.1 eps 1.0e-05 : (tensor<8x3xf32>) -> tensor<8x3xf32>
  plumb.output "y" index 0 %y : tensor<8x3xf32>
}

// -----

// Two calls in a forward: what both microbatches leave of the old value is (0.9 0.9)^2; what the first call adds, the
// second leaves 0.9 of.

// CHECK-LABEL: plumb.program @repeated
// CHECK: %[[M:.*]] = plumb.load @mean
// CHECK: %[[F:.*]] = nn.exp
// CHECK: %[[W:.*]] = nn.scale %[[F]] by {{0.09|9.*e-02}}
// CHECK: %[[S:.*]] = nn.einsum "m,mc->c"(%[[W]],
// CHECK: %[[A:.*]] = nn.weighted_sum %[[M]] by 0.656{{[0-9]*}}, %[[S]] by 1.000000e+00
// CHECK: %[[B:.*]] = nn.weighted_sum %[[A]] by 1.000000e+00, %{{.*}} by 1.000000e+00
// CHECK: plumb.store @mean, %[[B]]
plumb.mesh @mesh ["dp" = 1]
plumb.pipeline axis "pp" schedule "gpipe" microbatches 2
plumb.batch_norm_rule "microbatch"
plumb.parameter @mean : tensor<2xf32>
plumb.parameter @variance : tensor<2xf32>
plumb.program @repeated {
  %x = plumb.input "x" index 0 : tensor<8x2xf32>
  %m = plumb.load @mean : tensor<2xf32>
  %v = plumb.load @variance : tensor<2xf32>
  %y, %nm, %nv = plumb.batch_norm %x running %m, %v momentum 0.1 eps 1.0e-05 : (tensor<8x2xf32>, tensor<2xf32>, tensor<2xf32>) -> (tensor<8x2xf32>, tensor<2xf32>, tensor<2xf32>)
  %z, %om, %ov = plumb.batch_norm %y running %nm, %nv momentum 0.1 eps 1.0e-05 : (tensor<8x2xf32>, tensor<2xf32>, tensor<2xf32>) -> (tensor<8x2xf32>, tensor<2xf32>, tensor<2xf32>)
  plumb.store @mean, %om : tensor<2xf32>
  plumb.store @variance, %ov : tensor<2xf32>
  plumb.output "z" index 0 %z : tensor<8x2xf32>
}
