//===- NNElementwiseOps.td - Elementwise operations ------------------------===//

#ifndef PLUMB_DIALECT_NN_NNELEMENTWISEOPS
#define PLUMB_DIALECT_NN_NNELEMENTWISEOPS

include "plumb/Dialect/NN/NNElementwise.td"

def NN_AddOp : NN_BinaryOp<"add", "{{0, 1}}"> { let summary = "Sum, broadcasting"; }
def NN_SubOp : NN_BinaryOp<"sub", "{{0, 1}}"> { let summary = "Difference, broadcasting"; }
def NN_MulOp : NN_BinaryOp<"mul", "{{0}, {1}}"> { let summary = "Product, broadcasting"; }
def NN_DivOp : NN_BinaryOp<"div", "{{0}}"> {
  let summary = "Quotient, broadcasting";
  let arguments = (ins NN_FloatTensor:$lhs, NN_FloatTensor:$rhs);
}

def NN_ScaleOp : NN_ElementwiseOp<"scale", "{{0}}"> {
  let summary = "Product with a constant";
  let arguments = (ins NN_FloatTensor:$input, F64Attr:$factor);
  let assemblyFormat = "$input `by` custom<BareFloat>($factor) attr-dict `:` functional-type(operands, results)";
}

def NN_ReluOp : NN_UnaryOp<"relu"> { let summary = "max(x, 0)"; }
def NN_ReluBackwardOp : NN_UnaryBackwardOp<"relu_backward"> {
  let summary = "Cotangent where the saved result is positive, else 0";
}
def NN_TanhOp : NN_UnaryOp<"tanh"> { let summary = "Hyperbolic tangent"; }
def NN_TanhBackwardOp : NN_UnaryBackwardOp<"tanh_backward"> {
  let summary = "Cotangent times one minus the square of the saved result";
}

def NN_GeluOp : NN_ElementwiseOp<"gelu", "{}"> {
  let summary = "Gaussian error linear unit, exact or by tanh";
  let description = [{
    Exact: `x/2 * (1 + erf(x / sqrt(2)))`; with `tanh`: `x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))`.
  }];
  let arguments = (ins NN_FloatTensor:$input, UnitAttr:$tanh);
  let assemblyFormat = "$input (`tanh` $tanh^)? attr-dict `:` functional-type(operands, results)";
}
def NN_GeluBackwardOp : NN_ElementwiseOp<"gelu_backward", "{{0}}", [SameTypeOperands]> {
  let summary = "Input gradient of gelu from the saved input";
  let arguments = (ins NN_FloatTensor:$cotangent, NN_FloatTensor:$saved, UnitAttr:$tanh);
  let assemblyFormat = "$cotangent `,` $saved (`tanh` $tanh^)? attr-dict `:` functional-type(operands, results)";
}

#endif // PLUMB_DIALECT_NN_NNELEMENTWISEOPS
