//===- Program.cpp - The program as C++ source ----------------------------------===//

#include "plumb/Target/Program.h"
#include "ProgramWriter.h"
#include "mlir/Dialect/EmitC/IR/EmitC.h"
#include "mlir/Target/Cpp/CppEmitter.h"
#include "plumb/Transforms/Utils.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/xxhash.h"

using namespace mlir;
using namespace plumb;
using namespace plumb::target;
using llvm::formatv;

static constexpr StringLiteral kSignaturePlace = "the signature";

static FailureOr<ProgramPlan> readPlan(ModuleOp module) {
  if (!module->hasAttr(kVerifiedAttr))
    return module.emitError("only a verified plan becomes a program; run the pass verify-plan first");
  FailureOr<Pipeline> pipeline = Pipeline::read(module);
  if (failed(pipeline))
    return failure();
  FailureOr<schedule::Schedule> actions = readSchedule(*pipeline);
  auto mesh = findOp<MeshOp>(module);
  if (failed(actions) || failed(verifyPlanAttributes(*pipeline)))
    return failure();
  if (!mesh)
    return module.emitError("there is no plumb.mesh");
  ProgramPlan plan{module, *pipeline, *actions, SymbolTable(module), mesh, {}, {}, {}, {}, {}, {}, {},
                   {},     {},        {}};
  llvm::append_range(plan.axes, mesh.getAxes().getAsValueRange<StringAttr>());
  for (auto [index, entry] : llvm::enumerate(plan.pipeline.stages)) {
    StageOp stage = entry;
    auto number = static_cast<int64_t>(index);
    for (Operation &op : stage.getBody().front()) {
      plan.parts[{number, getPart(&op)}].push_back(&op);
      for (const EventRef &event : readEvents(&op, kRecordsAttr))
        plan.recorders[{plan.pipeline.coordinateOf(number), event.first}] = &op;
    }
  }
  return plan;
}

static std::string getName(ModuleOp module) {
  auto name = module->getAttrOfType<StringAttr>("plumb.model");
  return name ? name.str() : "program";
}

static std::string describePlan(const ProgramPlan &plan) {
  SmallVector<std::string> axes;
  MeshOp mesh = plan.mesh;
  for (auto [axis, size] : llvm::zip(plan.axes, mesh.getSizes()))
    axes.push_back(formatv("{0}={1}", axis, size));
  std::string text = "mesh " + (axes.empty() ? "of one rank" : llvm::join(axes, ", "));
  ModuleOp module = plan.module;
  if (auto pipeline = findOp<PipelineOp>(module))
    text += formatv("; schedule {0}, {1} microbatches", pipeline.getSchedule(), plan.pipeline.microbatches);
  return text;
}

static bool hasState(ModuleOp module, StringRef kind) {
  return llvm::any_of(module.getOps<StateOp>(), [&](StateOp state) { return state.getKind() == kind; });
}

static void writeDescriptor(ProgramWriter &writer, ProgramPlan &plan) {
  ModuleOp module = plan.module;
  auto axis =
      findOp<PipelineOp>(module) ? plan.mesh.findAxis(findOp<PipelineOp>(module).getAxis()) : std::nullopt;
  auto arenas = module->getAttrOfType<DenseI64ArrayAttr>(kArenaAttr).asArrayRef();
  writer.write(formatv("\nstatic const std::size_t kArenaBytes[] = {{{0}};", joinNumbers(arenas)));
  auto staging = module->getAttrOfType<DenseI64ArrayAttr>(kStagingAttr).asArrayRef();
  writer.write(
      formatv("static const std::size_t kStaging[] = {{{0}};\n\n} // namespace\n", joinNumbers(staging)));
  auto table = [](bool exists, StringRef name) { return exists ? name.str() : std::string("{}"); };
  writer.write("const plumb::Program plumb_program = {");
  auto field = [&](StringRef name, const Twine &value) {
    writer.write("    ." + name + " = " + value + ",");
  };
  field("name", quote(getName(module)));
  field("signature", quote(kSignaturePlace));
  field("mesh", table(!plan.axes.empty(), "kMesh"));
  field("pipelineAxis", Twine(axis ? static_cast<int>(*axis) : -1));
  field("microbatches", Twine(plan.pipeline.microbatches));
  field("communicators", table(!plan.communicators.empty(), "kCommunicators"));
  auto hasParameter = [&](bool isPersistent) {
    return llvm::any_of(module.getOps<ParameterOp>(),
                        [&](ParameterOp parameter) { return parameter.getNonpersistent() != isPersistent; });
  };
  field("parameters", table(hasParameter(/*isPersistent=*/true), "kParameters"));
  field("gradients", table(hasState(module, "gradient"), "kGradients"));
  field("inputs", table(plan.hasInputs, "kInputs"));
  field("outputs", table(hasState(module, "output"), "kOutputs"));
  field("nonPersistent", table(hasParameter(/*isPersistent=*/false), "kNonPersistent"));
  field("numbers", table(plan.hasNumbers, "kNumbers"));
  field("moments", table(hasState(module, "moment"), "kMoments"));
  auto scalar = [&](StringRef name, StringRef kind, StringRef symbol) {
    field(name, hasState(module, kind) ? symbol : "nullptr");
  };
  scalar("loss", "loss", "kLoss");
  scalar("counter", "counter", "kCounter");
  scalar("norm", "norm", "kNorm");
  scalar("rate", "rate", "kRate");
  auto rate = module->getAttrOfType<FloatAttr>(kRateAttr);
  field("constantRate", formatv("{0}", rate ? rate.getValueAsDouble() : 0.0).str());
  field("arenaBytes", "kArenaBytes");
  field("staging", "kStaging");
  field("streams", Twine(plan.streams.size()));
  field("events", Twine(module->getAttrOfType<IntegerAttr>(kEventsAttr).getInt()));
  field("step", "step");
  writer.write("};");
}

/// The text of the program, with its signature.
static FailureOr<std::pair<std::string, std::string>> makeProgram(ModuleOp module) {
  FailureOr<ProgramPlan> plan = readPlan(module);
  if (failed(plan))
    return failure();
  module.getContext()->loadDialect<emitc::EmitCDialect>();
  ProgramWriter writer(module);
  writer.write("// " + toComment(getName(module) + ": " + describePlan(*plan)) +
               ".\n// Generated by Plumb; the same source for every rank.");
  writer.include("cuda_runtime.h", true);
  writer.include("nccl.h", true);
  writer.include("plumb/Runtime/Program.h", false);
  writeTables(writer, *plan);
  writeStages(writer, *plan);
  writeStep(writer, *plan);
  if (failed(writeTensors(writer, *plan)))
    return failure();
  writeDescriptor(writer, *plan);
  std::string text;
  llvm::raw_string_ostream stream(text);
  if (failed(emitc::translateToCpp(writer.getSource(), stream)))
    return failure();
  // The hash of the text in which the hash is not written yet.
  std::string signature = llvm::utohexstr(llvm::xxh3_64bits(text), /*LowerCase=*/true, /*Width=*/16);
  text.replace(text.rfind(kSignaturePlace), kSignaturePlace.size(), signature);
  return std::pair(std::move(text), std::move(signature));
}

LogicalResult plumb::emitProgram(ModuleOp module, raw_ostream &os) {
  auto program = makeProgram(module);
  if (failed(program))
    return failure();
  os << program->first;
  return success();
}

FailureOr<std::string> plumb::getProgramSignature(ModuleOp module) {
  auto program = makeProgram(module);
  if (failed(program))
    return failure();
  return std::move(program->second);
}
