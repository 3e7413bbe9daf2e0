//===- MutationTest.cpp - The verifier against execution ------------------===//
//
// Random changes of valid lowered lists are both verified and executed, rank by rank, by a plain machine that
// shares nothing with the verifier. The verifier must accept exactly the lists that run to their end with the
// right data.
//
//===----------------------------------------------------------------------===//

#include "plumb/Schedule/Communication.h"
#include "plumb/Schedule/Generators.h"
#include "plumb/Schedule/Verifier.h"
#include <algorithm>
#include <array>
#include <deque>
#include <gtest/gtest.h>
#include <map>
#include <random>
#include <set>
#include <tuple>

using namespace plumb::schedule;

namespace {

/// A value: the output of a forward ('F'), or the gradient of a stage's input ('G').
using Value = std::tuple<char, int, int>; // kind, stage, microbatch

class Machine {
public:
  Machine(const Problem &problem, const Schedule &list, Transfers transfers)
      : problem(problem), list(list), transfers(transfers), at(problem.ranks, 0), posted(problem.ranks),
        held(problem.ranks) {}

  bool runsToItsEnd() {
    bool moved = true;
    while (moved && ok) {
      moved = false;
      for (int rank = 0; rank < problem.ranks && ok; ++rank)
        while (ok && step(rank))
          moved = true;
    }
    for (int rank = 0; rank < problem.ranks; ++rank)
      ok &= at[rank] == list.rows[rank].size();
    for (auto &[channel, messages] : channels)
      ok &= messages.sent.empty() && messages.expected.empty();
    return ok && everythingRan();
  }

private:
  struct Message {
    Value value;
    int rank;
    size_t cell;
  };
  struct Channel {
    std::deque<Message> sent, expected;
  };

  static Value valueOf(const Action &transfer) {
    bool forward = transfer.kind == ActionKind::SendForward || transfer.kind == ActionKind::RecvForward;
    return {forward ? 'F' : 'G', transfer.isSend() ? transfer.stage : transfer.peer, transfer.microbatch};
  }

  bool has(int rank, char kind, int stage, int m) { return held[rank].count({kind, stage, m}) > 0; }

  bool compute(int rank, const Action &action) {
    int s = action.stage, m = action.microbatch;
    if (s < 0 || s >= problem.stages || m < 0 || m >= problem.microbatches || problem.rankOf(s, m) != rank)
      return false;
    if (!ran.insert({action.kind, s, m}).second)
      return false;
    switch (action.kind) {
    case ActionKind::Forward:
      held[rank].insert({'F', s, m});
      return s == 0 || has(rank, 'F', s - 1, m);
    case ActionKind::WeightGrad:
      return ran.count({ActionKind::InputGrad, s, m}) > 0;
    default:
      held[rank].insert({'G', s, m});
      return has(rank, 'F', s, m) && (s + 1 == problem.stages || has(rank, 'G', s + 1, m));
    }
  }

  /// Posts a transfer; false if it has no meaning.
  bool post(int rank, size_t cell) {
    const Action &action = list.rows[rank][cell];
    auto inRange = [&](int stage) { return stage >= 0 && stage < problem.stages; };
    if (!inRange(action.stage) || !inRange(action.peer) || action.microbatch < 0 ||
        action.microbatch >= problem.microbatches || problem.rankOf(action.stage, action.microbatch) != rank)
      return false;
    int peer = problem.rankOf(action.peer, action.microbatch);
    Value value = valueOf(action);
    if (peer == rank || !transferred.insert({action.isSend(), value}).second)
      return false;
    if (action.isSend() && !held[rank].count(value))
      return false;
    Channel &channel = channels[action.isSend() ? std::pair(rank, peer) : std::pair(peer, rank)];
    (action.isSend() ? channel.sent : channel.expected).push_back({value, rank, cell});
    pending.insert({rank, cell});
    while (!channel.sent.empty() && !channel.expected.empty()) {
      Message sent = channel.sent.front(), expected = channel.expected.front();
      if (sent.value != expected.value)
        return false;
      // Data that arrives after its use would be found missing by the consumer.
      held[expected.rank].insert(sent.value);
      pending.erase({sent.rank, sent.cell});
      pending.erase({expected.rank, expected.cell});
      channel.sent.pop_front();
      channel.expected.pop_front();
    }
    return true;
  }

