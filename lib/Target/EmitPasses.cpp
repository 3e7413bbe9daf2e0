//===- EmitPasses.cpp - The emitters as passes, for tests and experiments ------===//

#include "plumb/Target/EmitPasses.h"
#include "mlir/Dialect/EmitC/IR/EmitC.h"
#include "mlir/Pass/PassRegistry.h"
#include "plumb/Target/PlanFile.h"
#include "plumb/Target/Program.h"

using namespace mlir;
using namespace plumb;

namespace {

using Emitter = LogicalResult (*)(ModuleOp, raw_ostream &);

template <Emitter emit>
class EmitPass : public PassWrapper<EmitPass<emit>, OperationPass<ModuleOp>> {
public:
  EmitPass(StringRef argument, StringRef description) : argument(argument), description(description) {}
  StringRef getArgument() const override { return argument; }
  StringRef getDescription() const override { return description; }

private:
  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<emitc::EmitCDialect>();
  }
  void runOnOperation() override {
    if (failed(emit(this->getOperation(), llvm::outs())))
      this->signalPassFailure();
    this->markAllAnalysesPreserved();
  }

  StringRef argument, description;
};

} // namespace

void plumb::registerEmitPasses() {
  registerPass([]() -> std::unique_ptr<Pass> {
    return std::make_unique<EmitPass<emitProgram>>("emit-program", "Prints the program of a verified plan");
  });
  registerPass([]() -> std::unique_ptr<Pass> {
    return std::make_unique<EmitPass<emitPlanFile>>("emit-plan-file",
                                                    "Prints the plan file of a verified plan");
  });
}
