//===- ProgramStage.cpp - The functions of a stage ------------------------------===//
//
// Each part of a stage becomes a function: event waits, the calls under a comment that says which module and
// Python line they serve, event records. Operands are named local pointers into the arena, declared before
// their first use.
//
//===----------------------------------------------------------------------===//

#include "StageNames.h"
#include "plumb/Dialect/NN/NN.h"
#include "plumb/Transforms/Buffers.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace plumb;
using namespace plumb::target;
using llvm::formatv;

namespace {

class StageWriter {
public:
  StageWriter(ProgramWriter &writer, ProgramPlan &plan, int64_t index, ArrayRef<StageNames> names)
      : writer(writer), plan(plan), index(index), stage(plan.pipeline.stages[index]), allNames(names),
        names(names[index]) {}
  void writeDeclarations();
  void writeFunctions();

private:
  void writePart(const Part &part, ArrayRef<Operation *> ops);
  void writeGroup(ArrayRef<Operation *> ops);
  void writeWaits(ArrayRef<Operation *> ops, const StageNames &owner);
  void writeRecords(Operation *op, const StageNames &owner);
  void writeHeading(Operation *op);
  void writeOp(Operation *op);
  void writeLaunch(LaunchOp launch);
  void writeCollective(Operation *op);
  void writeCollective(Operation *op, Value input, Value output, StringRef rest);
  void writeAllToAll(ccl::AllToAllOp op, StringRef from, StringRef to, StringRef rest);
  void writeExchange(ccl::ExchangeOp op, StringRef from, StringRef to, StringRef rest);
  void writePieces(ccl::CopyOp op);
  void writeBlocks(Operation *op, ArrayAttr axes, Value rows, bool extracts);
  std::string writeTable(ArrayAttr members, size_t width, StringRef type);
  void writeTransfer(Operation *op);
  void writeHandover(ccl::RecvOp recv);
  void writeKeepFirst(ccl::KeepFirstOp op);
  void writeCopy(const Twine &to, const Twine &from, Type type, StringRef indent = "");

  /// The local pointer to a value, declared if it was not.
  std::string pointer(Value value);
  std::string describeServed(Operation *op) const;
  std::string describeWait(ArrayRef<Operation *> ops, int64_t firstEvent) const;
  template <typename... Args>
  void line(const char *format, Args &&...args) {
    lines.push_back(formatv(format, std::forward<Args>(args)...).str());
  }

  ProgramWriter &writer;
  ProgramPlan &plan;
  int64_t index;
  StageOp stage;
  ArrayRef<StageNames> allNames;
  const StageNames &names;

  // Of the function at hand.
  SmallVector<std::string> lines;
  llvm::StringSet<> declared;
  std::string heading;
  std::string stream; ///< The expression for the stream of the op at hand.
};

} // namespace

static int64_t countElements(Value value) { return cast<RankedTensorType>(value.getType()).getNumElements(); }

std::string StageWriter::pointer(Value value) {
  value = names.resolve(value);
  std::string local = names.getLocal(value).str();
  if (declared.contains(local))
    return local;
  std::string address = names.getAddress(value);
  if (auto slice = value.getDefiningOp<ccl::SliceOp>())
    address = formatv("{0} + {1} * {2}", pointer(slice.getInput()), names.getCoordinate(slice.getAxes()),
                      countElements(value));
  declared.insert(local);
  line("{0} *{1} = {2};", getElementNames(value).cpp, local, address);
  return local;
}

//===----------------------------------------------------------------------===//
// Comments
//===----------------------------------------------------------------------===//

/// What an op is there for beyond its module: the boundary that a collective serves, the other end of a
/// transfer.
std::string StageWriter::describeServed(Operation *op) const {
  if (isa<ccl::SendOp, ccl::RecvOp>(op))
    return (isa<ccl::SendOp>(op) ? "to stage " : "from stage ") +
           std::to_string(op->getAttrOfType<IntegerAttr>("peer").getInt());
  if (auto boundary = op->getAttrOfType<StringAttr>("plumb.boundary"))
    return boundary.str();
  if (isa<ccl::AllReduceOp, ccl::AllGatherOp, ccl::ReduceScatterOp>(op) && op->getNumOperands() > 1)
    return "a bucket of " + std::to_string(op->getNumOperands()) + " tensors";
  auto communicator = op->getAttrOfType<FlatSymbolRefAttr>("communicator");
  return communicator ? (op->getName().stripDialect() + " over " + communicator.getValue()).str() : "";
}