  bool step(int rank) {
    const std::vector<Action> &row = list.rows[rank];
    if (at[rank] == row.size())
      return false;
    const Action &action = row[at[rank]];
    if (!action.isTransfer()) {
      for (const Action &half : {action.first(), action.second()})
        ok &= !half.isCompute() || compute(rank, half);
      if (action.kind == ActionKind::Overlap && action.microbatch == action.overlappedMicrobatch)
        ok = false;
      ++at[rank];
      return true;
    }
    size_t end = at[rank] + 1;
    while (transfers == Transfers::Grouped && end < row.size() && row[end].isTransfer())
      ++end;
    bool moved = false;
    for (size_t cell = std::max(at[rank], posted[rank]); cell < end && ok; ++cell, moved = true)
      ok &= post(rank, cell);
    posted[rank] = end;
    for (size_t cell = at[rank]; cell < end; ++cell)
      if (pending.count({rank, cell}) && !(transfers == Transfers::Async && row[cell].isSend()))
        return moved;
    at[rank] = end;
    return true;
  }

  bool everythingRan() {
    for (int s = 0; s < problem.stages; ++s)
      for (int m = 0; m < problem.microbatches; ++m) {
        bool whole = ran.count({ActionKind::Backward, s, m}),
             input = ran.count({ActionKind::InputGrad, s, m}),
             weight = ran.count({ActionKind::WeightGrad, s, m});
        if (!ran.count({ActionKind::Forward, s, m}) || input != weight || whole == input)
          return false;
      }
    return true;
  }

  const Problem &problem;
  const Schedule &list;
  Transfers transfers;
  std::vector<size_t> at, posted; // per rank: next cell, cells posted
  std::vector<std::set<Value>> held;
  std::map<std::pair<int, int>, Channel> channels;
  std::set<std::pair<int, size_t>> pending;
  std::set<std::pair<bool, Value>> transferred;
  std::set<std::tuple<ActionKind, int, int>> ran;
  bool ok = true;
};

/// Plumb's programs: every cell is launched in row order, and runs when its stream and what it waits for
/// allow.
class StreamsMachine {
public:
  StreamsMachine(const Problem &problem, const Schedule &list) : problem(problem), list(list) {}

  bool runsToItsEnd() {
    for (int rank = 0; rank < problem.ranks; ++rank)
      for (size_t cell = 0; cell < list.rows[rank].size(); ++cell)
        if (!enter(rank, cell))
          return false;
    if (!pair() || !everythingIsListed())
      return false;
    size_t done = 0, total = 0;
    for (const auto &row : list.rows)
      total += row.size();
    for (bool moved = true; moved;) {
      moved = false;
      for (Unit &unit : units) {
        if (!unit.started && mayStart(unit))
          moved = unit.started = true;
        if (unit.started && !unit.finished && (!unit.partner || unit.partner->started)) {
          moved = unit.finished = true;
          ++done;
        }
      }
    }
    return done == total;
  }

private:
  struct Unit {
    std::vector<const Unit *> afterFinish; ///< Streams, and the events that it waits for.
    const Unit *afterStart = nullptr;      ///< The call launched before it.
    const Unit *partner = nullptr;
    bool started = false, finished = false;
  };
  using Channel = std::tuple<int, int, bool, int>; ///< Lower stage, higher stage, backward, copy.

  static bool mayStart(const Unit &unit) {
    return (!unit.afterStart || unit.afterStart->started) &&
           std::all_of(unit.afterFinish.begin(), unit.afterFinish.end(),
                       [](const Unit *before) { return before->finished; });
  }

  bool isHere(int stage, int m, int rank) {
    return stage >= 0 && stage < problem.stages && m >= 0 && m < problem.microbatches &&
           problem.rankOf(stage, m) == rank;
  }

  /// What a computation reads must have been launched before it: an event that nobody has recorded holds
  /// nobody up.
  bool await(Unit &unit, int rank, Value value) {
    auto maker = makers[rank].find(value);
    if (maker == makers[rank].end())
      return false;
    unit.afterFinish.push_back(maker->second);
    return true;
  }

