#include "plumb/Target/KernelPTX.h"

#include "plumb/Target/KernelMath.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Target/LLVMIR/Export.h"

#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"

#include <mutex>

using namespace mlir;

extern "C" {
void LLVMInitializeNVPTXTargetInfo();
void LLVMInitializeNVPTXTarget();
void LLVMInitializeNVPTXTargetMC();
void LLVMInitializeNVPTXAsmPrinter();
}

namespace plumb::kernels {

/// The oldest chip that programs are for, and the PTX versions of CUDA 12.0 and, for later chips, 12.9.
static constexpr unsigned kOldestChip = 70, kNewestOfOldPTX = 90;
static constexpr StringLiteral kOldPTX = "+ptx80", kNewPTX = "+ptx88";

llvm::Expected<Chip> Chip::create(StringRef name) {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
  llvm::Triple triple("nvptx64-nvidia-cuda");
  std::string message;
  const llvm::Target *nvptx = llvm::TargetRegistry::lookupTarget(triple, message);
  if (!nvptx)
    return llvm::createStringError("this LLVM has no PTX back end: " + message);
  // The code generator ends the process over a chip that it does not know or that the PTX version does not
  // have, so that this is checked with one that it has.
  auto create = [&](StringRef chip, StringRef features) {
    return std::unique_ptr<llvm::TargetMachine>(
        nvptx->createTargetMachine(triple, chip, features, {}, {}, {}, llvm::CodeGenOptLevel::Aggressive));
  };
  Chip result;
  result.target = create("sm_90", kOldPTX);
  unsigned number = 0;
  StringRef digits = name;
  bool known = result.target->getMCSubtargetInfo()->isCPUStringValid(name) && digits.consume_front("sm_") &&
               !digits.consumeInteger(10, number) && number >= kOldestChip;
  if (!known)
    return llvm::createStringError("'" + name.str() +
                                   "' is not a GPU that the compiler knows; use a name of sm_" +
                                   std::to_string(kOldestChip) + " or later, such as sm_90");
  result.target = create(name, number > kNewestOfOldPTX ? kNewPTX : kOldPTX);
  return result;
}

std::string Chip::description() const {
  return target->getTargetTriple().str() + " " + target->getTargetCPU().str() + " " +
         target->getTargetFeatureString().str();
}

static void optimize(llvm::Module &module, llvm::TargetMachine &machine) {
  llvm::PassBuilder builder(&machine);
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager sccs;
  llvm::ModuleAnalysisManager modules;
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(sccs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, sccs, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O2).run(module, modules);
}

llvm::Expected<std::string> Chip::emitPTX(ModuleOp entries) const {
  for (auto function : entries.getOps<LLVM::LLVMFuncOp>())
    if (!function.isExternal())
      function->setAttr(NVVM::NVVMDialect::getKernelFuncAttrName(), UnitAttr::get(entries.getContext()));
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> module = translateModuleToLLVMIR(entries, context, "kernel");
  if (!module)
    return llvm::createStringError("the kernel cannot be translated to LLVM IR");
  module->setDataLayout(target->createDataLayout());
  module->setTargetTriple(target->getTargetTriple());
  if (llvm::Error error = linkDeviceMath(*module))
    return error;
  optimize(*module, *target);
  llvm::SmallString<0> text;
  llvm::raw_svector_ostream stream(text);
  llvm::legacy::PassManager codegen;
  if (target->addPassesToEmitFile(codegen, stream, nullptr, llvm::CodeGenFileType::AssemblyFile))
    return llvm::createStringError("no PTX can be emitted for " + target->getTargetCPU().str());
  codegen.run(*module);
  return text.str().str();
}

} // namespace plumb::kernels
