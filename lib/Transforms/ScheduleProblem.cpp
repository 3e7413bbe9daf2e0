//===- ScheduleProblem.cpp - The scheduling problem of a module --------------===//

#include "plumb/Transforms/ScheduleProblem.h"
#include "plumb/Dialect/CCL/CCL.h"
#include "plumb/Dialect/Plumb/PipelineAttributes.h"
#include "plumb/Transforms/Buffers.h"
#include "plumb/Transforms/PlanAttributes.h"
#include "plumb/Transforms/Utils.h"
#include <map>

using namespace mlir;
using namespace plumb;

static LogicalResult addTransfer(ccl::SendOp send, int64_t stage, const Pipeline &pipeline,
                                 std::map<std::pair<int64_t, int64_t>, schedule::Edge> &edges) {
  int64_t peer = static_cast<int64_t>(send.getPeer());
  Phase phase = getPhase(send);
  if (!getPart(send).isTransfer())
    return success();
  if (phase != Phase::Forward && phase != Phase::BackwardInput)
    return emitModelError(send) << "is in the phase " << stringifyPhase(phase)
                                << "; a stage sends in its forward and backward_input phases only";
  if (peer < 0 || peer >= static_cast<int64_t>(pipeline.stages.size()))
    return emitModelError(send) << "sends to stage " << peer << "; the stages are 0 to "
                                << pipeline.stages.size() - 1;
  bool forward = phase == Phase::Forward;
  if (forward ? peer <= stage : peer >= stage)
    return emitModelError(send) << "sends from stage " << stage << " to stage " << peer
                                << (forward ? "; values go to later stages"
                                            : "; gradients go to earlier stages");
  auto [from, to] = std::minmax(stage, peer);
  auto [it, isNew] = edges.try_emplace({from, to});
  schedule::Edge &edge = it->second;
  if (isNew)
    edge = {static_cast<int>(from), static_cast<int>(to), 0, false};
  if (forward)
    edge.cost += kOperationsPerByte * static_cast<double>(getByteSize(send.getValue().getType()));
  else
    edge.gradient = true;
  return success();
}

