// RUN: plumb-opt %s --dump-values=modules=h.0,h --split-input-file | FileCheck %s

// What leaves a module, whatever calls it has, is one more output; a module contains those below it.
plumb.program @model {
  %x = plumb.input "x" index 0 : tensor<2x8xf32>
  // CHECK: %[[Y:.*]] = nn.relu {{.*}} {plumb.module = "h.0.fc"}
  // CHECK: %[[Z:.*]] = nn.relu {{.*}} {plumb.module = "h.0"}
  // CHECK: %[[W:.*]] = nn.add %[[Y]], %[[Z]] {plumb.module = "h.1"}
  %y = nn.relu %x {plumb.module = "h.0.fc"} : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %z = nn.relu %y {plumb.module = "h.0"} : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %w = nn.add %y, %z {plumb.module = "h.1"} : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  // CHECK: plumb.output "w" index 0 %[[W]]
  plumb.output "w" index 0 %w : tensor<2x8xf32>
  // CHECK-NEXT: plumb.output "dump.h.0.0" index 1 %[[Y]]
  // CHECK-NEXT: plumb.output "dump.h.0.1" index 2 %[[Z]]
  // CHECK-NEXT: plumb.output "dump.h" index 3 %[[W]]
}
