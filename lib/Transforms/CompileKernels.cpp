//===- CompileKernels.cpp - Compiles the kernels --------------------------===//

#include "plumb/Dialect/CCL/CCL.h"
#include "plumb/Dialect/NN/NN.h"
#include "plumb/Dialect/Plumb/Plumb.h"
#include "plumb/Target/Kernels.h"
#include "plumb/Transforms/Passes.h"
#include "plumb/Transforms/PlanAttributes.h"

namespace plumb {
#define GEN_PASS_DEF_COMPILEKERNELS
#include "plumb/Transforms/Passes.h.inc"
} // namespace plumb

using namespace mlir;
using namespace plumb;

namespace {
class CompileKernelsPass : public plumb::impl::CompileKernelsBase<CompileKernelsPass> {
public:
  using CompileKernelsBase::CompileKernelsBase;

private:
  void runOnOperation() override {
    KernelOptions kernelOptions;
    kernelOptions.target = target;
    kernelOptions.cpu = cpu;
    kernelOptions.gpu = gpu;
    kernelOptions.cacheDirectory = cache;
    auto kernels = compileKernels(getOperation(), kernelOptions);
    if (failed(kernels))
      return signalPassFailure();
    Builder builder(&getContext());
    StringRef name = target == KernelTarget::Host       ? StringRef("host")
                     : target == KernelTarget::Emulated ? StringRef("emulated")
                                                        : StringRef(gpu);
    getOperation()->setAttr(kTargetAttr, builder.getStringAttr(name));
    SymbolTable symbols(getOperation());
    for (const CompiledKernel &kernel : *kernels) {
      auto function = symbols.lookup<func::FuncOp>(kernel.name);
      function->setAttr(kSymbolAttr, builder.getStringAttr(kernel.symbol));
      function->setAttr(kScratchAttr, builder.getI64IntegerAttr(kernel.scratchBytes));
      function->setAttr(kObjectAttr, builder.getStringAttr(kernel.objectPath));
    }
  }
};
} // namespace
