// RUN: plumb-opt %s | plumb-opt | FileCheck %s
// RUN: plumb-opt %s -mlir-print-op-generic | plumb-opt | FileCheck %s

// CHECK-LABEL: func @contraction
func.func @contraction(%x: tensor<8x32x64xf32>, %w: tensor<192x64xf32>, %s: tensor<8x4x32x32xf32>) {
  // CHECK: nn.einsum "bti,oi->bto"(%{{.*}}, %{{.*}}) : (tensor<8x32x64xf32>, tensor<192x64xf32>) -> tensor<8x32x192xf32>
  %y = nn.einsum "bti,oi->bto"(%x, %w) : (tensor<8x32x64xf32>, tensor<192x64xf32>) -> tensor<8x32x192xf32>
  // CHECK: nn.einsum "a,->"({{.*}}) : (tensor<3xf64>, tensor<f64>) -> tensor<f64>
  %v = nn.fill 1.0 : tensor<3xf64>
  %c = nn.fill 1.0 : tensor<f64>
  %d = nn.einsum "a,->"(%v, %c) : (tensor<3xf64>, tensor<f64>) -> tensor<f64>
  // CHECK: nn.sum %{{.*}} dims [0, 1] : (tensor<8x32x64xf32>) -> tensor<64xf32>
  %0 = nn.sum %x dims [0, 1] : (tensor<8x32x64xf32>) -> tensor<64xf32>
  // CHECK: nn.sum %{{.*}} dims [2] keepdim : (tensor<8x32x64xf32>) -> tensor<8x32x1xf32>
  %1 = nn.sum %x dims [2] keepdim : (tensor<8x32x64xf32>) -> tensor<8x32x1xf32>
  // CHECK: nn.sum %{{.*}} dims [] : (tensor<8x32x64xf32>) -> tensor<8x32x64xf32>
  %2 = nn.sum %x dims [] : (tensor<8x32x64xf32>) -> tensor<8x32x64xf32>
  // CHECK: %[[P:.*]] = nn.softmax %{{.*}} causal : (tensor<8x4x32x32xf32>) -> tensor<8x4x32x32xf32>
  %p = nn.softmax %s causal : (tensor<8x4x32x32xf32>) -> tensor<8x4x32x32xf32>
  // CHECK: nn.softmax %{{[^ ]*}} : (tensor<8x32x64xf32>) -> tensor<8x32x64xf32>
  %q = nn.softmax %x : (tensor<8x32x64xf32>) -> tensor<8x32x64xf32>
  // CHECK: nn.softmax_backward %{{.*}}, %[[P]] : (tensor<8x4x32x32xf32>, tensor<8x4x32x32xf32>) -> tensor<8x4x32x32xf32>
  %3 = nn.softmax_backward %s, %p : (tensor<8x4x32x32xf32>, tensor<8x4x32x32xf32>) -> tensor<8x4x32x32xf32>
  // CHECK: %[[N:.*]], %[[R:.*]] = nn.normalize %{{.*}} count 1 eps 1.000000e-05 : (tensor<8x32x64xf32>) -> (tensor<8x32x64xf32>, tensor<8x32xf32>)
  %n, %r = nn.normalize %x count 1 eps 1.0e-5 : (tensor<8x32x64xf32>) -> (tensor<8x32x64xf32>, tensor<8x32xf32>)
  // CHECK: nn.normalize_backward %{{.*}}, %[[N]], %[[R]] : (tensor<8x32x64xf32>, tensor<8x32x64xf32>, tensor<8x32xf32>) -> tensor<8x32x64xf32>
  %4 = nn.normalize_backward %x, %n, %r : (tensor<8x32x64xf32>, tensor<8x32x64xf32>, tensor<8x32xf32>) -> tensor<8x32x64xf32>
  return
}

