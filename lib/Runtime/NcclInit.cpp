//===- NcclInit.cpp - How ranks of one process make communicators ----------===//

#include "plumb/Runtime/Device.h"
#include "plumb/Runtime/LocalWorld.h"

#include <atomic>
#include <cstring>

using namespace plumb::host;

extern "C" {

ncclResult_t ncclGetUniqueId(ncclUniqueId *uniqueId) {
  static std::atomic<std::uint64_t> count{0};
  if (!uniqueId)
    return reject(ncclInvalidArgument, "uniqueId is null");
  std::uint64_t number = ++count;
  std::memset(uniqueId, 0, sizeof *uniqueId);
  // Told apart from the ids that a launcher makes up by the last byte.
  std::memcpy(uniqueId->internal, &number, sizeof number);
  uniqueId->internal[NCCL_UNIQUE_ID_BYTES - 1] = 1;
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId commId, int rank,
                                    ncclConfig_t *config) {
  Device *device = Device::current();
  if (!comm || !device)
    return reject(ncclInvalidArgument, "comm is null, or the calling thread is not a rank");
  if (nranks < 1 || rank < 0 || rank >= nranks)
    return reject(ncclInvalidArgument,
                  "rank " + std::to_string(rank) + " of " + std::to_string(nranks) + " does not exist");
  auto &world = static_cast<LocalWorld &>(device->world());
  std::string name = config && config->commName ? config->commName : "", why;
  LocalClique *clique =
      world.join(*device, std::string(commId.internal, NCCL_UNIQUE_ID_BYTES), name, nranks, rank, why);
  if (!clique)
    return reject(ncclInvalidUsage, why);
  if (world.failed())
    return failedElsewhere();
  *comm = new ncclComm{device, clique, rank};
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId commId, int rank) {
  return ncclCommInitRankConfig(comm, nranks, commId, rank, nullptr);
}

} // extern "C"
