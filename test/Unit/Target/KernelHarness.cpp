#include "KernelHarness.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Parser/Parser.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ExecutionEngine/Orc/AbsoluteSymbols.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/TargetSelect.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

using namespace mlir;

namespace {
constexpr size_t kGuard = 4096, kMostArguments = 16;

/// Stands in for the runtime: runs the body at once, with a copy of the arguments as a late launch would
/// make.
int launch(void *, void (*body)(void **), void **args, size_t count, const char *) {
  std::vector<void *> copy(args, args + count);
  body(copy.data());
  return 0;
}
} // namespace

namespace plumb::test {

TemporaryDirectory::TemporaryDirectory() {
  llvm::SmallString<128> name;
  if (llvm::sys::fs::createUniqueDirectory("plumb-kernels-test", name))
    throw std::runtime_error("no temporary directory");
  path = name.str().str();
}

TemporaryDirectory::~TemporaryDirectory() { llvm::sys::fs::remove_directories(path); }

KernelOptions testOptions() {
  KernelOptions options;
  options.target = KernelTarget::PLUMB_TEST_TARGET;
  return options;
}

struct LoadedKernels::Code {
  std::unique_ptr<llvm::orc::LLJIT> jit;
  std::vector<void *> entries;
};

LoadedKernels::~LoadedKernels() = default;

LoadedKernels::LoadedKernels(const std::string &text, KernelOptions options)
    : code(std::make_unique<Code>()) {
  DialectRegistry registry;
  registry.insert<arith::ArithDialect, func::FuncDialect, linalg::LinalgDialect, math::MathDialect,
                  scf::SCFDialect, tensor::TensorDialect>();
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    messages += diagnostic.str() + "\n";
    return success();
  });
  auto module = parseSourceString<ModuleOp>(text, &context);
  if (!module)
    return;
  if (options.cacheDirectory.empty())
    options.cacheDirectory = cache.path;
  auto start = std::chrono::steady_clock::now();
  auto result = compileKernels(*module, options);
  seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (failed(result))
    return;
  compiled.assign(result->begin(), result->end());

  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  code->jit = llvm::cantFail(llvm::orc::LLJITBuilder().create());
  auto &library = code->jit->getMainJITDylib();
  library.addGenerator(llvm::cantFail(llvm::orc::DynamicLibrarySearchGenerator::GetForCurrentProcess(
      code->jit->getDataLayout().getGlobalPrefix())));
  llvm::cantFail(library.define(llvm::orc::absoluteSymbols(
      {{code->jit->mangleAndIntern("plumb_host_launch"),
        {llvm::orc::ExecutorAddr::fromPtr(&launch), llvm::JITSymbolFlags::Exported}}})));
  llvm::StringSet<> loaded;
  for (const CompiledKernel &kernel : compiled) {
    if (loaded.insert(kernel.objectPath).second) {
      auto buffer = llvm::MemoryBuffer::getFile(kernel.objectPath, false, false);
      llvm::cantFail(code->jit->addObjectFile(std::move(*buffer)));
    }
    code->entries.push_back(llvm::cantFail(code->jit->lookup(kernel.symbol)).toPtr<void *>());
  }
  succeeded = true;
}

template <size_t... I>
static int callWith(void *entry, void *const *pointers, std::index_sequence<I...>) {
  return reinterpret_cast<int (*)(decltype((void)I, (void *)nullptr)...)>(entry)(pointers[I]...);
}

LoadedKernels::Call::~Call() { std::free(scratch); }

LoadedKernels::Call::Call(void *entry, size_t scratchBytes, std::vector<void *> pointers)
    : entry(entry), scratchBytes(scratchBytes), arguments(std::move(pointers)) {
  if (scratchBytes) {
    scratch = std::aligned_alloc(64, scratchBytes + kGuard);
    // Whatever was left there must not matter, and nothing past the end may be touched.
    std::memset(scratch, 0xff, scratchBytes + kGuard);
    arguments.push_back(scratch);
  }
  arguments.push_back(nullptr);
  if (arguments.size() > kMostArguments)
    throw std::runtime_error("too many arguments");
  // The callee ignores arguments that it does not have.
  arguments.resize(kMostArguments);
}

LoadedKernels::Call LoadedKernels::prepare(size_t index, const std::vector<void *> &pointers) const {
  return {code->entries[index], static_cast<size_t>(compiled[index].scratchBytes), pointers};
}

void LoadedKernels::Call::operator()() const {
  callWith(entry, arguments.data(), std::make_index_sequence<kMostArguments>());
}

bool LoadedKernels::Call::keptToScratch() const {
  const char *guard = static_cast<const char *>(scratch) + scratchBytes;
  return !scratch || std::all_of(guard, guard + kGuard, [](char byte) { return byte == '\xff'; });
}

void LoadedKernels::call(size_t index, const std::vector<void *> &pointers) const {
  Call call = prepare(index, pointers);
  call();
  if (!call.keptToScratch())
    throw std::runtime_error("the kernel writes past its scratch memory");
}

} // namespace plumb::test
