//===- NNMathOps.td - Functions of one number ------------------------------===//

#ifndef PLUMB_DIALECT_NN_NNMATHOPS
#define PLUMB_DIALECT_NN_NNMATHOPS

include "plumb/Dialect/NN/NNElementwise.td"

def NN_ExpOp : NN_UnaryOp<"exp"> { let summary = "e to the power x"; }
def NN_LogOp : NN_UnaryOp<"log"> { let summary = "Natural logarithm"; }
def NN_SinOp : NN_UnaryOp<"sin"> { let summary = "Sine"; }
def NN_CosOp : NN_UnaryOp<"cos"> { let summary = "Cosine"; }
def NN_ErfOp : NN_UnaryOp<"erf"> { let summary = "Error function: 2/sqrt(pi) times the integral of exp(-t^2) from 0 to x"; }
def NN_SigmoidOp : NN_UnaryOp<"sigmoid"> { let summary = "1 / (1 + exp(-x))"; }
def NN_SoftplusOp : NN_UnaryOp<"softplus"> {
  let summary = "log(1 + exp(x))";
  let description = "Computed as `max(x, 0) + log(1 + exp(-|x|))`, which does not overflow.";
}

def NN_PowerOp : NN_ElementwiseOp<"power", "{}"> {
  let summary = "x to a constant power";
  let description = [{
    Small whole exponents are products; 0.5 and -0.5 are square roots. `rsqrt`, `sqrt`, `square` and `reciprocal` are
    this op.

    ```mlir
    %r = nn.power %variance by -0.5 : (tensor<8x1xf32>) -> tensor<8x1xf32>
    ```
  }];
  let arguments = (ins NN_FloatTensor:$input, F64Attr:$exponent);
  let assemblyFormat = "$input `by` custom<BareFloat>($exponent) attr-dict `:` functional-type(operands, results)";
}

def NN_FloorOp : NN_ElementwiseOp<"floor", "{}", [NN_Detaches]> {
  let summary = "The largest whole number that is not greater";
  let arguments = (ins NN_FloatTensor:$input);
}
def NN_RoundOp : NN_ElementwiseOp<"round", "{}", [NN_Detaches]> {
  let summary = "The nearest whole number, halves to the even one";
  let arguments = (ins NN_FloatTensor:$input);
}

#endif // PLUMB_DIALECT_NN_NNMATHOPS
