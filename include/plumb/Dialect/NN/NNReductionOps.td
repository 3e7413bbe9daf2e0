//===- NNReductionOps.td - Reductions other than the sum ------------------===//

#ifndef PLUMB_DIALECT_NN_NNREDUCTIONOPS
#define PLUMB_DIALECT_NN_NNREDUCTIONOPS

include "plumb/Dialect/NN/NNBase.td"

def NN_MaxOp : NN_InferredOp<"max"> {
  let summary = "Greatest element over dims";
  let description = [{
    `dims` are sorted and non-negative; with `keepdim` a dim that is reduced stays with size 1. The cotangent is shared
    by equal greatest elements.

    ```mlir
    %m = nn.max %x dims [1] keepdim : (tensor<8x32xf32>) -> tensor<8x1xf32>
    ```
  }];
  let arguments = (ins NN_NumberTensor:$input, DenseI64ArrayAttr:$dims, UnitAttr:$keepdim);
  let results = (outs NN_NumberTensor:$result);
  let assemblyFormat = "$input `dims` $dims (`keepdim` $keepdim^)? attr-dict `:` functional-type(operands, results)";
}

def NN_CumsumOp : NN_InferredOp<"cumsum"> {
  let summary = "Sum of all elements up to each one along a dim, or from each one on with reverse";
  let arguments = (ins NN_NumberTensor:$input, I64Attr:$dim, UnitAttr:$reverse);
  let results = (outs NN_NumberTensor:$result);
  let assemblyFormat = [{
    $input `dim` custom<BareInteger>($dim) (`reverse` $reverse^)? attr-dict `:` functional-type(operands, results)
  }];
}

def NN_LogSoftmaxOp : NN_InferredOp<"log_softmax"> {
  let summary = "Logarithm of softmax over the last dim: x - log(sum(exp(x)))";
  let arguments = (ins NN_FloatTensor:$input);
  let results = (outs NN_FloatTensor:$result);
  let assemblyFormat = "$input attr-dict `:` functional-type(operands, results)";
}

#endif // PLUMB_DIALECT_NN_NNREDUCTIONOPS
