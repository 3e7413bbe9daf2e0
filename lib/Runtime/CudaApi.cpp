//===- CudaApi.cpp - The CUDA runtime's entry points on the host -----------===//

#include "plumb/Runtime/Device.h"

#include <algorithm>
#include <cstring>

using namespace plumb::host;

namespace {

/// The stream that a handle stands for; null on a thread that is no rank, or for a stream of another rank.
CUstream_st *resolve(cudaStream_t stream) {
  Device *device = Device::current();
  if (!device)
    return nullptr;
  if (!stream)
    return device->defaultStream();
  return stream->device == device ? stream : nullptr;
}

cudaError_t outcome(bool succeeded) { return succeeded ? cudaSuccess : cudaErrorLaunchFailure; }

cudaError_t enqueue(cudaStream_t handle, Work work) {
  CUstream_st *stream = resolve(handle);
  if (!stream)
    return cudaErrorInvalidResourceHandle;
  stream->device->enqueue(*stream, std::move(work));
  return cudaSuccess;
}

struct ErrorText {
  cudaError_t error;
  const char *name, *text;
};
const ErrorText &describe(cudaError_t error) {
  static const ErrorText known[] = {
      {cudaSuccess, "cudaSuccess", "no error"},
      {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
      {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
      {cudaErrorNoDevice, "cudaErrorNoDevice", "the calling thread is not a rank"},
      {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "stream or event of another rank"},
      {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
      {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "the run has failed on another rank"},
  };
  static const ErrorText unknown = {cudaErrorInvalidValue, "cudaErrorUnknown", "unrecognized error code"};
  auto found = std::ranges::find(known, error, &ErrorText::error);
  return found == std::end(known) ? unknown : *found;
}

} // namespace

extern "C" {

const char *cudaGetErrorName(cudaError_t error) { return describe(error).name; }
const char *cudaGetErrorString(cudaError_t error) { return describe(error).text; }
// Errors are returned by the call that finds them and never kept.
cudaError_t cudaGetLastError() { return cudaSuccess; }

cudaError_t cudaGetDeviceCount(int *count) {
  if (!count)
    return cudaErrorInvalidValue;
  *count = 1;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int) { return cudaSuccess; }

cudaError_t cudaDeviceSynchronize() {
  Device *device = Device::current();
  return device ? outcome(device->synchronize()) : cudaErrorNoDevice;
}

cudaError_t cudaMalloc(void **devPtr, size_t size) {
  Device *device = Device::current();
  if (!device)
    return cudaErrorNoDevice;
  if (!devPtr)
    return cudaErrorInvalidValue;
  *devPtr = size ? device->allocate(size) : nullptr;
  return *devPtr || size == 0 ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaFree(void *devPtr) {
  Device *device = Device::current();
  if (!device)
    return cudaErrorNoDevice;
  bool succeeded = device->synchronize();
  device->release(devPtr);
  return outcome(succeeded);
}

// All memory is the host's.
cudaError_t cudaMallocHost(void **ptr, size_t size) { return cudaMalloc(ptr, size); }
cudaError_t cudaFreeHost(void *ptr) { return cudaFree(ptr); }

cudaError_t cudaMemcpy(void *dst, const void *src, size_t count, cudaMemcpyKind kind) {
  cudaError_t error = cudaMemcpyAsync(dst, src, count, kind, nullptr);
  return error == cudaSuccess ? cudaStreamSynchronize(nullptr) : error;
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t count, cudaMemcpyKind, cudaStream_t stream) {
  if (count && (!dst || !src))
    return cudaErrorInvalidValue;
  if (!count)
    return cudaSuccess;
  Work work{Work::Copy};
  work.to = dst;
  work.from = src;
  work.bytes = count;
  return enqueue(stream, std::move(work));
}

cudaError_t cudaMemcpy2DAsync(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
                              size_t height, cudaMemcpyKind, cudaStream_t stream) {
  if (!width || !height)
    return cudaSuccess;
  if (!dst || !src || dpitch < width || spitch < width)
    return cudaErrorInvalidValue;
  Work work{Work::Copy};
  work.to = dst;
  work.from = src;
  work.bytes = width;
  work.rows = height;
  work.toPitch = dpitch;
  work.fromPitch = spitch;
  return enqueue(stream, std::move(work));
}

cudaError_t cudaMemset(void *devPtr, int value, size_t count) {
  cudaError_t error = cudaMemsetAsync(devPtr, value, count, nullptr);
  return error == cudaSuccess ? cudaStreamSynchronize(nullptr) : error;
}

cudaError_t cudaMemsetAsync(void *devPtr, int value, size_t count, cudaStream_t stream) {
  if (count && !devPtr)
    return cudaErrorInvalidValue;
  if (!count)
    return cudaSuccess;
  Work work{Work::Fill};
  work.to = devPtr;
  work.value = value;
  work.bytes = count;
  return enqueue(stream, std::move(work));
}

cudaError_t cudaStreamCreate(cudaStream_t *pStream) {
  return cudaStreamCreateWithFlags(pStream, cudaStreamDefault);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *pStream, unsigned int) {
  Device *device = Device::current();
  if (!device)
    return cudaErrorNoDevice;
  if (!pStream)
    return cudaErrorInvalidValue;
  *pStream = device->makeStream();
  return cudaSuccess;
}

// Streams and events stay with their device: recorded positions refer to them.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return stream ? cudaStreamSynchronize(stream) : cudaErrorInvalidResourceHandle;
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  CUstream_st *stream = resolve(handle);
  return stream ? outcome(stream->device->synchronize(*stream)) : cudaErrorInvalidResourceHandle;
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  CUstream_st *stream = resolve(handle);
  if (!stream)
    return cudaErrorInvalidResourceHandle;
  stream->device->poll();
  return stream->queue.empty() ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int) {
  if (!event || event->device != Device::current())
    return cudaErrorInvalidResourceHandle;
  Work work{Work::Wait};
  work.awaited = *event;
  return enqueue(stream, std::move(work));
}

cudaError_t cudaEventCreate(cudaEvent_t *event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int) {
  Device *device = Device::current();
  if (!device)
    return cudaErrorNoDevice;
  if (!event)
    return cudaErrorInvalidValue;
  *event = device->makeEvent();
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return event ? cudaSuccess : cudaErrorInvalidResourceHandle;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
  CUstream_st *stream = resolve(handle);
  if (!event || !stream || event->device != stream->device)
    return cudaErrorInvalidResourceHandle;
  event->stream = stream;
  event->position = stream->enqueued;
  return enqueue(handle, Work{Work::Record});
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (!event || event->device != Device::current())
    return cudaErrorInvalidResourceHandle;
  return outcome(event->device->synchronize(*event));
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (!event || event->device != Device::current())
    return cudaErrorInvalidResourceHandle;
  event->device->poll();
  return event->isComplete() ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t plumb_host_launch(cudaStream_t stream, void (*body)(void **), void **args, size_t count,
                              const char *name) {
  if (!body)
    return cudaErrorInvalidValue;
  Work work{Work::Launch};
  work.kernel = {body, std::make_unique_for_overwrite<void *[]>(count), name};
  std::copy_n(args, count, work.kernel.args.get());
  return enqueue(stream, std::move(work));
}

} // extern "C"
