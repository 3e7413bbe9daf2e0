//===- ScheduleProblem.cpp - The scheduling problem of a module --------------===//

#include "plumb/Transforms/ScheduleProblem.h"
#include "plumb/Dialect/CCL/CCL.h"
#include "plumb/Transforms/Buffers.h"
#include "plumb/Transforms/PlanAttributes.h"
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

FailureOr<schedule::Problem> plumb::getScheduleProblem(const Pipeline &pipeline) {
  int stages = static_cast<int>(pipeline.stages.size());
  auto problem = schedule::Problem::chain(static_cast<int>(pipeline.coordinates), stages,
                                          static_cast<int>(pipeline.microbatches));
  problem.training = pipeline.training;
  problem.placements.assign(1, {});
  SymbolTable symbols(pipeline.module);
  std::map<std::pair<int64_t, int64_t>, schedule::Edge> edges;
  for (auto [index, entry] : llvm::enumerate(pipeline.stages)) {
    StageOp stage = entry;
    problem.placements[0].push_back(static_cast<int>(pipeline.coordinateOf(static_cast<int64_t>(index))));
    schedule::StageCost &cost = problem.costs[index] = {0, 0, 0};
    for (Operation &op : stage.getBody().front()) {
      if (auto launch = dyn_cast<LaunchOp>(op))
        addCost(launch, pipeline.module, symbols, cost);
      else if (auto send = dyn_cast<ccl::SendOp>(op))
        if (failed(addTransfer(send, static_cast<int64_t>(index), pipeline, edges)))
          return failure();
    }
  }
  problem.edges.clear();
  for (const auto &[ends, edge] : edges)
    problem.edges.push_back(edge);
  return problem;
}
