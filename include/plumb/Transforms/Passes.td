//===- Passes.td - The passes of Plumb, in the order they run -------------===//

#ifndef PLUMB_TRANSFORMS_PASSES
#define PLUMB_TRANSFORMS_PASSES

include "mlir/Pass/PassBase.td"

class Plumb_Pass<string name> : Pass<name, "::mlir::ModuleOp"> {
  let dependentDialects = ["::plumb::PlumbDialect", "::plumb::nn::NNDialect", "::plumb::ccl::CCLDialect"];
}

//===----------------------------------------------------------------------===//
// One device, global shapes: what runs where, what a step computes, how it is laid out
//===----------------------------------------------------------------------===//

def DumpValues : Plumb_Pass<"dump-values"> {
  let summary = "Makes what modules return outputs of the model";
  let description = [{
    Every value that leaves a module named in `modules` becomes one more output, `dump.` and the module's name, with
    `.0`, `.1` and so on behind it where several leave. A run saves it whole, whatever the plan makes of it, so that two
    plans can be compared value by value. A name that no module of the model has is an error.

    Input, with `modules=fc`:

    ```mlir
    plumb.program @model {
      %x = plumb.input "x" index 0 : tensor<2x8xf32>
      %y = nn.relu %x {plumb.module = "fc"} : (tensor<2x8xf32>) -> tensor<2x8xf32>
      %z = nn.relu %y {plumb.module = "head"} : (tensor<2x8xf32>) -> tensor<2x8xf32>
      plumb.output "z" index 0 %z : tensor<2x8xf32>
    }
    ```

    Output:

    ```mlir
      plumb.output "z" index 0 %z : tensor<2x8xf32>
      plumb.output "dump.fc" index 1 %y : tensor<2x8xf32>
    ```
  }];
  let options = [ListOption<"modules", "modules", "std::string", "names of modules">];
}

def ApplySpec : Plumb_Pass<"apply-spec"> {
  let summary = "Resolves the plan spec against the model";
  let description = [{
    Every rule of the spec is matched against the modules, inputs and outputs of the model and turned into a fact on
    an op: alias rules join parameters, a batch rule gives all values the sizes of another batch, split rules and a
    split policy become `plumb.pipe_split` markers, layout rules become layouts of parameters and
    `plumb.boundary` ops at the ports of modules, storage rules and the optimizer's `state` layouts of storage and of
    updates, input rules layouts of inputs, the loss rule a `plumb.loss`, recompute rules marks on ops of modules. The rules are gone afterwards, but for those on sharing, which
    `assign-ownership` reads; a rule that matches nothing is an error with the nearest name. All rules that fail are
    reported. A mean is a sum times one over the global count. Attention over a sequence in
    shards is written anew, so that keys and values walk around the ranks of the axis, where `plumb.context_parallel`
    says so or where that takes less time, see ApplyAttentionRule.cpp.

    Batch normalisation in training becomes sums over the whole batch, or over the microbatch that a rule names: dim 0
    is seen as (ranks, microbatches, rows) then. Dropout becomes a comparison with `nn.uniform`, for which each element
    is numbered in the whole tensor. Which microbatch a value belongs to, and which rows it has, are inputs that
    count.

    A policy cuts between *units*: layers, which are modules with a number for a name, and the modules beside them.
    `balanced` makes the largest stage as small as can be: exactly, under costs that count a parameter once per stage.

    Input:

    ```mlir
    plumb.mesh @mesh ["tp" = 2]
    plumb.layout_rule "fc" style "colwise" axis "tp"
    plumb.loss_rule output 0 reduce "mean_square"
    plumb.parameter @fc.weight trainable : tensor<4x8xf32>
    plumb.program @model {
      %x = plumb.input "x" index 0 : tensor<2x8xf32>
      %w = plumb.load @fc.weight {plumb.module = "fc"} : tensor<4x8xf32>
      %y = nn.einsum "ai,oi->ao"(%x, %w) {plumb.module = "fc"} : (tensor<2x8xf32>, tensor<4x8xf32>) -> tensor<2x4xf32>
      plumb.output "y" index 0 %y : tensor<2x4xf32>
    }
    ```

    Output:

    ```mlir
    plumb.mesh @mesh ["tp" = 2]
    plumb.pipeline axis "pp" schedule "gpipe" microbatches 1
    plumb.parameter @fc.weight trainable : tensor<4x8xf32> layout <@mesh, [{"tp"}, {} ]>
    plumb.program @model {
      %x = plumb.input "x" index 0 {plumb.layouts = [#plumb.layout<@mesh, [{"microbatch"}, {} ]>]} : tensor<2x8xf32>
      …
      %q = nn.mul %y, %y : …
      %s = nn.sum %q dims [0, 1] : (tensor<2x4xf32>) -> tensor<f32>
      %l = nn.scale %s by 1.250000e-01 : (tensor<f32>) -> tensor<f32>
      plumb.loss %l : tensor<f32>
    }
    ```
  }];
}

