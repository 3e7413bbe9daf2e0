#include "plumb/Target/KernelLower.h"

#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Dialect/MemRef/Transforms/Passes.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

namespace plumb::kernels {

LogicalResult lowerToLLVM(ModuleOp module) {
  RewritePatternSet approximations(module.getContext());
  // Those that come within a few units in the last place; sin, cos and pow are better left to the C library.
  auto isApproximated = [](StringRef name) {
    return llvm::is_contained({math::ErfOp::getOperationName(), math::ErfcOp::getOperationName(),
                               math::ExpOp::getOperationName(), math::ExpM1Op::getOperationName(),
                               math::Log1pOp::getOperationName(), math::Log2Op::getOperationName(),
                               math::LogOp::getOperationName(), math::TanhOp::getOperationName()},
                              name);
  };
  populateMathF32ExpansionPatterns(approximations, isApproximated);
  populateMathPolynomialApproximationPatterns(approximations, isApproximated);
  if (failed(applyPatternsGreedily(module, std::move(approximations))))
    return module.emitError("functions cannot be approximated");

  OpBuilder builder(module.getContext());
  for (auto function : module.getOps<func::FuncOp>())
    for (BlockArgument argument : function.getArguments())
      if (isa<MemRefType>(argument.getType()))
        function.setArgAttr(argument.getArgNumber(), LLVM::LLVMDialect::getNoAliasAttrName(),
                            builder.getUnitAttr());

  PassManager pm(module.getContext());
  pm.addPass(createCSEPass());
  pm.addPass(createLoopInvariantCodeMotionPass());
  pm.addPass(memref::createExpandStridedMetadataPass());
  pm.addPass(createLowerAffinePass());
  pm.addPass(createSCFToControlFlowPass());
  pm.addPass(createConvertVectorToLLVMPass());
  pm.addPass(createConvertMathToLLVMPass());
  pm.addPass(createConvertMathToLibmPass());
  pm.addPass(createFinalizeMemRefToLLVMConversionPass());
  pm.addPass(createArithToLLVMConversionPass());
  pm.addPass(createConvertIndexToLLVMPass());
  pm.addPass(createUBToLLVMConversionPass());
  pm.addPass(createConvertControlFlowToLLVMPass());
  ConvertFuncToLLVMPassOptions options;
  options.useBarePtrCallConv = true;
  pm.addPass(createConvertFuncToLLVMPass(options));
  pm.addPass(createReconcileUnrealizedCastsPass());
  return pm.run(module);
}

} // namespace plumb::kernels
