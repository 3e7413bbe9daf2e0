//===- ProgramTables.cpp - Mesh, communicators, tensors, offsets ---------------===//

#include "ProgramWriter.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "plumb/Transforms/Buffers.h"
#include "plumb/Transforms/Utils.h"

using namespace mlir;
using namespace plumb;
using namespace plumb::target;
using llvm::formatv;

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

/// The C declaration of a kernel's entry point.
static std::string declareKernel(func::FuncOp kernel, StringRef symbol) {
  std::string parameters;
  auto add = [&](Type type, bool isConst) {
    parameters += (isConst ? "const " : "") +
                  getElementNames(cast<RankedTensorType>(type).getElementType()).cpp.str() + " *, ";
  };
  SmallVector<bool> inPlace(kernel.getNumResults());
  for (auto [number, type] : llvm::enumerate(kernel.getArgumentTypes())) {
    auto result = kernel.getArgAttrOfType<IntegerAttr>(number, kResultAttr);
    add(type, !result);
    if (result)
      inPlace[result.getInt()] = true;
  }
  for (auto [type, tied] : llvm::zip(kernel.getResultTypes(), inPlace))
    if (!tied)
      add(type, false);
  if (auto scratch = kernel->getAttrOfType<IntegerAttr>(kScratchAttr); scratch && scratch.getInt())
    parameters += "void *, ";
  return formatv("cudaError_t {0}({1}cudaStream_t);\n", symbol, parameters);
}

/// Entry points have the names of their contents; the program calls them by what they do.
static void writeKernels(ProgramWriter &writer, ProgramPlan &plan) {
  std::string declarations, names;
  for (auto kernel : plan.module.getOps<func::FuncOp>()) {
    auto symbol = kernel->getAttrOfType<StringAttr>(kSymbolAttr);
    declarations += declareKernel(kernel, symbol ? symbol.getValue() : kernel.getSymName());
    if (symbol)
      names += formatv("constexpr auto &{0} = ::{1};\n", kernel.getSymName(), symbol.getValue());
  }
  if (!declarations.empty())
    writer.write("\n// Kernels: inputs, outputs, scratch if any, stream.\nextern \"C\" {\n" + declarations +
                 "}");
  writer.write("\nnamespace {");
  if (!names.empty())
    writer.write("\n" + StringRef(names).rtrim());
}

//===----------------------------------------------------------------------===//
// Mesh, communicators, streams
//===----------------------------------------------------------------------===//

static void writeMesh(ProgramWriter &writer, ProgramPlan &plan) {
  SmallVector<std::string> entries;
  for (auto [axis, size] : llvm::zip(plan.axes, plan.mesh.getSizes()))
    entries.push_back(formatv("{{{0}, {1}}", quote(axis), size));
  if (entries.empty())
    return;
  writer.write("\n// Ranks are numbered row-major over the mesh, the last axis fastest.");
  writer.writeTable("plumb::Axis", "kMesh", entries);
}

static void writeCommunicators(ProgramWriter &writer, ProgramPlan &plan) {
  Identifiers identifiers;
  SmallVector<std::string> entries;
  std::string names;
  llvm::StringSet<> used = findCommunicators(plan.pipeline);
  for (auto communicator : plan.module.getOps<ccl::CommunicatorOp>()) {
    StringRef symbol = communicator.getSymName();
    if (!used.contains(symbol))
      continue;
    std::string name = identifiers.make(("comm_" + symbol).str());
    plan.communicators[symbol] = name;
    names += (names.empty() ? "" : ", ") + name;
    std::string axes = "{}", members = "{}";
    SmallVector<std::string> factors;
    for (const ccl::Axis &axis : ccl::parseAxes(communicator.getAxes())) {
      auto number = plan.mesh.findAxis(axis.name).value_or(0);
      factors.push_back(axis.isWhole() ? formatv("{{{0}}", number).str()
                                       : formatv("{{{0}, {1}, {2}}", number, axis.preSize, axis.size).str());
    }
    if (!factors.empty()) {
      axes = name + "_axes";
      writer.write(
          formatv("static const plumb::AxisFactor {0}[] = {{{1}};", axes, llvm::join(factors, ", ")));
    }
    if (!communicator.getPipeline().empty()) {
      members = name + "_members";
      writer.write(
          formatv("static const int {0}[] = {{{1}};", members, joinNumbers(communicator.getPipeline())));
    }
    entries.push_back(formatv("{{{0}, {1}, {2}}", quote(symbol), axes, members));
  }
  if (entries.empty())
    return;
  writer.write("\nenum Communicator { " + names + " };");
  writer.writeTable("plumb::Communicator", "kCommunicators", entries);
}

static void writeStreams(ProgramWriter &writer, ProgramPlan &plan) {
  Identifiers identifiers;
  for (StringRef name : plan.module->getAttrOfType<ArrayAttr>(kStreamsAttr).getAsValueRange<StringAttr>())
    plan.streams.push_back(identifiers.make(("stream_" + name).str()));
  writer.write("\nenum Stream { " + llvm::join(plan.streams, ", ") + " };");
}

//===----------------------------------------------------------------------===//
// Offsets
//===----------------------------------------------------------------------===//

/// Parameters, states and inputs that lie in the arena of a coordinate.
static void writeArena(ProgramWriter &writer, ProgramPlan &plan, int64_t coordinate) {
  std::string text;
  auto entry = [&](StringRef name, int64_t offset) { text += formatv("  {0} = {1},\n", name, offset); };
  for (Operation &op : plan.module.getOps())
    if (isa<ParameterOp, StateOp>(op))
      if (int64_t offset = readEntry(&op, kOffsetsAttr, static_cast<unsigned>(coordinate)); offset >= 0)
        entry(plan.symbolNames[SymbolTable::getSymbolName(&op).getValue()], offset);
  std::set<int64_t> seen;
  for (int64_t index : plan.pipeline.stagesOf(coordinate)) {
    StageOp stage = plan.pipeline.stages[index];
    for (auto input : stage.getBody().front().getOps<InputOp>())
      if (auto number = static_cast<int64_t>(input.getIndex()); seen.insert(number).second)
        entry(plan.inputNames[number], readEntry(input, kOffsetAttr));
  }
  if (!text.empty())
    writer.write(formatv("\n// The arena of pipeline coordinate {0}: {1} bytes.\nnamespace pp{0} {{\n"
                         "enum Offset : std::size_t {{\n{2}};\n} // namespace pp{0}",
                         coordinate, plan.module->getAttrOfType<DenseI64ArrayAttr>(kArenaAttr)[coordinate],
                         text));
}

static void nameSymbols(ProgramPlan &plan) {
  Identifiers identifiers;
  for (Operation &op : plan.module.getOps())
    if (isa<ParameterOp, StateOp>(op)) {
      StringRef symbol = SymbolTable::getSymbolName(&op).getValue();
      plan.symbolNames[symbol] = identifiers.make(symbol);
    }
  for (StageOp stage : plan.pipeline.stages)
    for (auto input : stage.getBody().front().getOps<InputOp>())
      if (std::string &name = plan.inputNames[static_cast<int64_t>(input.getIndex())]; name.empty())
        name = identifiers.make(("input_" + input.getName()).str());
}

void plumb::target::writeTables(ProgramWriter &writer, ProgramPlan &plan) {
  writeKernels(writer, plan);
  writeMesh(writer, plan);
  writeCommunicators(writer, plan);
  writeStreams(writer, plan);
  nameSymbols(plan);
  for (int64_t coordinate = 0; coordinate < plan.pipeline.coordinates; ++coordinate)
    writeArena(writer, plan, coordinate);
}
