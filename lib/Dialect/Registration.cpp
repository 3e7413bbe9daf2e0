//===- Registration.cpp - The dialects that Plumb's tools know ---------------===//

#include "plumb/Dialect/Registration.h"
#include "mlir/Dialect/EmitC/IR/EmitC.h"
#include "plumb/Dialect/CCL/CCL.h"
#include "plumb/Dialect/NN/NN.h"
#include "plumb/Dialect/Plumb/Plumb.h"

void plumb::registerDialects(mlir::DialectRegistry &registry) {
  registry.insert<PlumbDialect, nn::NNDialect, ccl::CCLDialect, mlir::arith::ArithDialect,
                  mlir::func::FuncDialect, mlir::linalg::LinalgDialect, mlir::math::MathDialect,
                  mlir::scf::SCFDialect, mlir::tensor::TensorDialect, mlir::emitc::EmitCDialect>();
}
