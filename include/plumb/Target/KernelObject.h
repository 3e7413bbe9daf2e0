// Machine code of a kernel.
#ifndef PLUMB_TARGET_KERNELOBJECT_H
#define PLUMB_TARGET_KERNELOBJECT_H

#include "plumb/Target/KernelGrid.h"
#include "plumb/Target/KernelNest.h"

#include "llvm/Target/TargetMachine.h"

#include <memory>
#include <string>

namespace plumb::kernels {

/// Where functions such as sin come from: the C library, or what is linked into device code.
enum class MathLibrary { Host, Device };

/// What a GPU runs of a kernel.
struct DeviceCode {
  std::string ptx;
  /// In the order in which they are launched; all take the same pointers.
  llvm::SmallVector<GridEntry> entries;
  unsigned arguments = 0;
};

/// The machine that kernels are compiled for, or that launches them.
class Machine {
public:
  /// "native", or a cpu name of this architecture. Fails with a message that names the cpu.
  static llvm::Expected<Machine> create(llvm::StringRef cpu);

  /// Everything that the code depends on, as text.
  std::string description() const;
  VectorTarget vectors() const;

  /// The object of a module in the LLVM dialect whose one function, `kernel`, takes pointers only. The object
  /// defines `symbol`, which launches it (see Kernels.h).
  llvm::Expected<std::string> emitObject(mlir::ModuleOp module, llvm::StringRef symbol,
                                         MathLibrary math = MathLibrary::Host) const;

  /// An object that holds device code and defines `symbol`, which launches it (see Kernels.h).
  llvm::Expected<std::string> emitLauncher(const DeviceCode &code, llvm::StringRef symbol) const;

private:
  llvm::Expected<std::string> emit(llvm::Module &module) const;

  std::string cpu, features;
  std::unique_ptr<llvm::TargetMachine> target;
};

} // namespace plumb::kernels

#endif // PLUMB_TARGET_KERNELOBJECT_H
