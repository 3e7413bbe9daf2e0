//===- ProgramStage.cpp - The functions of a stage ------------------------------===//
//
// Each part of a stage becomes a function: event waits, the calls under a comment that says which module and Python
// line they serve, event records. Operands are named local pointers into the arena, declared before their first use.
//
//===----------------------------------------------------------------------===//

#include "ProgramWriter.h"
#include "llvm/ADT/StringSet.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "plumb/Dialect/NN/NN.h"
#include "plumb/Transforms/Buffers.h"

using namespace mlir;
using namespace plumb;
using namespace plumb::target;
using llvm::formatv;

namespace {

class StageWriter {
public:
  StageWriter(ProgramWriter &writer, ProgramPlan &plan, int64_t index);
  void write();

private:
  void nameValues();
  std::string nameOf(OpResult result);
  void writeOffsets();
  void writePart(const Part &part, ArrayRef<Operation *> ops);
  void writeSync(StringRef attribute, const Part &part);
  void writeHeading(Operation *op);
  void writeOp(Operation *op);
  void writeLaunch(LaunchOp launch);
  void writeCollective(Operation *op);
  void writeTransfer(Operation *op);
  void writeKeepFirst(ccl::KeepFirstOp op);
  void writeCopy(StoreOp store);

  /// The local pointer to a value, declared if it was not.
  std::string pointer(Value value);
  std::string pointerTo(Operation *op, unsigned index, Type type, StringRef name, StringRef enumerator);
  std::string slot(int64_t slotClass, bool standsAlone) const;
  std::string coordinate(ArrayAttr axes) const;
  std::string describeRecorder(int64_t firstEvent) const;
  bool isSamePlace(Value a, Value b) const;
  template <typename... Args>
  void line(const char *format, Args &&...args) {
    lines.push_back(formatv(format, std::forward<Args>(args)...).str());
  }

  ProgramWriter &writer;
  ProgramPlan &plan;
  int64_t index;
  StageOp stage;
  std::string prefix;           ///< "submod_pp_0".
  std::string arena;            ///< Namespace of the coordinate's offsets, "pp0".
  SmallVector<SlotClass> slots;
  SmallVector<std::string> slotNames;
  DenseMap<Value, std::string> names; ///< Local names of values.
  DenseMap<Value, Value> sameAs;      ///< In-place results, by the operand that they overwrite.

  // Of the function at hand.
  SmallVector<std::string> lines;
  llvm::StringSet<> declared;
  std::string heading, stream;
};

} // namespace

StageWriter::StageWriter(ProgramWriter &writer, ProgramPlan &plan, int64_t index)
    : writer(writer), plan(plan), index(index), stage(plan.pipeline.stages[index]),
      prefix("submod_pp_" + std::to_string(index)), arena("pp" + std::to_string(plan.pipeline.coordinateOf(index))),
      slots(readSlots(stage)) {}

//===----------------------------------------------------------------------===//
// Names and places
//===----------------------------------------------------------------------===//

std::string StageWriter::nameOf(OpResult result) {
  Operation *op = result.getOwner();
  if (auto load = dyn_cast<LoadOp>(op))
    return load.getSymbol().str();
  if (auto input = dyn_cast<InputOp>(op))
    return input.getName().str();
  auto module = op->getAttrOfType<StringAttr>(kModuleAttr);
  std::string name = module && !module.empty() ? module.str() : "value";
  switch (getPhase(op)) {
  case Phase::BackwardInput:
    return "d_" + name;
  case Phase::BackwardWeight:
    return "w_" + name;
  default:
    return name;
  }
}

bool StageWriter::isSamePlace(Value a, Value b) const {
  auto place = [](Value value) {
    auto result = cast<OpResult>(value);
    return std::pair(readEntry(result.getOwner(), kOffsetAttr, result.getResultNumber()),
                     readEntry(result.getOwner(), kSlotAttr, result.getResultNumber()));
  };
  return place(a) == place(b);
}

void StageWriter::nameValues() {
  Identifiers identifiers({"rank", "microbatch", "stream", "plumb", "std", "kernel"});
  llvm::StringMap<std::string> symbolLocals;
  for (Operation &op : stage.getBody().front()) {
    for (OpResult result : op.getResults()) {
      if (op.hasTrait<nn::Reinterprets>()) {
        names[result] = names[op.getOperand(0)];
        continue;
      }
      // What overwrites an operand has its place and name.
      if (!isa<LoadOp, InputOp, ccl::SliceOp>(op))
        for (Value operand : op.getOperands())
          if (names[result].empty() && isSamePlace(result, operand)) {
            names[result] = names[operand];
            sameAs[result] = operand;
          }
      if (!names[result].empty())
        continue;
      std::string name = nameOf(result);
      if (isa<LoadOp, InputOp>(op)) {
        std::string &local = symbolLocals[name];
        if (local.empty())
          local = identifiers.make(name);
        names[result] = local;
      } else {
        names[result] = identifiers.make(name);
      }
    }
  }
  Identifiers slotIdentifiers;
  for (const SlotClass &slotClass : slots)
    slotNames.push_back(slotIdentifiers.make("slot_of_" + slotClass.name));
}

