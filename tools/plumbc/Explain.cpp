//===- Explain.cpp - Why a compiled plan is as it is ---------------------------===//

#include "Explain.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "plumb/Dialect/CCL/CCL.h"
#include "plumb/Dialect/NN/NN.h"
#include "plumb/Support/Suggest.h"
#include "plumb/Transforms/Buffers.h"
#include "plumb/Transforms/LayoutSearch.h"
#include "plumb/Transforms/Ownership.h"
#include "plumb/Transforms/PlanAttributes.h"
#include "llvm/ADT/SetVector.h"
#include <map>
#include <set>

using namespace mlir;
using namespace plumb;

//===----------------------------------------------------------------------===//
// Words
//===----------------------------------------------------------------------===//

/// "256x64xf32"
static std::string typeText(Type type) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  auto tensor = cast<RankedTensorType>(type);
  for (int64_t size : tensor.getShape())
    stream << size << "x";
  stream << tensor.getElementType();
  return text;
}

/// "dim 0 over dp, tp; dim 1 over cp", "replicated".
static std::string layoutText(LayoutAttr layout) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  for (auto [number, dim] : llvm::enumerate(layout ? layout.getDims() : ArrayRef<DimShardingAttr>())) {
    if (dim.getAxes().empty())
      continue;
    stream << (text.empty() ? "" : "; ") << "dim " << number << " over ";
    llvm::interleaveComma(dim.getAxes(), stream,
                          [&](AxisRefAttr axis) { stream << axis.getName().getValue(); });
    if (dim.hasUnequalBlocks())
      printBlocks(stream << " in each of the blocks ", dim.getBlocks());
    else if (dim.countBlocks() > 1)
      stream << " in each of " << dim.countBlocks() << " blocks";
  }
  return text.empty() ? "replicated" : "sharded, " + text;
}

static bool isCall(Operation *op) {
  return isa<ccl::AllReduceOp, ccl::AllGatherOp, ccl::ReduceScatterOp, ccl::AllToAllOp, ccl::ExchangeOp,
             ccl::SendOp, ccl::RecvOp>(op);
}

std::string Explanation::describeStage(int64_t index) {
  std::string text = "stage " + std::to_string(index);
  if (pipeline.coordinates > 1)
    text += " (pipeline coordinate " + std::to_string(pipeline.coordinateOf(index)) + ")";
  return text;
}

/// "all_reduce over dp and the pipeline coordinates 0, 1 (32768 bytes)".
void Explanation::printCall(Operation *op, unsigned indent) {
  os.indent(indent) << op->getName().stripDialect();
  auto name = op->getAttrOfType<FlatSymbolRefAttr>("communicator");
  auto communicator = SymbolTable::lookupNearestSymbolFrom<ccl::CommunicatorOp>(op, name);
  if (isa<ccl::SendOp, ccl::RecvOp>(op)) {
    os << (isa<ccl::SendOp>(op) ? " to " : " from ")
       << describeStage(op->getAttrOfType<IntegerAttr>("peer").getInt());
  } else {
    SmallVector<std::string> parts;
    for (StringRef axis : communicator.getAxes().getAsValueRange<StringAttr>())
      parts.push_back(axis.str());
    if (!communicator.getPipeline().empty())
      parts.push_back("the pipeline coordinates " +
                      llvm::join(llvm::map_range(communicator.getPipeline(),
                                                 [](int64_t member) { return std::to_string(member); }),
                                 ", "));
    os << " over " << llvm::join(parts, " and ");
  }
  TypeRange types = op->getNumOperands() ? TypeRange(op->getOperandTypes()) : TypeRange(op->getResultTypes());
  os << " (" << llvm::sum_of(llvm::map_range(types, getByteSize), int64_t(0)) << " bytes"
     << (types.size() > 1 ? " of " + std::to_string(types.size()) + " tensors" : "") << ")";
  if (auto boundary = op->getAttrOfType<StringAttr>("plumb.boundary"))
    os << ", " << boundary.getValue();
  os << "\n";
}

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

