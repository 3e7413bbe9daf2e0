//===- PlanFile.cpp - The plan as JSON, for launchers and tools ----------------===//

#include "plumb/Target/PlanFile.h"
#include "ProgramWriter.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "plumb/Dialect/CCL/CCL.h"
#include "plumb/Dialect/NN/NN.h"
#include "plumb/Dialect/Plumb/PipelineAttributes.h"
#include "plumb/Target/LaunchFiles.h"
#include "plumb/Target/Program.h"
#include "plumb/Transforms/Buffers.h"
#include "plumb/Transforms/ScheduleProblem.h"
#include "plumb/Transforms/Slots.h"
#include "plumb/Transforms/Utils.h"
#include <map>
#include <nlohmann/json.hpp>
#include <set>

using namespace mlir;
using namespace plumb;
using Json = nlohmann::ordered_json;

static std::string print(Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

static Json toJson(ArrayAttr strings) {
  Json list = Json::array();
  if (strings)
    for (StringRef text : strings.getAsValueRange<StringAttr>())
      list.push_back(text.str());
  return list;
}

static Json toJson(ArrayRef<int64_t> numbers) {
  return Json(std::vector<int64_t>(numbers.begin(), numbers.end()));
}

/// Per dim the axes that shard it, and the number of equal blocks, or the sizes of others, where it is not
/// one.
static Json toJson(LayoutAttr layout) {
  Json dims = Json::array();
  if (layout)
    for (DimShardingAttr dim : layout.getDims()) {
      Json axes = Json::array();
      for (AxisRefAttr axis : dim.getAxes()) {
        std::string name = axis.getName().str();
        if (!axis.isWhole())
          name += ":(" + std::to_string(axis.getPreSize()) + ")" + std::to_string(axis.getSize());
        axes.push_back(name);
      }
      Json blocks = dim.hasUnequalBlocks() ? toJson(dim.getBlocks()) : Json(dim.countBlocks());
      dims.push_back(dim.countBlocks() == 1 ? axes : Json{{"axes", axes}, {"blocks", blocks}});
    }
  return dims;
}

static void addTensor(Json &entry, Operation *op, RankedTensorType type) {
  entry["dtype"] = print(type.getElementType());
  entry["shape"] = toJson(type.getShape());
  entry["layout"] = toJson(getDeclaredLayout(op));
}

static Json toOffsets(Operation *op) {
  Json offsets = Json::array();
  for (int64_t offset : op->getAttrOfType<DenseI64ArrayAttr>(kOffsetsAttr).asArrayRef())
    offsets.push_back(offset < 0 ? Json() : Json(offset));
  return offsets;
}

//===----------------------------------------------------------------------===//
// Sections
//===----------------------------------------------------------------------===//

/// Axes in order; a rank is the sum of its coordinates times the strides.
static Json getMesh(ModuleOp module) {
  auto mesh = findOp<MeshOp>(module);
  Json axes = Json::array();
  int64_t stride = 1;
  for (int64_t size : mesh.getSizes())
    stride *= size;
  int64_t ranks = stride;
  for (auto [axis, size] : llvm::zip(mesh.getAxes().getAsValueRange<StringAttr>(), mesh.getSizes()))
    axes.push_back({{"name", axis.str()}, {"size", size}, {"stride", stride /= size}});
  return {{"axes", axes}, {"ranks", ranks}};
}

static Json getPipeline(const Pipeline &pipeline) {
  Json stages = Json::array();
  for (int64_t stage = 0; stage < static_cast<int64_t>(pipeline.stages.size()); ++stage)
    stages.push_back(pipeline.coordinateOf(stage));
  ModuleOp module = pipeline.module;
  auto op = findOp<PipelineOp>(module);
  return {{"axis", op ? op.getAxis().str() : ""},
          {"schedule", op ? op.getSchedule().str() : ""},
          {"microbatches", pipeline.microbatches},
          {"stages", stages}};
}

/// What is called on each communicator: "all_reduce in forward".
static std::map<StringRef, std::set<std::string>> getCalls(const Pipeline &pipeline) {
  std::map<StringRef, std::set<std::string>> calls;
  for (StageOp stage : pipeline.stages)
    for (Operation &op : stage.getBody().front())
      if (auto communicator = op.getAttrOfType<FlatSymbolRefAttr>("communicator"))
        calls[communicator.getValue()].insert(
            (op.getName().stripDialect() + " in " + stringifyPhase(getPhase(&op))).str());
  return calls;
}

static Json getCommunicators(const Pipeline &pipeline) {
  Json list = Json::array();
  llvm::StringSet<> used = target::findCommunicators(pipeline);
  std::map<StringRef, std::set<std::string>> calls = getCalls(pipeline);
  ModuleOp module = pipeline.module;
  for (auto op : module.getOps<ccl::CommunicatorOp>())
    if (used.contains(op.getSymName()))
      list.push_back({{"name", op.getSymName().str()},
                      {"axes", toJson(op.getAxes())},
                      {"pipeline", toJson(op.getPipeline())},
                      {"calls", calls[op.getSymName()]}});
  return list;
}

static Json describeTransfer(int64_t peer, StringRef communicator, Value value) {
  return {{"stage", peer},
          {"communicator", communicator.str()},
          {"type", print(value.getType())},
          {"layout", toJson(getLayout(value))}};
}

static Json describeStage(StageOp stage) {
  Json parameters = Json::array(), receives = Json::array(), sends = Json::array();
  llvm::SetVector<StringRef> seen, modules;
  for (Operation &op : stage.getBody().front()) {
    if (auto module = op.getAttrOfType<StringAttr>("plumb.module"); module && getPhase(&op) == Phase::Forward)
      modules.insert(module.getValue());
    if (auto load = dyn_cast<LoadOp>(op)) {
      // Those that the stage computes with, be it from a copy that their owner sent.
      Operation *symbol = SymbolTable::lookupNearestSymbolFrom(load, load.getSymbolAttr());
      auto state = dyn_cast_or_null<StateOp>(symbol);
      bool isCopy = state && state.getKind() == "copy";
      StringRef name = isCopy ? *state.getOf() : load.getSymbol();
      bool isOnce = getPhase(load) == Phase::Begin || getPhase(load) >= Phase::Reduce;
      if ((isCopy || isa_and_nonnull<ParameterOp>(symbol)) && !isOnce && seen.insert(name))
        parameters.push_back(name.str());
    } else if (auto send = dyn_cast<ccl::SendOp>(op)) {
      sends.push_back(
          describeTransfer(static_cast<int64_t>(send.getPeer()), send.getCommunicator(), send.getValue()));
    } else if (auto recv = dyn_cast<ccl::RecvOp>(op)) {
      receives.push_back(
          describeTransfer(static_cast<int64_t>(recv.getPeer()), recv.getCommunicator(), recv.getResult()));
    }
  }
  Json names = Json::array();
  for (StringRef module : modules)
    names.push_back(module.str());
  return {{"name", stage.getSymName().str()},
          {"modules", names},
          {"parameters", parameters},
          {"receives", receives},
          {"sends", sends}};
}

static Json getParameters(ModuleOp module) {
  Json list = Json::array();
  for (auto op : module.getOps<ParameterOp>()) {
    Json entry{{"name", op.getSymName().str()}, {"aliases", toJson(op.getAliasesAttr())}};
    addTensor(entry, op, cast<RankedTensorType>(op.getType()));
    entry["trainable"] = op.getTrainable();
    entry["persistent"] = !op.getNonpersistent();
    entry["owner"] = op.getOwner() ? Json(*op.getOwner()) : Json();
    entry["holders"] = toJson(op.getHolders().value_or(ArrayRef<int64_t>()));
    entry["offsets"] = toOffsets(op);
    list.push_back(entry);
  }
  return list;
}

/// How each state is completed once per step, from what was accumulated in it: the calls that its stored
/// value comes from, first to last.
static std::map<StringRef, Json> getCompletions(const Pipeline &pipeline) {
  std::map<StringRef, Json> completions;
  for (StageOp stage : pipeline.stages)
    for (auto store : stage.getBody().front().getOps<StoreOp>()) {
      if (getPhase(store) < Phase::Reduce || completions.count(store.getSymbol()))
        continue;
      Json calls = Json::array();
      for (Operation *op = store.getValue().getDefiningOp(); op && op->getNumOperands() > 0;
           op = op->getOperand(0).getDefiningOp())
        if (auto communicator = op->getAttrOfType<FlatSymbolRefAttr>("communicator")) {
          Json call{{"call", op->getName().stripDialect().str()},
                    {"communicator", communicator.getValue().str()}};
          calls.insert(calls.begin(), call);
        }
      completions[store.getSymbol()] = std::move(calls);
    }
  return completions;
}

static Json getStates(const Pipeline &pipeline) {
  ModuleOp module = pipeline.module;
  std::map<StringRef, Json> completions = getCompletions(pipeline);
  Json list = Json::array();
  for (auto op : module.getOps<StateOp>()) {
    Json entry{{"name", op.getSymName().str()}, {"kind", op.getKind().str()}};
    if (op.getLabel())
      entry["label"] = op.getLabel()->str();
    if (op.getOf())
      entry["of"] = op.getOf()->str();
    addTensor(entry, op, cast<RankedTensorType>(op.getType()));
    entry["offsets"] = toOffsets(op);
    if (auto completion = completions.find(op.getSymName()); completion != completions.end())
      entry["completed_by"] = completion->second;
    list.push_back(entry);
  }
  return list;
}

static Json getMemory(ModuleOp module) {
  Json list = Json::array();
  for (auto usage : module->getAttrOfType<ArrayAttr>(kMemoryAttr).getAsRange<DictionaryAttr>()) {
    Json entry = Json::object();
    for (StringRef use : kMemoryUses)
      entry[use.str()] = usage.getAs<IntegerAttr>(use).getInt();
    entry["largest"] = usage.getAs<StringAttr>("largest").str();
    list.push_back(entry);
  }
  return list;
}

/// The memory that kernels take for the time of a call.
static void addScratch(StageOp stage, const SymbolTable &symbols, Json &entries) {
  for (auto [position, op] : llvm::enumerate(stage.getBody().front())) {
    auto offset = op.getAttrOfType<IntegerAttr>(kScratchOffsetAttr);
    if (!offset)
      continue;
    StringRef kernel = cast<LaunchOp>(op).getKernel();
    std::string part = getPart(&op).getName();
    entries.push_back({{"stage", static_cast<int64_t>(stage.getIndex())},
                       {"made_by", ("scratch of " + kernel).str()},
                       {"part", part},
                       {"used_in", Json::array({part})},
                       {"offset", offset.getInt()},
                       {"bytes", symbols.lookup(kernel)->getAttrOfType<IntegerAttr>(kScratchAttr).getInt()},
                       {"slots", 1},
                       {"ops", Json::array({position, position})}});
  }
}

/// The buffers of values: what has memory besides parameters, states and inputs.
static Json getBuffers(const Pipeline &pipeline, const SymbolTable &symbols) {
  Json list = Json::array();
  for (int64_t coordinate = 0; coordinate < pipeline.coordinates; ++coordinate) {
    Json entries = Json::array();
    for (int64_t index : pipeline.stagesOf(coordinate)) {
      StageOp stage = pipeline.stages[index];
      SmallVector<SlotClass> slots = readSlots(stage);
      Buffers buffers(stage, symbols);
      for (const Buffer &buffer : buffers.all()) {
        auto result = cast<OpResult>(buffer.root);
        if (!buffer.hasOwnMemory())
          continue;
        int64_t slotClass = readEntry(result.getOwner(), kSlotAttr, result.getResultNumber());
        Json parts = Json::array();
        for (const Part &part : buffer.parts)
          parts.push_back(part.getName());
        Json entry{{"stage", index},
                   {"made_by", describe(result.getOwner())},
                   {"part", buffer.writer.getName()},
                   {"used_in", parts},
                   {"offset", readEntry(result.getOwner(), kOffsetAttr, result.getResultNumber())},
                   {"bytes", buffer.bytes},
                   {"slots", slotClass < 0 ? 1 : slots[slotClass].count()}};
        if (slotClass >= 0 && slots[slotClass].places.empty())
          entry["stride"] = slots[slotClass].stride;
        else if (slotClass >= 0)
          entry["places"] =
              std::vector<int64_t>(slots[slotClass].places.begin(), slots[slotClass].places.end());
        if (buffer.isTemporary())
          entry["ops"] = Json::array({buffer.first, buffer.last});
        entries.push_back(entry);
      }
      addScratch(stage, symbols, entries);
    }
    list.push_back(entries);
  }
  return list;
}

static Json getActions(ModuleOp module) {
  Json list = Json::array();
  for (StringRef row : findOp<ScheduleOp>(module).getActions().getAsValueRange<StringAttr>()) {
    Json actions = Json::array();
    SmallVector<StringRef> cells;
    row.split(cells, ',', -1, /*KeepEmpty=*/false);
    for (StringRef cell : cells)
      actions.push_back(cell.str());
    list.push_back(actions);
  }
  return list;
}

static Json getKernels(ModuleOp module) {
  Json list = Json::array();
  for (auto op : module.getOps<func::FuncOp>()) {
    auto symbol = op->getAttrOfType<StringAttr>(kSymbolAttr);
    auto number = [&](StringRef name) {
      auto value = op->getAttrOfType<IntegerAttr>(name);
      return value ? value.getInt() : 0;
    };
    list.push_back({{"name", op.getSymName().str()},
                    {"symbol", symbol ? symbol.str() : op.getSymName().str()},
                    {"scratch", number(kScratchAttr)},
                    {"flops", number(kFlopsAttr)}});
  }
  return list;
}

static Json getCertificate(ArrayAttr proved, const Timeline &timeline, ModuleOp module) {
  const schedule::Simulation &simulation = timeline.simulation;
  bool isGiven = findOp<PipelineOp>(module)->hasAttr(kCostsAttr);
  return {{"proved", toJson(proved)},
          {"consecutive_steps", 2},
          {"cost_unit", isGiven ? "the plan's" : "operations"},
          {"makespan", simulation.makespan},
          {"bubble", simulation.bubble},
          {"peak_activations", simulation.peakActivations}};
}

static Json getLaunch(ModuleOp module) {
  int64_t ranks = 1;
  for (int64_t size : findOp<MeshOp>(module).getSizes())
    ranks *= size;
  auto name = module->getAttrOfType<StringAttr>("plumb.model");
  Json files = Json::array();
  for (const LaunchFile &file : getLaunchFiles(name ? name.str() : "program", ranks))
    files.push_back(file.first);
  return {{"world_size", ranks}, {"program", "program.cpp"}, {"files", files}};
}

LogicalResult plumb::emitPlanFile(ModuleOp module, raw_ostream &os) {
  auto verified = module->getAttrOfType<ArrayAttr>(kVerifiedAttr);
  if (!verified)
    return module.emitError("only a verified plan becomes a plan file; run the pass verify-plan first");
  if (!findOp<MeshOp>(module))
    return module.emitError("there is no plumb.mesh");
  FailureOr<Pipeline> pipeline = Pipeline::read(module);
  if (failed(pipeline) || failed(verifyPlanAttributes(*pipeline)))
    return failure();
  FailureOr<Timeline> timeline = simulatePlan(*pipeline);
  FailureOr<std::string> signature = getProgramSignature(module);
  if (failed(timeline) || failed(signature))
    return failure();
  auto name = module->getAttrOfType<StringAttr>("plumb.model");
  SymbolTable symbols(module);
  Json plan{{"format", "plumb-plan"},
            {"version", kPlanFileVersion},
            {"made_by", std::string("plumbc ") + PLUMB_VERSION},
            {"model", name ? name.str() : ""},
            {"signature", *signature}};
  plan["mesh"] = getMesh(module);
  plan["pipeline"] = getPipeline(*pipeline);
  plan["communicators"] = getCommunicators(*pipeline);
  plan["stages"] = Json::array();
  for (StageOp stage : pipeline->stages)
    plan["stages"].push_back(describeStage(stage));
  plan["parameters"] = getParameters(module);
  plan["states"] = getStates(*pipeline);
  plan["memory"] = getMemory(module);
  plan["buffers"] = getBuffers(*pipeline, symbols);
  plan["streams"] = toJson(module->getAttrOfType<ArrayAttr>(kStreamsAttr));
  plan["events"] = module->getAttrOfType<IntegerAttr>(kEventsAttr).getInt();
  plan["actions"] = getActions(module);
  if (auto target = module->getAttrOfType<StringAttr>(kTargetAttr))
    plan["target"] = target.str();
  plan["kernels"] = getKernels(module);
  plan["certificate"] = getCertificate(verified, *timeline, module);
  plan["launch"] = getLaunch(module);
  // Names may hold any bytes; what is no UTF-8 is replaced rather than refused.
  os << plan.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
  return success();
}
