// RUN: plumb-opt %s --build-step --split-input-file | FileCheck %s

// Outputs and loss become states; each holder updates its copy from the whole gradient, which is kept. The optimizer stays:
// verify-plan holds the plan to it.

// CHECK: plumb.optimizer
// CHECK: plumb.state @output.0 "output" index 0 label "y" : tensor<16x4xf32>
// CHECK: plumb.state @loss "loss" : tensor<f32>
// CHECK: plumb.store @output.0, %{{.*}} {plumb.phase = #plumb.phase<forward>, plumb.stage = 1 : i64}
// CHECK: plumb.store @loss, %{{.*}} {plumb.phase = #plumb.phase<forward>, plumb.stage = 1 : i64}
// CHECK: %[[G:.*]] = plumb.load @grad.w {plumb.phase = #plumb.phase<reduce>, plumb.stage = 0 : i64}
// CHECK: plumb.store @grad.w, %[[G]]
// CHECK: %[[H:.*]] = plumb.load @grad.w {plumb.phase = #plumb.phase<reduce>, plumb.stage = 1 : i64}
// CHECK: plumb.store @grad.w, %[[H]]
// CHECK: %[[R:.*]] = nn.fill 1.000000e-01 {plumb.phase = #plumb.phase<update>, plumb.stage = 0 : i64} : tensor<f32>
// CHECK: %[[W:.*]] = plumb.load @grad.w {plumb.phase = #plumb.phase<update>, plumb.stage = 0 : i64}
// CHECK: %[[P:.*]] = plumb.load @w
// CHECK: %[[N:.*]] = nn.sgd %[[P]], %[[W]], %[[R]] {plumb.phase = #plumb.phase<update>, plumb.stage = 0 : i64}
// CHECK: plumb.store @w, %[[N]]
// CHECK: plumb.load @grad.w {plumb.phase = #plumb.phase<update>, plumb.stage = 1 : i64}
plumb.mesh @mesh ["pp" = 2]
plumb.pipeline axis "pp" schedule "1f1b" microbatches 1 stages_per_rank 1
plumb.optimizer "sgd" rate 0.1
plumb.parameter @w trainable : tensor<4xf32> owner 0 holders [0, 1]
plumb.state @grad.w "gradient" of "w" : tensor<4xf32>
plumb.program @model {
  %x = plumb.input "x" index 0 {plumb.stage = 1 : i64} : tensor<16x4xf32>
  %b = plumb.load @w {plumb.stage = 1 : i64} : tensor<4xf32>
  %0 = nn.mul %x, %b {plumb.stage = 1 : i64} : (tensor<16x4xf32>, tensor<4xf32>) -> tensor<16x4xf32>
  %1 = nn.sum %0 dims [0, 1] {plumb.stage = 1 : i64} : (tensor<16x4xf32>) -> tensor<f32>
  plumb.output "y" index 0 %0 : tensor<16x4xf32>
  plumb.loss %1 {plumb.stage = 1 : i64} : tensor<f32>
}

// -----

// A transmitted parameter: the reader's rank returns its gradient to the owner's, where both are summed. Both stand in the first
// stage of their rank, although the readers are stages 2 and 3.

