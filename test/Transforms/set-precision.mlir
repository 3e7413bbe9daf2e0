// RUN: plumb-opt %s --split-input-file --set-precision | FileCheck %s

// Products read bf16 and give it, elementwise ops and moves of what is bf16 follow, sums read f32. A number or a parameter
// takes the type of what it is used with, and what is used with f32 becomes f32. Outputs are f32, and so is what a loss
// is computed from.

// CHECK-LABEL: plumb.program @model
// CHECK-NOT: precision_rule
// CHECK: %[[X:.*]] = plumb.input "x"
// CHECK: %[[E:.*]] = plumb.input "e"
// CHECK: %[[W:.*]] = plumb.load @w : tensor<4x8xf32>
// CHECK: %[[XN:.*]] = nn.convert %[[X]] {plumb.module = "fc"{{.*}}} : (tensor<4x8xf32>) -> tensor<4x8xbf16>
// CHECK: %[[WN:.*]] = nn.convert %[[W]] {plumb.module = "fc"{{.*}}} : (tensor<4x8xf32>) -> tensor<4x8xbf16>
// CHECK: %[[Y:.*]] = nn.einsum "ai,oi->ao"(%[[XN]], %[[WN]]) {plumb.module = "fc"} : (tensor<4x8xbf16>, tensor<4x8xbf16>) -> tensor<4x4xbf16>
// CHECK: %[[R:.*]] = nn.relu %[[Y]] : (tensor<4x4xbf16>) -> tensor<4x4xbf16>
// CHECK: %[[T:.*]] = nn.fill 2.000000e+00 : tensor<f32>
// CHECK: %[[TN:.*]] = nn.convert %[[T]] {{.*}}: (tensor<f32>) -> tensor<bf16>
// CHECK: %[[M:.*]] = nn.mul %[[R]], %[[TN]] : (tensor<4x4xbf16>, tensor<bf16>) -> tensor<4x4xbf16>
// CHECK: %[[S:.*]]:2 = nn.split %[[M]] dim 1 {{.*}}: (tensor<4x4xbf16>) -> (tensor<4x2xbf16>, tensor<4x2xbf16>)
// CHECK: %[[B:.*]] = plumb.load @b
// CHECK: %[[BN:.*]] = nn.convert %[[B]] {{.*}}: (tensor<2xf32>) -> tensor<2xbf16>
// CHECK: %[[P:.*]] = nn.add %[[S]]#0, %[[BN]] : (tensor<4x2xbf16>, tensor<2xbf16>) -> tensor<4x2xbf16>
// CHECK: %[[PW:.*]] = nn.convert %[[P]] {{.*}}: (tensor<4x2xbf16>) -> tensor<4x2xf32>
// CHECK: %[[A:.*]] = nn.add %[[PW]], %[[E]] : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
// CHECK: %[[AN:.*]] = nn.convert %[[A]]
// CHECK: %[[Z:.*]] = nn.einsum "ai,bi->ab"(%[[AN]], %[[S]]#1)
// CHECK: %[[OUT:.*]] = nn.convert %[[Z]] {{.*}}: (tensor<4x4xbf16>) -> tensor<4x4xf32>
// CHECK: %[[Q:.*]] = nn.mul %[[OUT]], %[[OUT]] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
// CHECK: %[[L:.*]] = nn.sum %[[Q]] dims [0, 1] : (tensor<4x4xf32>) -> tensor<f32>
// CHECK: plumb.loss %[[L]]
// CHECK: plumb.output "z" index 0 %[[OUT]] : tensor<4x4xf32>
plumb.precision_rule "bf16"
plumb.parameter @w trainable : tensor<4x8xf32>
plumb.parameter @b trainable : tensor<2xf32>
plumb.program @model {
  %x = plumb.input "x" index 0 : tensor<4x8xf32>
  %e = plumb.input "e" index 1 : tensor<4x2xf32>
  %w = plumb.load @w : tensor<4x8xf32>
  %y = nn.einsum "ai,oi->ao"(%x, %w) {plumb.module = "fc"} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x4xf32>
  %r = nn.relu %y : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %t = nn.fill 2.0 : tensor<f32>
  %m = nn.mul %r, %t : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  %s:2 = nn.split %m dim 1 : (tensor<4x4xf32>) -> (tensor<4x2xf32>, tensor<4x2xf32>)
  %b = plumb.load @b : tensor<2xf32>
  %p = nn.add %s#0, %b : (tensor<4x2xf32>, tensor<2xf32>) -> tensor<4x2xf32>
  %a = nn.add %p, %e : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
  %z = nn.einsum "ai,bi->ab"(%a, %s#1) : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x4xf32>
  %q = nn.mul %z, %z : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %l = nn.sum %q dims [0, 1] : (tensor<4x4xf32>) -> tensor<f32>
  plumb.loss %l : tensor<f32>
  plumb.output "z" index 0 %z : tensor<4x4xf32>
}

// -----

// Stages convert for themselves; what the model has in another type stays.

// CHECK-LABEL: plumb.program @stages
// CHECK-COUNT-2: nn.convert {{.*}}plumb.stage = 0
// CHECK: nn.einsum {{.*}}plumb.stage = 0
// CHECK: nn.einsum {{.*}}plumb.stage = 0
// CHECK-COUNT-2: nn.convert {{.*}}plumb.stage = 1
// CHECK: nn.einsum {{.*}}plumb.stage = 1
// CHECK: nn.einsum "ai,ai->a"{{.*}} (tensor<4x4xf64>, tensor<4x4xf64>) -> tensor<4xf64>
plumb.precision_rule "bf16"
plumb.program @stages {
  %x = plumb.input "x" index 0 : tensor<4x4xf32>
  %y = plumb.input "y" index 1 : tensor<4x4xf32>
  %d = plumb.input "d" index 2 : tensor<4x4xf64>
  %0 = nn.einsum "ai,oi->ao"(%x, %y) {plumb.stage = 0 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = nn.einsum "ai,oi->ao"(%0, %y) {plumb.stage = 0 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = nn.einsum "ai,oi->ao"(%x, %y) {plumb.stage = 1 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %3 = nn.einsum "ai,ai->a"(%d, %d) : (tensor<4x4xf64>, tensor<4x4xf64>) -> tensor<4xf64>
}
