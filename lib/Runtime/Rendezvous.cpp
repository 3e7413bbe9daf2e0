//===- Rendezvous.cpp - How processes find each other ---------------------------===//
//
// A request is {magic, kind, two numbers, size} and `size` bytes; the answer is {ok, size} and `size` bytes:
// the value, or the sentence that says what failed. Numbers are of this host's byte order; the magic number
// differs between byte orders.
//
//===----------------------------------------------------------------------===//

#include "plumb/Runtime/Rendezvous.h"

#include "plumb/Runtime/Options.h"

#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <list>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <type_traits>

namespace plumb {
namespace {

constexpr std::int64_t kMagic = 0x706c756d62'0001;
constexpr std::int64_t kMostBytes = std::int64_t(1) << 40, kMostGreetingBytes = 1 << 16;

enum Kind : std::int64_t { Hello, Publish, Await, Deliver, Report, Decide, Wait, Check, Fail, Finish };

struct RequestHeader {
  std::int64_t magic, kind, first, second, bytes;
};
struct AnswerHeader {
  std::int64_t ok, bytes;
};

std::string asText(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char *>(bytes.data()), bytes.size()};
}
std::span<const std::byte> asBytes(const std::string &text) { return std::as_bytes(std::span(text)); }

int environmentInt(const char *variable, std::uint64_t otherwise) {
  std::uint64_t value = environmentNumber(variable, otherwise);
  if (value > 0x7ffffffe)
    throw UsageError(std::string(variable) + " is too large");
  return static_cast<int>(value);
}

} // namespace

