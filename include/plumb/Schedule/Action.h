//===- Action.h - One cell of a pipeline schedule ---------------*- C++ -*-===//
//
// Text form, as torch users know it: `[stage][kind][microbatch]`.
//
//   2F0            forward of stage 2, microbatch 0        1SEND_F3   output of stage 1, microbatch 3, to
//   stage 2 2I0 2W0        input and weight gradient               2RECV_F3   the same at its other end 2B0
//   both: I and W in one                    2SEND_B3   gradient of stage 2's input, to stage 1 0UNSHARD
//   0RESHARD 0REDUCE_GRAD                         1RECV_B3   the same at its other end (0F7;7B3)OVERLAP_F_B
//   0SEND_F3>2 2RECV_F3<0   over the edge from stage 0 to 2
//
// `>peer` and `<peer` name the stage at the other end where it is not the neighbour.
//
//===----------------------------------------------------------------------===//

#ifndef PLUMB_SCHEDULE_ACTION_H
#define PLUMB_SCHEDULE_ACTION_H

#include "plumb/Schedule/Diagnostic.h"
#include <cstdint>
#include <string>
#include <string_view>

namespace plumb::schedule {

enum class ActionKind : uint8_t {
  Idle,
  Forward,
  Backward,
  InputGrad,
  WeightGrad,
  SendForward,
  RecvForward,
  SendBackward,
  RecvBackward,
  Unshard,
  Reshard,
  ReduceGrad,
  Overlap,
};

/// What one rank does in one cell. A plain value; see the factories for the meaning of the fields per kind.
struct Action {
  ActionKind kind = ActionKind::Idle;
  /// Overlap only: Backward or InputGrad, the kind of the second half.
  ActionKind overlapped = ActionKind::Idle;
  int32_t stage = -1;
  int32_t microbatch = -1;
  /// Transfers: the stage at the other end. Overlap: the stage of the second half.
  int32_t peer = -1;
  /// Overlap only: the microbatch of the second half.
  int32_t overlappedMicrobatch = -1;

  static Action forward(int stage, int microbatch) { return {ActionKind::Forward, {}, stage, microbatch}; }
  static Action backward(int stage, int microbatch) { return {ActionKind::Backward, {}, stage, microbatch}; }
  static Action inputGrad(int stage, int microbatch) {
    return {ActionKind::InputGrad, {}, stage, microbatch};
  }
  static Action weightGrad(int stage, int microbatch) {
    return {ActionKind::WeightGrad, {}, stage, microbatch};
  }
  /// A send (from `stage`, to `peer`) or receive (into `stage`, from `peer`).
  static Action transfer(ActionKind kind, int stage, int microbatch, int peer) {
    return {kind, {}, stage, microbatch, peer};
  }
  /// A forward and a backward that are issued together; `first` is a forward, `second` a Backward or
  /// InputGrad.
  static Action overlap(const Action &first, const Action &second) {
    return {ActionKind::Overlap, second.kind, first.stage, first.microbatch, second.stage, second.microbatch};
  }

  bool isIdle() const { return kind == ActionKind::Idle; }
  /// F, B, I, W or a pair of them.
  bool isCompute() const {
    return (kind >= ActionKind::Forward && kind <= ActionKind::WeightGrad) || kind == ActionKind::Overlap;
  }
  bool isSend() const { return kind == ActionKind::SendForward || kind == ActionKind::SendBackward; }
  bool isRecv() const { return kind == ActionKind::RecvForward || kind == ActionKind::RecvBackward; }
  bool isTransfer() const { return isSend() || isRecv(); }
  /// UNSHARD, RESHARD, REDUCE_GRAD: they concern a stage, not a microbatch.
  bool isSharding() const { return kind >= ActionKind::Unshard && kind <= ActionKind::ReduceGrad; }

  /// The halves of an overlapped pair; for all other actions the action itself and Idle.
  Action first() const { return kind == ActionKind::Overlap ? forward(stage, microbatch) : *this; }
  Action second() const {
    return kind == ActionKind::Overlap ? Action{overlapped, {}, peer, overlappedMicrobatch} : Action{};
  }

  bool operator==(const Action &) const = default;
};

/// "F", "SEND_F", "OVERLAP_F_B", …; empty for Idle.
const char *toString(ActionKind kind);

/// The text form; empty for Idle.
std::string toString(const Action &action);

/// Reads exactly one action; blanks around it are allowed, an empty text is Idle. The Diagnostic
/// (BadActionText) carries the text and says what was expected where; rank and cell are left to the caller.
Result<Action> parseAction(std::string_view text);

} // namespace plumb::schedule

#endif // PLUMB_SCHEDULE_ACTION_H
