//===- World.h - All ranks of a program in one process ---------------------===//
//
// One thread per rank. A rank is *blocked* when it waits on the host and none of its streams can go on
// without another rank. Only a rank that is not blocked can change that, so: when every rank is blocked or
// has ended, and one is blocked, there is a deadlock, and it is found at that very moment.
//
//===----------------------------------------------------------------------===//

#ifndef PLUMB_RUNTIME_WORLD_H
#define PLUMB_RUNTIME_WORLD_H

#include "plumb/Runtime/Exchange.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace plumb::host {

class Device;

/// How a run ended. `code` is 0, 1 (a failure of a rank), or 3 (a deadlock, or calls that contradict each
/// other).
struct Outcome {
  int code = 0;
  std::string error;
};

class World {
public:
  World(int ranks, std::uint64_t seed);
  ~World();

  /// Ends the run: every rank's next call, or the one it is blocked in, returns an error. The first failure
  /// counts.
  void fail(int code, std::string error);
  bool failed() const { return hasFailed.load(std::memory_order_acquire); }
  const Outcome &result() const { return outcome; }

  int size() const { return static_cast<int>(devices.size()); }
  Device &device(int rank) { return *devices[static_cast<std::size_t>(rank)]; }
  /// Whether a rank that waits may keep its core for a moment.
  bool maySpin() const { return spins; }

  // Below: the lock is held.
  std::mutex &lock() { return mutex; }
  void failLocked(int code, std::string error);
  /// The calling rank is blocked (`entering`), or has ended. Fails the world if nobody is left to go on.
  void enterBlocked(Device &device);
  void leave();
  /// Tells a rank that something it may wait for has happened.
  void notify(Device &device);
  /// The clique that `id` names, made on first use.
  Clique &clique(const std::string &id, const std::string &name, int size);

private:
  void checkDeadlock();

  std::mutex mutex;
  std::vector<std::unique_ptr<Device>> devices;
  std::map<std::string, std::unique_ptr<Clique>> cliques;
  int blocked = 0, ended = 0;
  bool spins;
  std::atomic<bool> hasFailed{false};
  Outcome outcome;
};

/// Runs `body(rank)` on one thread per rank, each with a device of its own, and waits for all. An exception
/// of a body fails the run. `seed` draws the order in which streams go on.
Outcome runRanks(int ranks, std::uint64_t seed, const std::function<void(int rank)> &body);

} // namespace plumb::host

#endif // PLUMB_RUNTIME_WORLD_H