/// Whether microbatch m uses slot m % count.
static bool isRoundRobin(const SlotClass &slots) {
  for (auto [microbatch, slot] : llvm::enumerate(slots.table))
    if (slot != static_cast<int64_t>(microbatch) % slots.count())
      return false;
  return true;
}

std::string StageWriter::slot(int64_t slotClass, bool standsAlone) const {
  const SlotClass &slotTable = slots[slotClass];
  if (slotTable.count() <= 1)
    return "";
  if (slotTable.isIdentity())
    return "microbatch";
  if (isRoundRobin(slotTable))
    return formatv(standsAlone ? "microbatch % {0}" : "(microbatch % {0})", slotTable.count());
  return formatv("{0}::{1}[microbatch]", prefix, slotNames[slotClass]);
}

/// Offsets of what lies in the stage's own part of the arena, and the slot tables that no formula gives.
void StageWriter::writeOffsets() {
  std::string text;
  llvm::StringSet<> written;
  for (Operation &op : stage.getBody().front()) {
    if (isSilent(&op))
      continue;
    for (OpResult result : op.getResults())
      if (!sameAs.contains(result) && written.insert(names[result]).second)
        text += formatv("  {0} = {1},\n", names[result], readEntry(&op, kOffsetAttr, result.getResultNumber()));
    if (auto scratch = op.getAttrOfType<IntegerAttr>(kScratchOffsetAttr))
      if (std::string name = "scratch_" + std::to_string(scratch.getInt()); written.insert(name).second)
        text += formatv("  {0} = {1},\n", name, scratch.getInt());
  }
  std::string tables;
  for (auto [number, slotClass] : llvm::enumerate(slots))
    if (slotClass.count() > 1 && !slotClass.isIdentity() && !isRoundRobin(slotClass))
      tables += formatv("constexpr std::size_t {0}[{1}] = {{{2}};\n", slotNames[number], slotClass.table.size(),
                        llvm::join(llvm::map_range(slotClass.table, [](int64_t s) { return std::to_string(s); }), ", "));
  if (!text.empty())
    text = "enum Offset : std::size_t {\n" + text + "};\n";
  if (!text.empty() || !tables.empty())
    writer.write(formatv("\n// Stage {0}, on pipeline coordinate {1}: where its values lie, in bytes from the start of the arena.\n"
                         "namespace {2} {{\n{3}{4}} // namespace {2}",
                         index, plan.pipeline.coordinateOf(index), prefix, text, tables));
}

std::string StageWriter::pointerTo(Operation *op, unsigned result, Type type, StringRef name, StringRef enumerator) {
  if (!declared.insert(name).second)
    return name.str();
  StringRef element = getElementNames(cast<RankedTensorType>(type).getElementType()).cpp;
  std::string offset = enumerator.str();
  if (int64_t slotClass = readEntry(op, kSlotAttr, result); slotClass >= 0)
    if (std::string term = slot(slotClass, false); !term.empty())
      offset += formatv(" + {0} * {1}", term, slots[slotClass].stride);
  line("{0} *{1} = rank.at<{0}>({2});", element, name, offset);
  return name.str();
}

std::string StageWriter::pointer(Value value) {
  auto result = cast<OpResult>(value);
  Operation *op = result.getOwner();
  if (op->hasTrait<nn::Reinterprets>())
    return pointer(op->getOperand(0));
  if (auto same = sameAs.find(value); same != sameAs.end())
    return pointer(same->second);
  std::string name = names[value];
  if (auto slice = dyn_cast<ccl::SliceOp>(op)) {
    std::string base = pointer(slice.getInput());
    if (declared.insert(name).second)
      line("{0} *{1} = {2} + {3} * {4};", getElementNames(value).cpp, name, base, coordinate(slice.getAxes()),
           cast<RankedTensorType>(value.getType()).getNumElements());
    return name;
  }
  std::string enumerator = prefix + "::" + name;
  if (auto load = dyn_cast<LoadOp>(op))
    enumerator = arena + "::" + plan.symbolNames[load.getSymbol()];
  else if (auto input = dyn_cast<InputOp>(op))
    enumerator = arena + "::" + plan.inputNames[static_cast<int64_t>(input.getIndex())];
  return pointerTo(op, result.getResultNumber(), value.getType(), name, enumerator);
}

