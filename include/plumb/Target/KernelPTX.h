// Device code of kernels, as PTX text: correct and simple, not tuned.
#ifndef PLUMB_TARGET_KERNELPTX_H
#define PLUMB_TARGET_KERNELPTX_H

#include "mlir/IR/BuiltinOps.h"

#include "llvm/Target/TargetMachine.h"

#include <memory>
#include <string>

namespace plumb::kernels {

/// A GPU that kernels are compiled for.
class Chip {
public:
  /// A name that LLVM knows, at least sm_70: "sm_90". Fails with a message that names the chip.
  static llvm::Expected<Chip> create(llvm::StringRef name);

  /// Everything that the code depends on, as text.
  std::string description() const;

  /// The PTX text of a module in the LLVM dialect, whose functions become entries. Newer GPUs take it too.
  /// Fails where a function is called that devices do not have.
  llvm::Expected<std::string> emitPTX(mlir::ModuleOp entries) const;

private:
  std::unique_ptr<llvm::TargetMachine> target;
};

} // namespace plumb::kernels

#endif // PLUMB_TARGET_KERNELPTX_H
