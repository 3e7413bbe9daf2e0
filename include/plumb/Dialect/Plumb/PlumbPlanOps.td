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

def Plumb_LayoutRuleOp : Plumb_Op<"layout_rule"> {
  let summary = "An entry of the plan spec's layouts";
  let description = [{
    Either a style on an axis, or explicit parameter layouts: per parameter a dictionary of axis to placement.

    ```mlir
    plumb.layout_rule "h.*.attn.c_attn" style "colwise" axis "tp" blocks 3
    plumb.layout_rule "h.*.mlp" params {c_fc.weight = {tp = "shard(0)"}, c_fc.bias = {tp = "shard(0)"}}
    ```
  }];
  let arguments = (ins StrAttr:$match, OptionalAttr<StrAttr>:$style, OptionalAttr<StrAttr>:$axis,
                       OptionalAttr<I64Attr>:$blocks, OptionalAttr<DictionaryAttr>:$params);
  let assemblyFormat = [{
    $match (`style` $style^)? (`axis` $axis^)? (`blocks` custom<Integer>($blocks)^)? (`params` $params^)? attr-dict
  }];
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
    ```
  }];
  let arguments = (ins OptionalAttr<I64Attr>:$output, OptionalAttr<StrAttr>:$name, OptionalAttr<StrAttr>:$reduce);
  let assemblyFormat = "(`output` custom<Integer>($output)^)? (`name` $name^)? (`reduce` $reduce^)? attr-dict";
}

def Plumb_OptimizerOp : Plumb_Op<"optimizer"> {
  let summary = "How parameters are updated";
  let arguments = (ins StrAttr:$kind, F64Attr:$rate);
  let assemblyFormat = "$kind `rate` custom<Float>($rate) attr-dict";
}

#endif // PLUMB_DIALECT_PLUMB_PLUMBPLANOPS
