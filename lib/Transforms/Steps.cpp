//===- Steps.cpp - What each pipeline coordinate launches, in order ----------===//

#include "plumb/Transforms/Steps.h"
#include "plumb/Dialect/CCL/CCL.h"
#include "plumb/Dialect/Plumb/PipelineAttributes.h"
#include "plumb/Schedule/Problem.h"
#include "plumb/Transforms/Reductions.h"
#include "plumb/Transforms/Utils.h"
#include <set>

using namespace mlir;
using namespace plumb;
using schedule::ActionKind;

std::string Part::getName() const {
  auto to = [&](StringRef name) { return (name + Twine(peer)).str(); };
  switch (kind) {
  case PartKind::Prologue:
    return "prologue";
  case PartKind::Begin:
    return "begin";
  case PartKind::RecvForward:
    return to("recv_forward_from_");
  case PartKind::Forward:
    return "forward";
  case PartKind::SendForward:
    return to("send_forward_to_");
  case PartKind::RecvBackward:
    return to("recv_backward_from_");
  case PartKind::BackwardInput:
    return "backward_input";
  case PartKind::SendBackward:
    return to("send_backward_to_");
  case PartKind::BackwardWeight:
    return "backward_weight";
  case PartKind::Reduce:
    return "reduce";
  case PartKind::Update:
    return "update";
  }
  llvm_unreachable("all kinds are listed");
}

static PartKind getPhasePart(Phase phase) {
  switch (phase) {
  case Phase::Prologue:
    return PartKind::Prologue;
  case Phase::Begin:
    return PartKind::Begin;
  case Phase::Forward:
    return PartKind::Forward;
  case Phase::BackwardInput:
    return PartKind::BackwardInput;
  case Phase::BackwardWeight:
    return PartKind::BackwardWeight;
  case Phase::Reduce:
    return PartKind::Reduce;
  case Phase::Update:
    return PartKind::Update;
  }
  llvm_unreachable("all phases are listed");
}

Part plumb::getPart(Operation *op) {
  Phase phase = getPhase(op);
  // What is exchanged once per step is part of its phase, like a collective.
  if (phase == Phase::Begin || phase >= Phase::Reduce)
    return {getPhasePart(phase)};
  bool forward = phase == Phase::Forward;
  if (auto send = dyn_cast<ccl::SendOp>(op))
    return {forward ? PartKind::SendForward : PartKind::SendBackward, static_cast<int64_t>(send.getPeer())};
  if (auto recv = dyn_cast<ccl::RecvOp>(op))
    return {forward ? PartKind::RecvForward : PartKind::RecvBackward, static_cast<int64_t>(recv.getPeer())};
  return {getPhasePart(phase)};
}

std::string plumb::describe(const Step &step) {
  std::string text = "stage " + std::to_string(step.stage);
  if (step.microbatch >= 0)
    text += ", microbatch " + std::to_string(step.microbatch);
  return text + ", " + step.part.getName();
}

/// A stage is one flat block: what it reads, it makes itself or receives.
static LogicalResult verifyBlock(StageOp stage) {
  for (Operation &op : stage.getBody().front()) {
    if (op.getNumRegions())
      return emitModelError(&op) << "has a region; a stage is one flat block of calls";
    for (Value operand : op.getOperands())
      if (!operand.getDefiningOp() || operand.getDefiningOp()->getParentOp() != stage) {
        InFlightDiagnostic diagnostic = emitModelError(&op);
        diagnostic << "reads a value from outside its stage " << stage.getSymNameAttr()
                   << "; values come to a stage by ccl.recv or plumb.load";
        diagnostic.attachNote(operand.getLoc()) << "the value";
        return diagnostic;
      }
  }
  return success();
}

/// Copies share the microbatches, and every coordinate has a stage.
static LogicalResult verifyPlacement(const Pipeline &pipeline) {
  ModuleOp module = pipeline.module;
  auto op = findOp<PipelineOp>(module);
  if (pipeline.stages.size() % pipeline.copies || pipeline.microbatches % pipeline.copies)
    return op.emitOpError("shares out ")
           << pipeline.stages.size() << " stages and " << pipeline.microbatches << " microbatches to "
           << pipeline.copies << " copies, which does not come out even";
  for (auto [stage, coordinate] : llvm::enumerate(pipeline.placement))
    if (coordinate < 0 || coordinate >= pipeline.coordinates)
      return op.emitOpError("does not place stage ")
             << stage << " on one of the coordinates 0 to " << pipeline.coordinates - 1;
  for (int64_t coordinate = 0; coordinate < pipeline.coordinates; ++coordinate)
    if (!llvm::is_contained(pipeline.placement, coordinate))
      return op.emitOpError("places no stage on coordinate ") << coordinate;
  return success();
}