// CHECK-LABEL: func @elementwise
func.func @elementwise(%a: tensor<3x1x5xf32>, %b: tensor<4x1xf32>, %f: tensor<2x3xf64>, %i: tensor<4xi64>) {
  // CHECK: nn.add %{{.*}}, %{{.*}} : (tensor<3x1x5xf32>, tensor<4x1xf32>) -> tensor<3x4x5xf32>
  %0 = nn.add %a, %b : (tensor<3x1x5xf32>, tensor<4x1xf32>) -> tensor<3x4x5xf32>
  // CHECK: nn.sub {{.*}} : (tensor<4x1xf32>, tensor<3x1x5xf32>) -> tensor<3x4x5xf32>
  %1 = nn.sub %b, %a : (tensor<4x1xf32>, tensor<3x1x5xf32>) -> tensor<3x4x5xf32>
  // CHECK: nn.mul {{.*}} : (tensor<4xi64>, tensor<4xi64>) -> tensor<4xi64>
  %2 = nn.mul %i, %i : (tensor<4xi64>, tensor<4xi64>) -> tensor<4xi64>
  // CHECK: nn.div {{.*}} : (tensor<2x3xf64>, tensor<2x3xf64>) -> tensor<2x3xf64>
  %3 = nn.div %f, %f : (tensor<2x3xf64>, tensor<2x3xf64>) -> tensor<2x3xf64>
  // CHECK: nn.scale %{{.*}} by 0.33333333333333331 : (tensor<2x3xf64>) -> tensor<2x3xf64>
  %4 = nn.scale %f by 0.33333333333333331 : (tensor<2x3xf64>) -> tensor<2x3xf64>
  // CHECK: nn.scale %{{.*}} by -2.500000e+00 :
  %5 = nn.scale %f by -2.5 : (tensor<2x3xf64>) -> tensor<2x3xf64>
  // CHECK: nn.scale %{{.*}} by 0xFFF0000000000000 :
  %6 = nn.scale %f by 0xFFF0000000000000 : (tensor<2x3xf64>) -> tensor<2x3xf64>
  // CHECK: nn.relu {{.*}} : (tensor<2x3xf64>) -> tensor<2x3xf64>
  %7 = nn.relu %f : (tensor<2x3xf64>) -> tensor<2x3xf64>
  // CHECK: nn.relu_backward %{{.*}}, %{{.*}} : (tensor<2x3xf64>, tensor<2x3xf64>) -> tensor<2x3xf64>
  %8 = nn.relu_backward %f, %7 : (tensor<2x3xf64>, tensor<2x3xf64>) -> tensor<2x3xf64>
  // CHECK: nn.tanh
  %9 = nn.tanh %f : (tensor<2x3xf64>) -> tensor<2x3xf64>
  // CHECK: nn.tanh_backward
  %10 = nn.tanh_backward %f, %9 : (tensor<2x3xf64>, tensor<2x3xf64>) -> tensor<2x3xf64>
  // CHECK: nn.gelu %{{[^ ]*}} : (tensor<2x3xf64>) -> tensor<2x3xf64>
  %11 = nn.gelu %f : (tensor<2x3xf64>) -> tensor<2x3xf64>
  // CHECK: nn.gelu %{{[^ ]*}} tanh : (tensor<2x3xf64>) -> tensor<2x3xf64>
  %12 = nn.gelu %f tanh : (tensor<2x3xf64>) -> tensor<2x3xf64>
  // CHECK: nn.gelu_backward %{{.*}}, %{{[^ ]*}} tanh : (tensor<2x3xf64>, tensor<2x3xf64>) -> tensor<2x3xf64>
  %13 = nn.gelu_backward %f, %f tanh : (tensor<2x3xf64>, tensor<2x3xf64>) -> tensor<2x3xf64>
  // CHECK: %[[R:.*]] = nn.fill 1.000000e-01 : tensor<f64>
  %14 = nn.fill 0.1 : tensor<f64>
  // CHECK: nn.sgd %{{.*}}, %{{.*}}, %[[R]] : (tensor<2x3xf64>, tensor<2x3xf64>, tensor<f64>) -> tensor<2x3xf64>
  %15 = nn.sgd %f, %f, %14 : (tensor<2x3xf64>, tensor<2x3xf64>, tensor<f64>) -> tensor<2x3xf64>
  // CHECK: nn.weighted_sum %{{.*}} by 9.000000e-01, %{{.*}} by 1.000000e-01 : (tensor<2x3xf64>, tensor<2x3xf64>) -> tensor<2x3xf64>
  %16 = nn.weighted_sum %f by 0.9, %f by 0.1 : (tensor<2x3xf64>, tensor<2x3xf64>) -> tensor<2x3xf64>
  // CHECK: nn.adam %{{.*}} epsilon 1.000000e-08 decay 1.000000e-02
  %17 = nn.adam %f, %f, %f, %14, %14, %14 epsilon 1.0e-8 decay 0.01 : (tensor<2x3xf64>, tensor<2x3xf64>, tensor<2x3xf64>, tensor<f64>, tensor<f64>, tensor<f64>) -> tensor<2x3xf64>
  // CHECK: nn.square_sum %{{.*}} : (tensor<2x3xf64>) -> tensor<f64>
  %18 = nn.square_sum %f : (tensor<2x3xf64>) -> tensor<f64>
  return
}

