#include "plumb/Target/KernelPTX.h"

#include "plumb/Target/KernelBufferize.h"
#include "plumb/Target/KernelGrid.h"
#include "plumb/Target/KernelLower.h"
#include "plumb/Target/KernelNormalize.h"
#include "plumb/Target/KernelScratch.h"
#include "plumb/Target/KernelSource.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"

#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"

#include <mutex>

using namespace mlir;

extern "C" {
void LLVMInitializeNVPTXTargetInfo();
void LLVMInitializeNVPTXTarget();
void LLVMInitializeNVPTXTargetMC();
void LLVMInitializeNVPTXAsmPrinter();
}

namespace plumb {

using namespace kernels;

/// The code generator ends the process over a chip that the PTX version does not have, so that this is
/// checked here.
static llvm::Expected<std::unique_ptr<llvm::TargetMachine>> createMachine(StringRef chip,
                                                                          StringRef features) {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
  llvm::Triple triple("nvptx64-nvidia-cuda");
  std::string message;
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, message);
  if (!target)
    return llvm::createStringError("this LLVM has no PTX back end: " + message);
  std::unique_ptr<llvm::TargetMachine> machine(
      target->createTargetMachine(triple, "sm_90", "+ptx80", {}, {}));
  const llvm::MCSubtargetInfo &info = *machine->getMCSubtargetInfo();
  unsigned architecture = 0, version = 0;
  StringRef number = chip, ptx = features;
  if (!info.isCPUStringValid(chip) || !number.consume_front("sm_") || number.consumeInteger(10, architecture))
    return llvm::createStringError("'" + chip.str() +
                                   "' is not a chip that the compiler knows; use a name such as sm_90");
  unsigned least = architecture > 90 ? 88 : 80;
  bool known = llvm::any_of(info.getAllProcessorFeatures(), [&](const auto &feature) {
    return ("+" + StringRef(feature.Key)).str() == features;
  });
  if (!known || !ptx.consume_front("+ptx") || ptx.getAsInteger(10, version) || version < least)
    return llvm::createStringError("PTX version '" + features.str() + "' does not do for " + chip.str() +
                                   "; use +ptx" + std::to_string(least) + " or a later one");
  machine.reset(target->createTargetMachine(triple, chip, features, {}, {}));
  return machine;
}

/// Functions that would be calls of a library that devices do not have.
static std::string findMissingFunction(const llvm::Module &module) {
  using namespace llvm;
  for (const Function &function : module) {
    if (!function.isDeclaration() || function.use_empty())
      continue;
    if (!function.isIntrinsic())
      return function.getName().str();
    switch (function.getIntrinsicID()) {
    case Intrinsic::sin:
    case Intrinsic::cos:
    case Intrinsic::tan:
    case Intrinsic::pow:
    case Intrinsic::powi:
    case Intrinsic::exp:
    case Intrinsic::exp2:
    case Intrinsic::exp10:
    case Intrinsic::log:
    case Intrinsic::log2:
    case Intrinsic::log10:
    case Intrinsic::atan:
    case Intrinsic::atan2:
    case Intrinsic::asin:
    case Intrinsic::acos:
    case Intrinsic::sinh:
    case Intrinsic::cosh:
    case Intrinsic::tanh:
      return function.getName().str();
    default:
      break;
    }
  }
  return "";
}

static std::string emitPTX(llvm::Module &module, llvm::TargetMachine &machine) {
  module.setDataLayout(machine.createDataLayout());
  module.setTargetTriple(machine.getTargetTriple());
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
  llvm::SmallString<0> text;
  llvm::raw_svector_ostream stream(text);
  llvm::legacy::PassManager codegen;
  (void)machine.addPassesToEmitFile(codegen, stream, nullptr, llvm::CodeGenFileType::AssemblyFile);
  codegen.run(module);
  return text.str().str();
}

/// Adds the entries of one kernel to `entries`, and their launches to `header`.
static LogicalResult addKernel(const std::string &text, StringRef name, ModuleOp entries,
                               std::string &header) {
  auto module = parseSourceString<ModuleOp>(text, entries.getContext());
  if (!module)
    return failure();
  auto function = *module->getOps<func::FuncOp>().begin();
  if (failed(normalizeKernel(function)) || failed(bufferizeKernel(function)))
    return failure();
  FailureOr<int64_t> scratch = assignScratch(function);
  if (failed(scratch))
    return failure();
  auto grid = mapToGrid(function, name, entries);
  if (failed(grid))
    return failure();
  llvm::raw_string_ostream stream(header);
  if (*scratch)
    stream << "// " << name << ": " << *scratch << " bytes of scratch\n";
  for (const GridEntry &entry : *grid)
    stream << "// " << entry.name << ": " << entry.blocks << " blocks of " << GridEntry::kThreads
           << " threads\n";
  return success();
}

FailureOr<std::string> translateKernelsToPTX(ModuleOp module, StringRef chip, StringRef features) {
  auto machine = createMachine(chip, features);
  if (!machine)
    return module.emitError(llvm::toString(machine.takeError()));
  DialectRegistry registry = kernelDialects();
  registry.insert<NVVM::NVVMDialect>();
  registerNVVMDialectTranslation(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  SmallVector<std::string> messages;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
      messages.push_back(diagnostic.str());
    return success();
  });
  auto report = [&](Operation *op, StringRef name) {
    for (const std::string &message : messages)
      op->emitError() << name << message;
    return failure();
  };

  OwningOpRef<ModuleOp> entries = ModuleOp::create(UnknownLoc::get(&context));
  std::string header;
  for (auto function : module.getOps<func::FuncOp>()) {
    if (!function.getName().starts_with("k_") || function.isExternal())
      continue;
    if (failed(verifyKernelSignature(function)))
      return failure();
    if (failed(addKernel(kernelText(function), function.getName(), *entries, header)))
      return report(function, (function.getName() + ": ").str());
  }
  if (failed(lowerToLLVM(*entries)))
    return report(module, "");
  for (auto function : entries->getOps<LLVM::LLVMFuncOp>())
    if (!function.isExternal())
      function->setAttr(NVVM::NVVMDialect::getKernelFuncAttrName(), UnitAttr::get(&context));
  llvm::LLVMContext llvmContext;
  std::unique_ptr<llvm::Module> device = translateModuleToLLVMIR(*entries, llvmContext, "kernels");
  if (!device)
    return report(module, "");
  if (std::string missing = findMissingFunction(*device); !missing.empty())
    return module.emitError() << "a kernel needs the function '" << missing << "', which devices do not have";
  return header + emitPTX(*device, **machine);
}

} // namespace plumb