/// The rank's number along several axes, the first slowest.
std::string StageWriter::coordinate(ArrayAttr axes) const {
  std::string text;
  for (StringRef axis : axes.getAsValueRange<StringAttr>()) {
    std::string term = formatv("rank.coordinate({0})", *plan.mesh.findAxis(axis));
    text = text.empty() ? term : formatv("({0} * {1} + {2})", text, plan.mesh.getAxisSize(axis), term).str();
  }
  return text.empty() ? "0" : text;
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

void StageWriter::writeHeading(Operation *op) {
  auto module = op->getAttrOfType<StringAttr>(kModuleAttr);
  auto source = op->getAttrOfType<StringAttr>(kSourceAttr);
  std::string text = module && !module.empty() ? module.str() : "";
  if (source)
    text += (text.empty() ? "" : " ") + ("(" + source.str() + ")");
  // A line break in a name would end the comment.
  llvm::replace(text, '\n', ' ');
  llvm::replace(text, '\\', '/');
  std::string what;
  if (auto communicator = op->getAttrOfType<FlatSymbolRefAttr>("communicator"); communicator && !isa<ccl::SendOp, ccl::RecvOp>(op)) {
    auto declaration = plan.symbols.lookup<ccl::CommunicatorOp>(communicator.getValue());
    SmallVector<std::string> over;
    for (StringRef axis : declaration.getAxes().getAsValueRange<StringAttr>())
      over.push_back(axis.str());
    if (!declaration.getPipeline().empty())
      over.push_back("the pipeline coordinates " +
                     llvm::join(llvm::map_range(declaration.getPipeline(), [](int64_t p) { return std::to_string(p); }), ", "));
    what = op->getName().stripDialect().str() + " over " + llvm::join(over, ", ");
    if (text.empty())
      if (auto load = op->getOperand(0).getDefiningOp<LoadOp>())
        text = load.getSymbol().str();
  }
  std::string next = text + (text.empty() || what.empty() ? "" : ": ") + what;
  if (!next.empty() && next != heading)
    line("// {0}", next);
  heading = next;
}

void StageWriter::writeLaunch(LaunchOp launch) {
  std::string arguments;
  for (Value operand : launch.getOperands())
    arguments += pointer(operand) + ", ";
  for (auto [result, operand] : llvm::zip(launch.getOutputs(), launch.getInplace()))
    if (operand < 0)
      arguments += pointer(result) + ", ";
  if (auto scratch = launch->getAttrOfType<IntegerAttr>(kScratchOffsetAttr))
    arguments += formatv("rank.at<void>({0}::scratch_{1}), ", prefix, scratch.getInt());
  line("PLUMB_LAUNCH({0}({1}{2}));", launch.getKernel(), arguments, stream);
}

void StageWriter::writeCollective(Operation *op) {
  Value input = op->getOperand(0), output = op->getResult(0);
  std::string from = pointer(input), to = pointer(output);
  StringRef type = getElementNames(input).nccl;
  std::string comm = formatv(
      "rank.comm({0})", plan.communicators[op->getAttrOfType<FlatSymbolRefAttr>("communicator").getValue()]);
  auto elements = [](Value value) { return cast<RankedTensorType>(value.getType()).getNumElements(); };
  if (isa<ccl::AllReduceOp>(op))
    line("PLUMB_NCCL(ncclAllReduce({0}, {1}, {2}, {3}, ncclSum, {4}, {5}));", from, to, elements(input), type, comm, stream);
  else if (isa<ccl::ReduceScatterOp>(op))
    line("PLUMB_NCCL(ncclReduceScatter({0}, {1}, {2}, {3}, ncclSum, {4}, {5}));", from, to, elements(output), type, comm,
         stream);
  else if (isa<ccl::AllGatherOp>(op))
    line("PLUMB_NCCL(ncclAllGather({0}, {1}, {2}, {3}, {4}, {5}));", from, to, elements(input), type, comm, stream);
  else
    line("PLUMB_NCCL(ncclAlltoAll({0}, {1}, {2}, {3}, {4}, {5}));", from, to,
         elements(input) / std::max<int64_t>(cast<RankedTensorType>(input.getType()).getDimSize(0), 1), type, comm, stream);
}

void StageWriter::writeTransfer(Operation *op) {
  bool sends = isa<ccl::SendOp>(op);
  Value value = sends ? op->getOperand(0) : Value(op->getResult(0));
  StringRef name = op->getAttrOfType<FlatSymbolRefAttr>("communicator").getValue();
  ArrayRef<int64_t> members = plan.symbols.lookup<ccl::CommunicatorOp>(name).getPipeline();
  int64_t peer = plan.pipeline.coordinateOf(getPart(op).peer);
  auto number = std::distance(members.begin(), llvm::find(members, peer));
  line("PLUMB_NCCL({0}({1}, {2}, {3}, {4}, rank.comm({5}), {6}));", sends ? "ncclSend" : "ncclRecv", pointer(value),
       cast<RankedTensorType>(value.getType()).getNumElements(), getElementNames(value).nccl, number,
       plan.communicators[name], stream);
}

void StageWriter::writeKeepFirst(ccl::KeepFirstOp op) {
  int64_t bytes = getByteSize(op.getInput().getType());
  std::string from = pointer(op.getInput()), to = pointer(op.getResult());
  line("if ({0} != 0)", coordinate(op.getAxes()));
  line("  PLUMB_CUDA(cudaMemsetAsync({0}, 0, {1}, {2}));", to, bytes, stream);
  if (from == to)
    return;
  line("else");
  line("  PLUMB_CUDA(cudaMemcpyAsync({0}, {1}, {2}, cudaMemcpyDeviceToDevice, {3}));", to, from, bytes, stream);
}

void StageWriter::writeCopy(StoreOp store) {
  std::string from = pointer(store.getValue());
  std::string to = pointerTo(store, 0, store.getValue().getType(), "state_" + toIdentifier(store.getSymbol()),
                             arena + "::" + plan.symbolNames[store.getSymbol()]);
  line("PLUMB_CUDA(cudaMemcpyAsync({0}, {1}, {2}, cudaMemcpyDeviceToDevice, {3}));", to, from,
       getByteSize(store.getValue().getType()), stream);
}

void StageWriter::writeOp(Operation *op) {
  writeHeading(op);
  if (auto launch = dyn_cast<LaunchOp>(op))
    return writeLaunch(launch);
  if (isa<ccl::SendOp, ccl::RecvOp>(op))
    return writeTransfer(op);
  if (auto keep = dyn_cast<ccl::KeepFirstOp>(op))
    return writeKeepFirst(keep);
  if (auto store = dyn_cast<StoreOp>(op))
    return writeCopy(store);
  writeCollective(op);
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

std::string StageWriter::describeRecorder(int64_t firstEvent) const {
  if (auto parts = stage->getAttrOfType<DictionaryAttr>(kRecordsAttr))
    for (NamedAttribute part : parts) {
      auto entries = cast<DenseI64ArrayAttr>(part.getValue());
      for (int64_t i = 0; i < entries.size(); i += 2)
        if (entries[i] == firstEvent)
          return part.getName().str();
    }
  return "";
}

void StageWriter::writeSync(StringRef attribute, const Part &part) {
  for (const EventRef &event : readEvents(stage, attribute, part)) {
    std::string number = slot(event.slotClass, true);
    if (number.empty())
      number = std::to_string(event.first);
    else if (event.first != 0)
      number = formatv("{0} + {1}", event.first, number);
    if (attribute == kWaitsAttr)
      line("PLUMB_CUDA(cudaStreamWaitEvent({0}, rank.event({1}), 0)); // {2}", stream, number,
           describeRecorder(event.first));
    else
      line("PLUMB_CUDA(cudaEventRecord(rank.event({0}), {1}));", number, stream);
  }
}

void StageWriter::writePart(const Part &part, ArrayRef<Operation *> ops) {
  lines.clear();
  declared.clear();
  heading.clear();
  stream = "stream";
  line("const cudaStream_t stream = rank.stream({0});", plan.streams[readStream(ops[0])]);
  writeSync(kWaitsAttr, part);
  bool isGroup = part.isTransfer() && ops.size() > 1;
  if (isGroup)
    line("PLUMB_NCCL(ncclGroupStart());");
  for (Operation *op : ops)
    if (!isSilent(op))
      writeOp(op);
  if (isGroup)
    line("PLUMB_NCCL(ncclGroupEnd());");
  writeSync(kRecordsAttr, part);
  writer.write("");
  writer.writeFunction("", prefix + "_" + part.getName(), part.isPerMicrobatch(), lines);
}

void StageWriter::write() {
  nameValues();
  writeOffsets();
  for (const auto &[key, ops] : plan.parts)
    if (key.first == index && plan.hasPart(index, key.second))
      writePart(key.second, ops);
}

void plumb::target::writeStage(ProgramWriter &writer, ProgramPlan &plan, int64_t stage) {
  StageWriter(writer, plan, stage).write();
}