// CHECK-LABEL: func @shape
func.func @shape(%x: tensor<8x32x64xf32>, %q: tensor<8x96xf32>, %e: tensor<0x4xi1>) {
  // CHECK: nn.view {{.*}} : (tensor<8x32x64xf32>) -> tensor<8x32x4x16xf32>
  %0 = nn.view %x : (tensor<8x32x64xf32>) -> tensor<8x32x4x16xf32>
  // CHECK: nn.view {{.*}} : (tensor<0x4xi1>) -> tensor<2x0xi1>
  %1 = nn.view %e : (tensor<0x4xi1>) -> tensor<2x0xi1>
  // CHECK: nn.transpose {{.*}} [0, 2, 1, 3] : (tensor<8x32x4x16xf32>) -> tensor<8x4x32x16xf32>
  %2 = nn.transpose %0 [0, 2, 1, 3] : (tensor<8x32x4x16xf32>) -> tensor<8x4x32x16xf32>
  // CHECK: nn.broadcast {{.*}} : (tensor<8x96xf32>) -> tensor<3x8x96xf32>
  %3 = nn.broadcast %q : (tensor<8x96xf32>) -> tensor<3x8x96xf32>
  // CHECK: %[[S:.*]]:3 = nn.split %{{.*}} dim 1 : (tensor<8x96xf32>) -> (tensor<8x32xf32>, tensor<8x60xf32>, tensor<8x4xf32>)
  %4:3 = nn.split %q dim 1 : (tensor<8x96xf32>) -> (tensor<8x32xf32>, tensor<8x60xf32>, tensor<8x4xf32>)
  // CHECK: nn.cat %[[S]]#0, %[[S]]#1 dim 1 : (tensor<8x32xf32>, tensor<8x60xf32>) -> tensor<8x92xf32>
  %5 = nn.cat %4#0, %4#1 dim 1 : (tensor<8x32xf32>, tensor<8x60xf32>) -> tensor<8x92xf32>
  // CHECK: nn.fill 0x7FF8000000000000 : tensor<2xbf16>
  %6 = nn.fill 0x7FF8000000000000 : tensor<2xbf16>
  // CHECK: nn.fill -7.000000e+00 : tensor<i32>
  %7 = nn.fill -7.0 : tensor<i32>
  // CHECK: nn.fill 1.000000e+00 : tensor<3xi1>
  %8 = nn.fill 1.0 : tensor<3xi1>
  // CHECK: nn.iota start -3 step 2 : tensor<5xi64>
  %9 = nn.iota start -3 step 2 : tensor<5xi64>
  return
}

// CHECK-LABEL: func @random
func.func @random(%step: tensor<f64>, %i: tensor<4xi64>, %j: tensor<16xi64>) {
  // CHECK: nn.uniform %{{.*}} at %{{.*}}, %{{.*}} of [8, 16] seed 5 stream 3 : (tensor<f64>, tensor<4xi64>, tensor<16xi64>) -> tensor<4x16xf32>
  %0 = nn.uniform %step at %i, %j of [8, 16] seed 5 stream 3 : (tensor<f64>, tensor<4xi64>, tensor<16xi64>) -> tensor<4x16xf32>
  // CHECK: nn.uniform %{{.*}} at of [] seed 0 stream 0 : (tensor<f64>) -> tensor<f32>
  %1 = nn.uniform %step at of [] seed 0 stream 0 : (tensor<f64>) -> tensor<f32>
  return
}

