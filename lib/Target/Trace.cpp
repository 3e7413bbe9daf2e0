//===- Trace.cpp - The simulated step for trace viewers -------------------------===//

#include "plumb/Schedule/Trace.h"
#include "LaunchTimeline.h"
#include "plumb/Dialect/Plumb/PipelineAttributes.h"
#include "plumb/Target/Report.h"
#include "plumb/Transforms/ScheduleProblem.h"
#include "plumb/Transforms/Slots.h"
#include "plumb/Transforms/Utils.h"
#include <nlohmann/json.hpp>

using namespace mlir;
using namespace plumb;
using Json = nlohmann::ordered_json;

/// A million operations are a microsecond.
static constexpr double kMicrosecondsPerOperation = 1e-6;

static Json nameOf(const char *kind, int64_t process, int64_t thread, const std::string &name) {
  return {{"ph", "M"}, {"pid", process}, {"tid", thread},
          {"ts", 0.0}, {"name", kind},   {"args", {{"name", name}}}};
}

static std::string describeLaunch(Operation *op) {
  auto module = op->getAttrOfType<StringAttr>(kModuleAttr);
  auto kernel = dyn_cast<LaunchOp>(op);
  std::string name = (kernel ? kernel.getKernel() : op->getName().stripDialect()).str();
  return module && !module.empty() ? module.str() + ": " + name : name;
}

/// A process per pipeline coordinate with a thread per stream, and a slice per launch.
static void traceStreams(const Pipeline &pipeline, const schedule::Schedule &actions, Json &events) {
  ModuleOp module = pipeline.module;
  auto streams = module->getAttrOfType<ArrayAttr>(kStreamsAttr);
  for (auto [coordinate, launches] : llvm::enumerate(simulateLaunches(pipeline, actions))) {
    int64_t process = pipeline.coordinates + static_cast<int64_t>(coordinate);
    events.push_back(
        nameOf("process_name", process, 0, "streams of pipeline coordinate " + std::to_string(coordinate)));
    for (auto [number, stream] : llvm::enumerate(streams.getAsValueRange<StringAttr>()))
      events.push_back(nameOf("thread_name", process, static_cast<int64_t>(number), stream.str()));
    for (const TimedLaunch &launch : launches) {
      Json &slice = events.emplace_back();
      slice = {{"ph", "X"},
               {"cat", "launch"},
               {"pid", process},
               {"tid", launch.stream},
               {"ts", launch.start * kMicrosecondsPerOperation},
               {"name", describeLaunch(launch.op)},
               {"dur", (launch.end - launch.start) * kMicrosecondsPerOperation}};
      slice["args"] = {{"stage", launch.step.stage}, {"part", launch.step.part.getName()}};
      if (launch.step.microbatch >= 0)
        slice["args"]["microbatch"] = launch.step.microbatch;
    }
  }
}

LogicalResult plumb::emitTrace(ModuleOp module, raw_ostream &os) {
  if (!module->hasAttr(kVerifiedAttr))
    return module.emitError("only a verified plan is traced; run the pass verify-plan first");
  FailureOr<Pipeline> pipeline = Pipeline::read(module);
  if (failed(pipeline))
    return failure();
  FailureOr<Timeline> timeline = simulatePlan(*pipeline);
  FailureOr<schedule::Schedule> actions = readSchedule(*pipeline);
  if (failed(timeline) || failed(actions) || failed(verifyPlanAttributes(*pipeline)))
    return failure();
  schedule::TraceOptions options{"pipeline coordinate", kMicrosecondsPerOperation, "a million operations"};
  if (findOp<PipelineOp>(module)->hasAttr(kCostsAttr))
    options = {"pipeline coordinate", 1e3, "a thousandth of the unit of the plan's costs"};
  Json trace =
      Json::parse(schedule::toTrace(timeline->problem, timeline->solution, timeline->simulation, options));
  traceStreams(*pipeline, *actions, trace["traceEvents"]);
  os << trace.dump(-1, ' ', false, Json::error_handler_t::replace) << "\n";
  return success();
}
