// RUN: plumb-opt --split-input-file --assign-streams --plan-memory %s | FileCheck %s

// What a step clears comes first, then parameters, outputs, inputs, then values. All microbatches of an input or
// output lie side by side. Nothing is smaller than a cache line of 64 bytes.
// CHECK: plumb.arena = array<i64: 1600>, plumb.cleared = array<i64: 128>
// CHECK-SAME: {activations = 256 : i64, arena = 1600 : i64, inputs = 256 : i64, largest = "first, forward, module fc", live = 1600 : i64, optimizer = 0 : i64, outputs = 256 : i64, parameters = 64 : i64, staging = 256 : i64, states = 128 : i64, temporaries = 384 : i64}
plumb.mesh @mesh ["pp" = 1]
plumb.pipeline axis "pp" schedule "gpipe" microbatches 2
// CHECK: plumb.parameter @w {{.*}} {plumb.offsets = array<i64: 128>}
plumb.parameter @w trainable : tensor<16xf32>
// CHECK: plumb.parameter @unused {{.*}} {plumb.offsets = array<i64: -1>}
plumb.parameter @unused : tensor<16xf32>
// CHECK: plumb.state @grad.w {{.*}} {plumb.offsets = array<i64: 0>}
plumb.state @grad.w "gradient" of "w" : tensor<16xf32>
// CHECK: plumb.state @loss {{.*}} {plumb.offsets = array<i64: 64>}
plumb.state @loss "loss" : tensor<f32>
// CHECK: plumb.state @out {{.*}} {plumb.offsets = array<i64: 192>}
plumb.state @out "output" index 0 : tensor<4x16xf32> layout <@mesh, [{"microbatch"}, {}]>
plumb.schedule ["0F0,0F1,0B0,0B1"]
func.func @k(%x: tensor<2x16xf32>) -> tensor<2x16xf32> attributes {plumb.scratch = 100 : i64} { return %x : tensor<2x16xf32> }
func.func @sum(%x: tensor<2x16xf32>, %a: tensor<16xf32> {plumb.inout, plumb.result = 0 : i64}) -> tensor<16xf32> { return %a : tensor<16xf32> }
func.func @same(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }
func.func @one(%x: tensor<2x16xf32>) -> tensor<f32> { %0 = arith.constant dense<0.0> : tensor<f32> return %0 : tensor<f32> }
// CHECK-LABEL: plumb.stage @first
// CHECK-SAME: plumb.slots = [{name = "forward_backward_input", stride = 128 : i64, table = array<i64: 0, 1>}, {name = "input_0", stride = 128 : i64, table = array<i64: 0, 1>}, {name = "out", stride = 128 : i64, table = array<i64: 0, 1>}]
plumb.stage @first index 0 {
  // CHECK: plumb.input {{.*}}plumb.offset = array<i64: 448>
  %x = plumb.input "x" index 0 {plumb.layouts = [#plumb.layout<@mesh, [{"microbatch"}, {}]>]} : tensor<2x16xf32>
  // Temporaries and scratch are packed by liveness: two values at a time, and 128 bytes of scratch.
  // CHECK: plumb.launch @k(%{{.*}}plumb.offset = array<i64: 704>{{.*}}plumb.scratch_offset = 832
  // CHECK: plumb.launch @k(%{{.*}}plumb.offset = array<i64: 832>{{.*}}plumb.scratch_offset = 960
  // CHECK: plumb.launch @k(%{{.*}}plumb.offset = array<i64: 704>{{.*}}plumb.scratch_offset = 960
  %a = plumb.launch @k(%x) inplace [-1] {plumb.module = "fc0"} : (tensor<2x16xf32>) -> tensor<2x16xf32>
  %b = plumb.launch @k(%a) inplace [-1] {plumb.module = "fc"} : (tensor<2x16xf32>) -> tensor<2x16xf32>
  %c = plumb.launch @k(%b) inplace [-1] : (tensor<2x16xf32>) -> tensor<2x16xf32>
  // This one lives on to the backward, in a slot per microbatch.
  // CHECK: plumb.launch @k(%{{.*}}plumb.offset = array<i64: 1088>{{.*}}plumb.slot = array<i64: 0>
  %d = plumb.launch @k(%c) inplace [-1] : (tensor<2x16xf32>) -> tensor<2x16xf32>
  // Made in the output itself, through a view.
  // CHECK: plumb.launch @k(%{{.*}}plumb.offset = array<i64: 192>{{.*}}plumb.slot = array<i64: 2>
  // CHECK: nn.view {{.*}}plumb.offset = array<i64: 192>
  // CHECK: plumb.store @out, %{{.*}} {plumb.offset = array<i64: 192>, plumb.slot = array<i64: 2>}
  %e = plumb.launch @k(%d) inplace [-1] : (tensor<2x16xf32>) -> tensor<2x16xf32>
  %v = nn.view %e : (tensor<2x16xf32>) -> tensor<2x16xf32>
  plumb.store @out, %v : tensor<2x16xf32>
  // The old value is read when the new one is made already: a copy.
  // CHECK: plumb.store @loss, %{{.*}} {plumb.copy, plumb.offset = array<i64: 64>}
  %l = plumb.load @loss : tensor<f32>
  %m = plumb.launch @one(%d) inplace [-1] : (tensor<2x16xf32>) -> tensor<f32>
  %n = plumb.launch @same(%l) inplace [-1] : (tensor<f32>) -> tensor<f32>
  plumb.store @loss, %m : tensor<f32>
  // A sum overwrites the gradient.
  // CHECK: plumb.launch @sum({{.*}} inplace [1] {plumb.offset = array<i64: 0>
  // CHECK: plumb.store @grad.w, %{{.*}} {plumb.offset = array<i64: 0>, plumb.phase
  %g = plumb.load @grad.w {plumb.phase = #plumb.phase<backward_input>} : tensor<16xf32>
  %h = plumb.launch @sum(%d, %g) inplace [1] {plumb.phase = #plumb.phase<backward_input>} : (tensor<2x16xf32>, tensor<16xf32>) -> tensor<16xf32>
  plumb.store @grad.w, %h {plumb.phase = #plumb.phase<backward_input>} : tensor<16xf32>
  %p = plumb.load @w {plumb.phase = #plumb.phase<update>} : tensor<16xf32>
}

// -----

// A sum over ranks takes place where its operand dies, also in a state that it is stored to; an own block is a part of
// the whole.
plumb.mesh @mesh ["pp" = 1, "dp" = 2]
plumb.pipeline axis "pp" schedule "gpipe" microbatches 1
ccl.communicator @dp axes ["dp"] pipeline []
plumb.state @grad.w "gradient" of "w" : tensor<16xf32>
plumb.schedule ["0F0"]
func.func @k(%x: tensor<16xf32>) -> tensor<16xf32> { return %x : tensor<16xf32> }
func.func @wide(%x: tensor<16xf32>) -> tensor<2x16xf32> { %0 = arith.constant dense<0.0> : tensor<2x16xf32> return %0 : tensor<2x16xf32> }
// CHECK-LABEL: plumb.stage @second
plumb.stage @second index 0 {
  %x = plumb.input "x" index 0 : tensor<16xf32>
  // CHECK: plumb.launch @k({{.*}}plumb.offset = array<i64: [[A:[0-9]+]]>
  // CHECK: ccl.all_reduce {{.*}}plumb.offset = array<i64: [[A]]>
  %a = plumb.launch @k(%x) inplace [-1] : (tensor<16xf32>) -> tensor<16xf32>
  %b = ccl.all_reduce %a on @dp : (tensor<16xf32>) -> tensor<16xf32>
  // The operand is read once more.
  // CHECK: ccl.all_reduce
  // CHECK-NOT: plumb.offset = array<i64: [[A]]>
  // CHECK: plumb.launch @k(
  %c = ccl.all_reduce %b on @dp : (tensor<16xf32>) -> tensor<16xf32>
  %d = plumb.launch @k(%b) inplace [-1] : (tensor<16xf32>) -> tensor<16xf32>
  %e = plumb.launch @k(%c) inplace [-1] : (tensor<16xf32>) -> tensor<16xf32>
  // CHECK: plumb.launch @wide({{.*}}plumb.offset = array<i64: [[W:[0-9]+]]>
  // CHECK: ccl.slice {{.*}}plumb.offset = array<i64: [[W]]>
  %w = plumb.launch @wide(%e) inplace [-1] : (tensor<16xf32>) -> tensor<2x16xf32>
  %s = ccl.slice %w over ["dp"] : (tensor<2x16xf32>) -> tensor<16xf32>
  %t = plumb.launch @k(%s) inplace [-1] : (tensor<16xf32>) -> tensor<16xf32>
  // CHECK: ccl.all_reduce {{.*}}plumb.offset = array<i64: 0>
  // CHECK: plumb.store @grad.w, %{{.*}} {plumb.offset = array<i64: 0>
  %g = plumb.load @grad.w {plumb.phase = #plumb.phase<update>} : tensor<16xf32>
  %h = ccl.all_reduce %g on @dp {plumb.phase = #plumb.phase<update>} : (tensor<16xf32>) -> tensor<16xf32>
  plumb.store @grad.w, %h {plumb.phase = #plumb.phase<update>} : tensor<16xf32>
}

// -----

// What the two halves of a backward hand over lies where the forward had its temporaries: they are never in use at one
// time. The value of the forward that the backward reads lies beside both.
// CHECK: plumb.arena = array<i64: 320>
plumb.mesh @mesh ["pp" = 1]
plumb.pipeline axis "pp" schedule "gpipe" microbatches 1
plumb.schedule ["0F0,0B0"]
func.func @k(%x: tensor<16xf32>) -> tensor<16xf32> { return %x : tensor<16xf32> }
// CHECK-LABEL: plumb.stage @third
plumb.stage @third index 0 {
  %x = plumb.input "x" index 0 : tensor<16xf32>
  // CHECK: plumb.launch @k({{.*}}plumb.offset = array<i64: [[A:[0-9]+]]>
  // CHECK: plumb.launch @k({{.*}}plumb.offset = array<i64: [[B:[0-9]+]]>
  %a = plumb.launch @k(%x) inplace [-1] : (tensor<16xf32>) -> tensor<16xf32>
  %b = plumb.launch @k(%a) inplace [-1] : (tensor<16xf32>) -> tensor<16xf32>
  %c = plumb.launch @k(%b) inplace [-1] : (tensor<16xf32>) -> tensor<16xf32>
  // CHECK: plumb.launch @k({{.*}}plumb.offset = array<i64: [[A]]>{{.*}}backward_input
  // CHECK: plumb.launch @k({{.*}}plumb.offset = array<i64: [[B]]>{{.*}}backward_input
  %d = plumb.launch @k(%c) inplace [-1] {plumb.phase = #plumb.phase<backward_input>} : (tensor<16xf32>) -> tensor<16xf32>
  %e = plumb.launch @k(%c) inplace [-1] {plumb.phase = #plumb.phase<backward_input>} : (tensor<16xf32>) -> tensor<16xf32>
  %f = plumb.launch @k(%d) inplace [-1] {plumb.phase = #plumb.phase<backward_weight>} : (tensor<16xf32>) -> tensor<16xf32>
  %g = plumb.launch @k(%e) inplace [-1] {plumb.phase = #plumb.phase<backward_weight>} : (tensor<16xf32>) -> tensor<16xf32>
}