// CHECK-LABEL: func @index
func.func @index(%table: tensor<256x64xf32>, %ids: tensor<8x32xi64>, %e: tensor<8x32x64xf32>, %t: tensor<8x32xi32>) {
  // CHECK: nn.embedding {{.*}} : (tensor<256x64xf32>, tensor<8x32xi64>) -> tensor<8x32x64xf32>
  %0 = nn.embedding %table, %ids : (tensor<256x64xf32>, tensor<8x32xi64>) -> tensor<8x32x64xf32>
  // CHECK: nn.embedding_backward {{.*}} : (tensor<8x32x64xf32>, tensor<8x32xi64>) -> tensor<256x64xf32>
  %1 = nn.embedding_backward %e, %ids : (tensor<8x32x64xf32>, tensor<8x32xi64>) -> tensor<256x64xf32>
  // CHECK: %[[LOSSES:.*]], %[[LSE:.*]] = nn.cross_entropy %{{.*}}, %{{.*}} ignore -100 : (tensor<8x32x64xf32>, tensor<8x32xi32>) -> (tensor<8x32xf32>, tensor<8x32xf32>)
  %losses, %lse = nn.cross_entropy %e, %t ignore -100 : (tensor<8x32x64xf32>, tensor<8x32xi32>) -> (tensor<8x32xf32>, tensor<8x32xf32>)
  // CHECK: nn.cross_entropy_backward %[[LOSSES]], %{{.*}}, %{{.*}}, %[[LSE]] ignore -100 :
  %2 = nn.cross_entropy_backward %losses, %e, %t, %lse ignore -100 : (tensor<8x32xf32>, tensor<8x32x64xf32>, tensor<8x32xi32>, tensor<8x32xf32>) -> tensor<8x32x64xf32>
  // CHECK: nn.is_valid %{{.*}} ignore -100 : (tensor<8x32xi32>) -> tensor<8x32xf32>
  %3 = nn.is_valid %t ignore -100 : (tensor<8x32xi32>) -> tensor<8x32xf32>
  return
}

