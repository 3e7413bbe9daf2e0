//===- PlumbProgramOps.td - Programs, stages and state ----------------------===//

#ifndef PLUMB_DIALECT_PLUMB_PLUMBPROGRAMOPS
#define PLUMB_DIALECT_PLUMB_PLUMBPROGRAMOPS

include "mlir/Interfaces/InferTypeOpInterface.td"
include "plumb/Dialect/NN/NNInterfaces.td"
include "plumb/Dialect/Plumb/PlumbPlanOps.td"

//===----------------------------------------------------------------------===//
// Names and state
//===----------------------------------------------------------------------===//

def Plumb_ModuleNameOp : Plumb_Op<"module", [Symbol]> {
  let summary = "A module of the model: a name, no computation";
  let arguments = (ins SymbolNameAttr:$sym_name, OptionalAttr<StrAttr>:$type);
  let assemblyFormat = "$sym_name (`type` $type^)? attr-dict";
}

def Plumb_ParameterOp : Plumb_Op<"parameter", [Symbol]> {
  let summary = "A parameter of the model, under its canonical name";
  let description = [{
    `aliases` are the other names of the same storage. `owner` is the stage that owns it (after
    `assign-ownership`), `holders` one stage per rank of the pipeline that keeps a copy: the first that reads it.
    A parameter that no op reads has neither. One that is `nonpersistent`, a buffer or constant, is no part of what
    the model saves. `layout` is that in which the parameter is stored, `gathered` that in
    which it is computed with and `updated` that in which its gradient is completed, where they differ; `gather` says
    when it is gathered.

    ```mlir
    plumb.parameter @wte.weight trainable : tensor<256x64xf32> aliases ["lm_head.weight"]
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttr:$type, UnitAttr:$trainable,
                       UnitAttr:$nonpersistent, OptionalAttr<StrArrayAttr>:$aliases, OptionalAttr<Plumb_LayoutAttr>:$layout,
                       OptionalAttr<Plumb_LayoutAttr>:$gathered, OptionalAttr<StrAttr>:$gather,
                       OptionalAttr<Plumb_LayoutAttr>:$updated,
                       OptionalAttr<I64Attr>:$owner, OptionalAttr<DenseI64ArrayAttr>:$holders);
  let assemblyFormat = [{
    $sym_name (`trainable` $trainable^)? (`nonpersistent` $nonpersistent^)? `:` $type (`aliases` $aliases^)? (`layout` $layout^)?
    (`gathered` $gathered^)? (`gather` $gather^)? (`updated` $updated^)?
    (`owner` custom<Integer>($owner)^)? (`holders` $holders^)? attr-dict
  }];
  let hasVerifier = 1;
}

def Plumb_StateOp : Plumb_Op<"state", [Symbol]> {
  let summary = "A tensor that lives from one phase of a step, or from one step, to another";
  let description = [{
    `kind` is `gradient` (of the parameter `of`), `accumulator` (what a gradient is summed in when its shards are not
    those of the parameter), `copy` (the value of the parameter `of`, as its owner sent it for this step), `loss`, `output`
    (number `index`, user name `label`), `statistic`, or of the optimizer: `moment` (of the parameter `of`), `counter` (of
    the updates made so far), `norm` (a sum of squares, or the gradients' global norm), `rate`. What a program accumulates
    into a state is summed over the microbatches of a step. `holders` are, one per pipeline coordinate, the stages of the
    ranks that have a share of it.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrAttr:$kind, TypeAttr:$type, OptionalAttr<StrAttr>:$of,
                       OptionalAttr<I64Attr>:$index, OptionalAttr<StrAttr>:$label,
                       OptionalAttr<Plumb_LayoutAttr>:$layout, OptionalAttr<DenseI64ArrayAttr>:$holders);
  let assemblyFormat = [{
    $sym_name $kind (`of` $of^)? (`index` custom<Integer>($index)^)? (`label` $label^)? `:` $type
    (`layout` $layout^)? (`holders` $holders^)? attr-dict
  }];
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name, "::llvm::StringRef":$kind, "::mlir::Type":$type,
                                 CArg<"::mlir::StringAttr", "{}">:$of, CArg<"::mlir::IntegerAttr", "{}">:$index,
                                 CArg<"::mlir::StringAttr", "{}">:$label,
                                 CArg<"::plumb::LayoutAttr", "{}">:$layout), [{
    build($_builder, $_state, name, kind, type, of, index, label, layout, ::mlir::DenseI64ArrayAttr());
  }]>];
  let extraClassDeclaration = [{
    /// Whether it keeps its value from step to step.
    bool isPersistent() { return getKind() == "moment" || getKind() == "counter"; }
  }];
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

class Plumb_BlockOp<string mnemonic, list<Trait> traits = []>
    : Plumb_Op<mnemonic, !listconcat([Symbol, NoTerminator, NoRegionArguments, SingleBlock], traits)> {
  let regions = (region SizedRegion<1>:$body);
}

def Plumb_ProgramOp : Plumb_BlockOp<"program"> {
  let summary = "What the model computes in one step, on one device, in global shapes: one flat block";
  let arguments = (ins SymbolNameAttr:$sym_name);
  let assemblyFormat = "$sym_name attr-dict-with-keyword $body";
}

def Plumb_StageOp : Plumb_BlockOp<"stage"> {
  let summary = "What one pipeline stage computes in one step, in local shapes: one flat block";
  let arguments = (ins SymbolNameAttr:$sym_name, I64Attr:$index);
  let assemblyFormat = "$sym_name `index` custom<Integer>($index) attr-dict-with-keyword $body";
}

def Plumb_InputOp : Plumb_Op<"input"> {
  let summary = "An input of the model";
  let description = [{
    With `counts` it is none of the model's: element `i` is the number `i`, so that each rank knows which rows of the
    batch, or which microbatch, it has.
  }];
  let arguments = (ins StrAttr:$name, I64Attr:$index, UnitAttr:$counts);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$name `index` custom<Integer>($index) (`counts` $counts^)? attr-dict `:` type($result)";
}

def Plumb_OutputOp : Plumb_Op<"output"> {
  let summary = "An output of the model";
  let arguments = (ins AnyRankedTensor:$value, StrAttr:$name, I64Attr:$index);
  let assemblyFormat = "$name `index` custom<Integer>($index) $value attr-dict `:` type($value)";
}

def Plumb_LossOp : Plumb_Op<"loss"> {
  let summary = "The value that training makes small";
  let arguments = (ins AnyRankedTensor:$value);
  let assemblyFormat = "$value attr-dict `:` type($value)";
  let hasVerifier = 1;
}

def Plumb_PipeSplitOp : Plumb_Op<"pipe_split"> {
  let summary = "A stage boundary: what follows belongs to the next stage";
  let assemblyFormat = "attr-dict";
}

def Plumb_LoadOp : Plumb_Op<"load", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "The present value of a parameter or state";
  let arguments = (ins FlatSymbolRefAttr:$symbol);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$symbol attr-dict `:` type($result)";
}

def Plumb_StoreOp : Plumb_Op<"store", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Sets a parameter or state";
  let arguments = (ins FlatSymbolRefAttr:$symbol, AnyRankedTensor:$value);
  let assemblyFormat = "$symbol `,` $value attr-dict `:` type($value)";
}

def Plumb_AccumulateOp : Plumb_Op<"accumulate", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Adds a value to a state, which a step begins with zero";
  let arguments = (ins FlatSymbolRefAttr:$symbol, AnyRankedTensor:$value);
  let assemblyFormat = "$symbol `,` $value attr-dict `:` type($value)";
}

def Plumb_BatchNormOp : Plumb_Op<"batch_norm"> {
  let summary = "Batch normalisation in training: which rows are normalised together, the plan says";
  let description = [{
    Each channel, dim 1, less its mean, over the root of its variance plus `eps`. The running mean and variance, if
    there are any, move by the fraction `momentum` towards the mean and the unbiased variance; what they become are
    further results. `apply-spec` replaces the op by sums.

    ```mlir
    %y, %m, %v = plumb.batch_norm %x running %mean, %variance momentum 1.000000e-01 eps 1.000000e-05
        : (tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>)
    ```
  }];
  let arguments = (ins AnyRankedTensor:$input, Variadic<AnyRankedTensor>:$running, F64Attr:$momentum, F64Attr:$eps);
  let results = (outs AnyRankedTensor:$result, Variadic<AnyRankedTensor>:$updated);
  let assemblyFormat = [{
    $input (`running` $running^)? `momentum` custom<Float>($momentum) `eps` custom<Float>($eps) attr-dict `:`
    functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def Plumb_DropoutOp : Plumb_Op<"dropout"> {
  let summary = "Sets elements to zero at random, and scales the others so that the mean stays";
  let description = [{
    The second result says which elements are kept. `apply-spec` replaces the op by numbers of `nn.uniform`, whose
    seed is the plan's and whose stream is the number of the op in the program.

    ```mlir
    %y, %kept = plumb.dropout %x probability 1.000000e-01 : (tensor<8x16xf32>) -> (tensor<8x16xf32>, tensor<8x16xi1>)
    ```
  }];
  let arguments = (ins AnyRankedTensor:$input, F64Attr:$probability);
  let results = (outs AnyRankedTensor:$result, AnyRankedTensor:$kept);
  let assemblyFormat = [{
    $input `probability` custom<Float>($probability) attr-dict `:` functional-type(operands, results)
  }];
}

def Plumb_BoundaryOp : Plumb_Op<"boundary", [Pure, SameOperandsAndResultType,
    DeclareOpInterfaceMethods<NN_TensorOpInterface, ["getShardingRule", "localize", "backward", "expand", "lower"]>]> {
  let summary = "A port of a module: from here on a value has the layout that the plan states";
  let description = [{
    Stated are the axes that `target` names and all others but those of `keep`, which stay as they arrive; without a
    target nothing is. `source` is the layout in which the plan says that the value arrives.

    ```mlir
    %y = plumb.boundary %x port "input.0" of "h.0.mlp" to <@mesh, [{"dp"}, {} ]> keep ["microbatch"] : tensor<8x64xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$input, StrAttr:$port, StrAttr:$owner, OptionalAttr<Plumb_LayoutAttr>:$source,
                       OptionalAttr<Plumb_LayoutAttr>:$target, StrArrayAttr:$keep);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $input `port` $port `of` $owner (`from` $source^)? (`to` $target^)? `keep` $keep attr-dict `:` type($input)
  }];
  let extraClassDeclaration = [{
    /// The layout behind the port of a value that arrives in `arriving`.
    ::plumb::LayoutAttr getStated(::plumb::LayoutAttr arriving);
    /// `layout`, stated of the port, with what is kept of `arriving`.
    ::plumb::LayoutAttr getStated(::plumb::LayoutAttr layout, ::plumb::LayoutAttr arriving);
    /// Whether a value that arrives in `arriving` arrives as the plan says; true where it does not say.
    bool arrivesAsStated(::plumb::LayoutAttr arriving);
  }];
}

