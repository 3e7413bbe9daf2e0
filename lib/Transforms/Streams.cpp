//===- Streams.cpp - Which stream an op runs on -------------------------------===//

#include "Streams.h"
#include "plumb/Dialect/CCL/CCL.h"
#include "plumb/Dialect/NN/NN.h"
#include "plumb/Transforms/Slots.h"
#include "plumb/Transforms/Utils.h"
#include <map>
#include <set>

using namespace mlir;
using namespace plumb;

static constexpr StringLiteral kComputeStream = "compute", kTensorStream = "tensor", kGatherStream = "gather",
                               kReduceStream = "reduce";

StreamNumbers::StreamNumbers(ArrayRef<std::string> names)
    : gather(std::distance(names.begin(), llvm::find(names, kGatherStream))),
      reduce(std::distance(names.begin(), llvm::find(names, kReduceStream))) {}

static FlatSymbolRefAttr getCommunicator(Operation &op) {
  return op.getAttrOfType<FlatSymbolRefAttr>("communicator");
}

static bool isView(Operation *op) { return op->hasTrait<nn::Reinterprets>() || isa<ccl::SliceOp>(op); }

static Operation *getMaker(Value value) {
  Operation *op = value.getDefiningOp();
  while (isView(op))
    op = op->getOperand(0).getDefiningOp();
  return op;
}

namespace {

/// The streams of one stage.
class StageAssignment {
public:
  StageAssignment(const Pipeline &pipeline, StageOp stage, const SymbolTable &symbols)
      : pipeline(pipeline), stage(stage), symbols(symbols) {
    for (Operation &op : stage.getBody().front())
      exchangesInReduce |= getPhase(&op) == Phase::Reduce && getCommunicator(op);
  }

  /// The name of the stream; empty if the op launches nothing.
  StringRef choose(Operation &op);

private:
  bool isOfKind(StringRef symbol, StringRef kind) const {
    auto state = symbols.lookup<StateOp>(symbol);
    return state && state.getKind() == kind;
  }
  bool gathersParameters(Operation &op) const;
  bool addsToGradients(Value value) const;
  bool followsReduction(Operation &op) const;

  const Pipeline &pipeline;
  StageOp stage;
  const SymbolTable &symbols;
  bool exchangesInReduce = false;
  DenseSet<Operation *> reductions;
};

} // namespace

bool StageAssignment::gathersParameters(Operation &op) const {
  return isa<ccl::AllGatherOp>(op) && llvm::all_of(op.getOperands(), [&](Value operand) {
           auto load = dyn_cast<LoadOp>(getMaker(operand));
           return load && symbols.lookup<ParameterOp>(load.getSymbol());
         });
}

/// Whether a value is only added to gradients.
bool StageAssignment::addsToGradients(Value value) const {
  return !value.use_empty() && llvm::all_of(value.getUsers(), [&](Operation *user) {
    if (isView(user))
      return addsToGradients(user->getResult(0));
    if (auto store = dyn_cast<StoreOp>(user))
      return isOfKind(store.getSymbol(), "gradient");
    return isa<LaunchOp>(user) && llvm::all_of(user->getResults(), [&](Value result) {
             return llvm::any_of(user->getOperands(),
                                 [&](Value operand) {
                                   auto load = dyn_cast<LoadOp>(getMaker(operand));
                                   return load && isOfKind(load.getSymbol(), "gradient");
                                 }) &&
                    llvm::all_of(result.getUsers(), [](Operation *op) { return isa<StoreOp>(op); });
           });
  });
}

/// Whether a kernel only adds what has been reduced to what there is: it need not hold up the computation.
bool StageAssignment::followsReduction(Operation &op) const {
  bool follows = false;
  for (Value operand : op.getOperands()) {
    Operation *maker = getMaker(operand);
    if (!reductions.contains(maker) && !isa<LoadOp>(maker))
      return false;
    follows |= reductions.contains(maker);
  }
  return follows;
}

StringRef StageAssignment::choose(Operation &op) {
  if (isa<LoadOp, InputOp>(op) || isView(&op))
    return "";
  Part part = getPart(&op);
  if (part.isTransfer())
    return pipeline.isHandover(static_cast<int64_t>(stage.getIndex()), part) ? StringRef(kComputeStream)
                                                                             : getCommunicator(op).getValue();
  if (part.kind == PartKind::Reduce)
    return exchangesInReduce ? kReduceStream : kComputeStream;
  if (!getCommunicator(op)) {
    if (!isa<LaunchOp>(op) || !followsReduction(op) || !llvm::all_of(op.getResults(), [&](Value result) {
          return llvm::all_of(result.getUsers(), [](Operation *user) { return isa<StoreOp>(user); });
        }))
      return kComputeStream;
    reductions.insert(&op);
    return kReduceStream;
  }
  if (part.kind == PartKind::Begin || gathersParameters(op))
    return kGatherStream;
  if (part.kind == PartKind::Update)
    return kReduceStream;
  if (isa<ccl::AllReduceOp, ccl::ReduceScatterOp>(op) &&
      llvm::all_of(op.getResults(), [&](Value result) { return addsToGradients(result); })) {
    reductions.insert(&op);
    return kReduceStream;
  }
  return kTensorStream;
}

