// RUN: plumb-opt --split-input-file --form-kernels %s | FileCheck %s

// A product takes its elementwise readers along. What is read elsewhere becomes a result: here the sum, which the
// backward phase needs. Loads move in front of the kernel.
plumb.mesh @mesh ["tp" = 1]
plumb.parameter @w trainable : tensor<16x8xf32>
plumb.parameter @b trainable : tensor<16xf32>
plumb.state @out "output" index 0 : tensor<4x16xf32>
plumb.state @aux "output" index 1 : tensor<4x16xf32>
// CHECK-LABEL: plumb.stage @epilogue
plumb.stage @epilogue index 0 {
  %x = plumb.input "x" index 0 : tensor<4x8xf32>
  %w = plumb.load @w : tensor<16x8xf32>
  // CHECK: %[[B:.*]] = plumb.load @b
  // CHECK: %[[Y:.*]]:2 = plumb.launch @k_einsum_nt_4x16x8_add_relu(%{{.*}}, %{{.*}}, %[[B]]) inplace [-1, -1] {{{.*}}plumb.module = "fc"
  // CHECK: plumb.store @out, %[[Y]]#1
  // CHECK: plumb.launch @k_relu_backward_4x16(%[[Y]]#1, %[[Y]]#0)
  %y = nn.einsum "bi,oi->bo"(%x, %w) {plumb.module = "fc"} : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  %b = plumb.load @b : tensor<16xf32>
  %s = nn.add %y, %b : (tensor<4x16xf32>, tensor<16xf32>) -> tensor<4x16xf32>
  %r = nn.relu %s : (tensor<4x16xf32>) -> tensor<4x16xf32>
  plumb.store @out, %r : tensor<4x16xf32>
  %d = nn.relu_backward %r, %s {plumb.phase = #plumb.phase<backward_input>} : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
  plumb.store @aux, %d {plumb.phase = #plumb.phase<backward_input>} : tensor<4x16xf32>
}
// The functions are on tensors, with what each run costs.
// CHECK: func.func @k_einsum_nt_4x16x8_add_relu(%{{.*}}: tensor<4x8xf32>, %{{.*}}: tensor<16x8xf32>, %{{.*}}: tensor<16xf32>) -> (tensor<4x16xf32>, tensor<4x16xf32>) attributes {plumb.flops = 1152 : i64}

// -----

// Equal kernels are made once; equal names of different kernels are numbered.
plumb.mesh @mesh ["tp" = 1]
plumb.parameter @w trainable : tensor<8x8xf32>
plumb.state @out "output" index 0 : tensor<4x8xf32>
// CHECK-LABEL: plumb.stage @twice
plumb.stage @twice index 0 {
  // CHECK: plumb.launch @k_einsum_nt_4x8x8_scale(
  // CHECK: plumb.launch @k_einsum_nt_4x8x8_scale(
  // CHECK: plumb.launch @k_einsum_nt_4x8x8_scale_v2(
  %x = plumb.input "x" index 0 : tensor<4x8xf32>
  %w = plumb.load @w : tensor<8x8xf32>
  %0 = nn.einsum "bi,oi->bo"(%x, %w) {plumb.module = "h.0"} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %1 = nn.scale %0 by 2.0 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = nn.einsum "bi,oi->bo"(%1, %w) {plumb.module = "h.1"} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %3 = nn.scale %2 by 2.0 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %4 = nn.einsum "bi,oi->bo"(%3, %w) {plumb.module = "h.2"} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %5 = nn.scale %4 by 3.0 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  plumb.store @out, %5 : tensor<4x8xf32>
}
// CHECK-COUNT-2: func.func @k_
// CHECK-NOT: func.func

// -----

// A sum into a state overwrites it, as the epilogue of what makes the summand; so does the update of a parameter,
// although the forward phase has read it.
plumb.mesh @mesh ["tp" = 1]
plumb.parameter @w trainable : tensor<8x8xf32>
plumb.state @grad.w "gradient" of "w" : tensor<8x8xf32>
// CHECK-LABEL: plumb.stage @in_place
plumb.stage @in_place index 0 {
  // CHECK: plumb.launch @k_einsum_tn_8x8x4_add(%{{.*}}, %{{.*}}, %{{.*}}) inplace [2]
  // CHECK: plumb.launch @k_sgd_8x8(%{{.*}}, %{{.*}}) inplace [0]
  %x = plumb.input "x" index 0 : tensor<4x8xf32>
  %w = plumb.load @w : tensor<8x8xf32>
  %y = nn.einsum "bi,oi->bo"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %g = nn.einsum "bo,bi->oi"(%y, %x) {plumb.phase = #plumb.phase<backward_weight>} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %a = plumb.load @grad.w {plumb.phase = #plumb.phase<backward_weight>} : tensor<8x8xf32>
  %s = nn.add %a, %g {plumb.phase = #plumb.phase<backward_weight>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  plumb.store @grad.w, %s {plumb.phase = #plumb.phase<backward_weight>} : tensor<8x8xf32>
  %t = plumb.load @grad.w {plumb.phase = #plumb.phase<update>} : tensor<8x8xf32>
  %p = plumb.load @w {plumb.phase = #plumb.phase<update>} : tensor<8x8xf32>
  %r = nn.fill 0.1 {plumb.phase = #plumb.phase<update>} : tensor<f32>
  %q = nn.sgd %p, %t, %r {plumb.phase = #plumb.phase<update>} : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<f32>) -> tensor<8x8xf32>
  plumb.store @w, %q {plumb.phase = #plumb.phase<update>} : tensor<8x8xf32>
}
// CHECK: func.func @k_einsum_tn_8x8x4_add(%{{.*}}, %{{.*}}, %{{.*}}: tensor<8x8xf32> {plumb.inout, plumb.result = 0 : i64})
// CHECK: func.func @k_sgd_8x8(%{{.*}}: tensor<8x8xf32> {plumb.inout, plumb.result = 0 : i64}, %{{.*}}: tensor<8x8xf32>)

// -----

// Read a second time in the phase, a state cannot be overwritten early.
plumb.mesh @mesh ["tp" = 1]
plumb.state @s "loss" : tensor<8xf32>
plumb.state @out "output" index 0 : tensor<8xf32>
// CHECK-LABEL: plumb.stage @read_twice
plumb.stage @read_twice index 0 {
  // CHECK: plumb.launch @k_add_8(%{{.*}}, %{{.*}}) inplace [-1]
  %x = plumb.input "x" index 0 : tensor<8xf32>
  %a = plumb.load @s : tensor<8xf32>
  %b = nn.add %a, %x : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %c = plumb.load @s : tensor<8xf32>
  plumb.store @out, %c : tensor<8xf32>
  plumb.store @s, %b : tensor<8xf32>
}

// -----

// An op never joins a kernel that stands before what else it reads: the sum reads the reduced value too.
plumb.mesh @mesh ["tp" = 2]
ccl.communicator @tp axes ["tp"] pipeline []
plumb.state @out "output" index 0 : tensor<4x8xf32>
// CHECK-LABEL: plumb.stage @convex
plumb.stage @convex index 0 {
  // CHECK: %[[A:.*]] = plumb.launch @k_scale_4x8
  // CHECK: %[[R:.*]] = ccl.all_reduce %[[A]]
  // CHECK: plumb.launch @k_add_4x8(%[[A]], %[[R]])
  %x = plumb.input "x" index 0 : tensor<4x8xf32>
  %a = nn.scale %x by 2.0 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %r = ccl.all_reduce %a on @tp : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %s = nn.add %a, %r : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  plumb.store @out, %s : tensor<4x8xf32>
}

// -----

// Views stay outside at the border and lie inside between ops of one kernel. A constant is made where it is read; a
// dead op is nobody's result.
plumb.mesh @mesh ["tp" = 1]
plumb.state @out "output" index 0 : tensor<2x4x8xf32>
// CHECK-LABEL: plumb.stage @views
plumb.stage @views index 0 {
  // CHECK: %[[V:.*]] = nn.view
  // CHECK-NOT: nn.
  // CHECK: %[[Y:.*]] = plumb.launch @k_scale_mul_8x8(%[[V]]) inplace [-1] {{.*}} : (tensor<8x8xf32>) -> tensor<2x4x8xf32>
  // CHECK-NOT: nn.
  // CHECK: plumb.store @out, %[[Y]]
  %x = plumb.input "x" index 0 : tensor<64xf32>
  %v = nn.view %x : (tensor<64xf32>) -> tensor<8x8xf32>
  %a = nn.scale %v by 2.0 {plumb.module = "m"} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %b = nn.view %a : (tensor<8x8xf32>) -> tensor<2x4x8xf32>
  %one = nn.fill 3.0 : tensor<f32>
  %all = nn.broadcast %one : (tensor<f32>) -> tensor<2x4x8xf32>
  %c = nn.mul %b, %all : (tensor<2x4x8xf32>, tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
  %dead = nn.tanh %b : (tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
  plumb.store @out, %c : tensor<2x4x8xf32>
}
