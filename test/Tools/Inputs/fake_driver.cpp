// A driver of a GPU that only writes down what it is asked for, in place of the CUDA runtime's.
#include "plumb/Runtime/DeviceKernel.h"

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>

extern "C" plumb::DeviceKernel __start_plumb_kernels[], __stop_plumb_kernels[];

static int modules = 0, functions = 0, launches = 0;
static std::string loaded;

static CUresult loadModule(CUmodule *module, const void *image, unsigned options, CUjit_option *names,
                           void **values) {
  const char *refused = std::getenv("REFUSE");
  if (refused && modules == std::atoi(refused)) {
    for (unsigned i = 0; i < options; ++i)
      if (names[i] == CU_JIT_ERROR_LOG_BUFFER)
        std::strcpy(static_cast<char *>(values[i]), "ptxas: something is wrong");
    return CUDA_ERROR_NO_BINARY_FOR_GPU;
  }
  loaded = static_cast<const char *>(image);
  *module = reinterpret_cast<CUmodule>(static_cast<std::size_t>(++modules));
  return CUDA_SUCCESS;
}

static CUresult getFunction(CUfunction *function, CUmodule, const char *name) {
  if (loaded.find(std::string(".visible .entry ") + name + "(") == std::string::npos)
    return CUDA_ERROR_NOT_FOUND;
  *function = reinterpret_cast<CUfunction>(static_cast<std::size_t>(++functions));
  return CUDA_SUCCESS;
}

static CUresult getAttribute(int *, CUfunction_attribute, CUfunction) { return CUDA_SUCCESS; }

static CUresult launch(CUfunction function, unsigned blocks, unsigned, unsigned, unsigned threads, unsigned,
                       unsigned, unsigned, CUstream stream, void **arguments, void **) {
  ++launches;
  if (launches <= 2)
    std::printf("launch of function %zu: %u x %u, stream %zu, first pointer %zu\n",
                reinterpret_cast<std::size_t>(function), blocks, threads,
                reinterpret_cast<std::size_t>(stream), *static_cast<std::size_t *>(arguments[0]));
  return launches == 3 ? CUDA_ERROR_LAUNCH_FAILED : CUDA_SUCCESS;
}

static cudaError_t find(const char *name, void **function, cudaDriverEntryPointQueryResult *found) {
  *found = cudaDriverEntryPointSuccess;
  *function = name == std::string("cuModuleLoadDataEx")    ? reinterpret_cast<void *>(loadModule)
              : name == std::string("cuModuleGetFunction") ? reinterpret_cast<void *>(getFunction)
              : name == std::string("cuFuncGetAttribute")  ? reinterpret_cast<void *>(getAttribute)
                                                           : reinterpret_cast<void *>(launch);
  return cudaSuccess;
}

#if CUDART_VERSION >= 12050
cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult *found) {
  return find(name, function, found);
}
#else
cudaError_t cudaGetDriverEntryPoint(const char *name, void **function, unsigned long long,
                                    cudaDriverEntryPointQueryResult *found) {
  return find(name, function, found);
}
#endif

const char *cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorNoKernelImageForDevice ? "no kernel image is available" : "another error";
}

int main() {
  try {
    plumb::loadDeviceKernels();
    plumb::loadDeviceKernels();
  } catch (const std::exception &exception) {
    std::printf("%s\n", exception.what());
    return 1;
  }
  int kernels = static_cast<int>(__stop_plumb_kernels - __start_plumb_kernels), entries = 0;
  for (auto *kernel = __start_plumb_kernels; kernel != __stop_plumb_kernels; ++kernel)
    entries += static_cast<int>(kernel->count);
  std::printf("modules: %s, functions: %s\n", modules == kernels ? "all" : "not all",
              functions == entries ? "all" : "not all");
  // Any kernel with two entries; it is given more pointers than it has.
  auto *kernel = __start_plumb_kernels;
  while (kernel->count != 2)
    ++kernel;
  std::size_t pointer = 7;
  void *arguments[] = {&pointer};
  auto *stream = reinterpret_cast<void *>(static_cast<std::size_t>(5));
  std::printf("result: %d\n", plumb_device_launch(kernel, arguments, stream));
  std::printf("result: %d, launches: %d\n", plumb_device_launch(kernel, arguments, stream), launches);
}
