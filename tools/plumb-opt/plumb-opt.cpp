//===- plumb-opt.cpp - Runs passes of Plumb on MLIR text ------------------===//

#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"
#include "plumb/Dialect/Registration.h"
#include "plumb/Target/EmitPasses.h"
#include "plumb/Transforms/Passes.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  plumb::registerDialects(registry);
  plumb::registerPlumbPasses();
  plumb::registerPipelines();
  plumb::registerEmitPasses();
  mlir::registerCanonicalizerPass();
  mlir::registerCSEPass();
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "Plumb optimizer driver\n", registry));
}
