//===- Threads.cpp - The collective provider `threads` ------------------------===//

#include "plumb/Runtime/Threads.h"

#include "plumb/Runtime/Session.h"
#include "plumb/Runtime/World.h"

#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <optional>
#include <string>

namespace plumb {
namespace {

class ThreadsProvider : public Provider {
public:
  ThreadsProvider(const Program &program, Collector *collector) : program(program), collector(collector) {}

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
  bool collects() const override { return collector != nullptr; }
  void deliver(const Piece &piece) override { collector->add(piece); }
  void deliverLoss(std::int64_t step, float loss) override { collector->addLoss(step, loss); }

private:
  const Program &program;
  Collector *collector;
};

int report(int code, const char *what) {
  std::fprintf(stderr, "error: %s\n", what);
  return code;
}

int runOrThrow(const Program &program, const Options &options) {
  constexpr std::uint64_t kDefaultSeed = 1;
  std::uint64_t seed = environmentNumber("PLUMB_SEED", kDefaultSeed);
  Sources sources = openSources(program, options);
  std::optional<Collector> collector;
  if (!options.save.empty())
    collector.emplace(program, options.save, options.steps, sources.weights.get());
  host::Outcome outcome = host::runRanks(rankCount(program), seed, [&](int rank) {
    ThreadsProvider provider(program, collector ? &*collector : nullptr);
    Session(program, rank, options, sources, provider).run();
  });
  if (outcome.code)
    return report(outcome.code, outcome.error.c_str());
  if (collector)
    collector->commit();
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