// CHECK-LABEL: func @math
func.func @math(%x: tensor<2x3xf32>) {
  // CHECK: nn.exp %{{.*}} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %0 = nn.exp %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: nn.log %{{.*}} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = nn.log %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: nn.sin %{{.*}} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %2 = nn.sin %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: nn.cos %{{.*}} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %3 = nn.cos %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: nn.erf %{{.*}} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %4 = nn.erf %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: nn.sigmoid %{{.*}} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %5 = nn.sigmoid %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: nn.softplus %{{.*}} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %6 = nn.softplus %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: nn.power %{{.*}} by -5.000000e-01 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %7 = nn.power %x by -0.5 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: nn.floor %{{.*}} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %8 = nn.floor %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: nn.round %{{.*}} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %9 = nn.round %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// CHECK-LABEL: func @logic
func.func @logic(%a: tensor<3x1xf32>, %b: tensor<4xf32>, %m: tensor<4xi1>, %i: tensor<4xi64>) {
  // CHECK: nn.equal %{{.*}}, %{{.*}} : (tensor<3x1xf32>, tensor<4xf32>) -> tensor<3x4xi1>
  %0 = nn.equal %a, %b : (tensor<3x1xf32>, tensor<4xf32>) -> tensor<3x4xi1>
  // CHECK: nn.equal %{{.*}}, %{{.*}} : (tensor<4xi1>, tensor<4xi1>) -> tensor<4xi1>
  %1 = nn.equal %m, %m : (tensor<4xi1>, tensor<4xi1>) -> tensor<4xi1>
  // CHECK: nn.less %{{.*}}, %{{.*}} : (tensor<3x1xf32>, tensor<4xf32>) -> tensor<3x4xi1>
  %2 = nn.less %a, %b : (tensor<3x1xf32>, tensor<4xf32>) -> tensor<3x4xi1>
  // CHECK: nn.less_equal %{{.*}}, %{{.*}} : (tensor<4xi64>, tensor<4xi64>) -> tensor<4xi1>
  %3 = nn.less_equal %i, %i : (tensor<4xi64>, tensor<4xi64>) -> tensor<4xi1>
  // CHECK: nn.where %{{.*}}, %{{.*}}, %{{.*}} : (tensor<4xi1>, tensor<3x1xf32>, tensor<4xf32>) -> tensor<3x4xf32>
  %4 = nn.where %m, %a, %b : (tensor<4xi1>, tensor<3x1xf32>, tensor<4xf32>) -> tensor<3x4xf32>
  // CHECK: nn.maximum %{{.*}}, %{{.*}} : (tensor<3x1xf32>, tensor<4xf32>) -> tensor<3x4xf32>
  %5 = nn.maximum %a, %b : (tensor<3x1xf32>, tensor<4xf32>) -> tensor<3x4xf32>
  // CHECK: nn.minimum %{{.*}}, %{{.*}} : (tensor<4xi64>, tensor<4xi64>) -> tensor<4xi64>
  %6 = nn.minimum %i, %i : (tensor<4xi64>, tensor<4xi64>) -> tensor<4xi64>
  // CHECK: nn.convert %{{.*}} : (tensor<4xi1>) -> tensor<4xbf16>
  %7 = nn.convert %m : (tensor<4xi1>) -> tensor<4xbf16>
  // CHECK: nn.detach %{{.*}} : (tensor<4xf32>) -> tensor<4xf32>
  %8 = nn.detach %b : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// CHECK-LABEL: func @selection
func.func @selection(%x: tensor<4x6xf32>, %i: tensor<4x2xi64>, %s: tensor<4x2xf32>) {
  // CHECK: nn.slice %{{.*}} offsets [1, 0] strides [2, 3] : (tensor<4x6xf32>) -> tensor<2x2xf32>
  %0 = nn.slice %x offsets [1, 0] strides [2, 3] : (tensor<4x6xf32>) -> tensor<2x2xf32>
  // CHECK: nn.pad %{{.*}} with -1.000000e+00 offsets [0, 1] strides [1, 2] : (tensor<4x6xf32>) -> tensor<4x13xf32>
  %1 = nn.pad %x with -1.0 offsets [0, 1] strides [1, 2] : (tensor<4x6xf32>) -> tensor<4x13xf32>
  // CHECK: nn.reverse %{{.*}} dims [1] : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %2 = nn.reverse %x dims [1] : (tensor<4x6xf32>) -> tensor<4x6xf32>
  // CHECK: nn.gather %{{.*}}, %{{.*}} dim 1 : (tensor<4x6xf32>, tensor<4x2xi64>) -> tensor<4x2xf32>
  %3 = nn.gather %x, %i dim 1 : (tensor<4x6xf32>, tensor<4x2xi64>) -> tensor<4x2xf32>
  // CHECK: nn.scatter %{{.*}}, %{{.*}}, %{{.*}} dim 1 : (tensor<4x6xf32>, tensor<4x2xi64>, tensor<4x2xf32>) -> tensor<4x6xf32>
  %4 = nn.scatter %x, %i, %s dim 1 : (tensor<4x6xf32>, tensor<4x2xi64>, tensor<4x2xf32>) -> tensor<4x6xf32>
  // CHECK: nn.scatter %{{.*}}, %{{.*}}, %{{.*}} dim 1 add : (tensor<4x6xf32>, tensor<4x2xi64>, tensor<4x2xf32>) -> tensor<4x6xf32>
  %5 = nn.scatter %x, %i, %s dim 1 add : (tensor<4x6xf32>, tensor<4x2xi64>, tensor<4x2xf32>) -> tensor<4x6xf32>
  // CHECK: nn.topk %{{.*}} count 2 : (tensor<4x6xf32>) -> (tensor<4x2xf32>, tensor<4x2xi64>)
  %6:2 = nn.topk %x count 2 : (tensor<4x6xf32>) -> (tensor<4x2xf32>, tensor<4x2xi64>)
  return
}

// CHECK-LABEL: func @reduction
func.func @reduction(%x: tensor<4x6xf32>) {
  // CHECK: nn.max %{{.*}} dims [1] keepdim : (tensor<4x6xf32>) -> tensor<4x1xf32>
  %0 = nn.max %x dims [1] keepdim : (tensor<4x6xf32>) -> tensor<4x1xf32>
  // CHECK: nn.max %{{.*}} dims [0, 1] : (tensor<4x6xf32>) -> tensor<f32>
  %1 = nn.max %x dims [0, 1] : (tensor<4x6xf32>) -> tensor<f32>
  // CHECK: nn.cumsum %{{.*}} dim 1 : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %2 = nn.cumsum %x dim 1 : (tensor<4x6xf32>) -> tensor<4x6xf32>
  // CHECK: nn.cumsum %{{.*}} dim 0 reverse : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %3 = nn.cumsum %x dim 0 reverse : (tensor<4x6xf32>) -> tensor<4x6xf32>
  // CHECK: nn.log_softmax %{{.*}} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %4 = nn.log_softmax %x : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return
}

// CHECK-LABEL: func @convolution
func.func @convolution(%x: tensor<2x2x2x9x9xf32>, %k: tensor<2x3x2x3x3xf32>) {
  // CHECK: nn.convolution %{{.*}}, %{{.*}} strides [2, 1] dilations [1, 2] : (tensor<2x2x2x9x9xf32>, tensor<2x3x2x3x3xf32>) -> tensor<2x2x3x4x5xf32>
  %0 = nn.convolution %x, %k strides [2, 1] dilations [1, 2] : (tensor<2x2x2x9x9xf32>, tensor<2x3x2x3x3xf32>) -> tensor<2x2x3x4x5xf32>
  return
}
