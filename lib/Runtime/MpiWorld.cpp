//===- MpiWorld.cpp - One rank per process, over MPI ------------------------===//

#include "plumb/Runtime/MpiWorld.h"

#include "plumb/Runtime/Reduce.h"

#define OMPI_SKIP_MPICXX
#include <mpi.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <span>
#include <thread>

namespace plumb::host {
namespace {

/// What a message is. It is part of the tag, with the communicator and the number of the call.
enum Role {
  CollectiveHeader,
  CollectiveData,
  CollectiveResult,
  SendHeader,
  RecvHeader,
  TransferData,
  RoleCount
};

/// What a rank tells its partners of a call, before any data.
struct Header {
  int kind = 0, peer = -1, type = 0, op = 0;
  std::int64_t count = 0, microbatch = -1, step = -1;
  char part[96] = {};
};

Header headerOf(const Call &call) {
  Header header;
  header.kind = static_cast<int>(call.kind);
  header.peer = call.peer;
  header.type = call.type;
  header.op = call.op;
  header.count = static_cast<std::int64_t>(call.count);
  const Position &position = call.unit->position;
  header.microbatch = position.microbatch;
  header.step = position.step;
  if (position.part)
    std::strncpy(header.part, position.part, sizeof header.part - 1);
  return header;
}

constexpr int kCallsPerTag = 128;

} // namespace

//===----------------------------------------------------------------------===//
// Communicators
//===----------------------------------------------------------------------===//

class MpiClique : public Clique {
public:
  MpiClique(int number, std::string name, std::vector<int> ranks, const std::list<Meeting> &meetings)
      : Clique(std::move(name), std::move(ranks)), number(number), meetings(meetings) {}

  std::vector<int> missing(const Call &call) const override;
  /// The number of a call among those with the same partners, which count alike.
  int next(const Call &call) {
    std::pair<int, int> channel(-1, -1);
    if (call.isTransfer())
      channel =
          call.kind == CallKind::Send ? std::pair(call.self, call.peer) : std::pair(call.peer, call.self);
    return counts[channel]++ % kCallsPerTag;
  }
  int rankOf(std::size_t member) const { return ranks[member]; }

  const int number;

private:
  const std::list<Meeting> &meetings;
  std::map<std::pair<int, int>, int> counts;
};

/// A call under way. Headers and what is sent first go out at once; what comes is received when all headers
/// are there and agree. A sum has a second round, in which each rank hands out its part.
struct Meeting {
  Meeting(Call &call)
      : call(&call), clique(static_cast<MpiClique *>(call.clique)), number(clique->next(call)) {}

  void begin();
  /// The requests of the round are done: begins the next one. Returns whether the call is done.
  bool advance(std::string &mismatch);
  std::vector<MPI_Request> &pending() { return round == 0 ? headers : data; }

  Call *call;
  MpiClique *clique;
  int number, round = 0;
  Header mine;
  std::vector<std::pair<std::size_t, Header>> theirs; ///< By partner.
  std::vector<MPI_Request> headers, data;             ///< Of headers, those that receive come first.
  std::vector<std::byte> scratch;

private:
  std::size_t size() const { return clique->ranks.size(); }
  std::size_t self() const { return static_cast<std::size_t>(call->self); }
  std::size_t bytes(std::size_t elements) const { return elements * sizeOf(call->type); }
  const std::byte *input(std::size_t element) const {
    return static_cast<const std::byte *>(call->send) + bytes(element);
  }
  std::byte *output(std::size_t element) const {
    return static_cast<std::byte *>(call->recv) + bytes(element);
  }
  /// The part of the elements that a rank sums, if the call is a sum.
  std::size_t partBegin(std::size_t member) const {
    return std::min(call->count, (call->count + size() - 1) / size() * member);
  }
  std::size_t partSize(std::size_t member) const { return partBegin(member + 1) - partBegin(member); }

