// RUN: plumb-opt %s --split-input-file --apply-spec | FileCheck %s

// What runs outside of modules belongs to the module before it; the embedding is a look-up and costs its rows only, the
// head is as large as both layers.

// CHECK-LABEL: plumb.program @balanced
// CHECK-NOT: pipe_split
// CHECK: plumb.pipe_split {plumb.module = "head"}
// CHECK-NEXT: nn.einsum
// CHECK-NOT: pipe_split
plumb.mesh @mesh ["pp" = 2]
plumb.split_policy "balanced" stages 2 by "flops"
plumb.module @embed
plumb.module @layers
plumb.module @layers.0
plumb.module @layers.1
plumb.module @head
plumb.program @balanced {
  %t = plumb.input "t" index 0 {} : tensor<1000x8xf32>
  %i = plumb.input "i" index 1 : tensor<4xi64>
  %a = plumb.input "a" index 2 : tensor<8x8xf32>
  %b = plumb.input "b" index 3 : tensor<8x16xf32>
  %0 = nn.embedding %t, %i {plumb.module = "embed"} : (tensor<1000x8xf32>, tensor<4xi64>) -> tensor<4x8xf32>
  %1 = nn.add %0, %0 {plumb.module = ""} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = nn.einsum "ai,io->ao"(%1, %a) {plumb.module = "layers.0"} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %3 = nn.einsum "ai,io->ao"(%2, %a) {plumb.module = "layers.1"} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %4 = nn.einsum "ai,io->ao"(%3, %b) {plumb.module = "head"} : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  plumb.output "y" index 0 %4 : tensor<4x16xf32>
}

// -----

// By parameters: a tied one counts once in a stage, so both its readers go together.

// CHECK-LABEL: plumb.program @parameters
// CHECK: plumb.pipe_split {plumb.module = "c"}
// CHECK-NOT: pipe_split
plumb.mesh @mesh ["pp" = 2]
plumb.pipeline axis "pp" schedule "gpipe" microbatches 1
plumb.split_policy "balanced" by "parameters"
plumb.module @a
plumb.module @b
plumb.module @c
plumb.parameter @w : tensor<8x8xf32>
plumb.parameter @v : tensor<8x8xf32>
plumb.program @parameters {
  %x = plumb.input "x" index 0 : tensor<4x8xf32>
  %w = plumb.load @w : tensor<8x8xf32>
  %v = plumb.load @v : tensor<8x8xf32>
  %1 = nn.einsum "ai,io->ao"(%x, %w) {plumb.module = "a"} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %2 = nn.einsum "ai,io->ao"(%1, %w) {plumb.module = "b"} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %3 = nn.einsum "ai,io->ao"(%2, %v) {plumb.module = "c"} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  plumb.output "y" index 0 %3 : tensor<4x8xf32>
}

// -----

// Two modules cannot make four stages, their children can.

// CHECK-LABEL: plumb.program @finer
// CHECK: plumb.pipe_split {plumb.module = "a.1x"}
// CHECK: plumb.pipe_split {plumb.module = "b.0x"}
// CHECK: plumb.pipe_split {plumb.module = "b.1x"}
plumb.mesh @mesh ["pp" = 2]
plumb.split_policy "balanced" stages 4 by "time"
plumb.module @a
plumb.module @a.0x
plumb.module @a.1x
plumb.module @b
plumb.module @b.0x
plumb.module @b.1x
plumb.program @finer {
  %x = plumb.input "x" index 0 : tensor<4x8xf32>
  %0 = nn.relu %x {plumb.module = "a.0x"} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = nn.relu %0 {plumb.module = "a.1x"} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = nn.relu %1 {plumb.module = "b.0x"} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %3 = nn.relu %2 {plumb.module = "b.1x"} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  plumb.output "y" index 0 %3 : tensor<4x8xf32>
}

// -----

// The embedding goes with the first layers, the head with the last.

