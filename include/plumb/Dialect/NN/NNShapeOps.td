//===- NNShapeOps.td - Views, permutations, pieces and constants ----------===//

#ifndef PLUMB_DIALECT_NN_NNSHAPEOPS
#define PLUMB_DIALECT_NN_NNSHAPEOPS

include "plumb/Dialect/NN/NNBase.td"

def NN_ViewOp : NN_Op<"view", [NN_Reinterprets]> {
  let summary = "Same elements in row-major order, another shape";
  let arguments = (ins NN_Tensor:$input);
  let results = (outs NN_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def NN_TransposeOp : NN_InferredOp<"transpose"> {
  let summary = "Permutation of dims: result dim i is operand dim permutation[i]";
  let description = [{
    ```mlir
    %t = nn.transpose %x [0, 2, 1, 3] : (tensor<8x32x4x16xf32>) -> tensor<8x4x32x16xf32>
    ```
  }];
  let arguments = (ins NN_Tensor:$input, DenseI64ArrayAttr:$permutation);
  let results = (outs NN_Tensor:$result);
  let assemblyFormat = "$input $permutation attr-dict `:` functional-type(operands, results)";
}

def NN_BroadcastOp : NN_Op<"broadcast"> {
  let summary = "Repeats dims of size 1 and adds leading dims, aligned to the right";
  let arguments = (ins NN_Tensor:$input);
  let results = (outs NN_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def NN_SplitOp : NN_Op<"split"> {
  let summary = "Cuts a dim into pieces, one result each";
  let arguments = (ins NN_Tensor:$input, I64Attr:$dim);
  let results = (outs Variadic<NN_Tensor>:$pieces);
  let assemblyFormat = "$input `dim` custom<BareInteger>($dim) attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def NN_CatOp : NN_InferredOp<"cat"> {
  let summary = "Joins tensors along a dim";
  let arguments = (ins Variadic<NN_Tensor>:$inputs, I64Attr:$dim);
  let results = (outs NN_Tensor:$result);
  let assemblyFormat = "$inputs `dim` custom<BareInteger>($dim) attr-dict `:` functional-type(operands, results)";
}

def NN_FillOp : NN_Op<"fill"> {
  let summary = "A tensor of one value";
  let arguments = (ins F64Attr:$value);
  let results = (outs NN_Tensor:$result);
  let assemblyFormat = "custom<BareFloat>($value) attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def NN_IotaOp : NN_Op<"iota"> {
  let summary = "start, start + step, … along the only dim";
  let arguments = (ins I64Attr:$start, I64Attr:$step);
  let results = (outs NN_NumberTensor:$result);
  let assemblyFormat = [{
    `start` custom<BareInteger>($start) `step` custom<BareInteger>($step) attr-dict `:` type($result)
  }];
  let hasVerifier = 1;
}

#endif // PLUMB_DIALECT_NN_NNSHAPEOPS