void StageWriter::writeHeading(Operation *op) {
  SmallVector<std::string> words;
  if (auto module = op->getAttrOfType<StringAttr>(kModuleAttr); module && !module.empty())
    words.push_back(module.str());
  else if (auto load = op->getNumOperands() ? op->getOperand(0).getDefiningOp<LoadOp>() : LoadOp())
    words.push_back(load.getSymbol().str());
  if (auto source = op->getAttrOfType<StringAttr>(kSourceAttr))
    words.push_back("(" + source.str() + ")");
  std::string served = describeServed(op), text = llvm::join(words, " ");
  if (!served.empty())
    text += (text.empty() ? "" : ": ") + served;
  text = toComment(text);
  if (!text.empty() && text != heading)
    line("// {0}", text);
  heading = text;
}

/// Whether the launch that an op is the head of reads what another op makes.
static bool reads(ArrayRef<Operation *> ops, Operation *maker) {
  return llvm::any_of(ops, [&](Operation *op) {
    return llvm::any_of(op->getOperands(), [&](Value operand) {
      while (operand.getDefiningOp()->hasTrait<nn::Reinterprets>() || operand.getDefiningOp<ccl::SliceOp>())
        operand = operand.getDefiningOp()->getOperand(0);
      return operand.getDefiningOp() == maker;
    });
  });
}

