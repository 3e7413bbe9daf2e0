//===- HostSupport.cpp - What a program and its session ask of the host world ---===//

#include "plumb/Runtime/Device.h"
#include "plumb/Runtime/Program.h"

namespace plumb {

void host::beginStep(std::int64_t step) {
  Device::current()->position = {nullptr, -1, static_cast<std::ptrdiff_t>(step)};
}

void enter(const char *part, std::size_t microbatch) {
  if (host::Device *device = host::Device::current()) {
    device->position.part = part;
    device->position.microbatch = microbatch == kAbsent ? -1 : static_cast<std::ptrdiff_t>(microbatch);
  }
}

namespace detail {

void raise(cudaError_t error, const char *call, const char *file, int line) {
  throw Failure(std::string(call) + " at " + file + ":" + std::to_string(line) + ": " +
                cudaGetErrorString(error));
}

void settle(ncclResult_t result, const char *call, const char *file, int line) {
  throw Failure(std::string(call) + " at " + file + ":" + std::to_string(line) + ": " +
                ncclGetErrorString(result) + " (" + ncclGetLastError(nullptr) + ")");
}

} // namespace detail
} // namespace plumb
