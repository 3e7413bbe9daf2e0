#include "plumb/Target/Kernels.h"

#include "plumb/Target/KernelBufferize.h"
#include "plumb/Target/KernelCache.h"
#include "plumb/Target/KernelEmit.h"
#include "plumb/Target/KernelLower.h"
#include "plumb/Target/KernelNormalize.h"
#include "plumb/Target/KernelObject.h"
#include "plumb/Target/KernelScratch.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Transforms/BufferizableOpInterfaceImpl.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Bufferization/Transforms/FuncBufferizableOpInterfaceImpl.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Transforms/AllInterfaces.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/SCF/Transforms/BufferizableOpInterfaceImpl.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Tensor/IR/TensorInferTypeOpInterfaceImpl.h"
#include "mlir/Dialect/Tensor/IR/TensorTilingInterfaceImpl.h"
#include "mlir/Dialect/Tensor/Transforms/BufferizableOpInterfaceImpl.h"
#include "mlir/Dialect/Tensor/Transforms/SubsetInsertionOpInterfaceImpl.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"

#include "llvm/Support/SHA256.h"

#include <atomic>
#include <chrono>
#include <thread>

using namespace mlir;

namespace plumb {

using namespace kernels;

namespace {
/// One distinct body to compile, and what came of it.
struct Job {
  std::string key, text;
  std::string object;
  int64_t scratchBytes = 0;
  bool failed = false;
  /// Diagnostics of the steps, to be repeated at the function.
  SmallVector<std::pair<DiagnosticSeverity, std::string>> diagnostics;
};

/// Compiles one kernel after the other in a context of its own, so that threads share nothing.
class Worker {
public:
  explicit Worker(Machine machine);
  void compile(Job &job);

private:
  LogicalResult run(Job &job);

  Machine machine;
  VectorTarget vectors;
  MLIRContext context;
};
} // namespace

static DialectRegistry kernelDialects() {
  DialectRegistry registry;
  registry.insert<affine::AffineDialect, arith::ArithDialect, bufferization::BufferizationDialect,
                  cf::ControlFlowDialect, func::FuncDialect, linalg::LinalgDialect, LLVM::LLVMDialect,
                  math::MathDialect, memref::MemRefDialect, scf::SCFDialect, tensor::TensorDialect, ub::UBDialect,
                  vector::VectorDialect>();
  arith::registerBufferizableOpInterfaceExternalModels(registry);
  bufferization::func_ext::registerBufferizableOpInterfaceExternalModels(registry);
  linalg::registerAllDialectInterfaceImplementations(registry);
  scf::registerBufferizableOpInterfaceExternalModels(registry);
  tensor::registerBufferizableOpInterfaceExternalModels(registry);
  tensor::registerInferTypeOpInterfaceExternalModels(registry);
  tensor::registerSubsetOpInterfaceExternalModels(registry);
  tensor::registerTilingInterfaceExternalModels(registry);
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  return registry;
}

Worker::Worker(Machine machine)
    : machine(std::move(machine)), vectors(this->machine.vectors()),
      context(kernelDialects(), MLIRContext::Threading::DISABLED) {
  context.loadAllAvailableDialects();
}

void Worker::compile(Job &job) {
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    job.diagnostics.emplace_back(diagnostic.getSeverity(), diagnostic.str());
    return success();
  });
  job.failed = mlir::failed(run(job));
}

static double now_(){return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();}
LogicalResult Worker::run(Job &job) {
 double t0=now_();
  auto module = parseSourceString<ModuleOp>(job.text, &context);
  if (!module)
    return failure();
  auto function = *module->getOps<func::FuncOp>().begin();
  double t1=now_();
  if (failed(normalizeKernel(function)))return failure(); double t2=now_(); if (failed(bufferizeKernel(function)))return failure(); double t3=now_();
      if(failed(emitKernelLoops(function, vectors)))
    return failure();
  if(getenv("KDUMP"))module->dump();
  double t4=now_();
  FailureOr<int64_t> scratch = assignScratch(function);
  if (failed(scratch) || failed(lowerToLLVM(*module)))
    return failure();
  job.scratchBytes = *scratch;
  double t5=now_();
  llvm::Expected<std::string> object = machine.emitObject(*module, "k_" + job.key);
  if (!object)
    return emitError(function.getLoc(), llvm::toString(object.takeError()));
  job.object = std::move(*object);
  if(getenv("KTIME"))fprintf(stderr,"parse %.1f normalize %.1f bufferize %.1f emit %.1f lower %.1f object %.1f ms\n",1e3*(t1-t0),1e3*(t2-t1),1e3*(t3-t2),1e3*(t4-t3),1e3*(t5-t4),1e3*(now_()-t5));
  return success();
}