def BoundInputs : Plumb_Pass<"bound-inputs"> {
  let summary = "Says of inputs that are indices what they may be";
  let description = [{
    PyTorch refuses a token beyond the vocabulary or a label that is no class. Kernels cannot, so that the program checks
    what it is fed. An input whose values are indices, as they come or in another shape, gets the least number of rows
    among its readers, and the value that all of them ignore, if there is one.

    Input:

    ```mlir
    %x = plumb.input "idx" index 0 : tensor<8x32xi64>
    %w = plumb.load @wte.weight : tensor<256x64xf32>
    %e = nn.embedding %w, %x {plumb.module = "wte"} : (tensor<256x64xf32>, tensor<8x32xi64>) -> tensor<8x32x64xf32>
    ```

    Output:

    ```mlir
    %x = plumb.input "idx" index 0 {plumb.index_range = array<i64: 256>, plumb.index_reader = "module wte"} : tensor<8x32xi64>
    ```
  }];
}

def SplitStages : Plumb_Pass<"split-stages"> {
  let summary = "Cuts the program into pipeline stages at its markers";
  let description = [{
    Each op gets the attribute `plumb.stage`: the number of markers before it. Adjacent markers, and markers before
    the first or after the last op, delimit nothing and are dropped with a warning, so that stages are numbered
    densely and none is empty. An input, a parameter load and a value that depends on neither inputs nor parameters
    is cloned into each stage that reads it and never sent. Dead code is removed. A value that several later stages read is
    handed on by a view that stands in a stage between, so that its gradients come back the same way: by default each
    reader takes it from one on its own rank, or else from the reader before it, which has it anyway, so that no rank
    sends it twice. Without a pipeline axis of at least two ranks
    there is one stage and the markers are ignored.

    Input:

    ```mlir
    %a = nn.relu %x : (tensor<8x16xf32>) -> tensor<8x16xf32>
    plumb.pipe_split
    %b = nn.tanh %a : (tensor<8x16xf32>) -> tensor<8x16xf32>
    ```

    Output:

    ```mlir
    %a = nn.relu %x {plumb.stage = 0 : i64} : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %b = nn.tanh %a {plumb.stage = 1 : i64} : (tensor<8x16xf32>) -> tensor<8x16xf32>
    ```
  }];
}

def SetPrecision : Plumb_Pass<"set-precision"> {
  let summary = "Computes products in a narrow type, everything else in f32";
  let description = [{
    Parameters, sums and what a model gives and takes stay f32. A *product*, an op with a sum over products of two
    operands, reads operands that were rounded to the type of the plan and gives its result in it; it accumulates in
    f32. Elementwise ops and those that move elements follow: their results are narrow if all their operands are,
    numbers and parameters aside, and each of them rounds once. All other ops, softmax, norms, losses and sums, read f32. The
    conversions are ops like any other: gradients are of the type of their values, and those of parameters f32 before
    they are accumulated.

    Input:

    ```mlir
    plumb.precision_rule "bf16"
    plumb.program @model {
      %y = nn.einsum "ai,oi->ao"(%x, %w) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x4xf32>
      %z = nn.relu %y : (tensor<4x4xf32>) -> tensor<4x4xf32>
      %s = nn.sum %z dims [0, 1] : (tensor<4x4xf32>) -> tensor<f32>
    ```

    Output:

    ```mlir
    plumb.program @model {
      %a = nn.convert %x : (tensor<4x8xf32>) -> tensor<4x8xbf16>
      %b = nn.convert %w : (tensor<4x8xf32>) -> tensor<4x8xbf16>
      %y = nn.einsum "ai,oi->ao"(%a, %b) : (tensor<4x8xbf16>, tensor<4x8xbf16>) -> tensor<4x4xbf16>
      %z = nn.relu %y : (tensor<4x4xbf16>) -> tensor<4x4xbf16>
      %c = nn.convert %z : (tensor<4x4xbf16>) -> tensor<4x4xf32>
      %s = nn.sum %c dims [0, 1] : (tensor<4x4xf32>) -> tensor<f32>
    ```
  }];
}