  bool enterHalf(Unit &unit, int rank, const Action &half) {
    int s = half.stage, m = half.microbatch;
    if (!isHere(s, m, rank) || !ran.insert({half.kind, s, m}).second)
      return false;
    bool ok = true;
    if (half.kind == ActionKind::WeightGrad)
      return await(unit, rank, {'G', s, m});
    if (half.kind != ActionKind::Forward)
      ok = await(unit, rank, {'F', s, m});
    int source = half.kind == ActionKind::Forward ? s - 1 : s + 1;
    if (source >= 0 && source < problem.stages)
      ok &= await(unit, rank, {half.kind == ActionKind::Forward ? 'F' : 'G', source, m});
    return ok;
  }

  bool enterTransfer(Unit &unit, int rank, const Action &action) {
    bool backward = action.kind == ActionKind::SendBackward || action.kind == ActionKind::RecvBackward;
    int next = (action.isSend() != backward) ? action.stage + 1 : action.stage - 1, m = action.microbatch;
    if (!isHere(action.stage, m, rank) || action.peer != next || next < 0 || next >= problem.stages ||
        problem.rankOf(next, m) == rank)
      return false;
    Value value{backward ? 'G' : 'F', action.isSend() ? action.stage : next, m};
    Channel channel{std::min(action.stage, next), std::max(action.stage, next), backward, problem.copyOf(m)};
    if (!transferred.insert({action.isSend(), value}).second)
      return false;
    if (action.isSend() && !await(unit, rank, value))
      return false;
    unit.afterStart = launched[rank];
    launched[rank] = &unit;
    if (const Unit *&last = streams[{rank, channel}]; true) {
      if (last)
        unit.afterFinish.push_back(last);
      last = &unit;
    }
    if (!action.isSend())
      makers[rank][value] = &unit;
    ends[channel][action.isSend()].push_back({value, &unit});
    return true;
  }

  bool enter(int rank, size_t cell) {
    const Action &action = list.rows[rank][cell];
    Unit &unit = units.emplace_back();
    if (action.isTransfer())
      return enterTransfer(unit, rank, action);
    if (action.kind == ActionKind::Overlap && action.microbatch == action.overlappedMicrobatch)
      return false;
    if (computed[rank])
      unit.afterFinish.push_back(computed[rank]);
    computed[rank] = &unit;
    for (const Action &half : {action.first(), action.second()})
      if (half.isCompute() && !enterHalf(unit, rank, half))
        return false;
    for (const Action &half : {action.first(), action.second()})
      if (half.isCompute() && half.kind != ActionKind::WeightGrad)
        makers[rank][{half.kind == ActionKind::Forward ? 'F' : 'G', half.stage, half.microbatch}] = &unit;
    return true;
  }

  /// The k-th send of a channel meets its k-th receive.
  bool pair() {
    for (auto &[channel, sides] : ends) {
      if (sides[0].size() != sides[1].size())
        return false;
      for (size_t k = 0; k < sides[0].size(); ++k) {
        if (sides[0][k].first != sides[1][k].first)
          return false;
        sides[0][k].second->partner = sides[1][k].second;
        sides[1][k].second->partner = sides[0][k].second;
      }
    }
    return true;
  }

  bool everythingIsListed() {
    for (int s = 0; s < problem.stages; ++s)
      for (int m = 0; m < problem.microbatches; ++m) {
        bool whole = ran.count({ActionKind::Backward, s, m}),
             input = ran.count({ActionKind::InputGrad, s, m}),
             weight = ran.count({ActionKind::WeightGrad, s, m});
        if (!ran.count({ActionKind::Forward, s, m}) || input != weight || whole == input)
          return false;
      }
    return true;
  }

