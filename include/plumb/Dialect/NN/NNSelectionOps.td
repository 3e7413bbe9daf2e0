//===- NNSelectionOps.td - Parts of tensors, by place and by index --------===//

#ifndef PLUMB_DIALECT_NN_NNSELECTIONOPS
#define PLUMB_DIALECT_NN_NNSELECTIONOPS

include "plumb/Dialect/NN/NNBase.td"

def NN_SliceOp : NN_Op<"slice"> {
  let summary = "Every stride-th element from an offset on, in each dim";
  let description = [{
    Result index `i` reads operand index `offset + i * stride`. The result type says how many.

    ```mlir
    %s = nn.slice %x offsets [0, 1] strides [1, 2] : (tensor<4x8xf32>) -> tensor<4x3xf32>
    ```
  }];
  let arguments = (ins NN_Tensor:$input, DenseI64ArrayAttr:$offsets, DenseI64ArrayAttr:$strides);
  let results = (outs NN_Tensor:$result);
  let assemblyFormat = [{
    $input `offsets` $offsets `strides` $strides attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def NN_PadOp : NN_Op<"pad"> {
  let summary = "The operand's elements from an offset on, stride apart, in a tensor of one value";
  let description = [{
    The transpose of `nn.slice`: operand index `i` is written to result index `offset + i * stride`.

    ```mlir
    %p = nn.pad %x with 0.0 offsets [0, 1] strides [1, 2] : (tensor<4x3xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins NN_Tensor:$input, F64Attr:$value, DenseI64ArrayAttr:$offsets, DenseI64ArrayAttr:$strides);
  let results = (outs NN_Tensor:$result);
  let assemblyFormat = [{
    $input `with` custom<BareFloat>($value) `offsets` $offsets `strides` $strides attr-dict `:`
    functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def NN_ReverseOp : NN_InferredOp<"reverse"> {
  let summary = "The elements in the opposite order along the given dims";
  let arguments = (ins NN_Tensor:$input, DenseI64ArrayAttr:$dims);
  let results = (outs NN_Tensor:$result);
  let assemblyFormat = "$input `dims` $dims attr-dict `:` functional-type(operands, results)";
}

def NN_GatherOp : NN_InferredOp<"gather", [NN_Indexes]> {
  let summary = "Elements by their index along a dim";
  let description = [{
    `result[i, j, k] = input[i, indices[i, j, k], k]` for dim 1. All other dims of operand and indices are equal. An
    index out of range names the nearest element.

    ```mlir
    %g = nn.gather %logits, %target dim 1 : (tensor<8x10xf32>, tensor<8x1xi64>) -> tensor<8x1xf32>
    ```
  }];
  let arguments = (ins NN_Tensor:$input, NN_IndexTensor:$indices, I64Attr:$dim);
  let results = (outs NN_Tensor:$result);
  let assemblyFormat = [{
    $input `,` $indices `dim` custom<BareInteger>($dim) attr-dict `:` functional-type(operands, results)
  }];
}

def NN_ScatterOp : NN_InferredOp<"scatter", [NN_Indexes]> {
  let summary = "The operand with elements overwritten, or added to, by their index along a dim";
  let description = [{
    `result[i, indices[i, j, k], k] = source[i, j, k]` for dim 1, in row-major order, so that the last of equal indices
    wins; with `add`, sources are added to the operand. All other dims are equal. An index out of range names the
    nearest element.

    ```mlir
    %s = nn.scatter %x, %indices, %source dim 1 add : (tensor<8x4xf32>, tensor<8x2xi64>, tensor<8x2xf32>) -> tensor<8x4xf32>
    ```
  }];
  let arguments = (ins NN_Tensor:$input, NN_IndexTensor:$indices, NN_Tensor:$source, I64Attr:$dim, UnitAttr:$add);
  let results = (outs NN_Tensor:$result);
  let assemblyFormat = [{
    $input `,` $indices `,` $source `dim` custom<BareInteger>($dim) (`add` $add^)? attr-dict `:`
    functional-type(operands, results)
  }];
}

def NN_TopkOp : NN_InferredOp<"topk"> {
  let summary = "The greatest elements of each row and their indices, in descending order";
  let description = [{
    Rows run along the last dim; of equal elements the first comes first.

    ```mlir
    %v, %i = nn.topk %p count 2 : (tensor<16x4xf32>) -> (tensor<16x2xf32>, tensor<16x2xi64>)
    ```
  }];
  let arguments = (ins NN_NumberTensor:$input, I64Attr:$count);
  let results = (outs NN_NumberTensor:$values, NN_IndexTensor:$indices);
  let assemblyFormat = "$input `count` custom<BareInteger>($count) attr-dict `:` functional-type(operands, results)";
}

#endif // PLUMB_DIALECT_NN_NNSELECTIONOPS