def AssignOwnership : Plumb_Pass<"assign-ownership"> {
  let summary = "Gives every parameter one owner, and its replicas to the ranks that need them";
  let description = [{
    The owner of a parameter is the first stage that reads it. A parameter that stages on several ranks read is
    replicated, or transmitted if a sharing rule says so, or `auto` finds it cheaper. Replicated: `holders` names one
    stage per pipeline coordinate that keeps a copy, the first on that coordinate to read it. Stages on one rank share
    the copy. Transmitted: the owner's rank alone holds it, sends the value before the first forward, and the other
    ranks read a state of the kind `copy`; `build-step` has them return their gradients once, in the update. What ranks
    exchange outside of the schedule stands in the first stage of each rank, in the order of the parameters, so that no
    two of them wait for each other. A parameter that nothing reads has no owner.

    Input:

    ```mlir
    plumb.parameter @wte.weight trainable : tensor<256x64xf32>
    plumb.program @model {
      %0 = plumb.load @wte.weight {plumb.stage = 0 : i64} : tensor<256x64xf32>
      %1 = plumb.load @wte.weight {plumb.stage = 1 : i64} : tensor<256x64xf32>
    ```

    Output:

    ```mlir
    plumb.parameter @wte.weight trainable : tensor<256x64xf32> owner 0 holders [0, 1]
    ```

    Output, after `plumb.sharing_rule "wte.weight" "transmit"`:

    ```mlir
    plumb.parameter @wte.weight trainable : tensor<256x64xf32> owner 0 holders [0]
    plumb.state @copy.wte.weight "copy" of "wte.weight" : tensor<256x64xf32>
    plumb.program @model {
      %v = plumb.load @wte.weight {plumb.phase = #plumb.phase<begin>, plumb.stage = 0 : i64} : tensor<256x64xf32>
      plumb.store @copy.wte.weight, %v {plumb.phase = #plumb.phase<begin>, plumb.stage = 1 : i64} : tensor<256x64xf32>
      %0 = plumb.load @wte.weight {plumb.stage = 0 : i64} : tensor<256x64xf32>
      %1 = plumb.load @copy.wte.weight {plumb.stage = 1 : i64} : tensor<256x64xf32>
    ```
  }];
}

def BuildBackward : Plumb_Pass<"build-backward"> {
  let summary = "Appends the gradients of the loss";
  let description = [{
    Reverse-mode differentiation of the program in global shapes, with each op's own vector-Jacobian product. The
    gradient of an op's operands is computed in the op's stage; where several ops read one value, the cotangents are
    summed in the producer's stage, in ascending order of the reading stage. What a parameter's gradient needs and
    nothing else does is `backward_weight`, the rest of the chain `backward_input`. Gradients are accumulated in
    states. A program without a loss is left alone.

    Input:

    ```mlir
    plumb.parameter @w trainable : tensor<4x8xf32>
    plumb.program @model {
      …
      %y = nn.einsum "ai,oi->ao"(%x, %w) : …
      plumb.loss %l : tensor<f32>
    }
    ```

    Output:

    ```mlir
    plumb.state @grad.w "gradient" of "w" : tensor<4x8xf32>
    plumb.program @model {
      …
      %one = nn.fill 1.0 {plumb.phase = #plumb.phase<backward_input>} : tensor<f32>
      …
      %dw = nn.einsum "ao,ai->oi"(%dy, %x) {plumb.phase = #plumb.phase<backward_weight>} : …
      plumb.accumulate @grad.w, %dw {plumb.phase = #plumb.phase<backward_weight>} : tensor<4x8xf32>
    }
    ```
  }];
}

def Recompute : Plumb_Pass<"recompute"> {
  let summary = "Computes activations of chosen modules again instead of keeping them";
  let description = [{
    What the backward of a module marked with `plumb.recompute` reads of its forward is computed again, just before
    that backward begins, from what enters the module and from values that are kept anyway. Where the schedule
    runs the backward as one, the gradients of the module's parameters are taken there too, so that what was computed
    again is needed for one module at a time. The same ops on the same values give the same bits, whatever kernels they
    come to lie in.

    Input:

    ```mlir
    %a = nn.einsum "ai,oi->ao"(%x, %w) {plumb.recompute = "fc"} : …
    %y = nn.tanh %a {plumb.recompute = "fc"} : …
    %da = nn.tanh_backward %dy, %y {plumb.phase = #plumb.phase<backward_input>, plumb.recompute = "fc"} : …
    ```

    Output:

    ```mlir
    %a = nn.einsum "ai,oi->ao"(%x, %w) {plumb.recompute = "fc"} : …
    %y = nn.tanh %a {plumb.recompute = "fc"} : …
    %b = nn.einsum "ai,oi->ao"(%x, %w) {plumb.phase = #plumb.phase<backward_input>, plumb.recompute = "fc"} : …
    %z = nn.tanh %b {plumb.phase = #plumb.phase<backward_input>, plumb.recompute = "fc"} : …
    %da = nn.tanh_backward %dy, %z {plumb.phase = #plumb.phase<backward_input>, plumb.recompute = "fc"} : …
    ```
  }];
}

