// RUN: plumb-opt %s --apply-spec | FileCheck %s

// The outermost module that a pattern names; calls of it are told apart.

// CHECK-LABEL: plumb.program @model
// CHECK: nn.relu %{{.*}} {plumb.module = "h.0.mlp.act", plumb.recompute = "h.0"}
// CHECK: nn.relu %{{.*}} {plumb.module = "h.1@1.mlp", plumb.recompute = "h.1@1"}
// CHECK: nn.relu %{{.*}} {plumb.module = "head"}
plumb.mesh @mesh ["dp" = 1]
plumb.recompute_rule "h.*"
plumb.recompute_rule "h.*.mlp"
plumb.module @h.0
plumb.module @h.0.mlp
plumb.module @h.0.mlp.act
plumb.module @h.1
plumb.module @h.1.mlp
plumb.module @head
plumb.program @model {
  %x = plumb.input "x" index 0 : tensor<4x4xf32>
  %a = nn.relu %x {plumb.module = "h.0.mlp.act"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %b = nn.relu %a {plumb.module = "h.1@1.mlp"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %c = nn.relu %b {plumb.module = "head"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  plumb.output "c" index 0 %c : tensor<4x4xf32>
}
