//===- World.cpp - All ranks of a program in one process -------------------===//

#include "plumb/Runtime/World.h"

#include "plumb/Runtime/Device.h"

#include <exception>
#include <thread>

namespace plumb::host {

World::World(int ranks, std::uint64_t seed)
    : spins(static_cast<unsigned>(ranks) <= std::thread::hardware_concurrency()) {
  for (int rank = 0; rank < ranks; ++rank)
    devices.push_back(std::make_unique<Device>(*this, rank, seed));
}

World::~World() = default;

void World::fail(int code, std::string error) {
  std::lock_guard guard(mutex);
  failLocked(code, std::move(error));
}

void World::failLocked(int code, std::string error) {
  if (failed())
    return;
  outcome = {code, std::move(error)};
  hasFailed.store(true, std::memory_order_release);
  for (auto &device : devices)
    notify(*device);
}

void World::notify(Device &device) {
  device.signals.fetch_add(1);
  if (!device.isBlocked)
    return;
  device.isBlocked = false;
  --blocked;
  device.signals.notify_one();
}

void World::enterBlocked(Device &device) {
  device.isBlocked = true;
  ++blocked;
  checkDeadlock();
}

void World::leave() {
  ++ended;
  checkDeadlock();
}

void World::checkDeadlock() {
  if (blocked == 0 || blocked + ended < size())
    return;
  constexpr int kMostRanks = 64;
  std::string report = "deadlock: no rank can go on";
  for (int rank = 0; rank < size() && rank < kMostRanks; ++rank) {
    std::string waiting = devices[static_cast<std::size_t>(rank)]->describeWaiting();
    report += "\n  rank " + std::to_string(rank) + (waiting.empty() ? " has ended" : waiting);
  }
  if (size() > kMostRanks)
    report += "\n  and " + std::to_string(size() - kMostRanks) + " more ranks";
  failLocked(3, report);
}

Clique &World::clique(const std::string &id, const std::string &name, int size) {
  std::unique_ptr<Clique> &slot = cliques[id];
  if (!slot)
    slot = std::make_unique<Clique>(name.empty() ? std::to_string(cliques.size() - 1) : name,
                                    static_cast<std::size_t>(size));
  return *slot;
}

static void runRank(World &world, int rank, const std::function<void(int)> &body) {
  Device &device = world.device(rank);
  device.makeCurrent();
  try {
    body(rank);
    // What was enqueued and never waited for belongs to the run too.
    device.synchronize();
  } catch (const std::exception &exception) {
    world.fail(1, "rank " + std::to_string(rank) + ": " + exception.what());
  }
  std::lock_guard guard(world.lock());
  world.leave();
}

Outcome runRanks(int ranks, std::uint64_t seed, const std::function<void(int)> &body) {
  World world(ranks, seed);
  std::vector<std::thread> threads;
  try {
    for (int rank = 0; rank < ranks; ++rank)
      threads.emplace_back(runRank, std::ref(world), rank, std::cref(body));
  } catch (const std::exception &exception) {
    world.fail(1,
               "cannot start a thread for rank " + std::to_string(threads.size()) + ": " + exception.what());
  }
  for (std::thread &thread : threads)
    thread.join();
  return world.result();
}

} // namespace plumb::host
