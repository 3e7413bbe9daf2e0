//===- plumb-lsp-server.cpp - Language server for Plumb's dialects --------===//

#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"
#include "plumb/Dialect/Registration.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  plumb::registerDialects(registry);
  return mlir::failed(mlir::MlirLspServerMain(argc, argv, registry));
}