def BuildStep : Plumb_Pass<"build-step"> {
  let summary = "Completes the training step: loss, outputs, optimizer";
  let description = [{
    The loss is accumulated in a state, outputs are stored in states, and each gradient is stored whole, in the
    stages that hold its parameter (phase `reduce`). The optimizer then updates each copy of each parameter (phase
    `update`); what it keeps from step to step are states too. To clip gradients, the owner of each parameter adds the
    square of its gradient's norm to a sum, one for all parameters that are cut over the same axes; the first stage of
    each rank completes the sums, so that a parameter counts once, whatever its copies and shards. To
    the owner of a transmitted parameter come the gradients of its readers.

    What the program stores in buffers moves to the update, before the optimizer's work, for each rank that holds the
    buffer: the last sums over the batch that the new value depends on are kept in states of the kind `statistic`, what
    is computed from them is computed there.

    Input:

    ```mlir
    plumb.optimizer "sgd" rate 1.000000e-01
    plumb.parameter @w trainable : tensor<4x8xf32> owner 0 holders [0]
    plumb.state @grad.w "gradient" of "w" : tensor<4x8xf32>
    ```

    Output (appended to the program):

    ```mlir
    %s = plumb.load @grad.w {plumb.phase = #plumb.phase<reduce>} : tensor<4x8xf32>
    plumb.store @grad.w, %s {plumb.phase = #plumb.phase<reduce>} : tensor<4x8xf32>
    %r = nn.fill 1.000000e-01 {plumb.phase = #plumb.phase<update>} : tensor<f32>
    %g = plumb.load @grad.w {plumb.phase = #plumb.phase<update>} : tensor<4x8xf32>
    %p = plumb.load @w {plumb.phase = #plumb.phase<update>} : tensor<4x8xf32>
    %q = nn.sgd %p, %g, %r {plumb.phase = #plumb.phase<update>} : …
    plumb.store @w, %q {plumb.phase = #plumb.phase<update>} : tensor<4x8xf32>
    ```
  }];
}

def PropagateLayouts : Plumb_Pass<"propagate-layouts"> {
  let summary = "Gives every value a layout, from what the plan states, through each op's sharding rule";
  let description = [{
    An op can run in as many ways as the factors of its sharding rule can be cut as its operands or readers have them
    cut; results are partial over the axes of the factors that are summed away, and partial sums may pass where the op
    is linear. Each op takes the way by which redistributions, as the redistribution core plans and costs them, and
    work take the least time in sum: first in program order with a look at the readers, then by changing single
    decisions backwards and forwards as long as that saves something. So sums are completed as late as is cheapest,
    and the order of declarations does not matter. What the plan states, layouts of parameters and of ports, is never
    changed, and nothing is exchanged over `microbatch` that need not be.

    A factor that an op needs whole is not sharded, unless the op can be taken apart for it: a table that is sharded by
    rows gives zeros for rows that it lacks, a loss over sharded classes exchanges row statistics only, a causal mask
    is written with numbers of queries. A sharding that the sizes do not admit is an error with both numbers.

    `plumb.reads` keeps the layouts in which each op reads its operands.

    Input:

    ```mlir
    %y = nn.einsum "ai,oi->ao"(%x, %w) : …      // x: [{"dp"}, {} ], w: [{"tp"}, {} ]
    ```

    Output:

    ```mlir
    %y = nn.einsum "ai,oi->ao"(%x, %w) {plumb.layouts = [#plumb.layout<@mesh, [{"dp"}, {"tp"} ]>],
                                        plumb.reads = […]} : …
    ```
  }];
}

