//===- Steps.h - What each pipeline coordinate launches, in order -*- C++ -*-===//
//
// A stage is launched in *parts*: its phases, and its transfers with one other stage in one direction. A
// *step* is one launch of a part, for one microbatch where the part runs once per microbatch.
//
// Stages of one coordinate hand over in place: the schedule has no actions for a transfer between them, and
// it needs no communicator. Its two parts follow the phase that makes the values, on the compute stream, and
// mean a copy.
//
//===----------------------------------------------------------------------===//

#ifndef PLUMB_TRANSFORMS_STEPS_H
#define PLUMB_TRANSFORMS_STEPS_H

#include "mlir/IR/BuiltinOps.h"
#include "plumb/Dialect/Plumb/Plumb.h"
#include "plumb/Schedule/Schedule.h"
#include <compare>

namespace plumb {

enum class PartKind {
  Prologue,
  Begin,
  RecvForward,
  Forward,
  SendForward,
  RecvBackward,
  BackwardInput,
  SendBackward,
  BackwardWeight,
  Reduce,
  Update,
};

struct Part {
  PartKind kind;
  int64_t peer = -1; ///< Transfers: the stage at the other end.

  bool isSend() const { return kind == PartKind::SendForward || kind == PartKind::SendBackward; }
  bool isRecv() const { return kind == PartKind::RecvForward || kind == PartKind::RecvBackward; }
  bool isTransfer() const { return isSend() || isRecv(); }
  /// Whether it runs once per microbatch.
  bool isPerMicrobatch() const { return kind != PartKind::Begin && kind < PartKind::Reduce; }
  /// "forward", "send_forward_to_1".
  std::string getName() const;

  auto operator<=>(const Part &) const = default;
};

/// The part that an op of a stage belongs to.
Part getPart(mlir::Operation *op);

struct Step {
  int64_t stage;
  Part part;
  int64_t microbatch; ///< -1 for parts that run once.

  bool operator==(const Step &) const = default;
};

/// "stage 1, microbatch 3, backward_input".
std::string describe(const Step &step);

/// The stages of a module and where they live.
struct Pipeline {
  mlir::ModuleOp module;
  int64_t coordinates = 1;
  int64_t microbatches = 1;
  llvm::SmallVector<StageOp> stages;    ///< By index.
  llvm::SmallVector<int64_t> placement; ///< The coordinate of each stage.
  bool training = false;                ///< Some stage has a backward phase.
  int64_t copies = 1;                   ///< Of each stage; copy c of stage s is c * stages / copies + s.
  llvm::SmallVector<llvm::SmallVector<Part>>
      handovers; ///< Per stage its sends to stages of its own coordinate.

  /// Reports an error if stages are missing or numbered twice, read from outside their block, or are too few
  /// or too many for the pipeline axis and the microbatches.
  static mlir::FailureOr<Pipeline> read(mlir::ModuleOp module);

  int64_t coordinateOf(int64_t stage) const {
    bool known = stage >= 0 && stage < static_cast<int64_t>(placement.size());
    return known ? placement[stage] : -1;
  }
  llvm::SmallVector<int64_t> stagesOf(int64_t coordinate) const;
  int64_t stagesPerCopy() const { return static_cast<int64_t>(stages.size()) / copies; }
  /// The copy of each stage that runs a microbatch.
  int64_t copyOf(int64_t microbatch) const { return microbatch * copies / microbatches; }
  bool runs(int64_t stage, int64_t microbatch) const { return copyOf(microbatch) == stage / stagesPerCopy(); }
  /// Whether a transfer of a stage stays on its coordinate.
  bool isHandover(int64_t stage, const Part &part) const {
    return part.isTransfer() && coordinateOf(stage) == coordinateOf(part.peer);
  }
};

/// The action lists that the `plumb.schedule` op holds; an error at the op if there is none or it has a text
/// that is no action.
mlir::FailureOr<schedule::Schedule> readSchedule(const Pipeline &pipeline);

/// The part at the other end of a transfer of `stage`.
Part getCounterpart(const Part &part, int64_t stage);

/// The steps of the actions of one coordinate: B is I, then W; a pair is its halves; what stays
/// on the coordinate follows its maker.
llvm::SmallVector<Step> getSteps(const Pipeline &pipeline, llvm::ArrayRef<schedule::Action> actions);

/// All steps of one coordinate: the prologues, the begins, those of the schedule with the reductions among
/// them (see Reductions.h), the updates.
llvm::SmallVector<Step> getWholeStep(const Pipeline &pipeline, int64_t coordinate,
                                     llvm::ArrayRef<schedule::Action> actions);

} // namespace plumb

#endif // PLUMB_TRANSFORMS_STEPS_H
