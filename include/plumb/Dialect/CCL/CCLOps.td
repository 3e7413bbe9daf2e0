//===- CCLOps.td - The ccl dialect: how data is moved -----------------------===//

#ifndef PLUMB_DIALECT_CCL_CCLOPS
#define PLUMB_DIALECT_CCL_CCLOPS

include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "plumb/Dialect/NN/NNInterfaces.td"

def CCL_Dialect : Dialect {
  let name = "ccl";
  let cppNamespace = "::plumb::ccl";
  let summary = "How data is moved: collectives with exactly NCCL's semantics, on local shapes";
  let description = [{
    Each op is one call. Collectives see their buffers as NCCL does, ranks outermost: an all-gather of `tensor<4x8>`
    over two ranks is `tensor<2x4x8>`. Gathering along another dim is a permutation afterwards, an `nn.transpose`,
    so that packing is a kernel like any other.
  }];
}

class CCL_Op<string mnemonic, list<Trait> traits = []> : Op<CCL_Dialect, mnemonic, traits>;

def CCL_CommunicatorOp : CCL_Op<"communicator", [Symbol]> {
  let summary = "A communicator: ranks that differ only in the given axes and pipeline coordinates";
  let description = [{
    A rank is a member when its pipeline coordinate is in `pipeline`; an empty list stands for its own coordinate.
    Members are ordered by the pipeline list, then row-major over the axes. An axis `"tp:(2)4"` is the factor of size 4
    of `tp` that lies inside a factor of size 2. Communicators are created in the order of their ops.

    ```mlir
    ccl.communicator @tp axes ["tp"] pipeline []
    ccl.communicator @forward_0_1 axes [] pipeline [0, 1]
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrArrayAttr:$axes, DenseI64ArrayAttr:$pipeline);
  let assemblyFormat = "$sym_name `axes` $axes `pipeline` $pipeline attr-dict";
  let hasVerifier = 1;
}

class CCL_CollectiveOp<string mnemonic, dag attributes = (ins)>
    : CCL_Op<mnemonic, [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let arguments = !con((ins Variadic<AnyRankedTensor>:$inputs, FlatSymbolRefAttr:$communicator), attributes);
  let results = (outs Variadic<AnyRankedTensor>:$outputs);
  let assemblyFormat = "$inputs `on` $communicator attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

/// `sum`, `avg`, `min`, `max` or `product`.
defvar CCL_Reduction = (ins DefaultValuedStrAttr<StrAttr, "sum">:$reduction);

def CCL_AllReduceOp : CCL_CollectiveOp<"all_reduce", CCL_Reduction> {
  let summary = "Sum over all members, everywhere";
  let description = [{
    Another `reduction` than `sum` is named: `avg`, `min`, `max` or `product`. Several tensors are a *bucket*: each is
    reduced to its own result, all in one launch, a group of calls.

    ```
    rank 0: [a]        [a+b]
    rank 1: [b]   →    [a+b]
    ```
  }];
}
def CCL_AllGatherOp : CCL_CollectiveOp<"all_gather"> {
  let summary = "The blocks of all members, everywhere: the result has a leading dim of the members";
  let description = [{
    Several tensors are a bucket, as those of `ccl.all_reduce`.

    ```
    rank 0: [a]        [a, b]
    rank 1: [b]   →    [a, b]
    ```
  }];
}
def CCL_ReduceScatterOp : CCL_CollectiveOp<"reduce_scatter", CCL_Reduction> {
  let summary = "Block i of the sum, at member i: the operand has a leading dim of the members";
  let description = [{
    Several tensors are a bucket, as those of `ccl.all_reduce`.

    ```
    rank 0: [a, b]        [a+c]
    rank 1: [c, d]   →    [b+d]
    ```
  }];
}
def CCL_AllToAllOp : CCL_Op<"all_to_all", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Block j of member i becomes block i of member j: both have a leading dim of the members";
  let description = [{
    ```
    rank 0: [a, b]        [a, c]
    rank 1: [c, d]   →    [b, d]
    ```
  }];
  let arguments = (ins AnyRankedTensor:$input, FlatSymbolRefAttr:$communicator);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$input `on` $communicator attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def CCL_ExchangeOp : CCL_Op<"exchange", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "One group of sends and receives, which may differ from member to member";
  let description = [{
    Per member the messages `[peer, offset, count, …]` that it sends from its operand and those that it receives into its
    result, in elements. Each pair of members exchanges at most one message per direction.

    ```mlir
    // Two members swap their tensors.
    %y = ccl.exchange %x on @tp sends [array<i64: 1, 0, 8>, array<i64: 0, 0, 8>]
        receives [array<i64: 1, 0, 8>, array<i64: 0, 0, 8>] : (tensor<8xf32>) -> tensor<8xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$input, FlatSymbolRefAttr:$communicator,
                       TypedArrayAttrBase<DenseI64ArrayAttr, "messages per member">:$sends,
                       TypedArrayAttrBase<DenseI64ArrayAttr, "messages per member">:$receives);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $input `on` $communicator `sends` $sends `receives` $receives attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def CCL_CopyOp : CCL_Op<"copy", [Pure]> {
  let summary = "Fills the result with strided pieces of the operands, which may differ from member to member";
  let description = [{
    What an exchange needs before (pack) and after (unpack). `pieces` has an entry per operand, in it one per member along
    `axes`, in it six numbers per piece: offset in the operand, offset in the result, elements in a row, rows, distance
    of rows in the operand and in the result.

    ```mlir
    // The first column for one member, the second for the other.
    %y = ccl.copy %x over ["tp"] pieces [[array<i64: 0, 0, 1, 4, 2, 1>, array<i64: 1, 0, 1, 4, 2, 1>]]
        : (tensor<4x2xf32>) -> tensor<4xf32>
    ```
  }];
  let arguments = (ins Variadic<AnyRankedTensor>:$inputs, StrArrayAttr:$axes, ArrayAttr:$pieces);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$inputs `over` $axes `pieces` $pieces attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def CCL_ExtractOp : CCL_Op<"extract", [Pure]> {
  let summary = "The rank's own blocks: the second dim of the operand is over `axes`, outermost first";
  let description = [{ As `ccl.slice`, for blocks that do not lie side by side: they are copied. }];
  let arguments = (ins AnyRankedTensor:$input, StrArrayAttr:$axes);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$input `over` $axes attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def CCL_InsertOp : CCL_Op<"insert", [Pure]> {
  let summary = "The operand among zeros: the second dim of the result is over `axes`, outermost first";
  let description = [{ The inverse of `ccl.extract`. Summed over `axes` it is the gathered tensor: sharded to partial. }];
  let arguments = (ins AnyRankedTensor:$input, StrArrayAttr:$axes);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$input `over` $axes attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def CCL_SliceOp : CCL_Op<"slice", [Pure]> {
  let summary = "The rank's own block: the operand has a leading dim over `axes`, outermost first";
  let description = [{ No data moves: the result is a part of the operand's buffer. }];
  let arguments = (ins AnyRankedTensor:$input, StrArrayAttr:$axes);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$input `over` $axes attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def CCL_KeepFirstOp : CCL_Op<"keep_first", [Pure]> {
  let summary = "The value where the coordinate on `axes` is 0, zeros elsewhere: replicated to partial";
  let arguments = (ins AnyRankedTensor:$input, StrArrayAttr:$axes);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$input `over` $axes attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def CCL_RotateOp : CCL_Op<"rotate", [Pure, SameOperandsAndResultType,
    DeclareOpInterfaceMethods<NN_TensorOpInterface, ["getShardingRule", "localize", "backward", "expand", "lower"]>]> {
  let summary = "Elements of a dim move on, around the end: element i becomes element i + by";
  let description = [{
    In a program the tensor is the global one; where ranks hold shards of the dim, they exchange what moves from one to
    the other. What a model needs of a rotated value in its backward pass is made again there.

    ```mlir
    // A block for each of four ranks: each gets that of the rank before it.
    %y = ccl.rotate %x dim 2 by 1 : tensor<8x4x4x16x16xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$input, I64Attr:$dim, I64Attr:$by);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$input `dim` $dim `by` $by attr-dict `:` type($input)";
  let hasVerifier = 1;
}

def CCL_SendOp : CCL_Op<"send", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Sends a value to another stage";
  let arguments = (ins AnyRankedTensor:$value, I64Attr:$peer, FlatSymbolRefAttr:$communicator);
  let assemblyFormat = "$value `to` $peer `on` $communicator attr-dict `:` type($value)";
}

def CCL_RecvOp : CCL_Op<"recv", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Receives a value from another stage";
  let arguments = (ins I64Attr:$peer, FlatSymbolRefAttr:$communicator);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "`from` $peer `on` $communicator attr-dict `:` type($result)";
}

#endif // PLUMB_DIALECT_CCL_CCLOPS