ParameterOp Explanation::findParameter(StringRef name, std::vector<std::string> &known) {
  for (ParameterOp parameter : module.getOps<ParameterOp>()) {
    known.push_back(parameter.getSymName().str());
    if (ArrayAttr aliases = parameter.getAliasesAttr())
      for (StringRef alias : aliases.getAsValueRange<StringAttr>())
        known.push_back(alias.str());
    if (llvm::is_contained(known, name.str()))
      return parameter;
  }
  return {};
}

/// Whether an op loads a parameter, or the copy of it that its owner sent.
static bool reads(LoadOp load, ParameterOp parameter) {
  return load.getSymbol() == parameter.getSymName() ||
         load.getSymbol() == "copy." + parameter.getSymName().str();
}

void Explanation::printReaders(ParameterOp parameter) {
  os << "  read by\n";
  for (auto [index, entry] : llvm::enumerate(pipeline.stages)) {
    StageOp stage = entry;
    llvm::SetVector<StringRef> modules;
    bool isRead = false;
    for (LoadOp load : stage.getBody().getOps<LoadOp>()) {
      if (!reads(load, parameter) || getPhase(load) >= Phase::Reduce || getPhase(load) == Phase::Begin)
        continue;
      isRead = true;
      for (Operation *user : load->getUsers())
        if (auto path = user->getAttrOfType<StringAttr>(kModuleAttr);
            path && !path.empty() && getPhase(user) == Phase::Forward)
          modules.insert(path);
    }
    if (isRead)
      os << "    " << describeStage(static_cast<int64_t>(index)) << (modules.empty() ? "" : ": ")
         << llvm::join(modules, ", ") << "\n";
  }
}

void Explanation::printCopies(ParameterOp parameter) {
  ArrayRef<int64_t> holders = parameter.getHolders().value_or(ArrayRef<int64_t>());
  if (StateOp copy = findCopy(module, parameter)) {
    os << "  transmitted: its value goes once per step, before the first forward, to\n";
    for (auto [index, stage] : llvm::enumerate(pipeline.stages))
      for (StoreOp store : StageOp(stage).getBody().getOps<StoreOp>())
        if (store.getSymbol() == copy.getSymName())
          os << "    pipeline coordinate " << pipeline.coordinateOf(static_cast<int64_t>(index)) << "\n";
  } else if (holders.size() > 1) {
    os << "  replicated: copies, equal to the bit, on the pipeline coordinates ";
    llvm::interleaveComma(holders, os, [&](int64_t stage) { os << pipeline.coordinateOf(stage); });
    os << "\n";
  }
}

/// Whether what a rank receives in the update is added to one of these values: a share of the same gradient.
static bool joins(Operation *op, const llvm::DenseSet<Value> &gradients) {
  return isa<ccl::RecvOp>(op) && llvm::any_of(op->getUsers(), [&](Operation *user) {
           return llvm::any_of(user->getOperands(),
                               [&](Value operand) { return gradients.contains(operand); });
         });
}

/// The calls that the gradient goes through, from where it is loaded in the update.
void Explanation::printSynchronisation(ParameterOp parameter) {
  if (!parameter.getTrainable())
    return;
  std::set<StringRef> states;
  for (StateOp state : module.getOps<StateOp>())
    if (state.getOf() == parameter.getSymName() && state.getKind() != "copy")
      states.insert(state.getSymName());
  if (states.empty()) {
    os << "  no gradient reaches it\n";
    return;
  }
  os << "  its gradient is summed over the microbatches; once per step, in the update:\n";
  bool isAlone = true;
  for (auto [index, stage] : llvm::enumerate(pipeline.stages)) {
    llvm::DenseSet<Value> gradients;
    for (Operation &op : StageOp(stage).getBody().front()) {
      if (getPhase(&op) < Phase::Reduce)
        continue;
      auto load = dyn_cast<LoadOp>(op);
      bool follows = joins(&op, gradients);
      follows |= load ? states.contains(load.getSymbol())
                      : llvm::any_of(op.getOperands(), [&](Value v) { return gradients.contains(v); });
      if (follows)
        gradients.insert(op.getResults().begin(), op.getResults().end());
      if (!follows || !isCall(&op))
        continue;
      os << "    " << describeStage(static_cast<int64_t>(index)) << ": ";
      printCall(&op, 0);
      isAlone = false;
    }
  }
  if (isAlone)
    os << "    nothing: one rank has all of it\n";
}

