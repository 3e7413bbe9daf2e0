//===- NNInterfaces.td - What every tensor operation can answer -----------===//

#ifndef PLUMB_DIALECT_NN_NNINTERFACES
#define PLUMB_DIALECT_NN_NNINTERFACES

include "mlir/IR/OpBase.td"

def NN_TensorOpInterface : OpInterface<"TensorOpInterface"> {
  let cppNamespace = "::plumb::nn";
  let description = [{
    The behaviour of a tensor operation, implemented beside the op. No method has a default body: an op that
    forgets one does not link. Passes ask these methods and never look at op names.
  }];
  let methods = [
    InterfaceMethod<[{
        The factor mapping of the op on its current (global) types: which dims of operands and results move
        together, which are summed away, which must be whole, and in which operands the op is linear.
      }],
      "::plumb::nn::ShardingRule", "getShardingRule">,
    InterfaceMethod<[{
        Builds the op on local shards: `operands` have local types, the results must have `localTypes`.
        Attributes that hold sizes are rewritten to local ones; discardable attributes are not copied.
      }],
      "::llvm::SmallVector<::mlir::Value>", "localize",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::ValueRange":$operands, "::mlir::TypeRange":$localTypes)>,
    InterfaceMethod<[{
        Builds the vector-Jacobian product in nn ops. `cotangents` has one value per result (null where the result
        has no gradient; at least one is not null); the answer has one value per operand, null where `wanted` is
        false or no gradient exists. An op that has no derivative, or none through one of its results, says so by an
        error on the op and answers nulls.
      }],
      "::llvm::SmallVector<::mlir::Value>", "backward",
      (ins "::mlir::OpBuilder &":$builder, "::llvm::ArrayRef<::mlir::Value>":$cotangents,
           "::llvm::ArrayRef<bool>":$wanted)>,
    InterfaceMethod<[{
        Takes the op apart, in nn ops and global shapes, so that `factor`, which its rule says can be expanded, can be
        sharded into `parts` parts; one value per result.
      }],
      "::llvm::SmallVector<::mlir::Value>", "expand",
      (ins "::mlir::OpBuilder &":$builder, "int":$factor, "int64_t":$parts)>,
    InterfaceMethod<[{
        Lowers the op to linalg on tensors: `operands` are tensors of the operand types, the answer has one tensor
        per result.
      }],
      "::llvm::SmallVector<::mlir::Value>", "lower",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::ValueRange":$operands)>,
  ];
}

def NN_IndexingOpInterface : OpInterface<"IndexingOpInterface"> {
  let cppNamespace = "::plumb::nn";
  let description = [{
    An op with an operand of indices. PyTorch refuses an index out of range; a kernel cannot, so that indices are checked
    where they come from.
  }];
  let methods = [
    InterfaceMethod<[{
        The operand of indices, and what they may be.
      }],
      "::plumb::nn::IndexRange", "getIndexRange">,
  ];
}

#endif // PLUMB_DIALECT_NN_NNINTERFACES
