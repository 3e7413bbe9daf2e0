//===- Transfers.cpp - Sends, receives and waiting for them ---------------===//

#include "Verification.h"
#include <algorithm>

using namespace plumb::schedule;

static bool isBackwardTransfer(const Action &action) {
  return action.kind == ActionKind::SendBackward || action.kind == ActionKind::RecvBackward;
}

/// The edge that a transfer serves, or -1.
int Verification::edgeOf(const Action &transfer) const {
  bool stageIsSource = transfer.kind == ActionKind::SendForward || transfer.kind == ActionKind::RecvBackward;
  int from = stageIsSource ? transfer.stage : transfer.peer;
  int to = stageIsSource ? transfer.peer : transfer.stage;
  if (from < 0)
    return -1;
  for (int edge : neighbours.outgoing[from])
    if (problem.edges[edge].to == to && (problem.edges[edge].gradient || !isBackwardTransfer(transfer)))
      return edge;
  return -1;
}

std::optional<Diagnostic> Verification::checkForm() {
  if (options.form != ListForm::Compute)
    return std::nullopt;
  for (int row = 0; row < static_cast<int>(schedule.rows.size()); ++row)
    for (int cell = 0; cell < static_cast<int>(schedule.rows[row].size()); ++cell)
      if (schedule.rows[row][cell].isTransfer())
        return reject(Violation::CommInComputeList, cellId(row, cell),
                      "a transfer in a list of computations; transfers are implied in this form");
  return std::nullopt;
}

std::optional<Diagnostic> Verification::recordTransfers() {
  if (!lowered)
    return std::nullopt;
  messages.resize(messageIndex(static_cast<int>(problem.edges.size()), false, 0, 0));
  for (int row = 0; row < static_cast<int>(schedule.rows.size()); ++row)
    for (int cell = 0; cell < static_cast<int>(schedule.rows[row].size()); ++cell) {
      const Action &action = schedule.rows[row][cell];
      if (!action.isTransfer())
        continue;
      int id = cellId(row, cell);
      int home = problem.rankOf(action.stage, action.microbatch);
      if (home != rankOfRow(row))
        return reject(Violation::CommOnWrongRank, id,
                      "stage " + std::to_string(action.stage) + " lives on rank " + std::to_string(home) +
                          ", this is rank " + std::to_string(rankOfRow(row)));
      int edge = edgeOf(action);
      if (edge < 0) {
        bool exists = action.peer >= 0 && action.peer < problem.stages;
        return reject(exists ? Violation::CommOnWrongRank : Violation::CommWithoutPeer, id,
                      exists ? "stages " + std::to_string(action.stage) + " and " +
                                   std::to_string(action.peer) + " exchange nothing of this kind"
                             : "stage " + std::to_string(action.stage) + " has no neighbour on that side");
      }
      if (!crossesRanks(problem.edges[edge], action.microbatch))
        return reject(Violation::SelfSend, id,
                      "stages " + std::to_string(action.stage) + " and " + std::to_string(action.peer) +
                          " share rank " + std::to_string(home) +
                          " and hand over in place; remove the transfer");
      Message &message =
          messages[messageIndex(edge, isBackwardTransfer(action), row / problem.ranks, action.microbatch)];
      int &end = action.isSend() ? message.send : message.recv;
      if (end >= 0) {
        Diagnostic diagnostic = reject(action.isSend() ? Violation::DuplicateSend : Violation::DuplicateRecv,
                                       id, "this transfer is listed twice");
        diagnostic.witness = {describe(end), describe(id)};
        return diagnostic;
      }
      end = id;
    }
  return std::nullopt;
}