/// What no schedule can be made or verified for: all numbers of a pipeline are held per stage and microbatch.
static LogicalResult verifySizes(ModuleOp module, int64_t stages, int64_t coordinates, int64_t microbatches) {
  if (stages < coordinates)
    return module.emitError("the pipeline axis has ")
           << coordinates << " coordinates, but there are only " << stages << " stages";
  if (microbatches > schedule::kMostCells / stages)
    return findOp<PipelineOp>(module).emitOpError("has ")
           << microbatches << " microbatches for " << stages << " stages; at most " << schedule::kMostCells
           << " pairs of a stage and a microbatch can be scheduled";
  return success();
}

FailureOr<Pipeline> Pipeline::read(ModuleOp module) {
  Pipeline pipeline{module,
                    getPipelineSize(module),
                    getMicrobatches(module),
                    {},
                    {},
                    false,
                    countCopies(findOp<PipelineOp>(module)),
                    {}};
  auto stages = llvm::to_vector(module.getOps<StageOp>());
  pipeline.stages.resize(stages.size());
  for (StageOp stage : stages) {
    if (stage.getIndex() >= stages.size() || pipeline.stages[stage.getIndex()])
      return stage.emitError("stages are to be numbered 0 to ")
             << stages.size() - 1 << ", each number once; this is " << stage.getIndex();
    pipeline.stages[stage.getIndex()] = stage;
    if (failed(verifyBlock(stage)))
      return failure();
    for (Operation &op : stage.getBody().front())
      pipeline.training |= getPhase(&op) == Phase::BackwardInput || getPhase(&op) == Phase::BackwardWeight;
  }
  if (stages.empty())
    return pipeline;
  if (failed(verifySizes(module, static_cast<int64_t>(stages.size()), pipeline.coordinates,
                         pipeline.microbatches)))
    return failure();
  for (size_t stage = 0; stage < stages.size(); ++stage)
    pipeline.placement.push_back(getPipelineCoordinate(module, static_cast<int64_t>(stage)));
  if (failed(verifyPlacement(pipeline)))
    return failure();
  for (auto [index, stage] : llvm::enumerate(pipeline.stages)) {
    std::set<Part> handovers;
    for (auto send : stage.getBody().front().getOps<ccl::SendOp>())
      if (pipeline.isHandover(static_cast<int64_t>(index), getPart(send)))
        handovers.insert(getPart(send));
    pipeline.handovers.emplace_back(handovers.begin(), handovers.end());
  }
  return pipeline;
}

/// In the order of the stages that they are or are copies of: coordinates that share stages complete the sums
/// over copies in one order.
SmallVector<int64_t> Pipeline::stagesOf(int64_t coordinate) const {
  SmallVector<int64_t> result;
  for (int64_t stage = 0; stage < static_cast<int64_t>(stages.size()); ++stage)
    if (coordinateOf(stage) == coordinate)
      result.push_back(stage);
  auto key = [&](int64_t stage) { return std::pair(stage % stagesPerCopy(), stage); };
  llvm::sort(result, [&](int64_t a, int64_t b) { return key(a) < key(b); });
  return result;
}

static bool isInRange(const schedule::Action &action, const Pipeline &pipeline) {
  int64_t stages = static_cast<int64_t>(pipeline.stages.size());
  return action.stage < stages && action.microbatch < pipeline.microbatches &&
         (!action.isTransfer() || action.peer < stages);
}