  int tag(Role role) const { return (clique->number * kCallsPerTag + number) * RoleCount + role; }
  bool compare(std::string &mismatch) const;
  void send(const std::byte *from, std::size_t elements, std::size_t to, Role role);
  void receive(std::byte *to, std::size_t elements, std::size_t from, Role role);
  void sendData();
  void receiveData();
  void reduceInto(std::byte *output, const std::byte *own, std::size_t elements);
  template <class Visit>
  void forOthers(const Visit &visit) const {
    for (std::size_t member = 0; member < size(); ++member)
      if (member != self())
        visit(member);
  }
};

std::vector<int> MpiClique::missing(const Call &call) const {
  std::vector<int> result;
  for (const Meeting &meeting : meetings) {
    if (meeting.call != &call || meeting.round > 0)
      continue;
    for (std::size_t i = 0; i < meeting.theirs.size(); ++i) {
      int arrived = 1;
      if (meeting.headers[i] != MPI_REQUEST_NULL)
        MPI_Request_get_status(meeting.headers[i], &arrived, MPI_STATUS_IGNORE);
      if (!arrived)
        result.push_back(ranks[meeting.theirs[i].first]);
    }
  }
  return result;
}

//===----------------------------------------------------------------------===//
// Headers
//===----------------------------------------------------------------------===//

void Meeting::begin() {
  mine = headerOf(*call);
  Role role = CollectiveHeader, counter = CollectiveHeader;
  if (call->isTransfer()) {
    theirs.emplace_back(static_cast<std::size_t>(call->peer), Header());
    role = call->kind == CallKind::Send ? SendHeader : RecvHeader;
    counter = role == SendHeader ? RecvHeader : SendHeader;
  } else {
    for (std::size_t member = 0; member < size(); ++member)
      if (member != self())
        theirs.emplace_back(member, Header());
  }
  for (auto &[member, header] : theirs)
    MPI_Irecv(&header, sizeof header, MPI_BYTE, clique->rankOf(member), tag(counter), MPI_COMM_WORLD,
              &headers.emplace_back());
  for (auto &[member, header] : theirs)
    MPI_Isend(&mine, sizeof mine, MPI_BYTE, clique->rankOf(member), tag(role), MPI_COMM_WORLD,
              &headers.emplace_back());
  sendData();
}

bool Meeting::compare(std::string &mismatch) const {
  for (const auto &[member, header] : theirs) {
    Unit unit{};
    unit.position = {header.part[0] ? header.part : nullptr, static_cast<std::ptrdiff_t>(header.microbatch),
                     static_cast<std::ptrdiff_t>(header.step)};
    Call other{static_cast<CallKind>(header.kind), clique, static_cast<int>(member), header.peer};
    other.count = static_cast<std::size_t>(header.count);
    other.type = static_cast<ncclDataType_t>(header.type);
    other.op = static_cast<ncclRedOp_t>(header.op);
    other.unit = &unit;
    if (call->agreesWith(other))
      continue;
    bool isFirst = self() < member;
    mismatch = "communicator '" + clique->name + "': " + clique->side(isFirst ? *call : other) + ", but " +
               clique->side(isFirst ? other : *call);
    return false;
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Data
//===----------------------------------------------------------------------===//

// MPI counts bytes in an int; longer messages are several, which keep their order.
static constexpr std::size_t kMostBytes = std::size_t(1) << 30;

void Meeting::receive(std::byte *to, std::size_t elements, std::size_t from, Role role) {
  std::size_t length = bytes(elements);
  for (std::size_t done = 0; done < length; done += kMostBytes)
    MPI_Irecv(to + done, static_cast<int>(std::min(kMostBytes, length - done)), MPI_BYTE,
              clique->rankOf(from), tag(role), MPI_COMM_WORLD, &data.emplace_back());
}

void Meeting::send(const std::byte *from, std::size_t elements, std::size_t to, Role role) {
  std::size_t length = bytes(elements);
  for (std::size_t done = 0; done < length; done += kMostBytes)
    MPI_Issend(from + done, static_cast<int>(std::min(kMostBytes, length - done)), MPI_BYTE,
               clique->rankOf(to), tag(role), MPI_COMM_WORLD, &data.emplace_back());
}

/// What a rank sends of its own.
void Meeting::sendData() {
  std::size_t count = call->count;
  switch (call->kind) {
  case CallKind::Send:
    return send(input(0), count, static_cast<std::size_t>(call->peer), TransferData);
  case CallKind::Recv:
    return;
  case CallKind::Broadcast:
    if (call->peer == call->self)
      forOthers([&](std::size_t to) { send(input(0), count, to, CollectiveData); });
    return;
  case CallKind::AllGather:
    return forOthers([&](std::size_t to) { send(input(0), count, to, CollectiveData); });
  case CallKind::AllToAll:
  case CallKind::ReduceScatter:
    return forOthers([&](std::size_t to) { send(input(to * count), count, to, CollectiveData); });
  case CallKind::AllReduce:
    return forOthers([&](std::size_t to) { send(input(partBegin(to)), partSize(to), to, CollectiveData); });
  }
}

static void copy(std::byte *to, const std::byte *from, std::size_t bytes) {
  if (bytes && to != from)
    std::memmove(to, from, bytes);
}

/// What comes from the others, and the copy of what stays. Terms of a sum are kept by rank.
void Meeting::receiveData() {
  std::size_t count = call->count, own = call->kind == CallKind::AllReduce ? partSize(self()) : count;
  switch (call->kind) {
  case CallKind::Send:
    return;
  case CallKind::Recv:
    return receive(output(0), count, static_cast<std::size_t>(call->peer), TransferData);
  case CallKind::Broadcast:
    if (call->peer == call->self)
      return copy(output(0), input(0), bytes(count));
    return receive(output(0), count, static_cast<std::size_t>(call->peer), CollectiveData);
  case CallKind::AllGather:
  case CallKind::AllToAll:
    copy(output(self() * count), input(call->kind == CallKind::AllGather ? 0 : self() * count), bytes(count));
    return forOthers([&](std::size_t from) { receive(output(from * count), count, from, CollectiveData); });
  case CallKind::ReduceScatter:
  case CallKind::AllReduce:
    scratch.resize(size() * bytes(own));
    return forOthers(
        [&](std::size_t from) { receive(scratch.data() + from * bytes(own), own, from, CollectiveData); });
  }
}

/// Sums in rank order what the others sent into `scratch` and what is this rank's own.
void Meeting::reduceInto(std::byte *output, const std::byte *own, std::size_t elements) {
  std::vector<const void *> inputs;
  for (std::size_t member = 0; member < size(); ++member)
    inputs.push_back(member == self() ? own : scratch.data() + member * bytes(elements));
  void *outputs[] = {output};
  if (elements)
    reduce(call->type, call->op, inputs, outputs, elements);
}

bool Meeting::advance(std::string &mismatch) {
  if (round == 0) {
    if (!compare(mismatch))
      return false;
    receiveData();
  } else {
    data.clear();
    if (call->kind == CallKind::ReduceScatter)
      reduceInto(output(0), input(self() * call->count), call->count);
    if (call->kind != CallKind::AllReduce || round == 2)
      return true;
    std::byte *part = output(partBegin(self()));
    reduceInto(part, input(partBegin(self())), partSize(self()));
    forOthers(
        [&](std::size_t from) { receive(output(partBegin(from)), partSize(from), from, CollectiveResult); });
    forOthers([&](std::size_t to) { send(part, partSize(self()), to, CollectiveResult); });
  }
  ++round;
  return false;
}

//===----------------------------------------------------------------------===//
// The world
//===----------------------------------------------------------------------===//

MpiWorld::MpiWorld(int rank, std::uint64_t seed, std::chrono::seconds timeout,
                   std::function<void()> checkOthers)
    : mine(*this, rank, seed), timeout(timeout), checkOthers(std::move(checkOthers)), lastMove(Clock::now()),
      nextCheck(lastMove) {}

MpiWorld::~MpiWorld() = default;

ncclComm_t MpiWorld::connect(int number, const std::string &name, const std::vector<int> &members, int self) {
  int *largest = nullptr, known = 0;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &largest, &known);
  if (known && (number + 1) * std::int64_t(kCallsPerTag) * RoleCount > *largest)
    throw Failure("communicator '" + name + "' has the number " + std::to_string(number) +
                  ", for which the tags of this MPI are too few");
  cliques.push_back(std::make_unique<MpiClique>(number, name, members, meetings));
  return new ncclComm{&mine, cliques.back().get(), self};
}

void MpiWorld::fail(int code, std::string error) {
  if (!failed())
    outcome = {code, std::move(error)};
}

void MpiWorld::start(Device &, Unit &unit) {
  for (Call &call : unit.calls)
    meetings.emplace_back(call).begin();
  progress();
}

bool MpiWorld::progress() {
  bool hasMoved = false;
  for (auto meeting = meetings.begin(); meeting != meetings.end() && !failed();) {
    int ready = 0;
    bool done = false;
    std::string mismatch;
    for (;;) {
      std::vector<MPI_Request> &pending = meeting->pending();
      MPI_Testall(static_cast<int>(pending.size()), pending.data(), &ready, MPI_STATUSES_IGNORE);
      if (!ready)
        break;
      hasMoved = true;
      done = meeting->advance(mismatch);
      if (!mismatch.empty())
        fail(3, "calls do not match: " + mismatch);
      if (done || failed())
        break;
    }
    if (!done) {
      ++meeting;
      continue;
    }
    meeting->call->met = true;
    meeting->call->unit->pending.fetch_sub(1, std::memory_order_release);
    meeting = meetings.erase(meeting);
  }
  if (hasMoved)
    lastMove = Clock::now();
  return hasMoved;
}

void MpiWorld::help(Device &) { progress(); }

void MpiWorld::wait(Device &device) {
  // A rank that waits leaves its core to others soon: there may be fewer cores than ranks.
  constexpr int kBusyWaits = 64;
  constexpr auto kNap = std::chrono::microseconds(50);
  if (progress()) {
    idle = 0;
    return;
  }
  if (++idle == 1)
    lastMove = Clock::now();
  if (idle < kBusyWaits)
    std::this_thread::yield();
  else
    std::this_thread::sleep_for(kNap);
  if (idle >= kBusyWaits)
    watch(device);
}

void MpiWorld::watch(Device &device) {
  constexpr auto kBetweenChecks = std::chrono::milliseconds(100);
  auto now = Clock::now();
  if (now < nextCheck)
    return;
  nextCheck = now + kBetweenChecks;
  try {
    checkOthers();
  } catch (const Failure &failure) {
    return fail(1, std::string(failure.what()) + "; this rank" + device.describeWaiting());
  }
  if (now - lastMove > timeout)
    fail(1, "nothing has moved for " + std::to_string(timeout.count()) + " s: this rank" +
                device.describeWaiting());
}

} // namespace plumb::host