void Explanation::printSharing(ParameterOp parameter) {
  std::set<int64_t> coordinates;
  for (auto [index, stage] : llvm::enumerate(pipeline.stages))
    for (LoadOp load : StageOp(stage).getBody().getOps<LoadOp>())
      if (reads(load, parameter) && getPhase(load) < Phase::Reduce && getPhase(load) != Phase::Begin)
        coordinates.insert(pipeline.coordinateOf(static_cast<int64_t>(index)));
  if (coordinates.size() < 2)
    return;
  SharingCosts costs = getSharingCosts(module, parameter, static_cast<int64_t>(coordinates.size()));
  auto print = [&](StringRef name, const SharingCost &cost) {
    os << "    " << name << ": " << cost.traffic << " bytes sent by the busiest rank per step, "
       << cost.memory << " bytes of memory beyond the owner's\n";
  };
  os << "  the cost of sharing it between " << coordinates.size() << " pipeline coordinates\n";
  print("replicate", costs.replicate);
  print("transmit", costs.transmit);
  os << "    \"auto\" chooses " << (costs.prefersTransmit() ? "transmit" : "replicate") << "\n";
}

std::string Explanation::explainParameter(StringRef name) {
  std::vector<std::string> known;
  ParameterOp parameter = findParameter(name, known);
  if (!parameter)
    return "the model has no parameter \"" + name.str() + "\"" + didYouMean(name.str(), known);
  os << "parameter " << parameter.getSymName() << " : " << typeText(parameter.getType())
     << (parameter.getTrainable() ? ", trained" : ", frozen") << "\n";
  if (ArrayAttr aliases = parameter.getAliasesAttr())
    os << "  also called " << llvm::join(aliases.getAsValueRange<StringAttr>(), ", ") << "\n";
  LayoutAttr layout = parameter.getLayoutAttr();
  Type local = layout ? getLocalType(module, cast<RankedTensorType>(parameter.getType()), layout)
                      : parameter.getType();
  os << "  layout: " << layoutText(layout) << "; " << typeText(local) << ", " << getByteSize(local)
     << " bytes on a rank\n";
  if (!parameter.getOwner()) {
    os << "  nothing reads it: no rank loads it, it stays as it is\n";
    return "";
  }
  os << "  owner: " << describeStage(static_cast<int64_t>(*parameter.getOwner())) << "\n";
  printReaders(parameter);
  printCopies(parameter);
  printSynchronisation(parameter);
  printSharing(parameter);
  return "";
}

void Explanation::listParameters() {
  os << "parameters\n";
  for (ParameterOp parameter : module.getOps<ParameterOp>()) {
    os << "  " << parameter.getSymName() << " : " << typeText(parameter.getType()) << ", ";
    if (parameter.getOwner())
      os << describeStage(static_cast<int64_t>(*parameter.getOwner()));
    else
      os << "unused";
    os << ", " << layoutText(parameter.getLayoutAttr());
    if (parameter.getHolders() && parameter.getHolders()->size() > 1)
      os << ", " << parameter.getHolders()->size() << " copies";
    if (findCopy(module, parameter))
      os << ", transmitted";
    os << "\n";
  }
}

//===----------------------------------------------------------------------===//
// Modules and stages
//===----------------------------------------------------------------------===//

/// What some ops of a stage cost.
struct Explanation::Work {
  std::map<Phase, std::pair<int64_t, int64_t>> kernels; ///< Number and operations.
  std::vector<Operation *> calls;
  llvm::SetVector<StringRef> symbols;

