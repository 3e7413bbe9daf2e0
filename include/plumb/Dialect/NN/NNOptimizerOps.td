//===- NNOptimizerOps.td - How parameters are updated ----------------------===//

#ifndef PLUMB_DIALECT_NN_NNOPTIMIZEROPS
#define PLUMB_DIALECT_NN_NNOPTIMIZEROPS

include "plumb/Dialect/NN/NNElementwise.td"

def NN_WeightedSumOp : NN_ElementwiseOp<"weighted_sum", "{{0, 1}}", [SameTypeOperands]> {
  let summary = "a * x + b * y with constants a and b: momentum, moving averages, weight decay";
  let description = [{
    ```mlir
    %m = nn.weighted_sum %moment by 0.9, %gradient by 0.1 : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
    ```
  }];
  let arguments = (ins NN_FloatTensor:$lhs, F64Attr:$lhs_weight, NN_FloatTensor:$rhs, F64Attr:$rhs_weight);
  let assemblyFormat = [{
    $lhs `by` custom<BareFloat>($lhs_weight) `,` $rhs `by` custom<BareFloat>($rhs_weight)
    attr-dict `:` functional-type(operands, results)
  }];
}

def NN_SgdOp : NN_ElementwiseOp<"sgd", "{{0, 1}}"> {
  let summary = "One step of gradient descent: parameter - rate * direction; rate has rank 0";
  let arguments = (ins NN_FloatTensor:$parameter, NN_FloatTensor:$direction, NN_FloatTensor:$rate);
}

def NN_AdamOp : NN_ElementwiseOp<"adam", "{}"> {
  let summary = "One step of Adam, or of AdamW with a decay, from both moments";
  let description = [{
    `parameter * (1 - rate * decay) - step * first / (sqrt(second) * root + epsilon)`. `rate`, `step` and `root` have
    rank 0: the rate, the rate over the bias correction of the first moment, and one over the square root of that of
    the second.
  }];
  let arguments = (ins NN_FloatTensor:$parameter, NN_FloatTensor:$first, NN_FloatTensor:$second, NN_FloatTensor:$rate,
                       NN_FloatTensor:$step, NN_FloatTensor:$root, F64Attr:$epsilon, F64Attr:$decay);
  let assemblyFormat = [{
    operands `epsilon` custom<BareFloat>($epsilon) `decay` custom<BareFloat>($decay)
    attr-dict `:` functional-type(operands, results)
  }];
}

def NN_SquareSumOp : NN_InferredOp<"square_sum"> {
  let summary = "Sum of the squares of all elements";
  let arguments = (ins NN_FloatTensor:$input);
  let results = (outs NN_FloatTensor:$result);
  let assemblyFormat = "$input attr-dict `:` functional-type(operands, results)";
}

#endif // PLUMB_DIALECT_NN_NNOPTIMIZEROPS
