#include "plumb/Target/KernelObject.h"

#include "plumb/Target/KernelMath.h"

#include "mlir/Target/LLVMIR/Export.h"

#include "llvm/Analysis/TargetTransformInfo.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Verifier.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/SubtargetFeature.h"

#include <mutex>

namespace plumb::kernels {

static constexpr llvm::StringLiteral kVectorWidth = "512";

static void initializeTarget() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
  });
}

llvm::Expected<Machine> Machine::create(llvm::StringRef cpu) {
  initializeTarget();
  Machine machine;
  machine.cpu = cpu;
  if (cpu == "native") {
    machine.cpu = llvm::sys::getHostCPUName();
    llvm::SubtargetFeatures features;
    llvm::StringMap<bool> host = llvm::sys::getHostCPUFeatures();
    std::vector<llvm::StringRef> names;
    for (const auto &feature : host)
      names.push_back(feature.getKey());
    llvm::sort(names);
    for (llvm::StringRef name : names)
      features.AddFeature(name, host[name]);
    machine.features = features.getString();
  }
  llvm::Triple triple(llvm::sys::getProcessTriple());
  std::string message;
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, message);
  if (!target)
    return llvm::createStringError(message);
  machine.target.reset(target->createTargetMachine(triple, "", "", {}, llvm::Reloc::PIC_));
  if (!machine.target->getMCSubtargetInfo()->isCPUStringValid(machine.cpu))
    return llvm::createStringError("'" + machine.cpu + "' is not a cpu of " + triple.getArchName() +
                                   " that the compiler knows; use 'native' or a name such as 'x86-64-v3'");
  machine.target.reset(
      target->createTargetMachine(triple, machine.cpu, machine.features, {}, llvm::Reloc::PIC_));
  return machine;
}

std::string Machine::description() const {
  return target->getTargetTriple().str() + " " + cpu + " " + features;
}

/// Wide vectors are what the loops are made for, whatever the tuning of the cpu prefers elsewhere.
static void setAttributes(llvm::Function &function, llvm::StringRef cpu, llvm::StringRef features) {
  function.addFnAttr("target-cpu", cpu);
  function.addFnAttr("target-features", features);
  function.addFnAttr("prefer-vector-width", kVectorWidth);
  function.addFnAttr(llvm::Attribute::NoUnwind);
}

VectorTarget Machine::vectors() const {
  llvm::LLVMContext context;
  llvm::Module module("vectors", context);
  module.setDataLayout(target->createDataLayout());
  auto *function = llvm::Function::Create(llvm::FunctionType::get(llvm::Type::getVoidTy(context), false),
                                          llvm::Function::ExternalLinkage, "f", module);
  setAttributes(*function, cpu, features);
  llvm::TargetTransformInfo info = target->getTargetTransformInfo(*function);
  int64_t bits = info.getRegisterBitWidth(llvm::TargetTransformInfo::RGK_FixedWidthVector).getFixedValue();
  int64_t registers = info.getNumberOfRegisters(info.getRegisterClassForType(/*Vector=*/true));
  return {std::max<int64_t>(bits / 8, 16), std::max<int64_t>(registers, 8)};
}

/// Begins int symbol(pointers…, void *stream), and packs the pointers, or their addresses, into an array.
static std::pair<llvm::Function *, llvm::Value *> beginEntry(llvm::IRBuilder<> &builder, llvm::Module &module,
                                                             llvm::StringRef symbol, unsigned pointers,
                                                             bool byAddress = false) {
  llvm::SmallVector<llvm::Type *> types(pointers + 1, builder.getPtrTy());
  auto *entry = llvm::Function::Create(llvm::FunctionType::get(builder.getInt32Ty(), types, false),
                                       llvm::GlobalValue::ExternalLinkage, symbol, module);
  builder.SetInsertPoint(llvm::BasicBlock::Create(module.getContext(), "", entry));
  auto *array = llvm::ArrayType::get(builder.getPtrTy(), std::max(1u, pointers));
  llvm::Value *args = builder.CreateAlloca(array), *addresses = builder.CreateAlloca(array);
  for (unsigned i = 0; i < pointers; ++i) {
    llvm::Value *place = builder.CreateConstInBoundsGEP2_64(array, args, 0, i);
    builder.CreateStore(entry->getArg(i), place);
    builder.CreateStore(place, builder.CreateConstInBoundsGEP2_64(array, addresses, 0, i));
  }
  return {entry, byAddress ? addresses : args};
}

/// void body(void **args) unpacks the pointers; int symbol(pointers…, void *stream) packs and launches them.
static void addEntry(llvm::Module &module, llvm::StringRef symbol) {
  llvm::LLVMContext &context = module.getContext();
  llvm::Function *kernel = module.getFunction("kernel");
  kernel->setLinkage(llvm::GlobalValue::InternalLinkage);
  // Arguments lose their noalias when they are inlined as loads.
  kernel->addFnAttr(llvm::Attribute::NoInline);
  llvm::Type *pointer = llvm::PointerType::get(context, 0);
  llvm::IRBuilder<> builder(context);

  auto *body = llvm::Function::Create(llvm::FunctionType::get(builder.getVoidTy(), {pointer}, false),
                                      llvm::GlobalValue::InternalLinkage, "body", module);
  builder.SetInsertPoint(llvm::BasicBlock::Create(context, "", body));
  llvm::SmallVector<llvm::Value *> arguments;
  for (unsigned i = 0; i < kernel->arg_size(); ++i)
    arguments.push_back(
        builder.CreateLoad(pointer, builder.CreateConstInBoundsGEP1_64(pointer, body->getArg(0), i)));
  builder.CreateCall(kernel, arguments);
  builder.CreateRetVoid();

  llvm::Type *size = module.getDataLayout().getIntPtrType(context);
  llvm::FunctionCallee launch = module.getOrInsertFunction(
      "plumb_host_launch",
      llvm::FunctionType::get(builder.getInt32Ty(), {pointer, pointer, pointer, size, pointer}, false));
  auto [entry, args] = beginEntry(builder, module, symbol, kernel->arg_size());
  llvm::Value *name = builder.CreateGlobalString(symbol);
  llvm::Value *stream = entry->getArg(kernel->arg_size());
  builder.CreateRet(builder.CreateCall(
      launch, {stream, body, args, llvm::ConstantInt::get(size, kernel->arg_size()), name}));
}

