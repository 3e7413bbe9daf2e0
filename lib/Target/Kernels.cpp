#include "plumb/Target/Kernels.h"

#include "plumb/Target/KernelBufferize.h"
#include "plumb/Target/KernelCache.h"
#include "plumb/Target/KernelEmit.h"
#include "plumb/Target/KernelLower.h"
#include "plumb/Target/KernelNormalize.h"
#include "plumb/Target/KernelObject.h"
#include "plumb/Target/KernelScratch.h"
#include "plumb/Target/KernelSource.h"

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

LogicalResult Worker::run(Job &job) {
  auto module = parseSourceString<ModuleOp>(job.text, &context);
  if (!module)
    return failure();
  auto function = *module->getOps<func::FuncOp>().begin();
  if (failed(normalizeKernel(function)) || failed(bufferizeKernel(function)) ||
      failed(emitKernelLoops(function, vectors)))
    return failure();
  FailureOr<int64_t> scratch = assignScratch(function);
  if (failed(scratch) || failed(lowerToLLVM(*module)))
    return failure();
  job.scratchBytes = *scratch;
  llvm::Expected<std::string> object = machine.emitObject(*module, "k_" + job.key);
  if (!object)
    return emitError(function.getLoc(), llvm::toString(object.takeError()));
  job.object = std::move(*object);
  return success();
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
    std::string text = kernelText(function), key = hashOf(text, *machine);
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