/// The text of the function without what does not change its meaning: its name, locations, attributes of others.
static std::string canonicalText(func::FuncOp function) {
  OwningOpRef<func::FuncOp> copy = function.clone();
  copy->setName("kernel");
  copy->setPublic();
  Builder builder(function.getContext());
  for (unsigned i = 0; i < copy->getNumArguments(); ++i) {
    SmallVector<NamedAttribute> kept;
    for (StringRef name : {"plumb.inout", "plumb.result"})
      if (Attribute attribute = copy->getArgAttr(i, name))
        kept.push_back(builder.getNamedAttr(name, attribute));
    copy->setArgAttrs(i, kept);
  }
  copy->removeResAttrsAttr();
  copy->walk([](Operation *op) {
    if (op->getName().isRegistered())
      op->setDiscardableAttrs(ArrayRef<NamedAttribute>{});
  });
  std::string text;
  llvm::raw_string_ostream stream(text);
  copy->print(stream, OpPrintingFlags().useLocalScope());
  return text;
}

static std::string hashOf(llvm::StringRef text, const Machine &machine) {
  llvm::SHA256 hash;
  std::string description = machine.description();
  for (llvm::StringRef part : {text, llvm::StringRef(description), compilerFingerprint()}) {
    hash.update(part);
    hash.update(llvm::StringRef("\0", 1));
  }
  return llvm::toHex(hash.final(), /*LowerCase=*/true).substr(0, 16);
}

static void compileJobs(MutableArrayRef<Job *> jobs, const KernelOptions &options) {
  std::atomic<size_t> next = 0;
  auto work = [&] {
    // The cpu was found valid before.
    Worker worker(llvm::cantFail(Machine::create(options.cpu)));
    for (size_t i = next++; i < jobs.size(); i = next++)
      worker.compile(*jobs[i]);
  };
  std::vector<std::thread> threads;
  for (size_t i = 1; i < std::min<size_t>(options.threads, jobs.size()); ++i)
    threads.emplace_back(work);
  if (!jobs.empty())
    work();
  for (std::thread &thread : threads)
    thread.join();
}

FailureOr<SmallVector<CompiledKernel>> compileKernels(ModuleOp module, const KernelOptions &options) {
  llvm::Expected<Machine> machine = Machine::create(options.cpu);
  if (!machine)
    return module.emitError(llvm::toString(machine.takeError()));
  llvm::Expected<KernelCache> cache = KernelCache::open(options.cacheDirectory);
  if (!cache)
    return module.emitError(llvm::toString(cache.takeError()));

  SmallVector<CompiledKernel> kernels;
  SmallVector<func::FuncOp> functions;
  std::deque<Job> jobs;
  llvm::StringMap<Job *> jobOf;
  SmallVector<Job *> missing;
  for (auto function : module.getOps<func::FuncOp>()) {
    if (!function.getName().starts_with("k_") || function.isExternal())
      continue;
    if (failed(verifyKernelSignature(function)))
      return failure();
    std::string text = canonicalText(function), key = hashOf(text, *machine);
    functions.push_back(function);
    kernels.push_back({function.getName().str(), "k_" + key, 0, cache->path(key)});
    Job *&job = jobOf[key];
    if (job)
      continue;
    job = &jobs.emplace_back();
    job->key = key;
    job->text = std::move(text);
    auto scratch = options.useCache ? cache->lookup(key) : std::nullopt;
    if (scratch)
      job->scratchBytes = *scratch;
    else
      missing.push_back(job);
  }
  compileJobs(missing, options);

  bool anyFailed = false;
  for (auto [function, kernel] : llvm::zip_equal(functions, kernels)) {
    Job &job = *jobOf[StringRef(kernel.symbol).drop_front(2)];
    kernel.scratchBytes = job.scratchBytes;
    for (auto &[severity, message] : job.diagnostics)
      module.getContext()->getDiagEngine().emit(function.getLoc(), severity) << function.getName() << ": " << message;
    job.diagnostics.clear();
    anyFailed |= job.failed;
  }
  if (anyFailed)
    return failure();
  for (Job *job : missing)
    if (llvm::Error error = cache->store(job->key, job->object, job->scratchBytes))
      return module.emitError("cannot store a kernel: " + llvm::toString(std::move(error)));
  return kernels;
}

} // namespace plumb
