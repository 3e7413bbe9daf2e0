// Machine code of a kernel.
#ifndef PLUMB_TARGET_KERNELOBJECT_H
#define PLUMB_TARGET_KERNELOBJECT_H

#include "plumb/Target/KernelNest.h"

#include "llvm/Target/TargetMachine.h"

#include <memory>
#include <string>

namespace plumb::kernels {

/// The machine that kernels are compiled for.
class Machine {
public:
  /// "native", or a cpu name of this architecture. Fails with a message that names the cpu.
  static llvm::Expected<Machine> create(llvm::StringRef cpu);

  /// Everything that the code depends on, as text.
  std::string description() const;
  VectorTarget vectors() const;

  /// The object of a module in the LLVM dialect whose one function, `kernel`, takes pointers only. The object
  /// defines `symbol`, which launches it (see Kernels.h).
  llvm::Expected<std::string> emitObject(mlir::ModuleOp module, llvm::StringRef symbol) const;

private:
  std::string cpu, features;
  std::unique_ptr<llvm::TargetMachine> target;
};

} // namespace plumb::kernels

#endif // PLUMB_TARGET_KERNELOBJECT_H