FailureOr<schedule::Schedule> plumb::readSchedule(const Pipeline &pipeline) {
  ModuleOp module = pipeline.module;
  auto op = findOp<ScheduleOp>(module);
  if (!op)
    return module.emitError("there is no plumb.schedule; run the pass schedule first");
  if (static_cast<int64_t>(op.getActions().size()) != pipeline.coordinates)
    return op.emitError("holds ") << op.getActions().size() << " action lists for " << pipeline.coordinates
                                  << " pipeline coordinates";
  schedule::Schedule result;
  for (auto [rank, row] : llvm::enumerate(op.getActions().getAsValueRange<StringAttr>())) {
    std::vector<schedule::Action> &actions = result.rows.emplace_back();
    SmallVector<StringRef> cells;
    row.split(cells, ',');
    for (auto [position, cell] : llvm::enumerate(cells)) {
      auto action = schedule::parseAction(std::string_view(cell.data(), cell.size()));
      if (!action)
        return op.emitError("coordinate ")
               << rank << ", action " << position << ": " << action.diagnostic().message;
      if (action->isSharding())
        return op.emitError("coordinate ") << rank << ", action " << position << ": " << cell
                                           << " moves storage shards, which stages do not have";
      if (!isInRange(action->first(), pipeline) || !isInRange(action->second(), pipeline))
        return op.emitError("coordinate ")
               << rank << ", action " << position << ": " << cell << " is out of range: there are "
               << pipeline.stages.size() << " stages and " << pipeline.microbatches << " microbatches";
      if (!action->isIdle())
        actions.push_back(*action);
    }
  }
  return result;
}

Part plumb::getCounterpart(const Part &part, int64_t stage) {
  switch (part.kind) {
  case PartKind::SendForward:
    return {PartKind::RecvForward, stage};
  case PartKind::RecvForward:
    return {PartKind::SendForward, stage};
  case PartKind::SendBackward:
    return {PartKind::RecvBackward, stage};
  default:
    return {PartKind::SendBackward, stage};
  }
}

static void appendSteps(const Pipeline &pipeline, const schedule::Action &action,
                        SmallVectorImpl<Step> &steps) {
  auto add = [&](PartKind kind, int64_t peer = -1) {
    steps.push_back({action.stage, {kind, peer}, action.microbatch});
    PartKind sends = kind == PartKind::Forward ? PartKind::SendForward : PartKind::SendBackward;
    if (kind == PartKind::Forward || kind == PartKind::BackwardInput)
      for (const Part &part : pipeline.handovers[action.stage])
        if (part.kind == sends) {
          // The receiving end copies one message after the other: all that is sent lies there until it is
          // done, apart from where any of it arrives.
          steps.push_back({part.peer, getCounterpart(part, action.stage), action.microbatch});
          steps.push_back({action.stage, part, action.microbatch});
        }
  };
  switch (action.kind) {
  case ActionKind::Forward:
    return add(PartKind::Forward);
  case ActionKind::Backward:
    add(PartKind::BackwardInput);
    return add(PartKind::BackwardWeight);
  case ActionKind::InputGrad:
    return add(PartKind::BackwardInput);
  case ActionKind::WeightGrad:
    return add(PartKind::BackwardWeight);
  case ActionKind::SendForward:
    return add(PartKind::SendForward, action.peer);
  case ActionKind::RecvForward:
    return add(PartKind::RecvForward, action.peer);
  case ActionKind::SendBackward:
    return add(PartKind::SendBackward, action.peer);
  case ActionKind::RecvBackward:
    return add(PartKind::RecvBackward, action.peer);
  case ActionKind::Overlap:
    appendSteps(pipeline, action.first(), steps);
    return appendSteps(pipeline, action.second(), steps);
  case ActionKind::Idle:
  case ActionKind::Unshard:
  case ActionKind::Reshard:
  case ActionKind::ReduceGrad:
    return;
  }
}

SmallVector<Step> plumb::getSteps(const Pipeline &pipeline, ArrayRef<schedule::Action> actions) {
  SmallVector<Step> steps;
  for (const schedule::Action &action : actions)
    appendSteps(pipeline, action, steps);
  return steps;
}

SmallVector<Step> plumb::getWholeStep(const Pipeline &pipeline, int64_t coordinate,
                                      ArrayRef<schedule::Action> actions) {
  SmallVector<Step> steps;
  SmallVector<int64_t> stages = pipeline.stagesOf(coordinate);
  for (int64_t stage : stages)
    for (int64_t m = 0; m < pipeline.microbatches; ++m)
      steps.push_back({stage, {PartKind::Prologue}, m});
  for (int64_t stage : stages)
    steps.push_back({stage, {PartKind::Begin}, -1});
  size_t done = 0;
  for (const Reduction &reduction : getReductions(pipeline, coordinate, actions)) {
    steps.append(getSteps(pipeline, actions.slice(done, reduction.after - done)));
    done = reduction.after;
    steps.push_back({reduction.stage, {PartKind::Reduce}, -1});
  }
  steps.append(getSteps(pipeline, actions.drop_front(done)));
  for (int64_t stage : stages)
    steps.push_back({stage, {PartKind::Update}, -1});
  return steps;
}
