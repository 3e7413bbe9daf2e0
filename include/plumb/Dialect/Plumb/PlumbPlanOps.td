//===- PlumbPlanOps.td - The plan spec in IR --------------------------------===//

#ifndef PLUMB_DIALECT_PLUMB_PLUMBPLANOPS
#define PLUMB_DIALECT_PLUMB_PLUMBPLANOPS

include "plumb/Dialect/Plumb/PlumbBase.td"

class Plumb_Op<string mnemonic, list<Trait> traits = []> : Op<Plumb_Dialect, mnemonic, traits>;

def Plumb_MeshOp : Plumb_Op<"mesh", [Symbol]> {
  let summary = "The mesh of ranks";
  let description = [{
    Ranks are numbered row-major over the axes in the order written, the last axis fastest.

    ```mlir
    plumb.mesh @mesh ["pp" = 2, "tp" = 2]
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrArrayAttr:$axes, DenseI64ArrayAttr:$sizes);
  let assemblyFormat = "$sym_name custom<MeshAxes>($axes, $sizes) attr-dict";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Index of the axis in the mesh, or nothing.
    std::optional<unsigned> findAxis(::llvm::StringRef name);
    /// Size of the axis; 1 for one that the mesh does not have.
    int64_t getAxisSize(::llvm::StringRef name);
  }];
}

def Plumb_PipelineOp : Plumb_Op<"pipeline"> {
  let summary = "How the step runs through the pipeline";
  let description = [{
    ```mlir
    plumb.pipeline axis "pp" schedule "1f1b" microbatches 4 stages_per_rank 1
    ```
    Without `stages_per_rank` it is ceil(stages / size of the axis). `placement` says which rank runs which stage:
    `"loop"`, the default, deals stages out round after round; `"v"` turns back at the last rank.
  }];
  let arguments = (ins StrAttr:$axis, StrAttr:$schedule, I64Attr:$microbatches,
                       OptionalAttr<I64Attr>:$stages_per_rank, OptionalAttr<StrAttr>:$placement);
  let assemblyFormat = [{
    `axis` $axis `schedule` $schedule `microbatches` custom<Integer>($microbatches)
    (`stages_per_rank` custom<Integer>($stages_per_rank)^)? (`placement` $placement^)? attr-dict
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The pipeline coordinate on which a stage lives, of `ranks`.
    int64_t coordinateOf(int64_t stage, int64_t ranks);
  }];
}

def Plumb_SplitRuleOp : Plumb_Op<"split_rule"> {
  let summary = "A split point given by the plan spec: before the first or after the last op of a module";
  let arguments = (ins StrAttr:$match, UnitAttr:$end);
  let assemblyFormat = "$match (`end` $end^)? attr-dict";
}

def Plumb_SplitPolicyOp : Plumb_Op<"split_policy"> {
  let summary = "A policy that chooses the stage boundaries between modules";
  let description = [{
    * `"balanced"`: so many stages that the largest one is smallest, by `"flops"`, `"parameters"` or `"time"`;
    * `"layers"`: so many layers (numbered modules) in each stage;
    * `"each"`: a stage for each child of the module;
    * `"layout"`: a layout string of Megatron;
    * `"modules"`: the modules of each stage.

    ```mlir
    plumb.split_policy "balanced" stages 4 by "flops"
    plumb.split_policy "layers" list [4, 5, 5, 4]
    plumb.split_policy "each" of "layers"
    plumb.split_policy "layout" of "Et*3|tt|ttL"
    plumb.split_policy "modules" modules [["embed", "layers.0"], ["layers.1", "head"]]
    ```
  }];
  let arguments = (ins StrAttr:$kind, OptionalAttr<I64Attr>:$stages, OptionalAttr<StrAttr>:$by,
                       OptionalAttr<DenseI64ArrayAttr>:$list, OptionalAttr<StrAttr>:$of,
                       OptionalAttr<ArrayAttr>:$modules);
  let assemblyFormat = [{
    $kind (`stages` custom<Integer>($stages)^)? (`by` $by^)? (`list` $list^)? (`of` $of^)? (`modules` $modules^)?
    attr-dict
  }];
}

def Plumb_SharingRuleOp : Plumb_Op<"sharing_rule"> {
  let summary = "How the parameters that a pattern matches are shared between stages";
  let description = [{
    `"replicate"`: a copy per rank that needs it; `"transmit"`: the owner sends its value once per step and gets the
    gradients back; `"auto"`: the cheaper one. The last rule that matches a parameter counts.

    ```mlir
    plumb.sharing_rule "wte.weight" "transmit"
    ```
  }];
  let arguments = (ins StrAttr:$match, StrAttr:$choice);
  let assemblyFormat = "$match $choice attr-dict";
}

def Plumb_AliasRuleOp : Plumb_Op<"alias_rule"> {
  let summary = "Names of one parameter, where the export does not say so";
  let arguments = (ins StrArrayAttr:$names);
  let assemblyFormat = "$names attr-dict";
}

def Plumb_BatchRuleOp : Plumb_Op<"batch_rule"> {
  let summary = "The batch to compile for: so many rows in all, per replica, or per microbatch";
  let description = [{
    ```mlir
    plumb.batch_rule "global" size 512
    ```
  }];
  let arguments = (ins StrAttr:$of, I64Attr:$size);
  let assemblyFormat = "$of `size` custom<Integer>($size) attr-dict";
}

def Plumb_BatchNormRuleOp : Plumb_Op<"batch_norm_rule"> {
  let summary = "Which rows batch normalisation normalises together in training, if not the whole batch";
  let description = [{
    `"microbatch"`: those of a microbatch, on all ranks; `"local"`: those of a microbatch on one rank. `parts` are the
    ranks that shard the batch and the microbatches, by default those of the plan.

    ```mlir
    plumb.batch_norm_rule "microbatch"
    ```
  }];
  let arguments = (ins StrAttr:$over, OptionalAttr<DenseI64ArrayAttr>:$parts);
  let assemblyFormat = "$over (`parts` $parts^)? attr-dict";
}

def Plumb_SeedRuleOp : Plumb_Op<"seed_rule"> {
  let summary = "The seed of random numbers";
  let arguments = (ins I64Attr:$seed);
  let assemblyFormat = "custom<Integer>($seed) attr-dict";
}

def Plumb_LayoutRuleOp : Plumb_Op<"layout_rule"> {
  let summary = "An entry of the plan spec's layouts";
  let description = [{
    A style on an axis, a template of styles, or explicit layouts: per parameter a dictionary of axis to placement, and
    on each of the four sides the same per port. `unit` keeps shard boundaries on its multiples, `dim` is the dim of the
    `sequence` style. `blocks` are a number of equal ones or, in brackets, sizes. With `bind` the entry applies to the modules that those patterns match.

    ```mlir
    plumb.layout_rule "h.*.attn.c_attn" style "colwise" axis "tp" blocks 3
    plumb.layout_rule "h.*.mlp" params {c_fc.weight = {tp = "shard(0)"}, c_fc.bias = {tp = "shard(0)"} }
      {in_dst = {input.0 = {} }, in_src = {input.0 = {} }, out_dst = {output.0 = {tp = "shard(1)"} } }
    ```
  }];
  let arguments = (ins StrAttr:$match, OptionalAttr<StrAttr>:$style, OptionalAttr<StrAttr>:$axis,
                       OptionalAttr<DenseI64ArrayAttr>:$blocks, OptionalAttr<DictionaryAttr>:$params,
                       OptionalAttr<DictionaryAttr>:$in_src, OptionalAttr<DictionaryAttr>:$in_dst,
                       OptionalAttr<DictionaryAttr>:$out_src, OptionalAttr<DictionaryAttr>:$out_dst,
                       OptionalAttr<StrArrayAttr>:$out_names, OptionalAttr<I64Attr>:$unit, OptionalAttr<I64Attr>:$dim,
                       OptionalAttr<StrArrayAttr>:$bind, UnitAttr:$override, OptionalAttr<StrAttr>:$communication,
                       OptionalAttr<StrAttr>:$template_name, UnitAttr:$sequence_parallel, UnitAttr:$loss_parallel);
  let assemblyFormat = [{
    $match (`style` $style^)? (`template` $template_name^)? (`axis` $axis^)? (`blocks` custom<BlockList>($blocks)^)?
    (`params` $params^)? attr-dict
  }];
}

def Plumb_StorageRuleOp : Plumb_Op<"storage_rule"> {
  let summary = "Parameters that are stored in shards of a batch axis, and when they are gathered";
  let description = [{
    `gather` is `step` (once, kept to the end), `pass` or `layer` (for the forward and again for the backward pass).

    ```mlir
    plumb.storage_rule "*" axis "dp" gather "pass"
    ```
  }];
  let arguments = (ins StrAttr:$match, StrAttr:$axis, StrAttr:$gather);
  let assemblyFormat = "$match `axis` $axis `gather` $gather attr-dict";
}

def Plumb_PrecisionRuleOp : Plumb_Op<"precision_rule"> {
  let summary = "The element type of products: what is f32 in the model is rounded to it";
  let arguments = (ins StrAttr:$compute);
  let assemblyFormat = "$compute attr-dict";
}

def Plumb_RecomputeRuleOp : Plumb_Op<"recompute_rule"> {
  let summary = "Modules whose activations are computed again in the backward pass";
  let arguments = (ins StrAttr:$match);
  let assemblyFormat = "$match attr-dict";
}

def Plumb_InputRuleOp : Plumb_Op<"input_rule"> {
  let summary = "An entry of the plan spec's inputs: axis to placement; no placements means replicated";
  let arguments = (ins StrAttr:$name, DictionaryAttr:$placements);
  let assemblyFormat = "$name $placements attr-dict";
}

def Plumb_LossRuleOp : Plumb_Op<"loss_rule"> {
  let summary = "Which output is the loss, or what it is reduced from";
  let description = [{
    ```mlir
    plumb.loss_rule output 0 reduce "mean_square"
    plumb.loss_rule name "logits" reduce "cross_entropy" target "labels" : i64 ignore -100
    ```
    `target` is the name and element type of an input that is added to the model; labels equal to `ignore` do not
    count.
  }];
  let arguments = (ins OptionalAttr<I64Attr>:$output, OptionalAttr<StrAttr>:$name, OptionalAttr<StrAttr>:$reduce,
                       OptionalAttr<StrAttr>:$target, OptionalAttr<TypeAttr>:$target_type,
                       OptionalAttr<I64Attr>:$ignore);
  let assemblyFormat = [{
    (`output` custom<Integer>($output)^)? (`name` $name^)? (`reduce` $reduce^)? (`target` $target^ `:` $target_type)?
    (`ignore` custom<Integer>($ignore)^)? attr-dict
  }];
}

def Plumb_OptimizerOp : Plumb_Op<"optimizer"> {
  let summary = "How parameters are updated";
  let description = [{
    `kind` is `sgd`, `adam` or `adamw`. The rate rises from 0 over the first `warmup` steps, is `rate` from then on, or
    falls by `schedule` (`linear`, `cosine`) to `final` times itself at step `steps`. `clip` is the largest global norm
    of the gradients. `state` shards what the optimizer keeps, and with it the update, axis by axis.

    ```mlir
    plumb.optimizer "sgd" rate 1.000000e-01 momentum 9.000000e-01 nesterov
    plumb.optimizer "adamw" rate 1.000000e-03 beta1 0.9 beta2 0.999 epsilon 1e-8 decay 0.01 clip 1.0 schedule "cosine" warmup 10 steps 100
    plumb.optimizer "sgd" rate 1.000000e-01 state {dp = "shard(0)"}
    ```
  }];
  let arguments = (ins StrAttr:$kind, F64Attr:$rate, OptionalAttr<F64Attr>:$momentum, OptionalAttr<F64Attr>:$dampening,
                       UnitAttr:$nesterov, OptionalAttr<F64Attr>:$beta1, OptionalAttr<F64Attr>:$beta2,
                       OptionalAttr<F64Attr>:$epsilon, OptionalAttr<F64Attr>:$decay, OptionalAttr<F64Attr>:$clip,
                       OptionalAttr<StrAttr>:$schedule, OptionalAttr<I64Attr>:$warmup, OptionalAttr<I64Attr>:$steps,
                       OptionalAttr<F64Attr>:$final, OptionalAttr<DictionaryAttr>:$state);
  let assemblyFormat = [{
    $kind `rate` custom<Float>($rate) (`momentum` custom<Float>($momentum)^)? (`dampening` custom<Float>($dampening)^)?
    (`nesterov` $nesterov^)? (`beta1` custom<Float>($beta1)^)? (`beta2` custom<Float>($beta2)^)?
    (`epsilon` custom<Float>($epsilon)^)? (`decay` custom<Float>($decay)^)? (`clip` custom<Float>($clip)^)?
    (`schedule` $schedule^)? (`warmup` custom<Integer>($warmup)^)? (`steps` custom<Integer>($steps)^)?
    (`final` custom<Float>($final)^)? (`state` $state^)? attr-dict
  }];
  let hasVerifier = 1;
}

#endif // PLUMB_DIALECT_PLUMB_PLUMBPLANOPS
