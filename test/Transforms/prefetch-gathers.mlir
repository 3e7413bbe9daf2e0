// RUN: plumb-opt %s --prefetch-gathers | FileCheck %s
// RUN: sed 's/gather "pass".*/& {plumb.prefetch = 2 : i64}/' %s | plumb-opt --prefetch-gathers | FileCheck %s --check-prefix=TWO
// RUN: sed 's/gather "pass".*/& {plumb.prefetch = 0 : i64}/' %s | plumb-opt --prefetch-gathers | FileCheck %s --check-prefix=ZERO

plumb.mesh @mesh ["dp" = 2]
ccl.communicator @dp axes ["dp"] pipeline []
plumb.parameter @h.0 : tensor<8xf32> layout <@mesh, [{"dp"}]> gathered <@mesh, [{}]> gather "pass" owner 0 holders [0]
plumb.parameter @h.1 : tensor<8xf32> layout <@mesh, [{"dp"}]> gathered <@mesh, [{}]> gather "pass" owner 0 holders [0]
plumb.parameter @h.2 : tensor<8xf32> layout <@mesh, [{"dp"}]> gathered <@mesh, [{}]> gather "pass" owner 0 holders [0]

// Each layer's parameters are gathered where the layer before begins, in the order of the layers; those of the first
// where they were.
// CHECK-LABEL: plumb.stage
// CHECK: plumb.input
// CHECK-NEXT: plumb.load @h.0
// CHECK-NEXT: ccl.all_gather
// CHECK-NEXT: plumb.load @h.1
// CHECK-NEXT: ccl.all_gather
// CHECK-NEXT: nn.mul {{.*}}"h.0"
// CHECK-NEXT: nn.relu {{.*}}"h.0.act"
// CHECK-NEXT: plumb.load @h.2
// CHECK-NEXT: ccl.all_gather
// CHECK-NEXT: nn.mul {{.*}}"h.1"
// CHECK-NEXT: nn.view
// CHECK-NEXT: nn.mul {{.*}}"h.2"
// The other pass has its own layers.
// CHECK-NEXT: plumb.load @h.2
// CHECK-NEXT: ccl.all_gather
// CHECK-NEXT: plumb.load @h.0
// CHECK-NEXT: ccl.all_gather
// CHECK-NEXT: nn.mul {{.*}}"h.2"
// CHECK-NEXT: nn.mul {{.*}}"h.0"

// TWO: plumb.load @h.0
// TWO: plumb.load @h.1
// TWO: plumb.load @h.2
// TWO: nn.mul {{.*}}"h.0"

// ZERO: nn.relu {{.*}}"h.0.act"
// ZERO-NEXT: plumb.load @h.1
// ZERO-NEXT: ccl.all_gather
// ZERO-NEXT: nn.mul {{.*}}"h.1"
// ZERO-NEXT: plumb.load @h.2
plumb.stage @submod_pp_0 index 0 {
  %x = plumb.input "x" index 0 : tensor<2x4xf32>
  %0 = plumb.load @h.0 {plumb.module = "h.0"} : tensor<4xf32>
  %a = ccl.all_gather %0 on @dp {plumb.module = "h.0"} : (tensor<4xf32>) -> tensor<2x4xf32>
  %b = nn.mul %x, %a {plumb.module = "h.0"} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %r = nn.relu %b {plumb.module = "h.0.act"} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %1 = plumb.load @h.1 {plumb.module = "h.1"} : tensor<4xf32>
  %c = ccl.all_gather %1 on @dp {plumb.module = "h.1"} : (tensor<4xf32>) -> tensor<2x4xf32>
  %d = nn.mul %r, %c {plumb.module = "h.1"} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %2 = plumb.load @h.2 {plumb.module = "h.2"} : tensor<4xf32>
  %e = ccl.all_gather %2 on @dp {plumb.module = "h.2"} : (tensor<4xf32>) -> tensor<2x4xf32>
  %v = nn.view %e {plumb.module = "h.2"} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %f = nn.mul %d, %v {plumb.module = "h.2"} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %3 = plumb.load @h.2 {plumb.module = "h.2", plumb.phase = #plumb.phase<backward_input>} : tensor<4xf32>
  %g = ccl.all_gather %3 on @dp {plumb.module = "h.2", plumb.phase = #plumb.phase<backward_input>} : (tensor<4xf32>) -> tensor<2x4xf32>
  %h = nn.mul %f, %g {plumb.module = "h.2", plumb.phase = #plumb.phase<backward_input>} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %4 = plumb.load @h.0 {plumb.module = "h.0", plumb.phase = #plumb.phase<backward_input>} : tensor<4xf32>
  %i = ccl.all_gather %4 on @dp {plumb.module = "h.0", plumb.phase = #plumb.phase<backward_input>} : (tensor<4xf32>) -> tensor<2x4xf32>
  %j = nn.mul %h, %i {plumb.module = "h.0", plumb.phase = #plumb.phase<backward_input>} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
}
