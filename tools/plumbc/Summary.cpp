//===- Summary.cpp - A compiled plan in a few numbers -------------------------===//

#include "Summary.h"
#include "plumb/Dialect/CCL/CCL.h"
#include "plumb/Dialect/Plumb/PipelineAttributes.h"
#include "plumb/Schedule/Report.h"
#include "plumb/Transforms/ScheduleProblem.h"
#include "plumb/Transforms/Utils.h"
#include "llvm/Support/Format.h"
#include <map>

using namespace mlir;
using namespace plumb;

static int64_t bytesOf(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  return tensor.getNumElements() * ((tensor.getElementTypeBitWidth() + 7) / 8);
}

/// Whether an op runs once per microbatch rather than once per step.
static bool isPerMicrobatch(Operation *op) {
  Phase phase = getPhase(op);
  return phase != Phase::Begin && phase < Phase::Reduce;
}

/// The calls of one stage in one step: per kind, how many and how many bytes they hand over.
static void printCalls(StageOp stage, int64_t microbatches, llvm::raw_ostream &os) {
  std::map<std::string, std::pair<int64_t, int64_t>> calls;
  for (Operation &op : stage.getBody().front()) {
    if (!isa<ccl::AllReduceOp, ccl::AllGatherOp, ccl::ReduceScatterOp, ccl::AllToAllOp, ccl::ExchangeOp,
             ccl::SendOp, ccl::RecvOp>(op))
      continue;
    int64_t times = isPerMicrobatch(&op) ? microbatches : 1;
    auto &[count, bytes] = calls[op.getName().stripDialect().str()];
    count += times;
    for (Type type : op.getNumOperands() ? TypeRange(op.getOperandTypes()) : TypeRange(op.getResultTypes()))
      bytes += times * bytesOf(type);
  }
  for (auto &[kind, total] : calls)
    os << ", " << total.first << " " << kind << " (" << total.second << " bytes)";
}

/// What the schedule costs: in the plan's own times, or in operations.
static void printSchedule(const Pipeline &pipeline, llvm::raw_ostream &os) {
  FailureOr<Timeline> timeline = simulatePlan(pipeline);
  if (failed(timeline))
    return;
  const schedule::Simulation &simulation = timeline->simulation;
  bool isGiven = findOp<PipelineOp>(pipeline.module)->hasAttr(kCostsAttr);
  os << "  makespan " << llvm::format("%.6g", simulation.makespan)
     << (isGiven ? " in the unit of \"costs\"" : " operations") << ", bubble "
     << llvm::format("%.2f", 100 * simulation.bubble) << " %; peak activations of the ranks, in bytes:";
  for (double peak : simulation.peakActivations)
    os << " " << llvm::format("%.0f", peak);
  os << "\n  critical path: " << schedule::describePath(timeline->problem, timeline->solution, simulation)
     << "\n";
}

void plumb::printSummary(mlir::ModuleOp module, llvm::raw_ostream &os) {
  auto mesh = findOp<MeshOp>(module);
  auto pipeline = findOp<PipelineOp>(module);
  int64_t ranks = 1, microbatches = getMicrobatches(module);
  os << "  mesh";
  for (auto [axis, size] : llvm::zip(mesh.getAxes().getAsValueRange<StringAttr>(), mesh.getSizes())) {
    os << " " << axis << "=" << size;
    ranks *= size;
  }
  os << ": " << ranks << (ranks == 1 ? " rank" : " ranks") << ", schedule " << pipeline.getSchedule() << ", "
     << microbatches << (microbatches == 1 ? " microbatch\n" : " microbatches\n");
  if (FailureOr<Pipeline> stages = Pipeline::read(module); succeeded(stages) && !stages->stages.empty())
    printSchedule(*stages, os);
  if (auto arena = module->getAttrOfType<DenseI64ArrayAttr>("plumb.arena"))
    for (auto [coordinate, bytes] : llvm::enumerate(arena.asArrayRef()))
      os << "  memory of a rank of pipeline coordinate " << coordinate << ": " << bytes << " bytes\n";
  for (StageOp stage : module.getOps<StageOp>()) {
    os << "  stage " << static_cast<int64_t>(stage.getIndex()) << ", per step and rank: ";
    int64_t kernels = 0;
    for (LaunchOp launch : stage.getBody().getOps<LaunchOp>())
      kernels += isPerMicrobatch(launch) ? microbatches : 1;
    os << kernels << " kernels";
    printCalls(stage, microbatches, os);
    os << "\n";
  }
}
