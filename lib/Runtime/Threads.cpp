//===- Threads.cpp - The collective provider `threads` ------------------------===//

#include "plumb/Runtime/Device.h"
#include "plumb/Runtime/LocalWorld.h"
#include "plumb/Runtime/Run.h"
#include "plumb/Runtime/Session.h"

#include <cstring>
#include <exception>
#include <string>

namespace plumb {
namespace {

class ThreadsProvider : public Provider {
public:
  explicit ThreadsProvider(const Program &program) : program(program) {}

  ncclComm_t connect(int communicator, const std::vector<int> &members, int self) override {
    // All ranks are in this process: the index and the first member name an instance without any exchange.
    ncclUniqueId id{};
    int key[] = {communicator, members[0]};
    std::memcpy(id.internal, key, sizeof key);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.commName = program.communicators[static_cast<std::size_t>(communicator)].name;
    ncclComm_t comm;
    PLUMB_NCCL(ncclCommInitRankConfig(&comm, static_cast<int>(members.size()), id, self, &config));
    return comm;
  }
  void disconnect(ncclComm_t comm, bool failed) override {
    (void)(failed ? ncclCommAbort(comm) : ncclCommDestroy(comm));
  }
  void synchronize(std::span<const cudaStream_t>, const std::function<void()> &meanwhile) override {
    // The device works while this thread waits for it.
    meanwhile();
    PLUMB_CUDA(cudaDeviceSynchronize());
  }
  void beginStep(std::int64_t step) override { host::beginStep(step); }

private:
  const Program &program;
};

/// The desk, for ranks that are threads.
class ThreadsHub : public Hub {
public:
  explicit ThreadsHub(Desk &desk) : desk(desk) {}

  void deliver(const Piece &piece) override { desk.deliver(piece); }
  void report(const StepReport &report) override { desk.report(report); }
  bool decide(std::int64_t step, bool proposal) override { return desk.decide(step, proposal); }
  void wait() override {
    if (!static_cast<host::LocalWorld &>(host::Device::current()->world()).meet())
      throw Failure("the run has failed on another rank");
  }

private:
  Desk &desk;
};

Outcome runOrThrow(const Program &program, const Options &options, Driver *driver) {
  constexpr std::uint64_t kDefaultSeed = 1;
  std::uint64_t seed = environmentNumber("PLUMB_SEED", kDefaultSeed);
  if (!options.checkpoint.empty())
    handleTermination();
  Sources sources = openSources(program, options, /*needsInputs=*/!driver);
  Desk desk(program, options, sources, sources.firstStep, driver);
  ThreadsHub hub(desk);
  if (driver)
    driver->begin(rankCount(program));
  Outcome outcome = host::runRanks(rankCount(program), seed, [&](int rank) {
    ThreadsProvider provider(program);
    Session(program, rank, options, sources, provider, hub, driver).run();
  });
  if (outcome.code == 0)
    desk.commit();
  return outcome;
}

} // namespace

Outcome runProgram(const Program &program, int argc, const char *const *argv, Driver *driver) {
  try {
    return runOrThrow(program, parseOptions(argc, argv), driver);
  } catch (const std::exception &) {
    return outcomeOfException();
  }
}

} // namespace plumb
