//===- NNIndexOps.td - Look-ups by index and classification losses --------===//

#ifndef PLUMB_DIALECT_NN_NNINDEXOPS
#define PLUMB_DIALECT_NN_NNINDEXOPS

include "plumb/Dialect/NN/NNBase.td"

class NN_ExpandableOp<string mnemonic, list<Trait> traits = []> : NN_InferredOp<mnemonic, traits, "", 1>;

def NN_EmbeddingOp : NN_ExpandableOp<"embedding", [NN_Indexes]> {
  let summary = "Rows of a table";
  let description = [{
    Leading dims of the table number several tables, and are leading dims of the indices too.

    ```mlir
    %e = nn.embedding %table, %ids : (tensor<256x64xf32>, tensor<8x32xi64>) -> tensor<8x32x64xf32>
    %f = nn.embedding %tables, %ids : (tensor<2x128x64xf32>, tensor<2x8xi64>) -> tensor<2x8x64xf32>
    ```
  }];
  let arguments = (ins NN_FloatTensor:$table, NN_IndexTensor:$indices);
  let results = (outs NN_FloatTensor:$result);
  let assemblyFormat = "$table `,` $indices attr-dict `:` functional-type(operands, results)";
}

def NN_EmbeddingBackwardOp : NN_Op<"embedding_backward", [], "", 1> {
  let summary = "Table gradient: row i is the sum of the cotangents whose index is i";
  let arguments = (ins NN_FloatTensor:$cotangent, NN_IndexTensor:$indices);
  let results = (outs NN_FloatTensor:$result);
  let assemblyFormat = "$cotangent `,` $indices attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def NN_CrossEntropyOp : NN_ExpandableOp<"cross_entropy", [NN_Indexes]> {
  let summary = "Negative log-likelihood of the target class, per row";
  let description = [{
    `losses[i] = lse[i] - logits[i, target[i]]` with `lse` the log of the sum of exponentials of row `i`; 0 where the
    target is `ignore_index`. The mean is taken in the graph: a sum over rows divided by the count of `nn.is_valid`.
  }];
  let arguments = (ins NN_FloatTensor:$logits, NN_IndexTensor:$targets, I64Attr:$ignore_index);
  let results = (outs NN_FloatTensor:$losses, NN_FloatTensor:$lse);
  let assemblyFormat = [{
    $logits `,` $targets `ignore` custom<BareInteger>($ignore_index) attr-dict `:` functional-type(operands, results)
  }];
}

def NN_CrossEntropyBackwardOp : NN_ExpandableOp<"cross_entropy_backward"> {
  let summary = "Logit gradient: (exp(logits - lse) - one_hot(target)) * cotangent, 0 in ignored rows";
  let arguments = (ins NN_FloatTensor:$cotangent, NN_FloatTensor:$logits, NN_IndexTensor:$targets,
                       NN_FloatTensor:$lse, I64Attr:$ignore_index);
  let results = (outs NN_FloatTensor:$result);
  let assemblyFormat = [{
    $cotangent `,` $logits `,` $targets `,` $lse `ignore` custom<BareInteger>($ignore_index)
    attr-dict `:` functional-type(operands, results)
  }];
}

def NN_IsValidOp : NN_Op<"is_valid"> {
  let summary = "1 where the target is not ignore_index, else 0";
  let arguments = (ins NN_IndexTensor:$targets, I64Attr:$ignore_index);
  let results = (outs NN_FloatTensor:$result);
  let assemblyFormat = [{
    $targets `ignore` custom<BareInteger>($ignore_index) attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

#endif // PLUMB_DIALECT_NN_NNINDEXOPS