/// Why a launch waits for an event: the op that records it, and whether it is for what that makes.
std::string StageWriter::describeWait(ArrayRef<Operation *> ops, int64_t firstEvent) const {
  auto found = plan.recorders.find({plan.pipeline.coordinateOf(index), firstEvent});
  if (found == plan.recorders.end())
    return "";
  Operation *recorder = found->second;
  auto module = recorder->getAttrOfType<StringAttr>(kModuleAttr);
  std::string text = (reads(ops, recorder) ? "for " : "after ") + getPart(recorder).getName();
  return toComment(module && !module.empty() ? text + " of " + module.str() : text);
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

void StageWriter::writeLaunch(LaunchOp launch) {
  SmallVector<std::string> arguments;
  for (Value operand : launch.getOperands())
    arguments.push_back(pointer(operand));
  for (auto [result, operand] : llvm::zip(launch.getOutputs(), launch.getInplace()))
    if (operand < 0)
      arguments.push_back(pointer(result));
  if (std::string scratch = names.getScratch(launch); !scratch.empty())
    arguments.push_back(scratch);
  arguments.push_back(stream);
  line("PLUMB_LAUNCH({0}({1}));", launch.getKernel(), llvm::join(arguments, ", "));
}

static StringRef getReductionName(StringRef reduction) {
  return llvm::StringSwitch<StringRef>(reduction)
      .Case("avg", "ncclAvg")
      .Case("min", "ncclMin")
      .Case("max", "ncclMax")
      .Case("product", "ncclProd")
      .Default("ncclSum");
}

void StageWriter::writeCollective(Operation *op) {
  StringRef symbol = op->getAttrOfType<FlatSymbolRefAttr>("communicator").getValue();
  std::string rest = formatv("rank.comm({0}), {1}", plan.communicators.lookup(symbol), stream);
  if (auto exchange = dyn_cast<ccl::ExchangeOp>(op))
    return writeExchange(exchange, pointer(op->getOperand(0)), pointer(op->getResult(0)), rest);
  if (auto exchange = dyn_cast<ccl::AllToAllOp>(op))
    return writeAllToAll(exchange, pointer(op->getOperand(0)), pointer(op->getResult(0)), rest);
  bool isBucket = op->getNumOperands() > 1;
  if (isBucket)
    line("PLUMB_NCCL(ncclGroupStart());");
  for (auto [input, output] : llvm::zip(op->getOperands(), op->getResults()))
    writeCollective(op, input, output, rest);
  if (isBucket)
    line("PLUMB_NCCL(ncclGroupEnd());");
}

void StageWriter::writeCollective(Operation *op, Value input, Value output, StringRef rest) {
  std::string from = pointer(input), to = pointer(output);
  StringRef type = getElementNames(input).nccl;
  if (auto reduce = dyn_cast<ccl::AllReduceOp>(op))
    line("PLUMB_NCCL(ncclAllReduce({0}, {1}, {2}, {3}, {4}, {5}));", from, to, countElements(input), type,
         getReductionName(reduce.getReduction()), rest);
  else if (auto reduce = dyn_cast<ccl::ReduceScatterOp>(op))
    line("PLUMB_NCCL(ncclReduceScatter({0}, {1}, {2}, {3}, {4}, {5}));", from, to, countElements(output),
         type, getReductionName(reduce.getReduction()), rest);
  else
    line("PLUMB_NCCL(ncclAllGather({0}, {1}, {2}, {3}, {4}));", from, to, countElements(input), type, rest);
}

/// A group, since NCCL has a call for it only from 2.28 on.
void StageWriter::writeAllToAll(ccl::AllToAllOp op, StringRef from, StringRef to, StringRef rest) {
  int64_t members = op.getType().getDimSize(0);
  if (op.getType().getNumElements() == 0)
    return;
  int64_t count = op.getType().getNumElements() / members;
  StringRef type = getElementNames(op.getResult()).nccl;
  line("PLUMB_NCCL(ncclGroupStart());");
  line("for (int peer = 0; peer < {0}; ++peer) {{", members);
  line("  PLUMB_NCCL(ncclSend({0} + peer * {1}, {1}, {2}, peer, {3}));", from, count, type, rest);
  line("  PLUMB_NCCL(ncclRecv({0} + peer * {1}, {1}, {2}, peer, {3}));", to, count, type, rest);
  line("}");
  line("PLUMB_NCCL(ncclGroupEnd());");
}

void StageWriter::writeExchange(ccl::ExchangeOp op, StringRef from, StringRef to, StringRef rest) {
  auto communicator = plan.symbols.lookup<ccl::CommunicatorOp>(op.getCommunicator());
  std::string member = names.getCoordinate(communicator.getAxes());
  StringRef type = getElementNames(op.getResult()).nccl;
  line("PLUMB_NCCL(ncclGroupStart());");
  line("for (const plumb::Message &message : {0}[{1}])", writeTable(op.getSends(), 3, "Message"), member);
  line("  PLUMB_NCCL(ncclSend({0} + message.offset, message.count, {1}, message.peer, {2}));", from, type,
       rest);
  line("for (const plumb::Message &message : {0}[{1}])", writeTable(op.getReceives(), 3, "Message"), member);
  line("  PLUMB_NCCL(ncclRecv({0} + message.offset, message.count, {1}, message.peer, {2}));", to, type,
       rest);
  line("PLUMB_NCCL(ncclGroupEnd());");
}

void StageWriter::writePieces(ccl::CopyOp op) {
  std::string to = pointer(op.getResult()), member = names.getCoordinate(op.getAxes());
  for (auto [input, pieces] : llvm::zip(op.getInputs(), op.getPieces())) {
    std::string from = pointer(input);
    line("for (const plumb::Piece2D &piece : {0}[{1}])", writeTable(cast<ArrayAttr>(pieces), 6, "Piece2D"),
         member);
    line("  PLUMB_CUDA(plumb::copyPiece(piece, {0}, {1}, {2}));", from, to, stream);
  }
}

/// Copies the blocks of a rank between the `rows` of a tensor and a tensor of its own.
void StageWriter::writeBlocks(Operation *op, ArrayAttr axes, Value rows, bool extracts) {
  auto shape = cast<RankedTensorType>(rows.getType()).getShape();
  int64_t run = llvm::product_of(shape.drop_front(2)), pitch = shape[1] * run;
  std::string from = pointer(op->getOperand(0)), to = pointer(op->getResult(0));
  std::string own = formatv("{0} * {1}", names.getCoordinate(axes), run);
  if (!extracts)
    line("PLUMB_CUDA(cudaMemsetAsync({0}, 0, {1}, {2}));", to, getByteSize(rows.getType()), stream);
  if (extracts)
    line("PLUMB_CUDA(plumb::copyPiece(plumb::Piece2D{{{0}, 0, {1}, {2}, {3}, {1}}, {4}, {5}, {6}));", own,
         run, shape[0], pitch, from, to, stream);
  else
    line("PLUMB_CUDA(plumb::copyPiece(plumb::Piece2D{{0, {0}, {1}, {2}, {1}, {3}}, {4}, {5}, {6}));", own,
         run, shape[0], pitch, from, to, stream);
}

/// The name of a table of an entry per member, in front of the functions; equal ones are written once.
std::string StageWriter::writeTable(ArrayAttr members, size_t width, StringRef type) {
  std::string entries, spans;
  size_t begin = 0;
  for (auto numbers : members.getAsRange<DenseI64ArrayAttr>()) {
    ArrayRef<int64_t> rest = numbers;
    spans += rest.empty() ? "{}, " : formatv("{{ENTRIES + {0}, {1}}, ", begin, rest.size() / width).str();
    for (begin += rest.size() / width; !rest.empty(); rest = rest.drop_front(width))
      entries += formatv("{{{0}}, ", joinNumbers(rest.take_front(width)));
  }
  auto [known, isNew] = plan.tables.try_emplace((type + entries + spans).str());
  std::string &name = known->second;
  if (!isNew)
    return name;
  name = formatv("k{0}s{1}", type.take_until([](char c) { return llvm::isDigit(c); }), plan.tables.size());
  std::string all = name + "_all";
  if (!entries.empty())
    writer.write(
        formatv("static const plumb::{0} {1}[] = {{{2}};", type, all, StringRef(entries).drop_back(2)));
  for (size_t at; (at = spans.find("ENTRIES")) != std::string::npos;)
    spans.replace(at, 7, all);
  writer.write(formatv("static const std::span<const plumb::{0}> {1}[] = {{{2}};", type, name,
                       StringRef(spans).drop_back(2)));
  return name;
}

void StageWriter::writeTransfer(Operation *op) {
  bool sends = isa<ccl::SendOp>(op);
  Value value = sends ? op->getOperand(0) : Value(op->getResult(0));
  StringRef symbol = op->getAttrOfType<FlatSymbolRefAttr>("communicator").getValue();
  ArrayRef<int64_t> members = plan.symbols.lookup<ccl::CommunicatorOp>(symbol).getPipeline();
  int64_t other = op->getAttrOfType<IntegerAttr>("peer").getInt();
  auto peer = std::distance(members.begin(), llvm::find(members, plan.pipeline.coordinateOf(other)));
  line("PLUMB_NCCL({0}({1}, {2}, {3}, {4}, rank.comm({5}), {6}));", sends ? "ncclSend" : "ncclRecv",
       pointer(value), countElements(value), getElementNames(value).nccl, peer,
       plan.communicators.lookup(symbol), stream);
}

/// Copies message k of the other stage, which lives on the same rank.
void StageWriter::writeHandover(ccl::RecvOp recv) {
  Part part = getPart(recv);
  ArrayRef<Operation *> mine = plan.parts[{index, part}],
                        theirs = plan.parts[{part.peer, getCounterpart(part, index)}];
  auto message = std::distance(mine.begin(), llvm::find(mine, recv.getOperation()));
  Operation *send = theirs[message];
  Value sent = cast<ccl::SendOp>(send).getValue();
  // What the sending end waits for, and who waits for it, are the copy's.
  writeWaits(send, allNames[part.peer]);
  writeCopy(pointer(recv.getResult()), allNames[part.peer].getAddress(sent), sent.getType());
  writeRecords(send, allNames[part.peer]);
}

void StageWriter::writeKeepFirst(ccl::KeepFirstOp op) {
  std::string from = pointer(op.getInput()), to = pointer(op.getResult());
  line("if ({0} != 0)", names.getCoordinate(op.getAxes()));
  line("  PLUMB_CUDA(cudaMemsetAsync({0}, 0, {1}, {2}));", to, getByteSize(op.getInput().getType()), stream);
  if (from == to)
    return;
  line("else");
  writeCopy(to, from, op.getInput().getType(), "  ");
}

void StageWriter::writeCopy(const Twine &to, const Twine &from, Type type, StringRef indent) {
  line("{0}PLUMB_CUDA(cudaMemcpyAsync({1}, {2}, {3}, cudaMemcpyDeviceToDevice, {4}));", indent, to.str(),
       from.str(), getByteSize(type), stream);
}

void StageWriter::writeOp(Operation *op) {
  writeHeading(op);
  if (auto launch = dyn_cast<LaunchOp>(op))
    return writeLaunch(launch);
  if (auto keep = dyn_cast<ccl::KeepFirstOp>(op))
    return writeKeepFirst(keep);
  if (auto copy = dyn_cast<ccl::CopyOp>(op))
    return writePieces(copy);
  if (auto extract = dyn_cast<ccl::ExtractOp>(op))
    return writeBlocks(op, extract.getAxes(), extract.getInput(), true);
  if (auto insert = dyn_cast<ccl::InsertOp>(op))
    return writeBlocks(op, insert.getAxes(), insert.getResult(), false);
  if (auto store = dyn_cast<StoreOp>(op))
    return writeCopy(names.getAddress(store), pointer(store.getValue()), store.getValue().getType());
  if (auto recv = dyn_cast<ccl::RecvOp>(op); recv && plan.pipeline.isHandover(index, getPart(op)))
    return writeHandover(recv);
  if (isa<ccl::SendOp, ccl::RecvOp>(op))
    return writeTransfer(op);
  writeCollective(op);
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

static std::string getEvent(const EventRef &event, const StageNames &names) {
  std::string slot = event.slotClass < 0 ? "" : names.getSlot(event.slotClass, true);
  if (slot.empty())
    return std::to_string(event.first);
  return event.first == 0 ? slot : std::to_string(event.first) + " + " + slot;
}

void StageWriter::writeWaits(ArrayRef<Operation *> ops, const StageNames &owner) {
  for (const EventRef &event : readEvents(ops.front(), kWaitsAttr))
    line("PLUMB_CUDA(cudaStreamWaitEvent({0}, rank.event({1}), 0)); // {2}", stream, getEvent(event, owner),
         describeWait(ops, event.first));
}

void StageWriter::writeRecords(Operation *op, const StageNames &owner) {
  for (const EventRef &event : readEvents(op, kRecordsAttr))
    line("PLUMB_CUDA(cudaEventRecord(rank.event({0}), {1}));", getEvent(event, owner), stream);
}

/// A transfer is one launch, all else is launched op by op.
void StageWriter::writeGroup(ArrayRef<Operation *> ops) {
  writeWaits(ops, names);
  if (ops.size() > 1)
    line("PLUMB_NCCL(ncclGroupStart());");
  llvm::for_each(ops, [&](Operation *op) { writeOp(op); });
  if (ops.size() > 1)
    line("PLUMB_NCCL(ncclGroupEnd());");
  writeRecords(ops.front(), names);
}

void StageWriter::writePart(const Part &part, ArrayRef<Operation *> all) {
  lines.clear();
  declared.clear();
  heading.clear();
  std::string name = names.getPrefix() + "_" + part.getName();
  SmallVector<Operation *> ops;
  llvm::copy_if(all, std::back_inserter(ops), [](Operation *op) { return !isSilent(op); });
  int64_t own = readStream(ops[0]);
  line("plumb::enter(\"{0}\"{1});", name, part.isPerMicrobatch() ? ", microbatch" : "");
  line("const cudaStream_t stream = rank.stream({0});", plan.streams[own]);
  bool isGroup = part.isTransfer() && !plan.pipeline.isHandover(index, part);
  for (size_t begin = 0, size = isGroup ? ops.size() : 1; begin < ops.size(); begin += size) {
    int64_t used = readStream(ops[begin]);
    stream = used == own ? "stream" : "rank.stream(" + plan.streams[used] + ")";
    writeGroup(ArrayRef(ops).slice(begin, size));
  }
  writer.writeFunction("", name, part.isPerMicrobatch(), lines);
}

/// Where the values of a stage lie. In front of all functions: a stage reads what another one of its rank
/// hands over.
void StageWriter::writeDeclarations() {
  std::string declarations = names.getDeclarations();
  writer.write(
      formatv("\n// Stage {0}, on pipeline coordinate {1}.", index, plan.pipeline.coordinateOf(index)));
  if (!declarations.empty())
    writer.write(formatv("namespace {0} {{\n{1}} // namespace {0}", names.getPrefix(), declarations));
}

void StageWriter::writeFunctions() {
  for (const auto &[key, ops] : plan.parts)
    if (key.first == index && plan.hasPart(index, key.second))
      writePart(key.second, ops);
}

void plumb::target::writeStages(ProgramWriter &writer, ProgramPlan &plan) {
  SmallVector<StageNames, 0> names;
  int64_t count = static_cast<int64_t>(plan.pipeline.stages.size());
  for (int64_t stage = 0; stage < count; ++stage)
    names.emplace_back(plan, stage);
  for (int64_t stage = 0; stage < count; ++stage)
    StageWriter(writer, plan, stage, names).writeDeclarations();
  for (int64_t stage = 0; stage < count; ++stage)
    StageWriter(writer, plan, stage, names).writeFunctions();
}
