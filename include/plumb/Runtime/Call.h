//===- Call.h - The NCCL calls of one rank ---------------------------------===//
//
// A *call* is one NCCL call of one rank. All calls of one launch (one call, or a group) form a *unit*, which
// starts at the head of its stream and is finished when every call has met its partners' calls and its data
// is in place.
//
//===----------------------------------------------------------------------===//

#ifndef PLUMB_RUNTIME_CALL_H
#define PLUMB_RUNTIME_CALL_H

#include <nccl.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace plumb::host {

class Clique;
class Device;
struct Unit;

enum class CallKind { AllReduce, ReduceScatter, AllGather, AllToAll, Broadcast, Send, Recv };

struct Call {
  CallKind kind;
  Clique *clique;
  int self;      ///< Rank in the communicator.
  int peer = -1; ///< Send, Recv: the other rank; Broadcast: the root; -1 otherwise.
  const void *send = nullptr;
  void *recv = nullptr;
  std::size_t count = 0; ///< Elements, as NCCL counts them for this kind.
  ncclDataType_t type = ncclFloat32;
  ncclRedOp_t op = ncclSum;
  Unit *unit = nullptr;
  bool met = false; ///< All calls of the exchange have started.

  bool isTransfer() const { return kind == CallKind::Send || kind == CallKind::Recv; }
  /// Whether two calls that meet say the same: a collective everything, a transfer the number and type of
  /// elements.
  bool agreesWith(const Call &other) const;
  /// "ncclAllReduce of 8 f32 (sum)".
  std::string describe() const;
};

/// Where in the program a rank is: the part of a stage, its microbatch (-1 for none), and the step, from 0.
struct Position {
  const char *part = nullptr;
  std::ptrdiff_t microbatch = -1;
  std::ptrdiff_t step = -1;

  /// " in step 2, submod_pp_0_forward, microbatch 1"; empty outside of a step.
  std::string describe() const;
};

struct Unit {
  Device *device;
  std::vector<Call> calls;
  std::size_t launch = 0; ///< Position among the units launched on the device.
  bool started = false;
  std::atomic<std::size_t> pending{0}; ///< Calls whose exchange is not finished.
  Position position{};
};

/// What the ranks of one communicator share.
class Clique {
public:
  Clique(std::string name, std::vector<int> ranks) : name(std::move(name)), ranks(std::move(ranks)) {}
  virtual ~Clique() = default;

  /// The ranks of the world for which a call that has started waits.
  virtual std::vector<int> missing(const Call &call) const = 0;
  /// "rank 2 calls ncclSend of 4 f32 to rank 1 in step 1, submod_pp_1_send_forward_to_2, microbatch 0".
  std::string side(const Call &call) const;

  const std::string name;
  std::vector<int> ranks; ///< Ranks of the world by rank in the communicator; -1 until they joined.
};

/// What connects the devices of a run: the calls of several ranks meet there.
class World {
public:
  virtual ~World() = default;

  /// After a failure every wait ends and every call returns an error.
  virtual bool failed() const = 0;
  /// A unit is at the head of its stream, after all that the device launched before it.
  virtual void start(Device &device, Unit &unit) = 0;
  /// Nothing on the device can run: returns when that may have changed.
  virtual void wait(Device &device) = 0;
  /// Moves what can be moved without waiting.
  virtual void help(Device &device) = 0;
};

/// Bytes of one element; 0 for types that this implementation does not move.
std::size_t sizeOf(ncclDataType_t type);
const char *nameOf(ncclDataType_t type);
const char *nameOf(ncclRedOp_t op);

} // namespace plumb::host

#endif // PLUMB_RUNTIME_CALL_H