// CHECK-LABEL: plumb.program @layers
// CHECK: nn.tanh
// CHECK-NEXT: nn.relu
// CHECK-NEXT: plumb.pipe_split {plumb.module = "model.h.1"}
// CHECK-NEXT: nn.relu
// CHECK-NEXT: nn.relu
// CHECK-NEXT: nn.tanh
plumb.mesh @mesh ["pp" = 2]
plumb.split_policy "layers" list [1, 2]
plumb.module @model
plumb.module @model.h
plumb.module @model.h.0
plumb.module @model.h.1
plumb.module @model.h.2
plumb.program @layers {
  %x = plumb.input "x" index 0 : tensor<4xf32>
  %0 = nn.tanh %x {plumb.module = "model.wte"} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = nn.relu %0 {plumb.module = "model.h.0.mlp"} : (tensor<4xf32>) -> tensor<4xf32>
  %2 = nn.relu %1 {plumb.module = "model.h.1"} : (tensor<4xf32>) -> tensor<4xf32>
  %3 = nn.relu %2 {plumb.module = "model.h.2"} : (tensor<4xf32>) -> tensor<4xf32>
  %4 = nn.tanh %3 {plumb.module = "head"} : (tensor<4xf32>) -> tensor<4xf32>
  plumb.output "y" index 0 %4 : tensor<4xf32>
}

// -----

// CHECK-LABEL: plumb.program @each
// CHECK: plumb.pipe_split {plumb.module = "h.1"}
// CHECK: plumb.pipe_split {plumb.module = "h.2"}
// CHECK-NOT: pipe_split
plumb.mesh @mesh ["pp" = 3]
plumb.split_policy "each" of "h"
plumb.module @h
plumb.program @each {
  %x = plumb.input "x" index 0 : tensor<4xf32>
  %0 = nn.tanh %x {plumb.module = "wte"} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = nn.relu %0 {plumb.module = "h.0.mlp"} : (tensor<4xf32>) -> tensor<4xf32>
  %2 = nn.relu %1 {plumb.module = "h.1"} : (tensor<4xf32>) -> tensor<4xf32>
  %3 = nn.relu %2 {plumb.module = "h.2"} : (tensor<4xf32>) -> tensor<4xf32>
  %4 = nn.relu %3 {plumb.module = "h.1@1"} : (tensor<4xf32>) -> tensor<4xf32>
  plumb.output "y" index 0 %4 : tensor<4xf32>
}

// -----

// CHECK-LABEL: plumb.program @layout
// CHECK: nn.tanh
// CHECK-NEXT: plumb.pipe_split {plumb.module = "h.0"}
// CHECK-NEXT: nn.relu
// CHECK-NEXT: nn.relu
// CHECK-NEXT: plumb.pipe_split {plumb.module = "mtp.0"}
// CHECK-NEXT: nn.relu
// CHECK-NEXT: plumb.pipe_split {plumb.module = "head"}
// CHECK-NEXT: nn.tanh
plumb.mesh @mesh ["pp" = 4]
plumb.split_policy "layout" of "E|t*2|m,|L"
plumb.module @h.0
plumb.module @h.1
plumb.module @mtp.0
plumb.program @layout {
  %x = plumb.input "x" index 0 : tensor<4xf32>
  %0 = nn.tanh %x {plumb.module = "wte"} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = nn.relu %0 {plumb.module = "h.0"} : (tensor<4xf32>) -> tensor<4xf32>
  %2 = nn.relu %1 {plumb.module = "h.1"} : (tensor<4xf32>) -> tensor<4xf32>
  %3 = nn.relu %2 {plumb.module = "mtp.0"} : (tensor<4xf32>) -> tensor<4xf32>
  %4 = nn.tanh %3 {plumb.module = "head"} : (tensor<4xf32>) -> tensor<4xf32>
  plumb.output "y" index 0 %4 : tensor<4xf32>
}

// -----

// A stage begins with whichever of its modules runs first; modules that compute nothing are passed over.

// CHECK-LABEL: plumb.program @modules
// CHECK: plumb.pipe_split {plumb.module = "h.1"}
// CHECK: plumb.pipe_split {plumb.module = "head"}
plumb.mesh @mesh ["pp" = 3]
plumb.split_policy "modules" modules [["wte", "drop", "h.0"], ["h.2", "h.1"], ["head"]]
plumb.module @wte
plumb.module @drop
plumb.module @h.0
plumb.module @h.1
plumb.module @h.2
plumb.module @head
plumb.program @modules {
  %x = plumb.input "x" index 0 : tensor<4xf32>
  %0 = nn.tanh %x {plumb.module = "wte"} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = nn.relu %0 {plumb.module = "h.0"} : (tensor<4xf32>) -> tensor<4xf32>
  %2 = nn.relu %1 {plumb.module = "h.1"} : (tensor<4xf32>) -> tensor<4xf32>
  %3 = nn.relu %2 {plumb.module = "h.2"} : (tensor<4xf32>) -> tensor<4xf32>
  %4 = nn.tanh %3 {plumb.module = "head"} : (tensor<4xf32>) -> tensor<4xf32>
  plumb.output "y" index 0 %4 : tensor<4xf32>
}
