// RUN: plumb-opt %s --split-input-file --recompute | FileCheck %s

// What the backward of h.0 reads of its forward is computed again before it, from what enters the module. The gradient of
// its parameter goes with it, as backwards run as one. What another backward keeps anyway (%z, read by that of h.1) is not
// computed again.

// CHECK: %[[X:.*]] = plumb.input "x"
// CHECK: %[[W:.*]] = plumb.load @w
// CHECK: %[[E:.*]] = nn.einsum {{.*}}(%[[X]], %[[W]]) {plumb.recompute = "h.0"}
// CHECK: %[[Y:.*]] = nn.tanh %[[E]] {plumb.recompute = "h.0"}
// CHECK: %[[Z:.*]] = nn.exp %[[Y]] {plumb.recompute = "h.0"}
// CHECK: %[[DZ:.*]] = nn.mul %{{.*}}, %[[Z]] {plumb.module = "h.1", plumb.phase = #plumb.phase<backward_input>}
// CHECK: %[[E2:.*]] = nn.einsum {{.*}}(%[[X]], %[[W]]) {plumb.phase = #plumb.phase<backward_input>, plumb.recompute = "h.0"}
// CHECK: %[[Y2:.*]] = nn.tanh %[[E2]] {plumb.phase = #plumb.phase<backward_input>, plumb.recompute = "h.0"}
// CHECK: %[[DY:.*]] = nn.mul %[[DZ]], %[[Z]] {plumb.phase = #plumb.phase<backward_input>, plumb.recompute = "h.0"}
// CHECK: %[[DE:.*]] = nn.tanh_backward %[[DY]], %[[Y2]] {plumb.phase = #plumb.phase<backward_input>, plumb.recompute = "h.0"}
// CHECK: %[[DW:.*]] = nn.einsum {{.*}}(%[[DE]], %[[X]]) {plumb.phase = #plumb.phase<backward_input>
// CHECK: plumb.accumulate @grad.w, %[[DW]] {plumb.phase = #plumb.phase<backward_input>
plumb.parameter @w trainable : tensor<4x4xf32>
plumb.state @grad.w "gradient" of "w" : tensor<4x4xf32>
plumb.program @model {
  %x = plumb.input "x" index 0 : tensor<4x4xf32>
  %w = plumb.load @w {plumb.recompute = "h.0"} : tensor<4x4xf32>
  %e = nn.einsum "ai,oi->ao"(%x, %w) {plumb.recompute = "h.0"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %y = nn.tanh %e {plumb.recompute = "h.0"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %z = nn.exp %y {plumb.recompute = "h.0"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %q = nn.mul %z, %z {plumb.module = "h.1"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %c = nn.fill 2.0 {plumb.phase = #plumb.phase<backward_input>} : tensor<4x4xf32>
  %dz = nn.mul %c, %z {plumb.module = "h.1", plumb.phase = #plumb.phase<backward_input>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %dy = nn.mul %dz, %z {plumb.phase = #plumb.phase<backward_input>, plumb.recompute = "h.0"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %de = nn.tanh_backward %dy, %y {plumb.phase = #plumb.phase<backward_input>, plumb.recompute = "h.0"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %dw = nn.einsum "ao,ai->oi"(%de, %x) {plumb.phase = #plumb.phase<backward_weight>, plumb.recompute = "h.0"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  plumb.accumulate @grad.w, %dw {plumb.phase = #plumb.phase<backward_weight>, plumb.recompute = "h.0"} : tensor<4x4xf32>
}

// -----

// Under a schedule that takes the halves of a backward apart, the gradient of the parameter stays where it is, and what
// it alone reads is computed again there.

// CHECK: nn.tanh {{.*}} {plumb.recompute = "h.0"}
// CHECK: %[[Y:.*]] = nn.tanh {{.*}} {plumb.phase = #plumb.phase<backward_weight>, plumb.recompute = "h.0"}
// CHECK: nn.einsum {{.*}}(%{{.*}}, %[[Y]]) {plumb.phase = #plumb.phase<backward_weight>, plumb.recompute = "h.0"}
plumb.pipeline axis "pp" schedule "zb-h1" microbatches 1
plumb.program @model {
  %x = plumb.input "x" index 0 : tensor<4x4xf32>
  %y = nn.tanh %x {plumb.recompute = "h.0"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %c = nn.fill 2.0 {plumb.phase = #plumb.phase<backward_input>} : tensor<4x4xf32>
  %dw = nn.einsum "ao,ai->oi"(%c, %y) {plumb.phase = #plumb.phase<backward_weight>, plumb.recompute = "h.0"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
}