def PlanBoundaries : Plumb_Pass<"plan-boundaries"> {
  let summary = "Inserts the redistributions between what a value's layout is and what its reader needs";
  let description = [{
    Every operand is brought into the layout in which its op reads it, from the value itself or from the copy of it
    that is nearest; readers of one stage share copies. Boundaries of modules become the redistributions that they ask
    for, or nothing; an output that is not produced as the plan promises is an error, an input that does not arrive
    as it says a warning. Parameters that are stored in shards of a batch axis are gathered for each pass, or once per
    step. A value that must be whole over `microbatch` in the middle
    of a step is legal only if it depends on batch inputs alone: its computation moves to the `prologue`, its sum
    into a state. With a topology, a value that crosses to another stage does so in the layout that is cheapest: what
    several ranks hold alike crosses once, in parts, and is gathered behind the slow link.

    Input:

    ```mlir
    %y = nn.einsum "ai,oi->ao"(%x, %w) {plumb.layouts = [#plumb.layout<@mesh, [{}, {} ], partial = {"tp" : sum}>]} : …
    %z = nn.relu %y : …
    ```

    Output:

    ```mlir
    %y = nn.einsum "ai,oi->ao"(%x, %w) {plumb.layouts = [#plumb.layout<@mesh, [{}, {} ], partial = {"tp" : sum}>]} : …
    %r = plumb.redistribute %y from <@mesh, [{}, {} ], partial = {"tp" : sum}> to <@mesh, [{}, {} ]> : …
    %z = nn.relu %r : …
    ```
  }];
}

//===----------------------------------------------------------------------===//
// Local shapes: which calls
//===----------------------------------------------------------------------===//

def Partition : Plumb_Pass<"partition"> {
  let summary = "Turns the program into one block per stage, in local shapes";
  let description = [{
    Every tensor gets the shape of one rank's shard of one microbatch, every op is localised. Values that cross
    stages become a send and a receive on the communicator of that edge and direction. Accumulation into a state
    becomes a load, a sum and a store. With `plumb.copies` each stage is made as often, copies behind the originals.

    Input:

    ```mlir
    plumb.program @model {
      %a = nn.relu %x {plumb.stage = 0 : i64, plumb.layouts = [#plumb.layout<@mesh, [{"dp"}, {} ]>]} : …
      %b = nn.tanh %a {plumb.stage = 1 : i64, …} : (tensor<8x16xf32>) -> tensor<8x16xf32>
    ```

    Output:

    ```mlir
    ccl.communicator @forward_0_1 axes [] pipeline [0, 1]
    plumb.stage @submod_pp_0 index 0 {
      %a = nn.relu %x : (tensor<4x16xf32>) -> tensor<4x16xf32>
      ccl.send %a to 1 on @forward_0_1 : tensor<4x16xf32>
    }
    plumb.stage @submod_pp_1 index 1 {
      %a = ccl.recv from 0 on @forward_0_1 : tensor<4x16xf32>
      %b = nn.tanh %a : (tensor<4x16xf32>) -> tensor<4x16xf32>
    }
    ```
  }];
}

def LowerRedistributions : Plumb_Pass<"lower-redistributions"> {
  let summary = "Lowers each redistribution to the calls of its cheapest plan";
  let description = [{
    The plan comes from the redistribution core, which has executed it for all ranks. Each collective step becomes one
    call on blocks; packing before and unpacking after it are views and transposes, kernels like any other. A slice is a
    view, or a strided copy of the rank's own blocks. A permute or an exchange is a `ccl.exchange`, between copies where
    its messages do not lie in the tensors as they are. The sum over the copies of a parameter on several pipeline
    coordinates joins the reduction over its batch axes. A `ccl.rotate` of a sharded dim becomes a `ccl.exchange` in the
    same way.

    Shards that differ in size lie in tensors of the largest one's shape. Before a dim is cut so it is padded with zeros to
    a multiple; where the pieces are joined, what is beyond its end is dropped. Where more than the last axis of a dim
    leaves a remainder, shards are cut by a `ccl.copy` and travel by a `ccl.exchange`; messages that are handed on make
    a second one.

    Input:

    ```mlir
    %r = plumb.redistribute %y from <@mesh, [{}, {} ], partial = {"tp" : sum}> to <@mesh, [{}, {} ]> : …
    ```

    Output:

    ```mlir
    ccl.communicator @tp axes ["tp"] pipeline []
    …
    %r = ccl.all_reduce %y on @tp : (tensor<4x16xf32>) -> tensor<4x16xf32>
    ```
  }];
}

