// RUN: plumb-opt %s --apply-spec | FileCheck %s

// The first in the archive's order is the canonical one, whatever the order in the plan; all loads read it.

// CHECK-NOT: alias_rule
// CHECK: plumb.parameter @wte trainable : tensor<4x2xf32> aliases ["old", "head", "older"]
// CHECK-NOT: plumb.parameter @head
// CHECK: plumb.load @wte
// CHECK: plumb.load @wte
plumb.mesh @mesh ["dp" = 1]
plumb.alias_rule ["head", "wte"]
plumb.parameter @wte trainable : tensor<4x2xf32> aliases ["old"]
plumb.parameter @head trainable : tensor<4x2xf32> aliases ["older"]
plumb.program @model {
  %a = plumb.load @wte : tensor<4x2xf32>
  %b = plumb.load @head : tensor<4x2xf32>
  %y = nn.add %a, %b : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
  plumb.output "y" index 0 %y : tensor<4x2xf32>
}
