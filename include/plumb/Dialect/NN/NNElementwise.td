//===- NNElementwise.td - What elementwise operations share ---------------===//

#ifndef PLUMB_DIALECT_NN_NNELEMENTWISE
#define PLUMB_DIALECT_NN_NNELEMENTWISE

include "plumb/Dialect/NN/NNBase.td"

// Operands broadcast against each other, dims aligned to the right. `linear` lists the sets of operands in which the op
// is jointly linear; `infer` names the inference of the result type from the operands. The formula on scalars is the
// overload of `compute` for the op.
class NN_ElementwiseOp<string mnemonic, string linear, list<Trait> traits = [], string infer = "inferBroadcast">
    : NN_InferredOp<mnemonic, traits, [{
  ::llvm::LogicalResult $cppClass::inferTypes(Adaptor adaptor, EmitError emitError,
                                              ::llvm::SmallVectorImpl<::mlir::Type> &types) {
    return }] # infer # [{(adaptor.getOperands(), emitError, types);
  }
  ::plumb::nn::ShardingRule $cppClass::getShardingRule() { return elementwiseRule(*this, }] # linear # [{); }
  ::llvm::SmallVector<::mlir::Value> $cppClass::lower(::mlir::OpBuilder &builder, ::mlir::ValueRange operands) {
    return {pointwise(builder, getLoc(), operands, getType(),
                      [&](ScalarBuilder &, ::llvm::ArrayRef<Scalar> x) { return compute(*this, x); })};
  }
}]> {
  let results = (outs NN_Tensor:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}
class NN_BinaryOp<string mnemonic, string linear> : NN_ElementwiseOp<mnemonic, linear> {
  let arguments = (ins NN_NumberTensor:$lhs, NN_NumberTensor:$rhs);
}
class NN_UnaryOp<string mnemonic> : NN_ElementwiseOp<mnemonic, "{}"> {
  let arguments = (ins NN_FloatTensor:$input);
}
// The input gradient of a unary op from the cotangent and one saved value.
class NN_UnaryBackwardOp<string mnemonic> : NN_ElementwiseOp<mnemonic, "{{0}}", [SameTypeOperands]> {
  let arguments = (ins NN_FloatTensor:$cotangent, NN_FloatTensor:$saved);
}

#endif // PLUMB_DIALECT_NN_NNELEMENTWISE
