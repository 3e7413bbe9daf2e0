//===- Nccl.cpp - The collective provider `nccl` --------------------------------===//

#include "plumb/Runtime/DeviceKernel.h"
#include "plumb/Runtime/Process.h"
#include "plumb/Runtime/Run.h"

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define PLUMB_NVTX 1
#endif

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>

namespace plumb {
namespace {

using Clock = std::chrono::steady_clock;

/// A process is one rank. Communicators are non-blocking, so that a wait for another rank can be given up.
class NcclProvider : public Provider {
public:
  NcclProvider(const Program &program, RendezvousClient &rendezvous, std::chrono::seconds timeout)
      : program(program), rendezvous(rendezvous), timeout(timeout) {
    active = this;
  }
  ~NcclProvider() override { active = nullptr; }

  ncclComm_t connect(int communicator, const std::vector<int> &members, int self) override {
    const char *name = program.communicators[static_cast<std::size_t>(communicator)].name;
    std::string key = std::to_string(communicator) + ":" + std::to_string(members[0]);
    ncclUniqueId id;
    if (self == 0) {
      PLUMB_NCCL(ncclGetUniqueId(&id));
      rendezvous.publish(key, std::as_bytes(std::span(&id, 1)));
    } else {
      std::vector<std::byte> value = rendezvous.await(key);
      if (value.size() != sizeof id)
        throw Failure(std::string("communicator '") + name + "' received an id of the wrong size");
      std::memcpy(&id, value.data(), sizeof id);
    }
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    config.commName = name;
    ncclComm_t comm = nullptr;
    ncclResult_t result = ncclCommInitRankConfig(&comm, static_cast<int>(members.size()), id, self, &config);
    if (comm)
      comms.push_back(comm);
    PLUMB_NCCL(result);
    waitFor([&] { return isReady(comm); }, std::string("the creation of communicator '") + name + "'");
    return comm;
  }

  void disconnect(ncclComm_t comm, bool failed) override {
    std::erase(comms, comm);
    if (!failed && ncclCommFinalize(comm) != ncclSystemError)
      try {
        waitFor([&] { return isReady(comm); }, "the end of a communicator");
        (void)ncclCommDestroy(comm);
        return;
      } catch (const Failure &) {
        // The results are complete; a communicator that does not end in order is aborted.
      }
    (void)ncclCommAbort(comm);
  }

