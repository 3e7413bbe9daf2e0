//===- NNOps.td - All operations of the nn dialect, for the reference page ===//

#ifndef PLUMB_DIALECT_NN_NNOPS
#define PLUMB_DIALECT_NN_NNOPS

include "plumb/Dialect/NN/NNContractionOps.td"
include "plumb/Dialect/NN/NNElementwiseOps.td"
include "plumb/Dialect/NN/NNMathOps.td"
include "plumb/Dialect/NN/NNLogicOps.td"
include "plumb/Dialect/NN/NNReductionOps.td"
include "plumb/Dialect/NN/NNConvolutionOps.td"
include "plumb/Dialect/NN/NNShapeOps.td"
include "plumb/Dialect/NN/NNSelectionOps.td"
include "plumb/Dialect/NN/NNIndexOps.td"
include "plumb/Dialect/NN/NNRandomOps.td"
include "plumb/Dialect/NN/NNOptimizerOps.td"

#endif // PLUMB_DIALECT_NN_NNOPS
