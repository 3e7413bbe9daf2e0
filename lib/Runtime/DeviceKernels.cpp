//===- DeviceKernels.cpp - Loads and launches kernels on a GPU ------------------===//

#include "plumb/Runtime/DeviceKernel.h"
#include "plumb/Runtime/Failure.h"

#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <span>
#include <string>

// Made by the linker; null in a program without kernels for GPUs.
extern "C" {
extern plumb::DeviceKernel __start_plumb_kernels[] __attribute__((weak));
extern plumb::DeviceKernel __stop_plumb_kernels[] __attribute__((weak));
}

namespace plumb {
namespace {

/// A function of the driver, which the CUDA runtime finds: programs need not be linked with the driver.
template <class Function>
Function driverFunction(const char *name) {
  void *function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
  cudaError_t error = cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &found);
#else
  cudaError_t error = cudaGetDriverEntryPoint(name, &function, cudaEnableDefault, &found);
#endif
  if (error != cudaSuccess || found != cudaDriverEntryPointSuccess)
    throw Failure(std::string("the GPU driver has no function ") + name +
                  (error == cudaSuccess ? "" : std::string(": ") + cudaGetErrorString(error)));
  return reinterpret_cast<Function>(function);
}

struct Driver {
  decltype(&cuModuleLoadDataEx) loadModule =
      driverFunction<decltype(&cuModuleLoadDataEx)>("cuModuleLoadDataEx");
  decltype(&cuModuleGetFunction) getFunction =
      driverFunction<decltype(&cuModuleGetFunction)>("cuModuleGetFunction");
  decltype(&cuFuncGetAttribute) getAttribute =
      driverFunction<decltype(&cuFuncGetAttribute)>("cuFuncGetAttribute");
  decltype(&cuLaunchKernel) launch = driverFunction<decltype(&cuLaunchKernel)>("cuLaunchKernel");
};

const Driver &driver() {
  static const Driver instance;
  return instance;
}

/// The driver's errors have the numbers of the runtime's.
std::string describe(CUresult error) { return cudaGetErrorString(static_cast<cudaError_t>(error)); }

void load(DeviceKernel &kernel) {
  std::array<char, 4096> log{};
  std::array options{CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  std::array<void *, options.size()> values{log.data(), reinterpret_cast<void *>(log.size() - 1)};
  CUmodule module;
  CUresult error = driver().loadModule(&module, kernel.ptx, options.size(), options.data(), values.data());
  for (DeviceEntry &entry : std::span(kernel.entries, kernel.count)) {
    int registers = 0;
    if (error == CUDA_SUCCESS)
      error = driver().getFunction(&entry.function, module, entry.name);
    // Functions are loaded when they are needed first, here for this answer.
    if (error == CUDA_SUCCESS)
      error = driver().getAttribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, entry.function);
  }
  if (error != CUDA_SUCCESS)
    throw Failure(
        std::string("kernel '") + kernel.name + "' cannot be loaded on this GPU: " + describe(error) +
        (log[0] ? std::string("\n") + log.data() : "") +
        "\ncompile the program for it, or for an older one, with plumbc compile --target nccl --gpu sm_…");
}

} // namespace

void loadDeviceKernels() {
  static const bool isLoaded = [] {
    std::for_each(__start_plumb_kernels, __stop_plumb_kernels, load);
    return true;
  }();
  (void)isLoaded;
}

} // namespace plumb

int plumb_device_launch(plumb::DeviceKernel *kernel, void **arguments, void *stream) {
  for (const plumb::DeviceEntry &entry : std::span(kernel->entries, kernel->count))
    if (CUresult error = plumb::driver().launch(entry.function, entry.blocks, 1, 1, entry.threads, 1, 1, 0,
                                                static_cast<CUstream>(stream), arguments, nullptr);
        error != CUDA_SUCCESS)
      return error;
  return cudaSuccess;
}
