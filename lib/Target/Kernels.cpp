#include "plumb/Target/Kernels.h"

#include "plumb/Target/KernelBufferize.h"
#include "plumb/Target/KernelCache.h"
#include "plumb/Target/KernelEmit.h"
#include "plumb/Target/KernelGrid.h"
#include "plumb/Target/KernelLower.h"
#include "plumb/Target/KernelNormalize.h"
#include "plumb/Target/KernelObject.h"
#include "plumb/Target/KernelPTX.h"
#include "plumb/Target/KernelScratch.h"
#include "plumb/Target/KernelSource.h"
#include "plumb/Target/KernelThreads.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"

#include "llvm/Support/SHA256.h"

#include <atomic>
#include <deque>
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

/// What kernels are compiled for.
struct Targets {
  Machine machine;
  /// The GPU, if they are for one.
  std::optional<Chip> chip;
  KernelTarget kind;

  static llvm::Expected<Targets> create(const KernelOptions &options);
  /// Everything that the code depends on, as text.
  std::string description() const;
};

/// Compiles one kernel after the other in a context of its own, so that threads share nothing.
class Worker {
public:
  explicit Worker(Targets targets);
  void compile(Job &job);

private:
  LogicalResult run(Job &job);
  llvm::Expected<std::string> compileForHost(func::FuncOp function, Job &job);
  llvm::Expected<std::string> compileForDevice(func::FuncOp function, Job &job);

  Targets targets;
  VectorTarget vectors;
  MLIRContext context;
};
} // namespace

llvm::Expected<Targets> Targets::create(const KernelOptions &options) {
  llvm::Expected<Machine> machine = Machine::create(options.cpu);
  if (!machine)
    return machine.takeError();
  Targets targets{std::move(*machine), std::nullopt, options.target};
  if (options.target != KernelTarget::Device)
    return targets;
  llvm::Expected<Chip> chip = Chip::create(options.gpu);
  if (!chip)
    return chip.takeError();
  targets.chip = std::move(*chip);
  return targets;
}

std::string Targets::description() const {
  return machine.description() + (chip ? " " + chip->description() : "") +
         (kind == KernelTarget::Emulated ? " emulated" : "");
}

Worker::Worker(Targets targets)
    : targets(std::move(targets)), vectors(this->targets.machine.vectors()),
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

/// Steps that fail have said why.
static llvm::Error failed() { return llvm::createStringError(""); }

llvm::Expected<std::string> Worker::compileForHost(func::FuncOp function, Job &job) {
  if (mlir::failed(emitKernelLoops(function, vectors)))
    return failed();
  FailureOr<int64_t> scratch = assignScratch(function);
  auto module = function->getParentOfType<ModuleOp>();
  if (mlir::failed(scratch) || mlir::failed(lowerToLLVM(module)))
    return failed();
  job.scratchBytes = *scratch;
  return targets.machine.emitObject(module, "k_" + job.key);
}

llvm::Expected<std::string> Worker::compileForDevice(func::FuncOp function, Job &job) {
  if (mlir::failed(spreadOverThreads(function)))
    return failed();
  FailureOr<int64_t> scratch = assignScratch(function);
  if (mlir::failed(scratch))
    return failed();
  job.scratchBytes = *scratch;
  auto module = function->getParentOfType<ModuleOp>();
  DeviceCode code;
  FunctionType type = function.getFunctionType();
  code.arguments = type.getNumInputs();
  auto entries = outlineEntries(function, "k_" + job.key);
  if (mlir::failed(entries))
    return failed();
  code.entries = std::move(*entries);
  if (!targets.chip)
    emulateEntries(module, type, code.entries);
  if (mlir::failed(lowerToLLVM(module)))
    return failed();
  if (!targets.chip)
    return targets.machine.emitObject(module, "k_" + job.key, MathLibrary::Device);
  llvm::Expected<std::string> ptx = targets.chip->emitPTX(module);
  if (!ptx)
    return ptx.takeError();
  code.ptx = std::move(*ptx);
  return targets.machine.emitLauncher(code, "k_" + job.key);
}

LogicalResult Worker::run(Job &job) {
  auto module = parseSourceString<ModuleOp>(job.text, &context);
  if (!module)
    return failure();
  auto function = *module->getOps<func::FuncOp>().begin();
  Location loc = function.getLoc();
  if (mlir::failed(normalizeKernel(function)) || mlir::failed(bufferizeKernel(function)))
    return failure();
  llvm::Expected<std::string> object =
      targets.kind == KernelTarget::Host ? compileForHost(function, job) : compileForDevice(function, job);
  if (object) {
    job.object = std::move(*object);
    return success();
  }
  std::string message = llvm::toString(object.takeError());
  return message.empty() ? failure() : emitError(loc, message);
}

static std::string hashOf(llvm::StringRef text, const Targets &targets) {
  llvm::SHA256 hash;
  std::string description = targets.description();
  for (llvm::StringRef part : {text, llvm::StringRef(description), compilerFingerprint()}) {
    hash.update(part);
    hash.update(llvm::StringRef("\0", 1));
  }
  return llvm::toHex(hash.final(), /*LowerCase=*/true).substr(0, 16);
}

static void compileJobs(MutableArrayRef<Job *> jobs, const KernelOptions &options) {
  std::atomic<size_t> next = 0;
  auto work = [&] {
    // The options were found valid before.
    Worker worker(llvm::cantFail(Targets::create(options)));
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
  llvm::Expected<Targets> targets = Targets::create(options);
  if (!targets)
    return module.emitError(llvm::toString(targets.takeError()));
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
    std::string text = kernelText(function), key = hashOf(text, *targets);
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
      module.getContext()->getDiagEngine().emit(function.getLoc(), severity)
          << function.getName() << ": " << message;
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
