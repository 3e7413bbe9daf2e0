// Kernels: functions on tensors, compiled to objects that a generated program links.
#ifndef PLUMB_TARGET_KERNELS_H
#define PLUMB_TARGET_KERNELS_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Support/LLVM.h"

#include <cstdint>
#include <string>

namespace plumb {

/// Where kernels run.
enum class KernelTarget {
  Host,
  /// A GPU.
  Device,
  /// The host, which runs what a GPU would be given, a thread at a time.
  Emulated
};

struct KernelOptions {
  KernelTarget target = KernelTarget::Host;
  /// For devices, the GPU: a name that LLVM knows, sm_70 or later. Newer GPUs run the kernels too.
  std::string gpu = "sm_90";
  /// "native" for the machine at hand, or a name that LLVM knows for the same architecture ("x86-64-v3").
  std::string cpu = "native";
  /// Where objects are kept. Empty: $XDG_CACHE_HOME/plumb, or ~/.cache/plumb. If it cannot be written to, a
  /// private temporary directory takes its place; the objects there outlive the call.
  std::string cacheDirectory;
  /// Kernels compiled at the same time.
  unsigned threads = 2;
  /// Whether objects of earlier runs may be used. Objects are written to the cache either way.
  bool useCache = true;
};

struct CompiledKernel {
  /// The name of the function in the module, `k_…`.
  std::string name;
  /// The symbol to call, `k_<hash>`. It depends on the body alone: equal kernels share symbol and object, so
  /// a list of objects to link must be made unique first.
  std::string symbol;
  /// Bytes of 64-byte aligned scratch memory that a call needs; with 0 there is no scratch argument.
  std::int64_t scratchBytes = 0;
  std::string objectPath;
};

/// Compiles every function `k_…` of `module` that has a body, in the order of the module, which stays as it
/// is.
///
/// A kernel takes and returns ranked tensors of static shape. Where argument a carries `plumb.inout` and
/// `plumb.result = i`, result i is written in place into that argument. The object defines
///
///   extern "C" int <symbol>(inputs…, outputs…, [void *scratch,] void *stream);
///
/// where inputs are the function's arguments and outputs its results but those written in place: bare
/// pointers to dense row-major elements (a bool is one byte), none of which may overlap another. It hands the
/// work to
///
///   extern "C" int plumb_host_launch(void *stream, void (*body)(void **), void **args, size_t count,
///                                    const char *name);
///
/// and returns what that returns. `args` holds the `count` pointers in the order above, without the stream;
/// it is gone when the call returns, so that a launch which runs the body later must copy it first.
///
/// A kernel for a device holds PTX instead of a body, and hands it to
///
///   extern "C" int plumb_device_launch(plumb::DeviceKernel *kernel, void **args, void *stream);
///
/// (see plumb/Runtime/DeviceKernel.h). Its scratch memory differs from that of a kernel for the host.
///
/// Errors are emitted at the function: types outside the contract, ops that no step can lower, an unknown
/// cpu, a cache that cannot be written. An op that can only be lowered to scalar loops is reported by a
/// remark.
mlir::FailureOr<llvm::SmallVector<CompiledKernel>> compileKernels(mlir::ModuleOp module,
                                                                  const KernelOptions &options);

} // namespace plumb

#endif // PLUMB_TARGET_KERNELS_H