def BucketCollectives : Plumb_Pass<"bucket-collectives"> {
  let summary = "Collectives of small gradients and parameters share launches";
  let description = [{
    Sums of gradients after the backward pass, or at its end where each microbatch has its own, gathers of
    parameters once per step, and gathers of a layer's parameters in a pass are collected in buckets: calls of one kind, communicator, reduction and element type, up to
    `plumb.bucket_bytes` (25 MiB), in program order. A bucket is one op with several operands, launched as a group of
    calls: NCCL runs a group as one kernel and shares its channels out among the tensors, so that nothing has to be
    copied into a common buffer and back, each sum stays that of its own tensor, and gradients stay where they are.
    What depends on a sum moves behind the launch; what a gather needs in front of the first of the layer. Sums over copies of a parameter on several pipeline coordinates stay
    alone, since their ranks run different programs.

    Input:

    ```mlir
    %a = plumb.load @grad.a : tensor<4xf32>
    %b = ccl.all_reduce %a on @dp : (tensor<4xf32>) -> tensor<4xf32>
    plumb.store @grad.a, %b : tensor<4xf32>
    %c = plumb.load @grad.c : tensor<8xf32>
    %d = ccl.all_reduce %c on @dp : (tensor<8xf32>) -> tensor<8xf32>
    plumb.store @grad.c, %d : tensor<8xf32>
    ```

    Output:

    ```mlir
    %a = plumb.load @grad.a : tensor<4xf32>
    %c = plumb.load @grad.c : tensor<8xf32>
    %b:2 = ccl.all_reduce %a, %c on @dp : (tensor<4xf32>, tensor<8xf32>) -> (tensor<4xf32>, tensor<8xf32>)
    plumb.store @grad.a, %b#0 : tensor<4xf32>
    plumb.store @grad.c, %b#1 : tensor<8xf32>
    ```
  }];
}

def PrefetchGathers : Plumb_Pass<"prefetch-gathers"> {
  let summary = "Gathers of parameters come before the layer in front of theirs";
  let description = [{
    A parameter that is gathered for a pass is gathered while the layer before computes: its gather, with what leads to it,
    moves to where that layer begins, or as many layers ahead as `plumb.prefetch` says of the parameter (0: it stays). The
    gathers of the first layer have nothing to hide behind. On their own stream they start when what stands before them
    has been computed, so that no more layers are held at a time.

    Input:

    ```mlir
    %a = ccl.all_gather %0 on @dp {plumb.module = "h.0"} : (tensor<4xf32>) -> tensor<8xf32>
    %b = nn.mul %x, %a {plumb.module = "h.0"} : …
    %1 = plumb.load @h.1 {plumb.module = "h.1"} : tensor<4xf32>
    %c = ccl.all_gather %1 on @dp {plumb.module = "h.1"} : (tensor<4xf32>) -> tensor<8xf32>
    %d = nn.mul %b, %c {plumb.module = "h.1"} : …
    ```

    Output:

    ```mlir
    %a = ccl.all_gather %0 on @dp {plumb.module = "h.0"} : (tensor<4xf32>) -> tensor<8xf32>
    %1 = plumb.load @h.1 {plumb.module = "h.1"} : tensor<4xf32>
    %c = ccl.all_gather %1 on @dp {plumb.module = "h.1"} : (tensor<4xf32>) -> tensor<8xf32>
    %b = nn.mul %x, %a {plumb.module = "h.0"} : …
    %d = nn.mul %b, %c {plumb.module = "h.1"} : …
    ```
  }];
}

//===----------------------------------------------------------------------===//
// When, where, and is it right
//===----------------------------------------------------------------------===//

def FormKernels : Plumb_Pass<"form-kernels"> {
  let summary = "Groups tensor ops into kernels";
  let description = [{
    Per phase of a stage, each op that is not elementwise takes its elementwise readers as epilogue, and chains of
    elementwise ops become one kernel; see KernelGroups.h for the rule, which looks at sharding rules only. A group
    becomes a function on tensors, lowered to linalg, and a `plumb.launch`; equal groups share the function. A sum
    into a state, or an update of a parameter, overwrites the loaded operand (`inplace`; on the function
    `plumb.inout` and `plumb.result`). No pass after this one makes a buffer.

    Input:

    ```mlir
    %y = nn.einsum "ai,oi->ao"(%x, %w) : (tensor<32x64xf32>, tensor<128x64xf32>) -> tensor<32x128xf32>
    %b = plumb.load @fc.bias : tensor<128xf32>
    %s = nn.add %y, %b : (tensor<32x128xf32>, tensor<128xf32>) -> tensor<32x128xf32>
    %g = nn.gelu %s : (tensor<32x128xf32>) -> tensor<32x128xf32>
    ```

    Output:

    ```mlir
    %b = plumb.load @fc.bias : tensor<128xf32>
    %g = plumb.launch @k_einsum_nt_32x128x64_add_gelu(%x, %w, %b) inplace array<i64: -1> : …
    …
    func.func @k_einsum_nt_32x128x64_add_gelu(…) -> tensor<32x128xf32> attributes {plumb.flops = 532480 : i64} {…}
    ```
  }];
  let dependentDialects = ["::plumb::PlumbDialect", "::plumb::nn::NNDialect", "::plumb::ccl::CCLDialect",
                           "::mlir::arith::ArithDialect", "::mlir::func::FuncDialect", "::mlir::linalg::LinalgDialect",
                           "::mlir::math::MathDialect", "::mlir::scf::SCFDialect", "::mlir::tensor::TensorDialect"];
}

