//===- NNRandomOps.td - Random numbers --------------------------------------===//

#ifndef PLUMB_DIALECT_NN_NNRANDOMOPS
#define PLUMB_DIALECT_NN_NNRANDOMOPS

include "plumb/Dialect/NN/NNBase.td"

def NN_UniformOp : NN_InferredOp<"uniform"> {
  let summary = "Random numbers in [0, 1), the same under every plan";
  let description = [{
    Philox4x32-10 (Salmon et al., 2011) of (element, stream, step) under the key `seed`. `positions` numbers the
    elements along each dim; an element's own number is row-major in the tensor of shape `whole`, of which the result may
    be a shard. `step` is a number that changes from step to step, `stream` one that no other op of the program has.

    ```mlir
    %u = nn.uniform %step at %i, %j of [8, 16] seed 0 stream 3 : (tensor<f64>, tensor<8xi64>, tensor<16xi64>) -> tensor<8x16xf32>
    ```
  }];
  let arguments = (ins NN_FloatTensor:$step, Variadic<NN_IndexTensor>:$positions, DenseI64ArrayAttr:$whole,
                       I64Attr:$seed, I64Attr:$stream);
  let results = (outs NN_FloatTensor:$result);
  let assemblyFormat = [{
    $step `at` $positions `of` $whole `seed` custom<BareInteger>($seed) `stream` custom<BareInteger>($stream) attr-dict
    `:` functional-type(operands, results)
  }];
}

#endif // PLUMB_DIALECT_NN_NNRANDOMOPS