  const Problem &problem;
  const Schedule &list;
  std::deque<Unit> units;
  std::map<int, std::map<Value, const Unit *>> makers; ///< Per rank: what makes or brings a value.
  std::map<int, const Unit *> computed, launched;
  std::map<std::pair<int, Channel>, const Unit *> streams;
  std::map<Channel, std::array<std::vector<std::pair<Value, Unit *>>, 2>> ends;
  std::set<std::pair<bool, Value>> transferred;
  std::set<std::tuple<ActionKind, int, int>> ran;
};

/// One random change, or several.
void mutate(Schedule &list, std::mt19937 &random) {
  auto upTo = [&](size_t n) { return static_cast<size_t>(random() % n); };
  std::vector<Action> &row = list.rows[upTo(list.rows.size())];
  if (row.size() < 2)
    return;
  size_t cell = upTo(row.size());
  switch (upTo(6)) {
  case 0:
    std::swap(row[cell], row[(cell + 1) % row.size()]);
    break;
  case 1:
    std::swap(row[cell], row[upTo(row.size())]);
    break;
  case 2:
    row.erase(row.begin() + cell);
    break;
  case 3:
    row.insert(row.begin() + upTo(row.size()), row[cell]);
    break;
  case 4:
    row[cell].microbatch += random() % 2 ? 1 : -1;
    break;
  case 5: {
    // A transfer moves: often harmless, often a deadlock.
    Action moved = row[cell];
    row.erase(row.begin() + cell);
    row.insert(row.begin() + std::min(row.size(), cell + upTo(4)), moved);
    break;
  }
  }
}

} // namespace

TEST(Mutation, VerifierAgreesWithExecution) {
  std::mt19937 random(3);
  int accepted = 0, rejected = 0;
  for (int round = 0; round < 6000; ++round) {
    std::vector<Kind> kinds = {Kind::GPipe,       Kind::OneFOneB,  Kind::ZeroBubbleH1,
                               Kind::ZeroBubbleV, Kind::DualPipeV, Kind::InterleavedOneFOneB};
    Kind kind = kinds[random() % kinds.size()];
    int ranks = 2 + random() % 2, perRank = kind == Kind::OneFOneB || kind == Kind::ZeroBubbleH1 ? 1 : 2;
    Problem problem = standardProblem(kind, ranks, ranks * perRank, 2 * ranks);
    Schedule list = *placeCommunication(problem, *generate(kind, problem));
    for (int changes = random() % 3; changes >= 0; --changes)
      mutate(list, random);
    for (Transfers transfers : {Transfers::Rendezvous, Transfers::Grouped, Transfers::Async}) {
      std::optional<Diagnostic> error = verify(problem, list, {transfers, ListForm::Lowered});
      bool runs = Machine(problem, list, transfers).runsToItsEnd();
      ASSERT_EQ(!error, runs) << (error ? error->toString() : "accepted") << "\n" << toCSV(list);
      ++(error ? rejected : accepted);
    }
  }
  EXPECT_GT(accepted, 500);
  EXPECT_GT(rejected, 5000);
}

TEST(Mutation, VerifierAgreesWithExecutionOnStreams) {
  std::mt19937 random(4);
  int accepted = 0, rejected = 0;
  for (int round = 0; round < 6000; ++round) {
    std::vector<Kind> kinds = {Kind::GPipe,     Kind::OneFOneB, Kind::ZeroBubbleH1,       Kind::ZeroBubbleV,
                               Kind::DualPipeV, Kind::DualPipe, Kind::InterleavedOneFOneB};
    Kind kind = kinds[random() % kinds.size()];
    bool onePerRank = kind == Kind::OneFOneB || kind == Kind::ZeroBubbleH1 || kind == Kind::DualPipe;
    int ranks = kind == Kind::DualPipe ? 2 : 2 + random() % 2;
    Problem problem = standardProblem(kind, ranks, ranks * (onePerRank ? 1 : 2), 2 * ranks);
    Schedule list = *placeCommunication(problem, *generate(kind, problem));
    for (int changes = random() % 4; changes > 0; --changes)
      mutate(list, random);
    std::optional<Diagnostic> error = verify(problem, list, {Transfers::Streams, ListForm::Lowered});
    bool runs = StreamsMachine(problem, list).runsToItsEnd();
    ASSERT_EQ(!error, runs) << (error ? error->toString() : "accepted") << "\n" << toCSV(list);
    ++(error ? rejected : accepted);
  }
  EXPECT_GT(accepted, 1500);
  EXPECT_GT(rejected, 3000);
}
