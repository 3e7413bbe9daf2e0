//===- NNConvolutionOps.td - Convolutions ----------------------------------===//

#ifndef PLUMB_DIALECT_NN_NNCONVOLUTIONOPS
#define PLUMB_DIALECT_NN_NNCONVOLUTIONOPS

include "plumb/Dialect/NN/NNBase.td"

def NN_ConvolutionOp : NN_InferredOp<"convolution"> {
  let summary = "Grouped two-dimensional correlation without padding";
  let description = [{
    `result[n, g, f, y, x] = sum over c, i, j of input[n, g, c, y * stride + i * dilation, x * stride + j * dilation] *
    kernel[g, f, c, i, j]`, with one stride and one dilation for each of y and x. Groups are a dim of their own, which
    costs nothing: grouping channels is a view. Padding is `nn.pad`, average pooling a convolution with a constant, and
    both gradients are convolutions again.

    ```mlir
    %y = nn.convolution %x, %w strides [2, 2] dilations [1, 1]
      : (tensor<4x1x8x18x18xf32>, tensor<1x16x8x3x3xf32>) -> tensor<4x1x16x8x8xf32>
    ```
  }];
  let arguments = (ins NN_FloatTensor:$input, NN_FloatTensor:$kernel, DenseI64ArrayAttr:$strides,
                       DenseI64ArrayAttr:$dilations);
  let results = (outs NN_FloatTensor:$result);
  let assemblyFormat = [{
    $input `,` $kernel `strides` $strides `dilations` $dilations attr-dict `:` functional-type(operands, results)
  }];
}

#endif // PLUMB_DIALECT_NN_NNCONVOLUTIONOPS
