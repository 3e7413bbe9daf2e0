//===- NNContractionOps.td - Products and reductions ----------------------===//

#ifndef PLUMB_DIALECT_NN_NNCONTRACTIONOPS
#define PLUMB_DIALECT_NN_NNCONTRACTIONOPS

include "plumb/Dialect/NN/NNBase.td"

def NN_EinsumOp : NN_InferredOp<"einsum"> {
  let summary = "Product of two tensors summed over the letters that the result lacks";
  let description = [{
    Every matrix product of a model, forward and backward: `linear`, `matmul`, `bmm` and attention's two products
    differ only in the equation. Letters are lower-case; each operand names a letter at most once; a letter of the
    result occurs in an operand.

    ```mlir
    %y = nn.einsum "bti,oi->bto"(%x, %w) : (tensor<8x32x64xf32>, tensor<192x64xf32>) -> tensor<8x32x192xf32>
    ```
  }];
  let arguments = (ins NN_FloatTensor:$lhs, NN_FloatTensor:$rhs, StrAttr:$equation);
  let results = (outs NN_FloatTensor:$result);
  let assemblyFormat = "$equation `(` $lhs `,` $rhs `)` attr-dict `:` functional-type(operands, results)";
}

def NN_SumOp : NN_InferredOp<"sum"> {
  let summary = "Sum over dims";
  let description = [{
    `dims` are sorted and non-negative; with `keepdim` a summed dim stays with size 1.

    ```mlir
    %s = nn.sum %x dims [0, 1] : (tensor<8x32x64xf32>) -> tensor<64xf32>
    ```
  }];
  let arguments = (ins NN_NumberTensor:$input, DenseI64ArrayAttr:$dims, UnitAttr:$keepdim);
  let results = (outs NN_NumberTensor:$result);
  let assemblyFormat = "$input `dims` $dims (`keepdim` $keepdim^)? attr-dict `:` functional-type(operands, results)";
}

def NN_SoftmaxOp : NN_InferredOp<"softmax", [], "", 1> {
  let summary = "Softmax over the last dim, optionally causal";
  let description = [{
    With `causal` the last two dims are (query, key) and key positions after the query's own get probability 0.

    ```mlir
    %p = nn.softmax %scores causal : (tensor<8x4x32x32xf32>) -> tensor<8x4x32x32xf32>
    ```
  }];
  let arguments = (ins NN_FloatTensor:$input, UnitAttr:$causal);
  let results = (outs NN_FloatTensor:$result);
  let assemblyFormat = "$input (`causal` $causal^)? attr-dict `:` functional-type(operands, results)";
}

def NN_SoftmaxBackwardOp : NN_InferredOp<"softmax_backward"> {
  let summary = "Input gradient of softmax: p * (dp - sum(dp * p)) along the last dim";
  let arguments = (ins NN_FloatTensor:$cotangent, NN_FloatTensor:$probabilities);
  let results = (outs NN_FloatTensor:$result);
  let assemblyFormat = "$cotangent `,` $probabilities attr-dict `:` functional-type(operands, results)";
}

def NN_NormalizeOp : NN_InferredOp<"normalize"> {
  let summary = "Zero mean and unit variance over the trailing dims";
  let description = [{
    The parameter-free half of layer normalisation over the last `count` dims:
    `normalized = (x - mean) * rstd`, `rstd = 1 / sqrt(variance + eps)` with the biased variance. With `uncentered`
    the mean is taken to be 0, which is root mean square normalisation. Scale and shift are `nn.mul` and `nn.add`, so
    their gradients are plain sums.

    ```mlir
    %n, %r = nn.normalize %x count 1 eps 1.0e-5 : (tensor<8x32x64xf32>) -> (tensor<8x32x64xf32>, tensor<8x32xf32>)
    ```
  }];
  let arguments = (ins NN_FloatTensor:$input, I64Attr:$count, F64Attr:$eps, UnitAttr:$uncentered);
  let results = (outs NN_FloatTensor:$normalized, NN_FloatTensor:$rstd);
  let assemblyFormat = [{
    $input `count` custom<BareInteger>($count) `eps` custom<BareFloat>($eps) (`uncentered` $uncentered^)?
    attr-dict `:` functional-type(operands, results)
  }];
}

def NN_NormalizeBackwardOp : NN_InferredOp<"normalize_backward"> {
  let summary = "Input gradient of normalize";
  let description = [{
    `dx = rstd * (dn - mean(dn) - n * mean(dn * n))` over the trailing dims that `rstd` lacks, with `n` the
    normalised value; without `mean(dn)` where it is `uncentered`.
  }];
  let arguments = (ins NN_FloatTensor:$cotangent, NN_FloatTensor:$normalized, NN_FloatTensor:$rstd,
                       UnitAttr:$uncentered);
  let results = (outs NN_FloatTensor:$result);
  let assemblyFormat = [{
    $cotangent `,` $normalized `,` $rstd (`uncentered` $uncentered^)? attr-dict `:` functional-type(operands, results)
  }];
}

#endif // PLUMB_DIALECT_NN_NNCONTRACTIONOPS