def CompileKernels : Plumb_Pass<"compile-kernels"> {
  let summary = "Compiles the kernels for the host or for GPUs";
  let description = [{
    Gives each kernel the symbol to call, the bytes of scratch that a call needs, and the object file that holds it.
    The functions stay as they are. Without this pass kernels need no scratch and are called by their own names.
    A kernel for a GPU is PTX, in entries that are launched one after the other, each with a thread for each element of
    what it writes; `emulated` runs those entries on the host.

    Input:

    ```mlir
    func.func @k_add_32(%a: tensor<32xf32>, %b: tensor<32xf32>) -> tensor<32xf32> {…}
    ```

    Output:

    ```mlir
    func.func @k_add_32(…) -> tensor<32xf32>
        attributes {plumb.object = "….o", plumb.scratch = 0 : i64, plumb.symbol = "k_5f0c…"} {…}
    ```
  }];
  let options = [
    Option<"target", "target", "::plumb::KernelTarget", /*default=*/"::plumb::KernelTarget::Host",
           "Where kernels run.", [{::llvm::cl::values(
             clEnumValN(::plumb::KernelTarget::Host, "host", "this machine"),
             clEnumValN(::plumb::KernelTarget::Device, "device", "a GPU"),
             clEnumValN(::plumb::KernelTarget::Emulated, "emulated", "this machine, as a GPU would"))}]>,
    Option<"cpu", "cpu", "std::string", /*default=*/"\"native\"",
           "The processor to compile for: native, or a name that LLVM knows.">,
    Option<"gpu", "gpu", "std::string", /*default=*/"\"sm_90\"",
           "For devices, the GPU to compile for, sm_70 or later.">,
    Option<"cache", "cache", "std::string", /*default=*/"",
           "The directory that keeps objects. By default the user's cache.">,
  ];
}

def Schedule : Plumb_Pass<"schedule"> {
  let summary = "Chooses the action list of each pipeline coordinate";
  let description = [{
    A problem for the schedule core is read from the stages: edges from their sends, costs from the operations of
    their kernels or from the plan (`plumb.costs`), activations from what lives on to the backward. The kind is that
    of `plumb.pipeline`; a module without backward phases runs forward only; `custom` takes the list in
    `plumb.actions`. Sends and receives are placed, and the result is verified.

    Input:

    ```mlir
    plumb.pipeline axis "pp" schedule "1f1b" microbatches 2 stages_per_rank 1
    plumb.stage @submod_pp_0 index 0 {…}
    plumb.stage @submod_pp_1 index 1 {…}
    ```

    Output:

    ```mlir
    plumb.pipeline axis "pp" schedule "1f1b" microbatches 2 stages_per_rank 1
    plumb.schedule ["0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1",
                    "1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1"]
    ```
  }];
}

