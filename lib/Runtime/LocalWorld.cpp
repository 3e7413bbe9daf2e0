//===- LocalWorld.cpp - All ranks of a program in one process --------------===//

#include "plumb/Runtime/LocalWorld.h"

#include "plumb/Runtime/Device.h"

#include <algorithm>
#include <exception>
#include <thread>
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace plumb::host {

// Bounds of the time that a blocked rank keeps its core; about 1 and 50 µs.
static constexpr int kFewestSpins = 16, kMostSpins = 1024;
// Larger exchanges move their data without the lock.
static constexpr std::size_t kInlineBytes = 4096;

/// A device, and how its thread is told that something has changed.
struct LocalWorld::Seat {
  Seat(World &world, int rank, std::uint64_t seed) : device(world, rank, seed) {}

  Device device;
  std::atomic<std::uint32_t> signals{0}; ///< Changed by others, with the lock held.
  std::uint32_t seen = 0;
  int spins = 0;
  bool isBlocked = false;
  std::vector<std::shared_ptr<Exchange>> assist; ///< Exchanges this rank may help with.
};

LocalWorld::LocalWorld(int ranks, std::uint64_t seed)
    : spins(static_cast<unsigned>(ranks) <= std::thread::hardware_concurrency()) {
  for (int rank = 0; rank < ranks; ++rank)
    seats.push_back(std::make_unique<Seat>(*this, rank, seed));
}

LocalWorld::~LocalWorld() = default;

Device &LocalWorld::device(int rank) { return seats[static_cast<std::size_t>(rank)]->device; }

LocalWorld::Seat &LocalWorld::seatOf(const Call &call) {
  return *seats[static_cast<std::size_t>(call.unit->device->rank())];
}

void LocalWorld::fail(Outcome why) {
  std::lock_guard guard(mutex);
  failLocked(std::move(why));
}

void LocalWorld::failLocked(Outcome why) {
  if (failed())
    return;
  outcome = std::move(why);
  hasFailed.store(true, std::memory_order_release);
  met.notify_all();
  for (auto &seat : seats)
    notify(*seat);
}

void LocalWorld::notify(Seat &seat) {
  seat.signals.fetch_add(1);
  if (!seat.isBlocked)
    return;
  seat.isBlocked = false;
  --blocked;
  seat.signals.notify_one();
}

bool LocalWorld::meet() {
  std::unique_lock lock(mutex);
  if (++ended == size()) {
    ended = 0;
    ++meetings;
    met.notify_all();
    return !failed();
  }
  checkDeadlock();
  std::int64_t before = meetings;
  met.wait(lock, [&] { return meetings > before || failed(); });
  return !failed();
}

void LocalWorld::leave() {
  std::lock_guard guard(mutex);
  ++ended;
  checkDeadlock();
}

void LocalWorld::checkDeadlock() {
  if (blocked == 0 || blocked + ended < size())
    return;
  constexpr int kMostRanks = 64;
  std::string report = "deadlock: no rank can go on";
  for (int rank = 0; rank < size() && rank < kMostRanks; ++rank) {
    std::string waiting = device(rank).describeWaiting();
    report += "\n  rank " + std::to_string(rank) + (waiting.empty() ? " has ended" : waiting);
  }
  if (size() > kMostRanks)
    report += "\n  and " + std::to_string(size() - kMostRanks) + " more ranks";
  failLocked({3, report});
}

//===----------------------------------------------------------------------===//
// Communicators
//===----------------------------------------------------------------------===//

LocalClique *LocalWorld::join(Device &device, const std::string &id, const std::string &name, int size,
                              int rank, std::string &why) {
  LocalClique *clique;
  {
    std::lock_guard guard(mutex);
    std::unique_ptr<LocalClique> &slot = cliques[id];
    if (!slot)
      slot = std::make_unique<LocalClique>(name.empty() ? std::to_string(cliques.size() - 1) : name,
                                           static_cast<std::size_t>(size));
    clique = slot.get();
    if (clique->ranks.size() != static_cast<std::size_t>(size)) {
      why = "communicator '" + clique->name + "' has " + std::to_string(clique->ranks.size()) +
            " ranks on one rank and " + std::to_string(size) + " on another";
      return nullptr;
    }
    int &member = clique->ranks[static_cast<std::size_t>(rank)];
    if (member >= 0) {
      why = "rank " + std::to_string(rank) + " of communicator '" + clique->name + "' is claimed by ranks " +
            std::to_string(member) + " and " + std::to_string(device.rank());
      return nullptr;
    }
    member = device.rank();
    if (++clique->joined == clique->ranks.size()) {
      clique->complete.store(true, std::memory_order_release);
      for (int other : clique->ranks)
        notify(*seats[static_cast<std::size_t>(other)]);
    }
  }
  device.waitUntil([&] { return clique->complete.load(std::memory_order_acquire); },
                   "the creation of communicator '" + clique->name + "'");
  return clique;
}

//===----------------------------------------------------------------------===//
// Units
//===----------------------------------------------------------------------===//

void LocalWorld::start(Device &device, Unit &unit) {
  std::vector<std::shared_ptr<Exchange>> complete;
  {
    std::lock_guard guard(mutex);
    std::string mismatch;
    for (Call &call : unit.calls) {
      if (auto exchange = static_cast<LocalClique *>(call.clique)->arrive(call, mismatch))
        complete.push_back(std::move(exchange));
      if (!mismatch.empty())
        return failLocked({3, "calls do not match: " + mismatch});
    }
    for (auto &exchange : complete) {
      exchange->cut();
      if (exchange->bytes() <= kInlineBytes) {
        exchange->work();
        finish(device, *exchange);
        exchange.reset();
      } else if (exchange->parts() > 1) {
        for (Call *call : exchange->calls) {
          if (call->unit->device == &device)
            continue;
          seatOf(*call).assist.push_back(exchange);
          notify(seatOf(*call));
        }
      }
    }
  }
  carryOut(device, complete);
}

void LocalWorld::carryOut(Device &device, std::vector<std::shared_ptr<Exchange>> &exchanges) {
  for (const auto &exchange : exchanges) {
    if (!exchange || !exchange->work())
      continue;
    std::lock_guard guard(mutex);
    finish(device, *exchange);
  }
}

/// The data of the exchange is in place. The lock is held.
void LocalWorld::finish(Device &device, const Exchange &exchange) {
  for (Call *call : exchange.calls) {
    // The unit may be gone as soon as nothing of it is pending.
    Device &other = *call->unit->device;
    Seat &seat = seatOf(*call);
    call->met = true;
    if (call->unit->pending.fetch_sub(1, std::memory_order_release) == 1 && &other != &device)
      notify(seat);
  }
}

//===----------------------------------------------------------------------===//
// Waiting
//===----------------------------------------------------------------------===//

static void pause() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

// Waiting on the core pays where partners answer soon and hurts where they have none, so the time adapts to
// success.
void LocalWorld::spin(Seat &seat) const {
  int left = seat.spins;
  while (left > 0 && seat.signals.load(std::memory_order_acquire) == seat.seen) {
    pause();
    --left;
  }
  seat.spins = left > 0 ? std::min(2 * seat.spins, kMostSpins) : std::max(seat.spins / 2, kFewestSpins);
}

void LocalWorld::wait(Device &device) {
  Seat &seat = *seats[static_cast<std::size_t>(device.rank())];
  std::unique_lock lock(mutex);
  if (!seat.assist.empty()) {
    auto exchanges = std::exchange(seat.assist, {});
    lock.unlock();
    return carryOut(device, exchanges);
  }
  bool mustWait = seat.signals.load(std::memory_order_relaxed) == seat.seen;
  if (mustWait) {
    seat.isBlocked = true;
    ++blocked;
    checkDeadlock();
  }
  lock.unlock();
  if (mustWait && spins)
    spin(seat);
  // Waking needs no lock, which whoever wakes several ranks still holds.
  seat.signals.wait(seat.seen, std::memory_order_acquire);
  seat.seen = seat.signals.load(std::memory_order_acquire);
}

void LocalWorld::help(Device &device) {
  Seat &seat = *seats[static_cast<std::size_t>(device.rank())];
  std::unique_lock lock(mutex);
  auto exchanges = std::exchange(seat.assist, {});
  lock.unlock();
  carryOut(device, exchanges);
}

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

static void runRank(LocalWorld &world, int rank, const std::function<void(int)> &body) {
  Device &device = world.device(rank);
  device.makeCurrent();
  try {
    body(rank);
    // What was enqueued and never waited for belongs to the run too.
    device.synchronize();
  } catch (const std::exception &) {
    world.fail(outcomeOfException("rank " + std::to_string(rank) + ": "));
  }
  world.leave();
}

Outcome runRanks(int ranks, std::uint64_t seed, const std::function<void(int)> &body) {
  LocalWorld world(ranks, seed);
  std::vector<std::thread> threads;
  try {
    for (int rank = 0; rank < ranks; ++rank)
      threads.emplace_back(runRank, std::ref(world), rank, std::cref(body));
  } catch (const std::exception &) {
    world.fail(outcomeOfException("cannot start a thread for rank " + std::to_string(threads.size()) + ": "));
  }
  for (std::thread &thread : threads)
    thread.join();
  return world.result();
}

} // namespace plumb::host
