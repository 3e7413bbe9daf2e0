//===- LocalWorld.h - All ranks of a program in one process ----------------===//
//
// One thread per rank. A rank is *blocked* when it waits on the host and none of its streams can go on
// without another rank. Only a rank that is not blocked can change that, so: when every rank is blocked or
// has ended, and one is blocked, there is a deadlock, and it is found at that very moment.
//
//===----------------------------------------------------------------------===//

#ifndef PLUMB_RUNTIME_LOCALWORLD_H
#define PLUMB_RUNTIME_LOCALWORLD_H

#include "plumb/Runtime/Exchange.h"
#include "plumb/Runtime/Failure.h"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace plumb::host {

class Device;

class LocalWorld : public World {
public:
  LocalWorld(int ranks, std::uint64_t seed);
  ~LocalWorld() override;

  bool failed() const override { return hasFailed.load(std::memory_order_acquire); }
  void start(Device &device, Unit &unit) override;
  void wait(Device &device) override;
  void help(Device &device) override;

  /// Ends the run: every rank's next call, or the one it is blocked in, returns an error. The first failure
  /// counts.
  void fail(Outcome why);
  const Outcome &result() const { return outcome; }
  int size() const { return static_cast<int>(seats.size()); }
  Device &device(int rank);

  /// Makes a device a member of the clique that `id` names, which is made at its first use, and waits until
  /// all members have come. Null, with a sentence in `why`, if that contradicts what others say.
  LocalClique *join(Device &device, const std::string &id, const std::string &name, int size, int rank,
                    std::string &why);
  /// Waits until all ranks have come here, which are not waiting for each other elsewhere then. False if the
  /// run has failed.
  bool meet();
  /// The thread of a rank ends.
  void leave();

private:
  struct Seat;

  void failLocked(Outcome why);
  void notify(Seat &seat);
  Seat &seatOf(const Call &call);
  void checkDeadlock();
  void carryOut(Device &device, std::vector<std::shared_ptr<Exchange>> &exchanges);
  void finish(Device &device, const Exchange &exchange);
  void spin(Seat &seat) const;

  std::mutex mutex; ///< Guards everything below, and cliques and exchanges.
  std::vector<std::unique_ptr<Seat>> seats;
  std::map<std::string, std::unique_ptr<LocalClique>> cliques;
  int blocked = 0, ended = 0; ///< Ranks that wait at a meeting count as ended until it takes place.
  std::int64_t meetings = 0;
  std::condition_variable met;
  bool spins; ///< A rank that waits may keep its core for a moment.
  std::atomic<bool> hasFailed{false};
  Outcome outcome;
};

/// Runs `body(rank)` on one thread per rank, each with a device of its own, and waits for all. An exception
/// of a body fails the run. `seed` draws the order in which streams go on.
Outcome runRanks(int ranks, std::uint64_t seed, const std::function<void(int rank)> &body);

} // namespace plumb::host

#endif // PLUMB_RUNTIME_LOCALWORLD_H