// CHECK: %[[OWN:.*]] = plumb.load @grad.w {plumb.phase = #plumb.phase<reduce>, plumb.stage = 0 : i64}
// CHECK: %[[RETURNED:.*]] = plumb.load @grad.w {plumb.phase = #plumb.phase<reduce>, plumb.stage = 1 : i64}
// CHECK: %[[SUM:.*]] = nn.add %[[OWN]], %[[RETURNED]] {plumb.phase = #plumb.phase<reduce>, plumb.stage = 0 : i64}
// CHECK: plumb.store @grad.w, %[[SUM]] {plumb.phase = #plumb.phase<reduce>, plumb.stage = 0 : i64}
plumb.mesh @mesh ["pp" = 2]
plumb.pipeline axis "pp" schedule "1f1b" microbatches 1 stages_per_rank 2
plumb.optimizer "sgd" rate 0.1
plumb.parameter @w trainable : tensor<4xf32> owner 2 holders [2]
plumb.state @copy.w "copy" of "w" : tensor<4xf32>
plumb.state @grad.w "gradient" of "w" : tensor<4xf32>
plumb.program @model {
  %l = nn.fill 1.0 {plumb.stage = 3 : i64} : tensor<f32>
  %g = nn.fill 1.0 {plumb.stage = 3 : i64} : tensor<4xf32>
  plumb.loss %l {plumb.stage = 3 : i64} : tensor<f32>
  plumb.accumulate @grad.w, %g {plumb.phase = #plumb.phase<backward_weight>, plumb.stage = 2 : i64} : tensor<4xf32>
  plumb.accumulate @grad.w, %g {plumb.phase = #plumb.phase<backward_weight>, plumb.stage = 3 : i64} : tensor<4xf32>
}

// -----

// The square of a gradient's norm is taken once, by the owner, whatever the copies; parameters cut over the same axes
// share a sum. The first stage of each rank completes the sums.

// CHECK: plumb.state @optimizer.norm.of "norm" : tensor<f32> holders [0, 1]
// CHECK: plumb.state @optimizer.norm.of_tp "norm" : tensor<f32> holders [0, 1]
// CHECK: plumb.state @optimizer.norm "norm" : tensor<f32>
// CHECK: plumb.state @optimizer.step "counter" : tensor<f64>
// CHECK: plumb.state @optimizer.exp_avg.w "moment" of "w" : tensor<4xf32>
// CHECK: plumb.state @optimizer.exp_avg_sq.w "moment" of "w" : tensor<4xf32>
// CHECK: %[[W:.*]] = nn.square_sum %{{.*}} {plumb.phase = #plumb.phase<reduce>, plumb.stage = 0 : i64}
// CHECK: plumb.accumulate @optimizer.norm.of, %[[W]]
// CHECK: %[[V:.*]] = nn.square_sum %{{.*}} {plumb.phase = #plumb.phase<reduce>, plumb.stage = 1 : i64}
// CHECK: plumb.accumulate @optimizer.norm.of_tp, %[[V]]
// CHECK-NOT: nn.square_sum
// CHECK: plumb.store @optimizer.norm, %{{.*}} {plumb.phase = #plumb.phase<update>, plumb.stage = 0 : i64}
// CHECK: %[[C:.*]] = nn.minimum
// CHECK: %[[G:.*]] = nn.mul %{{.*}}, %[[C]]
// CHECK: %[[M:.*]] = nn.weighted_sum %{{.*}} by 9.000000e-01, %[[G]] by
// CHECK: plumb.store @optimizer.exp_avg.w, %[[M]]
// CHECK: %[[S:.*]] = nn.weighted_sum %{{.*}} by 0.98999999999999999
// CHECK: plumb.store @optimizer.exp_avg_sq.w, %[[S]]
// CHECK: nn.adam %{{.*}}, %[[M]], %[[S]], %{{.*}} epsilon 1.000000e-08 decay 1.000000e-02
plumb.mesh @mesh ["pp" = 2, "tp" = 2]
plumb.pipeline axis "pp" schedule "1f1b" microbatches 1
plumb.optimizer "adamw" rate 0.1 beta1 0.9 beta2 0.99 epsilon 1.0e-8 decay 0.01 clip 1.0
plumb.parameter @w trainable : tensor<4xf32> layout <@mesh, [{}]> owner 0 holders [0, 1]
plumb.parameter @v trainable : tensor<4xf32> layout <@mesh, [{"tp"}]> owner 1 holders [1]
plumb.state @grad.w "gradient" of "w" : tensor<4xf32>
plumb.state @grad.v "gradient" of "v" : tensor<4xf32>
plumb.program @model {
  %x = plumb.input "x" index 0 {plumb.stage = 1 : i64} : tensor<4xf32>
  plumb.accumulate @grad.w, %x {plumb.phase = #plumb.phase<backward_weight>, plumb.stage = 0 : i64} : tensor<4xf32>
  plumb.accumulate @grad.v, %x {plumb.phase = #plumb.phase<backward_weight>, plumb.stage = 1 : i64} : tensor<4xf32>
  %1 = nn.sum %x dims [0] {plumb.stage = 1 : i64} : (tensor<4xf32>) -> tensor<f32>
  plumb.loss %1 {plumb.stage = 1 : i64} : tensor<f32>
}

// -----

// The rate of each step is computed from the number of steps before it.

// CHECK: plumb.state @optimizer.rate "rate" : tensor<f64>
// CHECK: %[[T:.*]] = plumb.load @optimizer.step
// CHECK: nn.cos
// CHECK: nn.less %[[T]]
// CHECK: %[[F:.*]] = nn.where
// CHECK: %[[R:.*]] = nn.scale %[[F]] by 1.000000e-01
// CHECK: plumb.store @optimizer.rate, %[[R]]
// CHECK: %[[B:.*]] = nn.weighted_sum %{{.*}} by 9.000000e-01, %{{.*}} by 1.000000e+00
// CHECK: plumb.store @optimizer.momentum_buffer.w, %[[B]]
// CHECK: %[[D:.*]] = nn.weighted_sum %{{.*}} by 1.000000e+00, %[[B]] by 9.000000e-01
// CHECK: nn.sgd %{{.*}}, %[[D]]
plumb.optimizer "sgd" rate 0.1 momentum 0.9 nesterov schedule "cosine" warmup 2 steps 10
plumb.parameter @w trainable : tensor<4xf32> owner 0 holders [0]
plumb.state @grad.w "gradient" of "w" : tensor<4xf32>
plumb.program @model {
  %x = plumb.input "x" index 0 : tensor<4xf32>
  plumb.accumulate @grad.w, %x {plumb.phase = #plumb.phase<backward_weight>} : tensor<4xf32>
  %1 = nn.sum %x dims [0] : (tensor<4xf32>) -> tensor<f32>
  plumb.loss %1 : tensor<f32>
}

// -----

// A buffer is written at the end of the step, on each rank that holds it. What it becomes is computed there from the last sum over
// the batch, which is kept in a state of the stage that makes it; another buffer's old value is kept too, since it may be new by then.

// CHECK: plumb.state @written.0 "statistic" : tensor<4xf32>
// CHECK: plumb.state @written.1 "statistic" : tensor<4xf32>
// CHECK: plumb.program @buffers
// CHECK: %[[OLD:.*]] = plumb.load @other
// CHECK: plumb.store @written.0, %[[OLD]] {plumb.phase = #plumb.phase<forward>, plumb.stage = 0 : i64}
// CHECK: %[[SUM:.*]] = nn.sum
// CHECK: plumb.store @written.1, %[[SUM]] {plumb.phase = #plumb.phase<forward>, plumb.stage = 1 : i64}
// CHECK-NOT: plumb.store @average, {{.*}}forward
// CHECK: %[[A:.*]] = plumb.load @average {plumb.phase = #plumb.phase<update>, plumb.stage = 0 : i64}
// CHECK: %[[O:.*]] = plumb.load @written.0 {plumb.phase = #plumb.phase<update>, plumb.stage = 0 : i64}
// CHECK: %[[S:.*]] = plumb.load @written.1 {plumb.phase = #plumb.phase<update>, plumb.stage = 1 : i64}
// CHECK: %[[N:.*]] = nn.weighted_sum %[[A]] by {{.*}}, %[[S]] by {{.*}} {plumb.phase = #plumb.phase<update>, plumb.stage = 0 : i64}
// CHECK: %[[M:.*]] = nn.add %[[N]], %[[O]]
// CHECK: plumb.store @average, %[[M]] {plumb.phase = #plumb.phase<update>, plumb.stage = 0 : i64}
plumb.mesh @mesh ["pp" = 2]
plumb.pipeline axis "pp" schedule "gpipe" microbatches 1 stages_per_rank 1
plumb.parameter @average : tensor<4xf32> owner 0 holders [0]
plumb.parameter @other : tensor<4xf32> owner 0 holders [0]
plumb.program @buffers {
  %x = plumb.input "x" index 0 {plumb.stage = 1 : i64} : tensor<16x4xf32>
  %a = plumb.load @average {plumb.stage = 0 : i64} : tensor<4xf32>
  %o = plumb.load @other {plumb.stage = 0 : i64} : tensor<4xf32>
  %s = nn.sum %x dims [0] {plumb.stage = 1 : i64} : (tensor<16x4xf32>) -> tensor<4xf32>
  %n = nn.weighted_sum %a by 0.9, %s by 0.1 {plumb.stage = 1 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %m = nn.add %n, %o {plumb.stage = 1 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  plumb.store @average, %m {plumb.stage = 1 : i64} : tensor<4xf32>
  %p = nn.relu %o {plumb.stage = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  plumb.store @other, %p {plumb.stage = 0 : i64} : tensor<4xf32>
  plumb.output "y" index 0 %m {plumb.stage = 1 : i64} : tensor<4xf32>
}