std::optional<Diagnostic> Verification::checkTransferEnds() {
  if (!lowered)
    return std::nullopt;
  auto check = [&](int edgeIndex, bool isBackward, int replica, int m) -> Check {
    const Edge &edge = problem.edges[edgeIndex];
    int source = isBackward ? edge.to : edge.from, target = isBackward ? edge.from : edge.to;
    size_t produced = indexOf(replica, source, m), consumed = indexOf(replica, target, m);
    int producer = isBackward ? gradientCell(produced) : forward[produced];
    int consumer = isBackward ? gradientCell(consumed) : forward[consumed];
    if (consumer < 0 || producer < 0)
      return std::nullopt; // inference
    const Message &message = messages[messageIndex(edgeIndex, isBackward, replica, m)];
    if (message.send < 0 && message.recv < 0) {
      Diagnostic diagnostic = reject(Violation::MissingTransfer, consumer, "");
      diagnostic.message =
          diagnostic.action + " needs the result of " + describe(producer) + ", which no one sends";
      diagnostic.cell = -1;
      diagnostic.action = toString(Action::transfer(
          isBackward ? ActionKind::RecvBackward : ActionKind::RecvForward, target, m, source));
      return diagnostic;
    }
    if (message.recv < 0)
      return reject(
          Violation::SendWithoutRecv, message.send,
          "no one receives this: rank " + std::to_string(problem.rankOf(target, m)) + " lists no " +
              toString(Action::transfer(isBackward ? ActionKind::RecvBackward : ActionKind::RecvForward,
                                        target, m, source)));
    if (message.send < 0)
      return reject(
          Violation::RecvWithoutSend, message.recv,
          "no one sends this: rank " + std::to_string(problem.rankOf(source, m)) + " lists no " +
              toString(Action::transfer(isBackward ? ActionKind::SendBackward : ActionKind::SendForward,
                                        source, m, target)));
    if (message.send < producer)
      return reject(Violation::SendBeforeCompute, message.send,
                    "stands before " + describe(producer) + ", whose result it sends");
    if (message.recv > consumer)
      return reject(Violation::RecvAfterUse, message.recv,
                    "stands after " + describe(consumer) + ", which reads it");
    return std::nullopt;
  };
  for (int edge = 0; edge < static_cast<int>(problem.edges.size()); ++edge)
    for (int direction = 0; direction < 1 + problem.edges[edge].gradient; ++direction)
      for (int replica = 0; replica < options.replicas; ++replica)
        for (int m = 0; m < problem.microbatches; ++m)
          if (crossesRanks(problem.edges[edge], m))
            if (Check error = check(edge, direction == 1, replica, m))
              return error;
  return std::nullopt;
}

/// The two ends of a channel must list its messages in the same order: all that one rank sends to another,
/// or, with streams, what travels over one edge in one direction.
std::optional<Diagnostic> Verification::checkChannels() {
  if (!lowered)
    return std::nullopt;
  int cells = rowBegin.back();
  int numEdges = static_cast<int>(problem.edges.size());
  bool streams = options.transfers == Transfers::Streams;
  int numKeys = streams ? 2 * numEdges : problem.ranks;
  std::vector<int> ordinal(cells, -1);
  std::vector<int> sent(numKeys), received(numKeys), lastSeen(numKeys, -1);
  for (int row = 0; row < static_cast<int>(schedule.rows.size()); ++row)
    for (int cell = 0; cell < static_cast<int>(schedule.rows[row].size()); ++cell) {
      const Action &action = schedule.rows[row][cell];
      if (!action.isTransfer())
        continue;
      int key = streams ? 2 * edgeOf(action) + isBackwardTransfer(action)
                        : problem.rankOf(action.peer, action.microbatch);
      if (lastSeen[key] != row) {
        lastSeen[key] = row;
        sent[key] = received[key] = 0;
      }
      ordinal[cellId(row, cell)] = action.isSend() ? sent[key]++ : received[key]++;
    }
  const Message *first = nullptr;
  for (const Message &message : messages)
    if (message.send >= 0 && ordinal[message.send] != ordinal[message.recv])
      if (!first || ordinal[message.recv] < ordinal[first->recv] ||
          (ordinal[message.recv] == ordinal[first->recv] && message.recv < first->recv))
        first = &message;
  if (!first)
    return std::nullopt;
  Diagnostic diagnostic = reject(Violation::FifoOrderMismatch, first->recv,
                                 "is number " + std::to_string(ordinal[first->recv] + 1) +
                                     " that its rank receives on this channel, but number " +
                                     std::to_string(ordinal[first->send] + 1) +
                                     " that is sent there; list both ends in one order");
  diagnostic.witness = {
      describe(first->send) + " is sent as number " + std::to_string(ordinal[first->send] + 1),
      describe(first->recv) + " is received as number " + std::to_string(ordinal[first->recv] + 1)};
  return diagnostic;
}