/// An edge's transfers in one direction are launched together, on one stream.
static LogicalResult verifyChannels(StageOp stage, const Pipeline &pipeline) {
  std::map<Part, FlatSymbolRefAttr> channels;
  for (Operation &op : stage.getBody().front()) {
    Part part = getPart(&op);
    if (!part.isTransfer() || pipeline.isHandover(static_cast<int64_t>(stage.getIndex()), part))
      continue;
    FlatSymbolRefAttr channel = getCommunicator(op);
    auto [known, isNew] = channels.try_emplace(part, channel);
    if (known->second != channel)
      return emitModelError(&op) << "uses the communicator " << channel << ", another op of "
                                 << part.getName()
                                 << " uses a different one; one edge and direction has one communicator";
  }
  return success();
}

/// The names in use: by kind, then the edges in the order of their communicators.
static SmallVector<std::string> orderNames(ModuleOp module, const std::set<StringRef> &used) {
  SmallVector<std::string> names{kComputeStream.str()};
  for (StringRef name : {StringRef(kTensorStream), StringRef(kGatherStream), StringRef(kReduceStream)})
    if (used.contains(name))
      names.push_back(name.str());
  for (auto communicator : module.getOps<ccl::CommunicatorOp>())
    if (used.contains(communicator.getSymName()) && !llvm::is_contained(names, communicator.getSymName()))
      names.push_back(communicator.getSymName().str());
  return names;
}

/// The first stream that calls a communicator keeps it; the others get copies.
static void separateCommunicators(const Pipeline &pipeline, ArrayRef<std::string> names) {
  ModuleOp module = pipeline.module;
  std::map<StringRef, std::map<int64_t, SmallVector<Operation *>>> calls; // by communicator and stream
  for (auto [index, stage] : llvm::enumerate(pipeline.stages))
    for (Operation &op : stage->getRegion(0).front())
      if (FlatSymbolRefAttr communicator = getCommunicator(op))
        if (!pipeline.isHandover(static_cast<int64_t>(index), getPart(&op)))
          calls[communicator.getValue()][readStream(&op)].push_back(&op);
  for (auto communicator : llvm::to_vector(module.getOps<ccl::CommunicatorOp>())) {
    auto found = calls.find(communicator.getSymName());
    if (found == calls.end())
      continue;
    OpBuilder builder(module.getContext());
    builder.setInsertionPointAfter(communicator);
    for (const auto &[stream, ops] : llvm::drop_begin(found->second)) {
      auto own = cast<ccl::CommunicatorOp>(builder.clone(*communicator));
      std::string name = (communicator.getSymName() + "_" + names[stream]).str();
      while (module.lookupSymbol(name))
        name += "_";
      own.setSymName(name);
      for (Operation *op : ops)
        op->setAttr("communicator", FlatSymbolRefAttr::get(own));
    }
  }
}

FailureOr<SmallVector<std::string>> plumb::assignStreams(const Pipeline &pipeline) {
  SymbolTable symbols(pipeline.module);
  std::set<StringRef> used;
  SmallVector<std::pair<Operation *, StringRef>> chosen;
  for (StageOp stage : pipeline.stages) {
    if (failed(verifyChannels(stage, pipeline)))
      return failure();
    StageAssignment assignment(pipeline, stage, symbols);
    for (Operation &op : stage.getBody().front()) {
      chosen.emplace_back(&op, assignment.choose(op));
      used.insert(chosen.back().second);
    }
  }
  SmallVector<std::string> names = orderNames(pipeline.module, used);
  Builder builder(ModuleOp(pipeline.module).getContext());
  for (auto [op, name] : chosen) {
    int64_t stream = std::distance(names.begin(), llvm::find(names, name));
    op->removeAttr(kStreamAttr);
    if (stream > 0 && !name.empty())
      op->setAttr(kStreamAttr, builder.getI64IntegerAttr(stream));
  }
  separateCommunicators(pipeline, names);
  return names;
}
