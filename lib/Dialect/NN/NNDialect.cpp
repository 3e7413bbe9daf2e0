//===- NNDialect.cpp - The nn dialect -------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "plumb/Dialect/NN/NN.h"

using namespace plumb::nn;

#include "plumb/Dialect/NN/NNDialect.cpp.inc"
#include "plumb/Dialect/NN/NNInterfaces.cpp.inc"

void NNDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "plumb/Dialect/NN/NNContractionOps.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "plumb/Dialect/NN/NNElementwiseOps.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "plumb/Dialect/NN/NNMathOps.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "plumb/Dialect/NN/NNLogicOps.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "plumb/Dialect/NN/NNReductionOps.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "plumb/Dialect/NN/NNConvolutionOps.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "plumb/Dialect/NN/NNShapeOps.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "plumb/Dialect/NN/NNSelectionOps.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "plumb/Dialect/NN/NNIndexOps.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "plumb/Dialect/NN/NNRandomOps.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "plumb/Dialect/NN/NNOptimizerOps.cpp.inc"
      >();
}
