//===- Rendezvous.h - How processes find each other ---------------------------===//
//
// Rank 0 serves a small TCP protocol that every rank, rank 0 included, is a client of: it hands ids of
// communicators from one rank to others, collects results, tells of ranks that have failed, and lets all
// ranks end together.
//
//===----------------------------------------------------------------------===//

#ifndef PLUMB_RUNTIME_RENDEZVOUS_H
#define PLUMB_RUNTIME_RENDEZVOUS_H

#include "plumb/Runtime/Hub.h"
#include "plumb/Runtime/Socket.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace plumb {

/// Which of the processes this one is.
struct Place {
  int rank = 0, size = 1, localRank = 0;
  std::string address = "127.0.0.1"; ///< Of rank 0.
  int port = 0;                      ///< 0 at rank 0: any that is free.
};

/// From the environment of torchrun, Open MPI, PMI, or Slurm, in this order; a process alone without
/// any. MASTER_ADDR and MASTER_PORT say where rank 0 is. The rendezvous uses MASTER_PORT + 1, since a
/// launcher may hold MASTER_PORT itself. Throws UsageError that says what is missing.
Place placeFromEnvironment();

class RendezvousServer {
public:
  /// Binds the port. `signature` is what all ranks must agree on. No rank waits for another longer than
  /// `timeout`.
  RendezvousServer(const Place &place, std::string signature, Desk &desk, std::chrono::seconds timeout);
  /// Waits a moment for the ranks to leave, then closes all connections.
  ~RendezvousServer();
  RendezvousServer(const RendezvousServer &) = delete;
  RendezvousServer &operator=(const RendezvousServer &) = delete;

  int port() const;

private:
  class State;
  std::unique_ptr<State> state;
};

/// Every function throws plumb::Failure if the server, or another rank, has failed.
class RendezvousClient : public Hub {
public:
  /// Connects, trying again until `timeout`: rank 0 may come later.
  RendezvousClient(const Place &place, const std::string &signature, std::chrono::seconds timeout);

  void publish(const std::string &key, std::span<const std::byte> value);
  /// Waits until some rank has published the key.
  std::vector<std::byte> await(const std::string &key);
  void deliver(const Piece &piece) override;
  void report(const StepReport &report) override;
  bool decide(std::int64_t step, bool proposal) override;
  void wait() override;
  /// Returns if no rank is known to have failed.
  void checkOthers();
  /// Tells all ranks why this one stops.
  void fail(const std::string &why);
  /// Waits until all ranks are done.
  void finish();

private:
  std::vector<std::byte> ask(std::int64_t kind, std::int64_t first, std::int64_t second,
                             std::span<const std::byte> payload);

  Socket connection;
};

} // namespace plumb

#endif // PLUMB_RUNTIME_RENDEZVOUS_H
