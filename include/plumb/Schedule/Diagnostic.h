//===- Diagnostic.h - Errors of the schedule library as values --*- C++ -*-===//
//
// Nothing in the schedule library throws or aborts. A function that can fail returns
// std::optional<Diagnostic> (empty: all is well) or Result<T>.
//
//===----------------------------------------------------------------------===//

#ifndef PLUMB_SCHEDULE_DIAGNOSTIC_H
#define PLUMB_SCHEDULE_DIAGNOSTIC_H

#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace plumb::schedule {

/// What is wrong. `toString` gives the snake_case name that is printed and that scripts may rely on.
enum class Violation {
  // The question itself.
  BadProblem,
  UnmetPrecondition,
  MemoryLimit,
  // Text.
  BadActionText,
  EmptyFile,
  NoActions,
  // Shape of the list.
  WrongRankCount,
  StageOutOfRange,
  MicrobatchOutOfRange,
  MissingStage,
  StageOnTwoRanks,
  StageOnWrongRank,
  // Each action exactly once.
  DuplicateForward,
  DuplicateBackward,
  FullAndSplitBackward,
  MissingForward,
  MissingBackward,
  MissingInputGrad,
  MissingWeightGrad,
  // Order of computations.
  OverlapDependent,
  BackwardBeforeForward,
  WeightBeforeInputGrad,
  DependencyInversion,
  CrossRankWaitCycle,
  // Transfers.
  CommInComputeList,
  CommOnWrongRank,
  CommWithoutPeer,
  SelfSend,
  DuplicateSend,
  DuplicateRecv,
  MissingTransfer,
  SendWithoutRecv,
  RecvWithoutSend,
  SendBeforeCompute,
  RecvAfterUse,
  FifoOrderMismatch,
  DeadlockAsync,
  DeadlockGrouped,
  DeadlockRendezvous,
  DeadlockStreams,
  // Sharded parameters and their gradients.
  DoubleUnshard,
  ReshardWithoutUnshard,
  ComputeWhileResharded,
  ReduceGradTooEarly,
  DuplicateReduceGrad,
  CollectiveOrderMismatch,
};

const char *toString(Violation violation);

/// One rejected fact. `rank` and `cell` (0-based position in the rank's row) are -1 where they do not apply.
struct Diagnostic {
  Violation violation = Violation::BadProblem;
  int rank = -1;
  int cell = -1;
  /// The action in text form, empty if there is none to point at.
  std::string action;
  /// One sentence: what is wrong, the two facts that disagree, what to do.
  std::string message;
  /// The counter-example, one step a line: a shortest wait cycle, or the two orders that differ.
  std::vector<std::string> witness;

  /// "rank 0, cell 3: 0B0: message" and the witness, one line each.
  std::string toString() const;
};

/// A value or the reason why there is none.
template <typename T>
class Result {
public:
  Result(T value) : state(std::in_place_index<0>, std::move(value)) {}
  Result(Diagnostic diagnostic) : state(std::in_place_index<1>, std::move(diagnostic)) {}

  explicit operator bool() const { return state.index() == 0; }
  T &operator*() { return std::get<0>(state); }
  const T &operator*() const { return std::get<0>(state); }
  T *operator->() { return &std::get<0>(state); }
  const T *operator->() const { return &std::get<0>(state); }
  const Diagnostic &diagnostic() const { return std::get<1>(state); }

private:
  std::variant<T, Diagnostic> state;
};

} // namespace plumb::schedule

#endif // PLUMB_SCHEDULE_DIAGNOSTIC_H