def Plumb_RedistributeOp : Plumb_Op<"redistribute", [Pure]> {
  let summary = "The same tensor in another layout";
  let description = [{
    In a program operand and result have the global type; in a stage they have the local types of the two layouts,
    and `global` keeps the global one.
  }];
  let arguments = (ins AnyRankedTensor:$input, Plumb_LayoutAttr:$from, Plumb_LayoutAttr:$to,
                       OptionalAttr<TypeAttr>:$global);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $input `from` $from `to` $to (`global` $global^)? attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// The executable form
//===----------------------------------------------------------------------===//

def Plumb_LaunchOp : Plumb_Op<"launch", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Runs a kernel";
  let description = [{
    `inplace[i]` is the operand whose buffer result `i` overwrites, or -1.
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel, Variadic<AnyRankedTensor>:$operands, DenseI64ArrayAttr:$inplace);
  let results = (outs Variadic<AnyRankedTensor>:$outputs);
  let assemblyFormat = [{
    $kernel `(` $operands `)` `inplace` $inplace attr-dict `:` functional-type($operands, $outputs)
  }];
  let hasVerifier = 1;
}

def Plumb_ScheduleOp : Plumb_Op<"schedule"> {
  let summary = "The action list of each pipeline coordinate, as text";
  let description = [{
    ```mlir
    plumb.schedule ["0F0,0SEND_F0,0F1,…", "0RECV_F0,1F0,1B0,…"]
    ```
  }];
  let arguments = (ins StrArrayAttr:$actions);
  let assemblyFormat = "$actions attr-dict";
}

#endif // PLUMB_DIALECT_PLUMB_PLUMBPROGRAMOPS