def AssignStreams : Plumb_Pass<"assign-streams"> {
  let summary = "Assigns streams, slots and events";
  let description = [{
    Kernels run on the stream `compute`. Collectives in the midst of a phase (tensor, sequence and context
    parallelism) have the stream `tensor`, gathers of parameters `gather`; gradients and other sums are completed on
    `reduce`, together with what only adds or converts them, and are launched as soon as every part has run for the last
    time that adds to them (see Reductions.h). The transfers of each edge and direction of the pipeline have a
    stream of their own. A communicator that several streams use becomes one for each.

    A value that lives from one part of a stage to another has as many slots as microbatches are in flight with
    it, by interval colouring of the action list.

    A launch waits for launches of other streams that made what it reads, and that read or made what lay where it
    writes. So that little is in flight, and little memory taken, a gather of parameters waits for the computation
    before it, and the computation for what is reduced per microbatch: when the next reduction has been launched, at the
    latest at the end of the next part. What its stream has waited for already implies much of that: all launches of a
    step are walked in order, with a clock per stream, and an event is recorded and awaited only where the clock does not
    say so. An event that orders slots is one per slot; elsewhere the last record is the one that is meant. The waits of
    a transfer stand at its first op.

    All waits point backwards in one global order of the schedule, so that they cannot form a cycle.

    Input:

    ```mlir
    plumb.stage @submod_pp_1 index 1 {
      %x = ccl.recv from 0 on @forward_0_1 {plumb.phase = #plumb.phase<forward>} : tensor<8x16xf32>
      %y = plumb.launch @k(%x) inplace [-1] {plumb.phase = #plumb.phase<forward>} : …
    ```

    Output:

    ```mlir
    module attributes {plumb.events = 2 : i64, plumb.streams = ["compute", "forward_0_1"]} {
    plumb.stage @submod_pp_1 index 1 attributes {
        plumb.slots = [{name = "recv_forward_from_0_forward", table = array<i64: 0, 0>} ]} {
      %x = ccl.recv from 0 on @forward_0_1 {plumb.records = array<i64: 0, -1>, plumb.slot = array<i64: 0>,
          plumb.stream = 1 : i64, plumb.waits = array<i64: 1, -1>, …} : tensor<8x16xf32>
      %y = plumb.launch @k(%x) inplace [-1] {plumb.records = array<i64: 1, -1>, plumb.waits = array<i64: 0, -1>, …} : …
    ```
  }];
}

def PlanMemory : Plumb_Pass<"plan-memory"> {
  let summary = "Places everything in one arena per pipeline coordinate";
  let description = [{
    In this order: states that a step clears, parameters, outputs and inputs (all microbatches side by side), one
    region for values: those that live from part to part (a block per slot), and for each part what it uses alone,
    kernels' scratch included, packed by liveness; and the place where the inputs of the next step arrive while one runs.
    In the region for values, what is never in use at one time shares memory. The time
    of what other streams than that of computation touch lasts from the last launch there that it comes after to the first
    that comes after it. Slots that do not come to lie side by side have their places in a table. Views, in-place results
    and stored values take no memory of their own; a store whose value could not be made in the state is marked as a copy.
    An arena above the plan's memory limit (`plumb.memory_limit`) is an error with the bytes by use, and the largest
    buffers.

    Input:

    ```mlir
    plumb.parameter @w trainable : tensor<16x16xf32> owner 0 holders [0]
    plumb.stage @submod_pp_0 index 0 {
      %x = plumb.input "x" index 0 : tensor<8x16xf32>
      %w = plumb.load @w : tensor<16x16xf32>
      %y = plumb.launch @k_einsum_nt_8x16x16(%x, %w) inplace array<i64: -1> : …
    ```

    Output:

    ```mlir
    module attributes {plumb.arena = array<i64: 2560>, plumb.cleared = array<i64: 0>, plumb.staging = array<i64: 2048>, …} {
    plumb.parameter @w trainable : tensor<16x16xf32> owner 0 holders [0] {plumb.offsets = array<i64: 0>}
    plumb.stage @submod_pp_0 index 0 {
      %x = plumb.input "x" index 0 {plumb.offset = array<i64: 1024>} : tensor<8x16xf32>
      %w = plumb.load @w {plumb.offset = array<i64: 0>} : tensor<16x16xf32>
      %y = plumb.launch @k_einsum_nt_8x16x16(%x, %w) inplace array<i64: -1> {plumb.offset = array<i64: 1536>} : …
    ```
  }];
}

def VerifyPlan : Plumb_Pass<"verify-plan"> {
  let summary = "Proves that the plan is right, from the plan alone";
  let description = [{
    Knows nothing of how the plan was made. Two consecutive steps are checked:

      * every action is there once, in an order that the dataflow and rendezvous transfers allow (the schedule core);
      * the ends of every channel agree on the number, types and order of messages, all members of a communicator on
        its collectives;
      * the event graph of all NCCL units (launch order, stream order, event waits, partners) has no cycle;
      * whatever reads memory finds there what was meant for it, after a wait where another stream wrote it; nothing
        is overwritten while another stream may read it; everything lies in the arena;
      * every launch, collective and message is read in the layout that communication has given it: no reduction or
        gather is missing, doubled or of the wrong group, and every sum is complete where the step ends;
      * every launch fits its kernel, every communicator its ranks;
      * a parameter that has a gradient is updated once, on all copies.

    Linear in the number of calls. Rejection names stage, microbatch, part, module and Python line. What was proved is
    left in `plumb.verified`.
  }];
}

#endif // PLUMB_TRANSFORMS_PASSES
