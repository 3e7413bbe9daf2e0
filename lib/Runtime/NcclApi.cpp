//===- NcclApi.cpp - NCCL's entry points on the host -----------------------===//

#include "plumb/Runtime/Device.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

using namespace plumb::host;

static thread_local std::string lastError;

ncclResult_t plumb::host::reject(ncclResult_t result, std::string why) {
  lastError = std::move(why);
  return result;
}

ncclResult_t plumb::host::failedElsewhere() {
  return reject(ncclRemoteError, "the run has failed on another rank");
}

namespace {

ncclResult_t validate(const Call &call, const ncclComm *comm) {
  if (sizeOf(call.type) == 0)
    return reject(ncclInvalidArgument, std::string("host collectives do not support ") + nameOf(call.type));
  if (call.op < 0 || call.op >= ncclNumOps)
    return reject(ncclInvalidArgument, "the reduction is not one of sum, prod, max, min, avg");
  std::size_t size = comm->clique->ranks.size();
  bool hasPeer = call.isTransfer() || call.kind == CallKind::Broadcast;
  if (hasPeer && (call.peer < 0 || static_cast<std::size_t>(call.peer) >= size))
    return reject(ncclInvalidArgument, "peer or root " + std::to_string(call.peer) +
                                           " is not in a communicator of " + std::to_string(size) + " ranks");
  bool sends = call.kind != CallKind::Recv && (call.kind != CallKind::Broadcast || call.peer == call.self);
  bool receives = call.kind != CallKind::Send;
  if (call.count && ((sends && !call.send) || (receives && !call.recv)))
    return reject(ncclInvalidArgument, "a buffer is null");
  if (call.kind == CallKind::AllToAll && call.count && call.send == call.recv)
    return reject(ncclInvalidArgument, "ncclAlltoAll cannot work in place");
  return ncclSuccess;
}

/// Makes the call a unit, or a part of the open group.
ncclResult_t issue(Call call, ncclComm *comm, cudaStream_t handle) {
  Device *device = Device::current();
  if (!comm || comm->device != device)
    return reject(ncclInvalidArgument, "the communicator is null or belongs to another rank");
  if (device->world().failed())
    return failedElsewhere();
  CUstream_st *stream = handle ? handle : device->defaultStream();
  if (stream->device != device)
    return reject(ncclInvalidArgument, "the stream belongs to another rank");
  call.clique = comm->clique;
  call.self = comm->self;
  if (ncclResult_t result = validate(call, comm); result != ncclSuccess)
    return result;
  auto text = [](const CUstream_st *stream) { return std::to_string(stream->index); };
  if (comm->stream && comm->stream != stream)
    return reject(ncclInvalidUsage, "communicator '" + comm->clique->name + "' is used on streams " +
                                        text(comm->stream) + " and " + text(stream) +
                                        "; a communicator belongs to one stream");
  comm->stream = stream;
  Device::Group &group = device->group;
  if (group.depth == 0) {
    std::vector<Call> calls(1, call);
    device->launch(*stream, std::move(calls));
    return ncclSuccess;
  }
  if (group.stream && group.stream != stream)
    return reject(ncclInvalidUsage, "a group spans streams " + text(group.stream) + " and " + text(stream));
  group.stream = stream;
  group.calls.push_back(call);
  return ncclSuccess;
}

} // namespace

extern "C" {

ncclResult_t ncclGetVersion(int *version) {
  if (!version)
    return reject(ncclInvalidArgument, "version is null");
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result) {
  static const char *const texts[] = {"no error",       "unhandled cuda error", "unhandled system error",
                                      "internal error", "invalid argument",     "invalid usage",
                                      "remote error",   "operation in progress"};
  return result >= 0 && result < ncclNumResults ? texts[result] : "unknown result code";
}

const char *ncclGetLastError(ncclComm_t) { return lastError.c_str(); }

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  return comm ? ncclSuccess : reject(ncclInvalidArgument, "comm is null");
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) { return ncclCommDestroy(comm); }

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *asyncError) {
  if (!comm || !asyncError)
    return reject(ncclInvalidArgument, "comm or asyncError is null");
  *asyncError = comm->device->world().failed() ? ncclRemoteError : ncclSuccess;
  return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int *count) {
  if (!comm || !count)
    return reject(ncclInvalidArgument, "comm or count is null");
  *count = static_cast<int>(comm->clique->ranks.size());
  return ncclSuccess;
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *rank) {
  if (!comm || !rank)
    return reject(ncclInvalidArgument, "comm or rank is null");
  *rank = comm->self;
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return issue({CallKind::AllReduce, nullptr, 0, -1, sendbuff, recvbuff, count, datatype, op}, comm, stream);
}

ncclResult_t ncclReduceScatter(const void *sendbuff, void *recvbuff, size_t recvcount,
                               ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                               cudaStream_t stream) {
  return issue({CallKind::ReduceScatter, nullptr, 0, -1, sendbuff, recvbuff, recvcount, datatype, op}, comm,
               stream);
}

ncclResult_t ncclAllGather(const void *sendbuff, void *recvbuff, size_t sendcount, ncclDataType_t datatype,
                           ncclComm_t comm, cudaStream_t stream) {
  return issue({CallKind::AllGather, nullptr, 0, -1, sendbuff, recvbuff, sendcount, datatype}, comm, stream);
}

ncclResult_t ncclAlltoAll(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                          ncclComm_t comm, cudaStream_t stream) {
  return issue({CallKind::AllToAll, nullptr, 0, -1, sendbuff, recvbuff, count, datatype}, comm, stream);
}

ncclResult_t ncclBroadcast(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  return issue({CallKind::Broadcast, nullptr, 0, root, sendbuff, recvbuff, count, datatype}, comm, stream);
}

ncclResult_t ncclSend(const void *sendbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return issue({CallKind::Send, nullptr, 0, peer, sendbuff, nullptr, count, datatype}, comm, stream);
}

ncclResult_t ncclRecv(void *recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return issue({CallKind::Recv, nullptr, 0, peer, nullptr, recvbuff, count, datatype}, comm, stream);
}

ncclResult_t ncclGroupStart() {
  if (Device *device = Device::current())
    ++device->group.depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  Device *device = Device::current();
  if (!device || device->group.depth == 0)
    return reject(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
  Device::Group &group = device->group;
  if (--group.depth > 0 || group.calls.empty())
    return ncclSuccess;
  device->launch(*std::exchange(group.stream, nullptr), std::exchange(group.calls, {}));
  return ncclSuccess;
}

} // extern "C"
