//===- Exchange.h - How the calls of several ranks meet --------------------===//
//
// A *call* is one NCCL call of one rank. Calls that belong together (the same position in the sequence of
// collectives of a communicator; a send and its receive) form an *exchange*, which moves data once all of
// them have started. All calls of one launch (one call, or a group) form a *unit*; it is finished when all
// its exchanges are.
//
// Everything here is guarded by the lock of the `World`, except `Exchange::work`, which moves data without
// it.
//
//===----------------------------------------------------------------------===//

#ifndef PLUMB_RUNTIME_EXCHANGE_H
#define PLUMB_RUNTIME_EXCHANGE_H

#include <nccl.h>

#include <atomic>
#include <cstddef>
#include <deque>
#include <map>
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
  /// "ncclAllReduce of 8 f32 (sum)".
  std::string describe() const;
};

struct Unit {
  Device *device;
  std::vector<Call> calls;
  std::size_t launch = 0; ///< Position among the units launched on the device.
  bool started = false;
  std::atomic<std::size_t> pending{0}; ///< Calls whose exchange is not finished.
};

/// Calls that have met. Its data movement is cut into `parts` ranges of elements, which any member may take:
/// results do not depend on who does which, since every element is reduced by one thread over all ranks in
/// rank order.
class Exchange {
public:
  explicit Exchange(std::vector<Call *> calls) : calls(std::move(calls)) {}

  std::vector<Call *> calls; ///< By rank in the communicator; a transfer: the send, the receive.
  std::size_t arrived = 0;

  /// To be called once when all calls have arrived.
  void cut();
  std::size_t parts() const { return partCount; }
  /// That all calls together read or write, roughly.
  std::size_t bytes() const { return traffic; }
  /// Does parts until none is left to take. Returns true to exactly one caller: the one that ended the last
  /// part.
  bool work();

private:
  void run(std::size_t begin, std::size_t end);

  std::size_t partCount = 1, perPart = 0, count = 0, traffic = 0;
  std::atomic<std::size_t> taken{0}, done{0};
};

/// What the ranks of one communicator share.
class Clique {
public:
  Clique(std::string name, std::size_t size) : name(std::move(name)), ranks(size, -1), next(size, 0) {}

  /// Adds a call that starts. Returns the exchange if that completes it. `mismatch` receives a sentence if
  /// the call contradicts one that is already there.
  std::shared_ptr<Exchange> arrive(Call &call, std::string &mismatch);
  /// The ranks of the world for which a call that has started waits.
  std::vector<int> missing(const Call &call) const;

  std::string name;
  std::vector<int> ranks; ///< Ranks of the world by rank in the communicator; -1 until they joined.
  std::size_t joined = 0;
  std::atomic<bool> complete{false};

private:
  std::shared_ptr<Exchange> arriveCollective(Call &call, std::string &mismatch);
  std::shared_ptr<Exchange> arriveTransfer(Call &call, std::string &mismatch);
  std::string side(const Call &call) const;

  std::deque<std::shared_ptr<Exchange>> collectives; ///< Those some member has yet to reach.
  std::size_t base = 0;                              ///< Position of collectives.front() in the sequence.
  std::vector<std::size_t> next;                     ///< Position of the next collective, by member.
  /// Sends, or receives, that wait for their counterpart, by (sender, receiver).
  std::map<std::pair<int, int>, std::deque<Call *>> channels;
};

/// Bytes of one element; 0 for types that this implementation does not move.
std::size_t sizeOf(ncclDataType_t type);
const char *nameOf(ncclDataType_t type);
const char *nameOf(ncclRedOp_t op);

} // namespace plumb::host

#endif // PLUMB_RUNTIME_EXCHANGE_H
