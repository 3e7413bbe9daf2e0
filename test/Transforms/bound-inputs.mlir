// RUN: plumb-opt --split-input-file --bound-inputs %s | FileCheck %s

// An input of indices, as it comes and in another shape, has the fewest rows of all its readers; what all of them ignore is
// allowed. One whose slices are read may hold anything elsewhere, and a calculated index is not the input.
plumb.module @wte
plumb.parameter @table trainable : tensor<256x8xf32>
plumb.parameter @small trainable : tensor<100x8xf32>
plumb.program @model {
  // CHECK: plumb.input "idx" index 0 {plumb.index_range = array<i64: 100>, plumb.index_reader = "module small, model.py:3"}
  %idx = plumb.input "idx" index 0 : tensor<2x4xi64>
  // CHECK: plumb.input "labels" index 1 {plumb.index_range = array<i64: 10, -100>, plumb.index_reader = "module loss"}
  %labels = plumb.input "labels" index 1 : tensor<2x4xi64>
  // CHECK: plumb.input "both" index 2 {plumb.index_range = array<i64: 10>, plumb.index_reader = "module loss"}
  %both = plumb.input "both" index 2 : tensor<8xi64>
  // CHECK: plumb.input "sliced" index 3 :
  %sliced = plumb.input "sliced" index 3 : tensor<9xi64>
  // CHECK: plumb.input "column" index 4 {plumb.index_range = array<i64: 4>, plumb.index_reader = "module pick"}
  %column = plumb.input "column" index 4 : tensor<8x1xi32>
  // CHECK: plumb.input "shifted" index 5 :
  %shifted = plumb.input "shifted" index 5 : tensor<8xi64>
  // CHECK: plumb.input "logits" index 6 :
  %logits = plumb.input "logits" index 6 : tensor<8x10xf32>
  %w = plumb.load @table : tensor<256x8xf32>
  %s = plumb.load @small : tensor<100x8xf32>
  %e0 = nn.embedding %w, %idx {plumb.module = "wte"} : (tensor<256x8xf32>, tensor<2x4xi64>) -> tensor<2x4x8xf32>
  %flat = nn.view %idx : (tensor<2x4xi64>) -> tensor<8xi64>
  %e1 = nn.embedding %s, %flat {plumb.module = "small", plumb.source = "model.py:3"} : (tensor<100x8xf32>, tensor<8xi64>) -> tensor<8x8xf32>
  %rows = nn.view %labels : (tensor<2x4xi64>) -> tensor<8xi64>
  %l:2 = nn.cross_entropy %logits, %rows ignore -100 {plumb.module = "loss"} : (tensor<8x10xf32>, tensor<8xi64>) -> (tensor<8xf32>, tensor<8xf32>)
  %m:2 = nn.cross_entropy %logits, %both ignore -100 {plumb.module = "loss"} : (tensor<8x10xf32>, tensor<8xi64>) -> (tensor<8xf32>, tensor<8xf32>)
  %e2 = nn.embedding %s, %both : (tensor<100x8xf32>, tensor<8xi64>) -> tensor<8x8xf32>
  %part = nn.slice %sliced offsets [0] strides [1] : (tensor<9xi64>) -> tensor<8xi64>
  %e3 = nn.embedding %w, %part : (tensor<256x8xf32>, tensor<8xi64>) -> tensor<8x8xf32>
  %four = nn.slice %logits offsets [0, 0] strides [1, 1] : (tensor<8x10xf32>) -> tensor<8x4xf32>
  %g = nn.gather %four, %column dim 1 {plumb.module = "pick"} : (tensor<8x4xf32>, tensor<8x1xi32>) -> tensor<8x1xf32>
  %twice = nn.add %shifted, %shifted : (tensor<8xi64>, tensor<8xi64>) -> tensor<8xi64>
  %e4 = nn.embedding %w, %twice : (tensor<256x8xf32>, tensor<8xi64>) -> tensor<8x8xf32>
}
