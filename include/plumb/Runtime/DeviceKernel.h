//===- DeviceKernel.h - Kernels that are compiled for GPUs ----------------------===//
//
// An object of a kernel for GPUs holds one `DeviceKernel`, and a function with the name and the parameters of
// the kernel that calls `plumb_device_launch` with it. The linker joins the kernels of all objects to an
// array.
//
//===----------------------------------------------------------------------===//

#ifndef PLUMB_RUNTIME_DEVICEKERNEL_H
#define PLUMB_RUNTIME_DEVICEKERNEL_H

#include <cstdint>

struct CUfunc_st;

namespace plumb {

/// One launch of a kernel: a grid of `blocks` blocks of `threads` threads.
struct DeviceEntry {
  const char *name;
  std::uint32_t blocks, threads;
  CUfunc_st *function; ///< Null until it is loaded.
};

struct DeviceKernel {
  const char *name;
  const char *ptx;
  DeviceEntry *entries; ///< In the order of their launches; all have the parameters of the kernel.
  std::uint64_t count;
};

/// Translates the kernels of the program for the device that is current and loads them there, all of them
/// before the first is launched: to load one may wait for the device, which may wait for another rank. May be
/// called again. Throws Failure, which names the kernel.
void loadDeviceKernels();

} // namespace plumb

/// Launches the entries of a kernel on a stream, a cudaStream_t; `arguments` are the addresses of its
/// pointers. Returns a cudaError_t.
extern "C" int plumb_device_launch(plumb::DeviceKernel *kernel, void **arguments, void *stream);

#endif // PLUMB_RUNTIME_DEVICEKERNEL_H
