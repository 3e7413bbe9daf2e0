//===- Exchange.h - How the calls of several ranks of one process meet -----===//
//
// Calls that belong together (the same position in the sequence of
// collectives of a communicator; a send and its receive) form an *exchange*, which moves data once all of
// them have started.
//
// Everything here is guarded by the lock of the `LocalWorld`, except `Exchange::work`, which moves data
// without it.
//
//===----------------------------------------------------------------------===//

#ifndef PLUMB_RUNTIME_EXCHANGE_H
#define PLUMB_RUNTIME_EXCHANGE_H

#include "plumb/Runtime/Call.h"

#include <atomic>
#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace plumb::host {

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
class LocalClique : public Clique {
public:
  LocalClique(std::string name, std::size_t size)
      : Clique(std::move(name), std::vector<int>(size, -1)), next(size, 0) {}

  /// Adds a call that starts. Returns the exchange if that completes it. `mismatch` receives a sentence if
  /// the call contradicts one that is already there.
  std::shared_ptr<Exchange> arrive(Call &call, std::string &mismatch);
  std::vector<int> missing(const Call &call) const override;

  std::size_t joined = 0;
  std::atomic<bool> complete{false};

private:
  std::shared_ptr<Exchange> arriveCollective(Call &call, std::string &mismatch);
  std::shared_ptr<Exchange> arriveTransfer(Call &call, std::string &mismatch);

  std::deque<std::shared_ptr<Exchange>> collectives; ///< Those some member has yet to reach.
  std::size_t base = 0;                              ///< Position of collectives.front() in the sequence.
  std::vector<std::size_t> next;                     ///< Position of the next collective, by member.
  /// Sends, or receives, that wait for their counterpart, by (sender, receiver).
  std::map<std::pair<int, int>, std::deque<Call *>> channels;
};

} // namespace plumb::host

#endif // PLUMB_RUNTIME_EXCHANGE_H
