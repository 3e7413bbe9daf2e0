//===- MpiWorld.h - One rank per process, over MPI --------------------------===//
//
// The same semantics as between the threads of one process: a call finishes after every partner's call has
// started, since each first tells its partners what it is and waits for the same of them. The two sides are
// compared before any data moves, so that a mismatch is an error on both ranks and not a hang; sums are taken
// in rank order, so that results are equal to the bit to those of one process. Data is sent synchronously.
//
//===----------------------------------------------------------------------===//

#ifndef PLUMB_RUNTIME_MPIWORLD_H
#define PLUMB_RUNTIME_MPIWORLD_H

#include "plumb/Runtime/Device.h"
#include "plumb/Runtime/Failure.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

namespace plumb::host {

class MpiClique;
struct Meeting;

/// MPI must have been initialised. All functions are called by one thread.
class MpiWorld : public World {
public:
  /// A wait that lasts longer than `timeout` fails. `checkOthers` throws plumb::Failure when another rank has
  /// failed; it is called now and then while this one waits.
  MpiWorld(int rank, std::uint64_t seed, std::chrono::seconds timeout, std::function<void()> checkOthers);
  ~MpiWorld() override;

  bool failed() const override { return outcome.code != 0; }
  void start(Device &device, Unit &unit) override;
  void wait(Device &device) override;
  void help(Device &device) override;

  /// The communicator of that number; `members` are ranks of the world in its order, this one at `self`.
  ncclComm_t connect(int number, const std::string &name, const std::vector<int> &members, int self);
  Device &device() { return mine; }
  const Outcome &result() const { return outcome; }

private:
  using Clock = std::chrono::steady_clock;

  void fail(int code, std::string error);
  /// Moves every call under way as far as it goes; whether any has moved.
  bool progress();
  void watch(Device &device);

  Device mine;
  std::chrono::seconds timeout;
  std::function<void()> checkOthers;
  std::vector<std::unique_ptr<MpiClique>> cliques;
  std::list<Meeting> meetings; ///< Calls under way, in the order in which they started.
  Outcome outcome;
  Clock::time_point lastMove, nextCheck;
  int idle = 0; ///< Waits in a row in which nothing moved.
};

} // namespace plumb::host

#endif // PLUMB_RUNTIME_MPIWORLD_H
