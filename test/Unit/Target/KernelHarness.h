// Compiles kernels from text and runs them in this process.
#ifndef PLUMB_TEST_UNIT_TARGET_KERNELHARNESS_H
#define PLUMB_TEST_UNIT_TARGET_KERNELHARNESS_H

#include "plumb/Target/Kernels.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

#include <memory>
#include <string>
#include <vector>

namespace plumb::test {

/// A directory that is removed with the object.
class TemporaryDirectory {
public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory &) = delete;
  TemporaryDirectory &operator=(const TemporaryDirectory &) = delete;
  std::string path;
};

/// What the tests of this executable run kernels on.
KernelOptions testOptions();

/// A module of kernels, compiled and loaded.
class LoadedKernels {
public:
  /// Compiles the kernels of an MLIR module; `diagnostics` receives what was said.
  explicit LoadedKernels(const std::string &text, KernelOptions options = testOptions());
  ~LoadedKernels();

  bool ok() const { return succeeded; }
  const std::string &diagnostics() const { return messages; }
  const std::vector<CompiledKernel> &kernels() const { return compiled; }
  double compileSeconds() const { return seconds; }

  /// Calls kernel `index` with the pointers of its inputs and outputs; scratch memory is added.
  void call(size_t index, const std::vector<void *> &pointers) const;

  /// A call with its scratch memory, to be made many times.
  class Call {
  public:
    Call(void *entry, size_t scratchBytes, std::vector<void *> arguments);
    Call(const Call &) = delete;
    Call &operator=(const Call &) = delete;
    ~Call();
    void operator()() const;
    bool keptToScratch() const;

  private:
    void *entry, *scratch = nullptr;
    size_t scratchBytes;
    std::vector<void *> arguments;
  };
  Call prepare(size_t index, const std::vector<void *> &pointers) const;

private:
  struct Code;
  std::unique_ptr<Code> code;
  TemporaryDirectory cache;
  std::vector<CompiledKernel> compiled;
  std::string messages;
  bool succeeded = false;
  double seconds = 0;
};

} // namespace plumb::test

#endif // PLUMB_TEST_UNIT_TARGET_KERNELHARNESS_H