Place placeFromEnvironment() {
  static const char *const names[][3] = {
      {"RANK", "WORLD_SIZE", "LOCAL_RANK"},
      {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
      {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
      {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"}};
  constexpr int kDefaultMasterPort = 29500;
  Place place;
  for (const auto &[rank, size, localRank] : names) {
    if (!std::getenv(rank))
      continue;
    if (!std::getenv(size))
      throw UsageError(std::string(rank) + " is set but " + size + " is not");
    place.rank = environmentInt(rank, 0);
    place.size = environmentInt(size, 1);
    place.localRank = environmentInt(localRank, 0);
    break;
  }
  if (place.rank >= place.size)
    throw UsageError("the launcher gives rank " + std::to_string(place.rank) + " of " +
                     std::to_string(place.size));
  if (const char *address = std::getenv("MASTER_ADDR"))
    place.address = address;
  place.port = environmentInt("MASTER_PORT", kDefaultMasterPort) + 1;
  if (place.port > 65535)
    throw UsageError("the rendezvous needs the port after MASTER_PORT, which is " +
                     std::to_string(place.port - 1));
  return place;
}

//===----------------------------------------------------------------------===//
// Server
//===----------------------------------------------------------------------===//

class RendezvousServer::State {
public:
  State(const Place &place, std::string signature, Desk &desk, std::chrono::seconds timeout)
      : size(place.size), signature(std::move(signature)), desk(desk), timeout(timeout),
        listener(Socket::listen(place.port)), acceptor([this] { accept(); }) {}

  ~State() {
    {
      // Ranks may still come, or wait for answers: they are to learn why the run ends, and leave by
      // themselves.
      constexpr auto kGrace = std::chrono::seconds(5);
      std::unique_lock lock(mutex);
      changed.wait_for(lock, kGrace, [&] { return open == 0 && greeted >= size; });
    }
    listener.shutdown();
    acceptor.join();
    for (Connection &connection : connections) {
      connection.socket.shutdown();
      connection.thread.join();
    }
  }

  int port() const { return listener.port(); }

private:
  struct Connection {
    Socket socket;
    int rank = -1; ///< Unknown until it says hello.
    std::thread thread{};
  };

  void accept() {
    for (;;) {
      Socket socket = listener.accept();
      if (!socket.isValid())
        return;
      Connection &connection = connections.emplace_back(std::move(socket));
      {
        std::lock_guard guard(mutex);
        ++open;
      }
      connection.thread = std::thread([this, &connection] { serve(connection); });
    }
  }

  void serve(Connection &connection) {
    RequestHeader header;
    try {
      while (connection.socket.receive(&header, sizeof header)) {
        // Whoever does not speak the protocol is no rank, and is ignored.
        std::int64_t most = connection.rank < 0 ? kMostGreetingBytes : kMostBytes;
        if (header.magic != kMagic || header.bytes < 0 || header.bytes > most)
          break;
        std::vector<std::byte> payload(static_cast<std::size_t>(header.bytes));
        if (!connection.socket.receive(payload.data(), payload.size()))
          break;
        reply(connection, header, payload);
      }
    } catch (const std::exception &) {
      // The connection broke, which is told below.
    }
    if (connection.rank >= 0 && !hasFinished(connection.rank))
      fail("rank " + std::to_string(connection.rank) + " has left");
    std::lock_guard guard(mutex);
    --open;
    changed.notify_all();
  }

  void reply(Connection &connection, const RequestHeader &header, std::span<const std::byte> payload) {
    AnswerHeader answer{1, 0};
    std::vector<std::byte> value;
    try {
      value = perform(connection, header, payload);
    } catch (const std::exception &exception) {
      answer.ok = 0;
      std::span<const std::byte> text = std::as_bytes(std::span(std::string_view(exception.what())));
      value.assign(text.begin(), text.end());
    }
    answer.bytes = static_cast<std::int64_t>(value.size());
    connection.socket.send(&answer, sizeof answer);
    connection.socket.send(value.data(), value.size());
  }

  std::vector<std::byte> perform(Connection &connection, const RequestHeader &header,
                                 std::span<const std::byte> payload) {
    if (header.kind == Hello)
      greet(connection, header, asText(payload));
    if (connection.rank < 0)
      throw Failure("a rank must say hello first");
    switch (header.kind) {
    case Publish: {
      auto keyBytes = std::min(static_cast<std::size_t>(header.first), payload.size());
      return publish(asText(payload.first(keyBytes)), payload.subspan(keyBytes));
    }
    case Await:
      return await(asText(payload));
    case Deliver:
      desk.deliver({static_cast<std::size_t>(header.first), connection.rank, header.second, payload});
      return {};
    case Report:
      return report(payload);
    case Decide:
      return std::vector<std::byte>(desk.decide(header.first, header.second != 0) ? 1 : 0);
    case Wait:
      return meet();
    case Fail:
      fail(asText(payload));
      return {};
    case Finish:
      return finish(connection.rank);
    default: {
      std::lock_guard guard(mutex);
      throwIfFailed();
      return {};
    }
    }
  }

  void greet(Connection &connection, const RequestHeader &header, const std::string &theirs) {
    std::string who = "rank " + std::to_string(header.first) + " of " + std::to_string(header.second);
    if (header.second != size || header.first < 0 || header.first >= size)
      throw Failure(who + " comes to a rendezvous of " + std::to_string(size) + " ranks");
    {
      std::lock_guard guard(mutex);
      ++greeted;
    }
    if (theirs != signature) {
      std::string why = who + " runs " + theirs + ", but rank 0 runs " + signature;
      fail(why);
      throw Failure(why);
    }
    std::lock_guard guard(mutex);
    if (!present.insert(static_cast<int>(header.first)).second)
      throw Failure(who + " comes twice");
    connection.rank = static_cast<int>(header.first);
  }

  std::vector<std::byte> publish(const std::string &key, std::span<const std::byte> value) {
    std::lock_guard guard(mutex);
    values[key].assign(value.begin(), value.end());
    changed.notify_all();
    return {};
  }

  std::vector<std::byte> await(const std::string &key) {
    std::unique_lock lock(mutex);
    waitFor(lock, [&] { return values.contains(key); });
    return values[key];
  }

  std::vector<std::byte> report(std::span<const std::byte> payload) {
    StepReport report;
    static_assert(std::is_trivially_copyable_v<StepReport>);
    if (payload.size() != sizeof report)
      throw Failure("a report of a step has the wrong size");
    std::memcpy(&report, payload.data(), sizeof report);
    desk.report(report);
    return {};
  }

  /// All ranks come here the same number of times.
  std::vector<std::byte> meet() {
    std::unique_lock lock(mutex);
    std::int64_t meeting = arrivals++ / size;
    changed.notify_all();
    waitFor(lock, [&] { return arrivals / size > meeting; });
    return {};
  }

  std::vector<std::byte> finish(int rank) {
    std::unique_lock lock(mutex);
    finished.insert(rank);
    changed.notify_all();
    waitFor(lock, [&] { return finished.size() == static_cast<std::size_t>(size); });
    return {};
  }

  template <class Done>
  void waitFor(std::unique_lock<std::mutex> &lock, const Done &done) {
    bool inTime = changed.wait_for(lock, timeout, [&] { return !failure.empty() || done(); });
    throwIfFailed();
    if (!inTime)
      throw Failure("waiting for other ranks took longer than " + std::to_string(timeout.count()) + " s; " +
                    std::to_string(present.size()) + " of " + std::to_string(size) + " ranks have come");
  }

  bool hasFinished(int rank) {
    std::lock_guard guard(mutex);
    return finished.contains(rank);
  }

  void fail(const std::string &why) {
    std::lock_guard guard(mutex);
    if (failure.empty())
      failure = why;
    changed.notify_all();
  }
  void throwIfFailed() const {
    if (!failure.empty())
      throw Failure(failure);
  }

  const int size;
  const std::string signature;
  Desk &desk;
  const std::chrono::seconds timeout;
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, std::vector<std::byte>> values;
  std::set<int> present, finished;
  std::string failure;       ///< The first one.
  int open = 0;              ///< Connections that are served.
  int greeted = 0;           ///< Ranks that have said hello, welcome or not.
  std::int64_t arrivals = 0; ///< At meetings of all ranks.
  std::list<Connection> connections;
  Socket listener;
  std::thread acceptor;
};

RendezvousServer::RendezvousServer(const Place &place, std::string signature, Desk &desk,
                                   std::chrono::seconds timeout)
    : state(std::make_unique<State>(place, std::move(signature), desk, timeout)) {}
RendezvousServer::~RendezvousServer() = default;

int RendezvousServer::port() const { return state->port(); }

//===----------------------------------------------------------------------===//
// Client
//===----------------------------------------------------------------------===//

RendezvousClient::RendezvousClient(const Place &place, const std::string &signature,
                                   std::chrono::seconds timeout)
    : connection(Socket::connect(place.address, place.port, timeout)) {
  ask(Hello, place.rank, place.size, asBytes(signature));
}

std::vector<std::byte> RendezvousClient::ask(std::int64_t kind, std::int64_t first, std::int64_t second,
                                             std::span<const std::byte> payload) {
  RequestHeader header{kMagic, kind, first, second, static_cast<std::int64_t>(payload.size())};
  connection.send(&header, sizeof header);
  connection.send(payload.data(), payload.size());
  AnswerHeader answer;
  std::vector<std::byte> value;
  bool received =
      connection.receive(&answer, sizeof answer) && answer.bytes >= 0 && answer.bytes <= kMostBytes;
  if (received) {
    value.resize(static_cast<std::size_t>(answer.bytes));
    received = connection.receive(value.data(), value.size());
  }
  if (!received)
    throw Failure("rank 0 has left");
  if (!answer.ok)
    throw Failure(asText(value));
  return value;
}

void RendezvousClient::publish(const std::string &key, std::span<const std::byte> value) {
  std::span<const std::byte> keyBytes = asBytes(key);
  std::vector<std::byte> payload(keyBytes.begin(), keyBytes.end());
  payload.insert(payload.end(), value.begin(), value.end());
  ask(Publish, static_cast<std::int64_t>(key.size()), 0, payload);
}

std::vector<std::byte> RendezvousClient::await(const std::string &key) {
  return ask(Await, 0, 0, asBytes(key));
}

void RendezvousClient::deliver(const Piece &piece) {
  ask(Deliver, static_cast<std::int64_t>(piece.result), piece.microbatch, piece.data);
}

void RendezvousClient::report(const StepReport &report) {
  ask(Report, 0, 0, std::as_bytes(std::span(&report, 1)));
}

bool RendezvousClient::decide(std::int64_t step, bool proposal) {
  return !ask(Decide, step, proposal, {}).empty();
}
void RendezvousClient::wait() { ask(Wait, 0, 0, {}); }
void RendezvousClient::checkOthers() { ask(Check, 0, 0, {}); }
void RendezvousClient::fail(const std::string &why) { ask(Fail, 0, 0, asBytes(why)); }
void RendezvousClient::finish() { ask(Finish, 0, 0, {}); }

} // namespace plumb
