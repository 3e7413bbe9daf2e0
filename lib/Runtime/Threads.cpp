//===- Threads.cpp - The collective provider `threads` ------------------------===//

#include "plumb/Runtime/Threads.h"

#include "plumb/Runtime/Device.h"
#include "plumb/Runtime/LocalWorld.h"
#include "plumb/Runtime/Session.h"

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <exception>
#include <mutex>
#include <new>
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
  void synchronize(std::span<const cudaStream_t>) override { PLUMB_CUDA(cudaDeviceSynchronize()); }
  void beginStep(std::int64_t step) override { host::beginStep(step); }

private:
  const Program &program;
};

/// The desk, for ranks that are threads. They wait for each other only when nothing is left on their streams.
class ThreadsHub : public Hub {
public:
  ThreadsHub(Desk &desk, int ranks) : desk(desk), ranks(ranks) {}

  void deliver(const Piece &piece) override { desk.deliver(piece); }
  void report(const StepReport &report) override { desk.report(report); }
  bool decide(std::int64_t step, bool proposal) override { return desk.decide(step, proposal); }
  void wait() override {
    constexpr auto kBetweenChecks = std::chrono::milliseconds(10);
    std::unique_lock lock(mutex);
    std::int64_t meeting = arrivals++ / ranks;
    changed.notify_all();
    while (!changed.wait_for(lock, kBetweenChecks, [&] { return arrivals / ranks > meeting; }))
      if (host::Device::current()->world().failed())
        throw Failure("the run has failed on another rank");
  }

private:
  Desk &desk;
  const int ranks;
  std::mutex mutex;
  std::condition_variable changed;
  std::int64_t arrivals = 0;
};

int report(int code, const char *what) {
  std::fprintf(stderr, "error: %s\n", what);
  return code;
}

int runOrThrow(const Program &program, const Options &options) {
  constexpr std::uint64_t kDefaultSeed = 1;
  std::uint64_t seed = environmentNumber("PLUMB_SEED", kDefaultSeed);
  if (!options.checkpoint.empty())
    handleTermination();
  Sources sources = openSources(program, options);
  Desk desk(program, options, sources, sources.firstStep);
  ThreadsHub hub(desk, rankCount(program));
  Outcome outcome = host::runRanks(rankCount(program), seed, [&](int rank) {
    ThreadsProvider provider(program);
    Session(program, rank, options, sources, provider, hub).run();
  });
  if (outcome.code)
    return report(outcome.code, outcome.error.c_str());
  desk.commit();
  return 0;
}

} // namespace

int runThreads(const Program &program, int argc, const char *const *argv) {
  try {
    return runOrThrow(program, parseOptions(argc, argv));
  } catch (const UsageError &error) {
    return report(2, error.what());
  } catch (const std::bad_alloc &) {
    return report(1, "out of memory");
  } catch (const std::exception &error) {
    return report(1, error.what());
  }
}

} // namespace plumb