  void synchronize(std::span<const cudaStream_t> streams, const std::function<void()> &meanwhile) override {
    cudaEvent_t done;
    PLUMB_CUDA(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
    std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, decltype(&cudaEventDestroy)> owner(done,
                                                                                           cudaEventDestroy);
    for (cudaStream_t stream : streams) {
      PLUMB_CUDA(cudaEventRecord(done, stream));
      auto isOver = [&] {
        meanwhile();
        return isReached(done);
      };
      waitFor(isOver, "the end of a step");
    }
  }

  void beginStep(std::int64_t number) override {
    step = number;
    enter(nullptr, kAbsent);
  }
  void enter(const char *name, std::size_t number) {
#ifdef PLUMB_NVTX
    // Profilers show the parts of stages as ranges on the host, over the calls that they make.
    if (part)
      nvtxRangePop();
    if (name)
      nvtxRangePushA(number == kAbsent ? name : (name + (" " + std::to_string(number))).c_str());
#endif
    part = name;
    microbatch = number;
  }

  /// Brings calls that are in progress to their end.
  void settle(const std::string &what) {
    waitFor([&] { return std::ranges::all_of(comms, [&](ncclComm_t comm) { return isReady(comm); }); }, what);
  }

  static NcclProvider *active; ///< For `detail::settle`, which the macros of a program call.

private:
  static bool isReady(ncclComm_t comm) {
    ncclResult_t state = ncclSuccess;
    ncclResult_t result = ncclCommGetAsyncError(comm, &state);
    if (result == ncclSuccess)
      result = state;
    if (result != ncclSuccess && result != ncclInProgress)
      throw Failure(std::string("NCCL reports: ") + ncclGetErrorString(result) + " (" +
                    ncclGetLastError(comm) + ")");
    return result == ncclSuccess;
  }

  bool isReached(cudaEvent_t event) const {
    cudaError_t error = cudaEventQuery(event);
    if (error != cudaErrorNotReady)
      PLUMB_CUDA(error);
    for (ncclComm_t comm : comms)
      (void)isReady(comm);
    return error == cudaSuccess;
  }

  template <class Done>
  void waitFor(const Done &done, const std::string &what) {
    constexpr auto kBetweenChecks = std::chrono::seconds(1);
    auto begin = Clock::now(), nextCheck = begin + kBetweenChecks;
    while (!done()) {
      auto now = Clock::now();
      if (now - begin > timeout)
        throw Failure(what + describePosition() + " takes longer than " + std::to_string(timeout.count()) +
                      " s (--timeout)");
      if (now >= nextCheck) {
        rendezvous.checkOthers();
        nextCheck = now + kBetweenChecks;
      }
      std::this_thread::yield();
    }
  }

  std::string describePosition() const {
    std::string text = step < 0 ? "" : " (step " + std::to_string(step + 1);
    if (part)
      text += std::string(", ") + part +
              (microbatch == kAbsent ? "" : ", microbatch " + std::to_string(microbatch));
    return text.empty() ? "" : text + ")";
  }

  const Program &program;
  RendezvousClient &rendezvous;
  std::chrono::seconds timeout;
  std::vector<ncclComm_t> comms;
  // Where the host is in the program.
  std::int64_t step = -1;
  const char *part = nullptr;
  std::size_t microbatch = kAbsent;
};

NcclProvider *NcclProvider::active = nullptr;

void checkVersions() {
  constexpr int kLeastNccl = NCCL_VERSION(2, 26, 0), kLeastCuda = 12030;
  int nccl = 0, cuda = 0;
  PLUMB_NCCL(ncclGetVersion(&nccl));
  PLUMB_CUDA(cudaDriverGetVersion(&cuda));
  if (nccl < kLeastNccl || cuda < kLeastCuda)
    throw Failure("NCCL " + std::to_string(nccl) + " with a driver for CUDA " + std::to_string(cuda) +
                  "; the program needs " + std::to_string(kLeastNccl) + " (2.26) and " +
                  std::to_string(kLeastCuda) + " (12.3)");
}

/// The device of this rank: on a node with several, its own.
void selectDevice(const Place &place) {
  int count = 0;
  if (cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess || count == 0)
    throw Failure(std::string("this machine has no GPU that programs can use: ") +
                  (error == cudaSuccess ? "there is none" : cudaGetErrorString(error)));
  // A launcher may show each rank its own device alone.
  if (count > 1 && place.localRank >= count)
    throw Failure("local rank " + std::to_string(place.localRank) + " has no GPU of its own: there are " +
                  std::to_string(count));
  PLUMB_CUDA(cudaSetDevice(count == 1 ? 0 : place.localRank));
}

} // namespace

Outcome runProgram(const Program &program, int argc, const char *const *argv, Driver *driver) {
  // Keeps the order of launches when kernels of several communicators wait for each other.
  ::setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 1);
  return runProcess(program, argc, argv,
                    {placeFromEnvironment, [](Place &) {},
                     [&](const Place &place, const Options &options, RendezvousClient &client) {
                       selectDevice(place);
                       checkVersions();
                       loadDeviceKernels();
                       return std::make_unique<NcclProvider>(program, client, options.timeout);
                     }},
                    driver);
}

void enter(const char *part, std::size_t microbatch) {
  if (NcclProvider::active)
    NcclProvider::active->enter(part, microbatch);
}

namespace detail {

static std::string describe(const char *call, const char *file, int line) {
  return std::string(call) + " at " + file + ":" + std::to_string(line);
}

void raise(cudaError_t error, const char *call, const char *file, int line) {
  throw Failure(describe(call, file, line) + ": " + cudaGetErrorString(error));
}

void settle(ncclResult_t result, const char *call, const char *file, int line) {
  if (result != ncclInProgress || !NcclProvider::active)
    throw Failure(describe(call, file, line) + ": " + ncclGetErrorString(result) + " (" +
                  ncclGetLastError(nullptr) + ")");
  NcclProvider::active->settle(describe(call, file, line));
}

} // namespace detail
} // namespace plumb