/// What the runtime takes, see plumb/Runtime/DeviceKernel.h:
///   int plumb_device_launch(DeviceKernel *kernel, void **arguments, void *stream);
static void addLauncher(llvm::Module &module, const DeviceCode &code, llvm::StringRef symbol) {
  llvm::LLVMContext &context = module.getContext();
  llvm::IRBuilder<> builder(context);
  llvm::Type *pointer = builder.getPtrTy(), *number = builder.getInt32Ty();
  auto text = [&](llvm::StringRef value) { return builder.CreateGlobalString(value, "", 0, &module); };
  auto *entryType = llvm::StructType::get(context, {pointer, number, number, pointer});
  llvm::SmallVector<llvm::Constant *> entries;
  for (const GridEntry &entry : code.entries)
    entries.push_back(llvm::ConstantStruct::get(
        entryType, {text(entry.name), builder.getInt32(entry.blocks), builder.getInt32(GridEntry::kThreads),
                    llvm::ConstantPointerNull::get(builder.getPtrTy())}));
  auto *listType = llvm::ArrayType::get(entryType, entries.size());
  auto *list =
      new llvm::GlobalVariable(module, listType, /*isConstant=*/false, llvm::GlobalValue::InternalLinkage,
                               llvm::ConstantArray::get(listType, entries));
  auto *kernelType = llvm::StructType::get(context, {pointer, pointer, pointer, builder.getInt64Ty()});
  auto *kernel =
      new llvm::GlobalVariable(module, kernelType, /*isConstant=*/false, llvm::GlobalValue::InternalLinkage,
                               llvm::ConstantStruct::get(kernelType, {text(symbol), text(code.ptx), list,
                                                                      builder.getInt64(entries.size())}));
  // The runtime finds all kernels of a program as one array.
  kernel->setSection("plumb_kernels");
  kernel->setAlignment(llvm::Align(8));
  llvm::FunctionCallee launch = module.getOrInsertFunction(
      "plumb_device_launch", llvm::FunctionType::get(number, {pointer, pointer, pointer}, false));
  auto [entry, args] = beginEntry(builder, module, symbol, code.arguments, /*byAddress=*/true);
  builder.CreateRet(builder.CreateCall(launch, {kernel, args, entry->getArg(code.arguments)}));
}

static void optimize(llvm::Module &module, llvm::TargetMachine &target) {
  // Loops come vectorised and unrolled; guessing again would only make code larger.
  llvm::PipelineTuningOptions tuning;
  tuning.LoopVectorization = false;
  tuning.SLPVectorization = false;
  tuning.LoopUnrolling = false;
  tuning.LoopInterleaving = false;
  llvm::PassBuilder builder(&target, tuning);
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

llvm::Expected<std::string> Machine::emit(llvm::Module &module) const {
  for (llvm::Function &function : module)
    if (!function.isDeclaration())
      setAttributes(function, cpu, features);
  std::string message;
  llvm::raw_string_ostream stream(message);
  if (llvm::verifyModule(module, &stream))
    return llvm::createStringError("the kernel's LLVM IR is broken: " + message);
  optimize(module, *target);

  llvm::SmallString<0> object;
  llvm::raw_svector_ostream output(object);
  llvm::legacy::PassManager codegen;
  if (target->addPassesToEmitFile(codegen, output, nullptr, llvm::CodeGenFileType::ObjectFile))
    return llvm::createStringError("no object can be emitted for " + target->getTargetTriple().str());
  codegen.run(module);
  return object.str().str();
}

llvm::Expected<std::string> Machine::emitObject(mlir::ModuleOp source, llvm::StringRef symbol,
                                                MathLibrary math) const {
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> module = mlir::translateModuleToLLVMIR(source, context, symbol);
  if (!module)
    return llvm::createStringError("the kernel cannot be translated to LLVM IR");
  module->setDataLayout(target->createDataLayout());
  module->setTargetTriple(target->getTargetTriple());
  module->setSourceFileName(symbol);
  if (math == MathLibrary::Device)
    if (llvm::Error error = linkDeviceMath(*module))
      return error;
  addEntry(*module, symbol);
  return emit(*module);
}

llvm::Expected<std::string> Machine::emitLauncher(const DeviceCode &code, llvm::StringRef symbol) const {
  llvm::LLVMContext context;
  llvm::Module module(symbol, context);
  module.setDataLayout(target->createDataLayout());
  module.setTargetTriple(target->getTargetTriple());
  module.setSourceFileName(symbol);
  addLauncher(module, code, symbol);
  return emit(module);
}

} // namespace plumb::kernels
