//===- NNLogicOps.td - Comparison, choice and conversion ------------------===//

#ifndef PLUMB_DIALECT_NN_NNLOGICOPS
#define PLUMB_DIALECT_NN_NNLOGICOPS

include "plumb/Dialect/NN/NNElementwise.td"

class NN_ComparisonOp<string mnemonic, dag operands> : NN_ElementwiseOp<mnemonic, "{}", [], "inferComparison"> {
  let arguments = operands;
  let results = (outs NN_BoolTensor:$result);
}
def NN_EqualOp : NN_ComparisonOp<"equal", (ins NN_Tensor:$lhs, NN_Tensor:$rhs)> {
  let summary = "Whether the operands are equal, broadcasting";
}
def NN_LessOp : NN_ComparisonOp<"less", (ins NN_NumberTensor:$lhs, NN_NumberTensor:$rhs)> {
  let summary = "Whether the left operand is less, broadcasting; false where either is not a number";
}
def NN_LessEqualOp : NN_ComparisonOp<"less_equal", (ins NN_NumberTensor:$lhs, NN_NumberTensor:$rhs)> {
  let summary = "Whether the left operand is less or equal, broadcasting; false where either is not a number";
}

def NN_WhereOp : NN_ElementwiseOp<"where", "{{1, 2}}", [], "inferChoice"> {
  let summary = "The second operand where the first is true, else the third; broadcasting";
  let description = [{
    Masks, maxima of many and the derivatives of kinked functions are choices. On bools it is `and`
    (`where(a, b, a)`) and `or` (`where(a, a, b)`).

    ```mlir
    %m = nn.where %mask, %scores, %low : (tensor<32x32xi1>, tensor<8x32x32xf32>, tensor<f32>) -> tensor<8x32x32xf32>
    ```
  }];
  let arguments = (ins NN_BoolTensor:$condition, NN_Tensor:$chosen, NN_Tensor:$otherwise);
}

def NN_MaximumOp : NN_ElementwiseOp<"maximum", "{}"> {
  let summary = "The greater operand, broadcasting; the cotangent of equal ones is halved";
  let arguments = (ins NN_NumberTensor:$lhs, NN_NumberTensor:$rhs);
}
def NN_MinimumOp : NN_ElementwiseOp<"minimum", "{}"> {
  let summary = "The lesser operand, broadcasting; the cotangent of equal ones is halved";
  let arguments = (ins NN_NumberTensor:$lhs, NN_NumberTensor:$rhs);
}

def NN_ConvertOp : NN_Op<"convert"> {
  let summary = "The same numbers in another element type";
  let description = [{
    Floats become integers by truncation, numbers become bools by comparison with 0, bools become 0 and 1.
  }];
  let arguments = (ins NN_Tensor:$input);
  let results = (outs NN_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def NN_DetachOp : NN_Op<"detach", [NN_Reinterprets, NN_Detaches, SameOperandsAndResultType]> {
  let summary = "The operand as a constant of differentiation";
  let arguments = (ins NN_Tensor:$input);
  let results = (outs NN_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` functional-type(operands, results)";
}

#endif // PLUMB_DIALECT_NN_NNLOGICOPS