  void add(Operation &op) {
    if (auto launch = dyn_cast<LaunchOp>(op)) {
      auto kernel = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(launch, launch.getKernelAttr());
      auto flops = kernel ? kernel->getAttrOfType<IntegerAttr>(kFlopsAttr) : IntegerAttr();
      auto &[count, operations] = kernels[getPhase(&op)];
      ++count;
      operations += flops ? flops.getInt() : 0;
    } else if (isCall(&op)) {
      calls.push_back(&op);
    } else if (auto load = dyn_cast<LoadOp>(op); load && getPhase(&op) < Phase::Reduce) {
      symbols.insert(load.getSymbol());
    }
  }
};

void Explanation::printWork(const Work &work) {
  for (const auto &[phase, kernels] : work.kernels)
    os << "    " << stringifyPhase(phase) << ": " << kernels.first << " kernels, " << kernels.second
       << " operations\n";
  for (StringRef symbol : work.symbols) {
    Operation *op = SymbolTable::lookupSymbolIn(module, symbol);
    if (auto parameter = dyn_cast_or_null<ParameterOp>(op))
      os << "    reads " << symbol << ", " << layoutText(parameter.getLayoutAttr()) << "\n";
    else if (auto state = dyn_cast_or_null<StateOp>(op); state && state.getKind() == "copy")
      os << "    reads " << *state.getOf() << ", as its owner sent it\n";
  }
  for (Operation *call : work.calls) {
    os << "    " << stringifyPhase(getPhase(call)) << ": ";
    printCall(call, 0);
  }
}

/// The ports of which the plan states a layout, and what was planned for each.
void Explanation::printPorts(StringRef name) {
  auto op = cast<ModuleNameOp>(SymbolTable::lookupSymbolIn(module, name));
  auto ports = op->getAttrOfType<ArrayAttr>(kPortsAttr);
  if (!ports)
    return;
  for (auto port : ports.getAsRange<DictionaryAttr>()) {
    StringRef steps = port.getAs<StringAttr>("steps").getValue();
    os << "  " << port.getAs<StringAttr>("port").getValue() << ": "
       << layoutText(port.getAs<LayoutAttr>("from")) << " to " << layoutText(port.getAs<LayoutAttr>("to"))
       << ", " << port.getAs<StringAttr>("label").getValue();
    if (!steps.empty())
      os << ": " << steps << "; " << port.getAs<IntegerAttr>("bytes").getInt() << " bytes";
    os << "\n";
  }
}

std::string Explanation::explainModule(StringRef name) {
  std::vector<std::string> known;
  for (ModuleNameOp op : module.getOps<ModuleNameOp>())
    known.push_back(op.getSymName().str());
  if (!llvm::is_contained(known, name.str()))
    return "the model has no module \"" + name.str() + "\"" + didYouMean(name.str(), known);
  os << "module " << name << "\n";
  printPorts(name);
  bool computes = false;
  for (auto [index, stage] : llvm::enumerate(pipeline.stages)) {
    Work work;
    for (Operation &op : StageOp(stage).getBody().front())
      if (auto path = op.getAttrOfType<StringAttr>(kModuleAttr); path && isInModule(path, name))
        work.add(op);
    if (work.kernels.empty() && work.calls.empty() && work.symbols.empty())
      continue;
    computes = true;
    os << "  in " << describeStage(static_cast<int64_t>(index)) << ", for one microbatch\n";
    printWork(work);
  }
  if (!computes)
    os << "  computes nothing of its own: its operations are part of kernels of other modules, or it has "
          "none\n";
  return "";
}

std::string Explanation::explainStage(int64_t index) {
  if (index < 0 || index >= static_cast<int64_t>(pipeline.stages.size()))
    return "the plan has no stage " + std::to_string(index) + "; it has the stages 0 to " +
           std::to_string(pipeline.stages.size() - 1);
  Work work;
  llvm::SetVector<StringRef> modules;
  for (Operation &op : StageOp(pipeline.stages[index]).getBody().front()) {
    work.add(op);
    if (auto path = op.getAttrOfType<StringAttr>(kModuleAttr);
        path && !path.empty() && getPhase(&op) == Phase::Forward && isa<LaunchOp>(op))
      modules.insert(path);
  }
  os << describeStage(index) << ", for one microbatch\n";
  if (!modules.empty())
    os << "    from " << modules.front() << " to " << modules.back() << "\n";
  printWork(work);
  return "";
}

