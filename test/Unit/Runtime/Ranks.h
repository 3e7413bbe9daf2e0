//===- Ranks.h - Small worlds for the tests of the runtime -----------------===//

#ifndef PLUMB_TEST_UNIT_RUNTIME_RANKS_H
#define PLUMB_TEST_UNIT_RUNTIME_RANKS_H

#include "plumb/Runtime/LocalWorld.h"
#include "plumb/Runtime/Program.h"

#include <cstring>
#include <functional>
#include <string>
#include <vector>

namespace plumb::test {

/// A rank that uses the APIs as a generated program does: one communicator over all ranks per name asked for.
class TestRank {
public:
  TestRank(int rank, int size) : rank(rank), size(size) {}

  const int rank, size;

  ncclComm_t comm(const char *name) {
    ncclUniqueId id{};
    std::strncpy(id.internal, name, sizeof id.internal - 1);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.commName = name;
    ncclComm_t result;
    PLUMB_NCCL(ncclCommInitRankConfig(&result, size, id, rank, &config));
    comms.push_back(result);
    return result;
  }
  cudaStream_t stream() {
    cudaStream_t result;
    PLUMB_CUDA(cudaStreamCreateWithFlags(&result, cudaStreamNonBlocking));
    return result;
  }
  cudaEvent_t event() {
    cudaEvent_t result;
    PLUMB_CUDA(cudaEventCreateWithFlags(&result, cudaEventDisableTiming));
    return result;
  }
  ~TestRank() {
    for (ncclComm_t comm : comms)
      ncclCommDestroy(comm);
  }

private:
  std::vector<ncclComm_t> comms;
};

/// Data lives outside the bodies: a rank that fails must not take away what another one still reads.
template <class T>
using PerRank = std::vector<std::vector<T>>;

inline Outcome run(int ranks, const std::function<void(TestRank &)> &body, std::uint64_t seed = 1) {
  return host::runRanks(ranks, seed, [&](int rank) {
    TestRank self(rank, ranks);
    body(self);
    PLUMB_CUDA(cudaDeviceSynchronize());
  });
}

} // namespace plumb::test

#endif // PLUMB_TEST_UNIT_RUNTIME_RANKS_H