static void addCost(LaunchOp launch, ModuleOp module, SymbolTable &symbols, schedule::StageCost &cost) {
  auto kernel = symbols.lookup<func::FuncOp>(launch.getKernel());
  auto flops = kernel ? kernel->getAttrOfType<IntegerAttr>(kFlopsAttr) : IntegerAttr();
  double amount = flops ? static_cast<double>(flops.getInt()) : 0;
  switch (getPhase(launch)) {
  case Phase::Forward:
    cost.forward += amount;
    return;
  case Phase::BackwardInput:
    cost.inputGrad += amount;
    return;
  case Phase::BackwardWeight:
    cost.weightGrad += amount;
    return;
  case Phase::Prologue:
  case Phase::Begin:
  case Phase::Reduce:
  case Phase::Update:
    return;
  }
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

/// When a rank's memory grows and shrinks for the buffers that outlive the phase which makes them.
static schedule::ActivationChange getActivations(StageOp stage, const SymbolTable &symbols) {
  schedule::ActivationChange change{0, 0, 0};
  Buffers buffers(stage, symbols);
  for (const Buffer &buffer : buffers.all()) {
    if (!buffer.hasOwnMemory() || buffer.isTemporary())
      continue;
    PartKind last = buffer.parts.back().kind, first = buffer.writer.kind;
    auto bytes = static_cast<double>(buffer.bytes);
    bool intoBackward = first < PartKind::RecvBackward && last >= PartKind::RecvBackward;
    if (first <= PartKind::Begin || (!intoBackward && last != PartKind::BackwardWeight))
      continue;
    (intoBackward ? change.forward : change.inputGrad) += bytes;
    (last == PartKind::BackwardWeight ? change.weightGrad : change.inputGrad) -= bytes;
  }
  return change;
}

/// Bytes of parameters, states and inputs on a coordinate.
static int64_t countFixedBytes(const Pipeline &pipeline, int64_t coordinate, const SymbolTable &symbols) {
  std::map<StringRef, int64_t> sizes;
  std::map<uint64_t, int64_t> inputs;
  auto count = [&](LayoutAttr layout, Type type) {
    return (isCutByMicrobatch(layout) ? pipeline.microbatches : 1) * getByteSize(type);
  };
  for (int64_t stage : pipeline.stagesOf(coordinate))
    for (Operation &op : StageOp(pipeline.stages[stage]).getBody().front()) {
      if (auto load = dyn_cast<LoadOp>(op))
        sizes[load.getSymbol()] =
            count(getDeclaredLayout(symbols.lookup(load.getSymbol())), load.getResult().getType());
      else if (auto store = dyn_cast<StoreOp>(op))
        sizes[store.getSymbol()] =
            count(getDeclaredLayout(symbols.lookup(store.getSymbol())), store.getValue().getType());
      else if (auto input = dyn_cast<InputOp>(op))
        inputs[input.getIndex()] = count(getLayout(input.getResult()), input.getResult().getType());
    }
  int64_t bytes = 0;
  for (const auto &[name, size] : sizes)
    bytes += size;
  for (const auto &[number, size] : inputs)
    bytes += size;
  return bytes;
}

/// What a rank may use for activations: the least that any coordinate has left.
static LogicalResult setMemoryLimit(const Pipeline &pipeline, const SymbolTable &symbols,
                                    schedule::Problem &problem) {
  ModuleOp module = pipeline.module;
  auto op = findOp<PipelineOp>(module);
  auto limit = op ? op->getAttrOfType<IntegerAttr>(kMemoryLimitAttr) : IntegerAttr();
  if (!limit)
    return success();
  for (int64_t coordinate = 0; coordinate < pipeline.coordinates; ++coordinate) {
    int64_t fixed = countFixedBytes(pipeline, coordinate, symbols);
    if (fixed > limit.getInt())
      return op.emitError("a rank may use ")
             << limit.getInt() << " bytes, but parameters, gradients, inputs and "
             << "outputs of pipeline coordinate " << coordinate << " alone have " << fixed;
    problem.memoryLimit = std::min(problem.memoryLimit, static_cast<double>(limit.getInt() - fixed));
  }
  return success();
}

//===----------------------------------------------------------------------===//
// The problem
//===----------------------------------------------------------------------===//

/// Replaces the costs by those of the plan, if it has some.
static LogicalResult setCosts(const Pipeline &pipeline, schedule::Problem &problem) {
  ModuleOp module = pipeline.module;
  auto op = findOp<PipelineOp>(module);
  auto costs = op ? op->getAttrOfType<DictionaryAttr>(kCostsAttr) : DictionaryAttr();
  if (!costs)
    return success();
  ArrayRef<double> stages = costs.getAs<DenseF64ArrayAttr>("stages").asArrayRef();
  if (stages.size() != 3 * problem.costs.size()) {
    auto place = costs.getAs<LocationAttr>("place");
    return emitError(place ? Location(place) : op.getLoc())
           << "costs are given for " << stages.size() / 3 << " stages, there are " << problem.costs.size();
  }
  for (auto [index, cost] : llvm::enumerate(problem.costs))
    cost = {stages[3 * index], stages[3 * index + 1], stages[3 * index + 2]};
  for (schedule::Edge &edge : problem.edges)
    edge.cost = costs.getAs<FloatAttr>("transfer").getValueAsDouble();
  return success();
}

FailureOr<schedule::Problem> plumb::getScheduleProblem(const Pipeline &pipeline) {
  auto stages = static_cast<int>(pipeline.stagesPerCopy());
  auto problem = schedule::Problem::chain(static_cast<int>(pipeline.coordinates), stages,
                                          static_cast<int>(pipeline.microbatches));
  problem.training = pipeline.training;
  problem.placements.assign(pipeline.copies, {});
  for (auto [stage, coordinate] : llvm::enumerate(pipeline.placement))
    problem.placements[static_cast<int>(stage) / stages].push_back(static_cast<int>(coordinate));
  SymbolTable symbols(pipeline.module);
  std::map<std::pair<int64_t, int64_t>, schedule::Edge> edges;
  for (int index = 0; index < stages; ++index) {
    StageOp stage = pipeline.stages[index];
    schedule::StageCost &cost = problem.costs[index] = {0, 0, 0};
    problem.activations[index] = getActivations(stage, symbols);
    for (Operation &op : stage.getBody().front()) {
      if (auto launch = dyn_cast<LaunchOp>(op))
        addCost(launch, pipeline.module, symbols, cost);
      else if (auto send = dyn_cast<ccl::SendOp>(op))
        if (failed(addTransfer(send, index, pipeline, edges)))
          return failure();
    }
  }
  problem.edges.clear();
  for (const auto &[ends, edge] : edges)
    problem.edges.push_back(edge);
  if (failed(setCosts(pipeline, problem)) || failed(setMemoryLimit(pipeline, symbols, problem)))
    return failure();
  return problem;
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

/// Adds a number to the stages of an action; the halves of a pair may have different ones.
static schedule::Action shift(const schedule::Action &action, int by, int second) {
  schedule::Action shifted = action;
  shifted.stage += by;
  if (action.peer >= 0)
    shifted.peer += action.isTransfer() ? by : second;
  return shifted;
}

schedule::Schedule plumb::toStages(const Pipeline &pipeline, schedule::Schedule actions) {
  auto begin = [&](int microbatch) {
    return static_cast<int>(pipeline.copyOf(microbatch) * pipeline.stagesPerCopy());
  };
  for (std::vector<schedule::Action> &row : actions.rows)
    for (schedule::Action &action : row)
      if (!action.isIdle())
        action = shift(action, begin(action.microbatch), begin(action.overlappedMicrobatch));
  return actions;
}

FailureOr<schedule::Schedule> plumb::toSolution(const Pipeline &pipeline, schedule::Schedule actions) {
  ModuleOp module = pipeline.module;
  auto stages = static_cast<int>(pipeline.stagesPerCopy());
  for (auto [rank, row] : llvm::enumerate(actions.rows))
    for (auto [position, action] : llvm::enumerate(row)) {
      for (const schedule::Action &half : {action.first(), action.second()})
        if (!half.isIdle() && !pipeline.runs(half.stage, half.microbatch))
          return findOp<ScheduleOp>(module).emitError("coordinate ")
                 << rank << ", action " << position << ": " << schedule::toString(half)
                 << " is run by another copy of the stage";
      if (!action.isIdle())
        action = shift(action, -(action.stage / stages) * stages, -(action.peer / stages) * stages);
    }
  return actions;
}

//===----------------------------------------------------------------------===//
// Simulation
//===----------------------------------------------------------------------===//

FailureOr<Timeline> plumb::simulatePlan(const Pipeline &pipeline) {
  FailureOr<schedule::Schedule> actions = readSchedule(pipeline);
  FailureOr<schedule::Problem> problem = getScheduleProblem(pipeline);
  if (failed(actions) || failed(problem))
    return failure();
  FailureOr<schedule::Schedule> solution = toSolution(pipeline, std::move(*actions));
  if (failed(solution))
    return failure();
  schedule::Result<schedule::Simulation> simulation = schedule::simulate(*problem, *solution);
  ModuleOp module = pipeline.module;
  if (!simulation)
    return findOp<ScheduleOp>(module).emitError(simulation.diagnostic().toString());
  return Timeline{std::move(*problem), std::move(*solution), std::move(*simulation)};
}