//===----------------------------------------------------------------------===//
// Ranks
//===----------------------------------------------------------------------===//

int64_t Explanation::countRanks() {
  int64_t ranks = 1;
  for (int64_t size : findOp<MeshOp>(module).getSizes())
    ranks *= size;
  return ranks;
}

/// The coordinates of a rank, by axis: row-major, the last axis fastest.
static std::map<StringRef, int64_t> coordinatesOf(MeshOp mesh, int64_t rank) {
  std::map<StringRef, int64_t> result;
  SmallVector<StringRef> axes(mesh.getAxes().getAsValueRange<StringAttr>());
  for (auto [axis, size] : llvm::reverse(llvm::zip_equal(axes, mesh.getSizes()))) {
    result[axis] = rank % size;
    rank /= size;
  }
  return result;
}

/// The communicators that the rank is a member of, with their members.
void Explanation::printMembers(int64_t number) {
  auto mesh = findOp<MeshOp>(module);
  StringRef pipelineAxis = findOp<PipelineOp>(module).getAxis();
  std::map<StringRef, int64_t> here = coordinatesOf(mesh, number);
  for (auto communicator : module.getOps<ccl::CommunicatorOp>()) {
    std::set<StringRef> varying;
    for (StringRef axis : communicator.getAxes().getAsValueRange<StringAttr>())
      varying.insert(axis);
    ArrayRef<int64_t> pipelineMembers = communicator.getPipeline();
    auto isMember = [&](int64_t rank) {
      for (auto [axis, coordinate] : coordinatesOf(mesh, rank))
        if (axis == pipelineAxis && !pipelineMembers.empty()
                ? !llvm::is_contained(pipelineMembers, coordinate)
                : !varying.contains(axis) && coordinate != here[axis])
          return false;
      return true;
    };
    SmallVector<std::string> members;
    for (int64_t rank = 0, count = countRanks(); rank < count; ++rank)
      if (isMember(rank))
        members.push_back(std::to_string(rank));
    if (isMember(number) && members.size() > 1)
      os << "  communicator " << communicator.getSymName() << ": ranks " << llvm::join(members, ", ") << "\n";
  }
}

std::string Explanation::explainRank(int64_t number) {
  if (number < 0 || number >= countRanks())
    return "the mesh has no rank " + std::to_string(number) + "; it has the ranks 0 to " +
           std::to_string(countRanks() - 1);
  auto mesh = findOp<MeshOp>(module);
  std::map<StringRef, int64_t> coordinates = coordinatesOf(mesh, number);
  os << "rank " << number << ":";
  for (StringRef axis : mesh.getAxes().getAsValueRange<StringAttr>())
    os << " " << axis << "=" << coordinates[axis];
  int64_t coordinate = coordinates[findOp<PipelineOp>(module).getAxis()];
  os << "\n  stages ";
  llvm::interleaveComma(pipeline.stagesOf(coordinate), os);
  os << "\n";
  if (auto memory = module->getAttrOfType<ArrayAttr>(kMemoryAttr)) {
    os << "  memory\n";
    for (NamedAttribute entry : cast<DictionaryAttr>(memory[coordinate]))
      if (auto bytes = dyn_cast<IntegerAttr>(entry.getValue()))
        os << "    " << entry.getName().getValue() << ": " << bytes.getInt() << " bytes\n";
  }
  os << "  holds\n";
  for (ParameterOp parameter : module.getOps<ParameterOp>())
    if (llvm::any_of(parameter.getHolders().value_or(ArrayRef<int64_t>()),
                     [&](int64_t stage) { return pipeline.coordinateOf(stage) == coordinate; }))
      os << "    " << parameter.getSymName() << ", " << layoutText(parameter.getLayoutAttr()) << "\n";
  printMembers(number);
  return "";
}
