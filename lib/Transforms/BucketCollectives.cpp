//===- BucketCollectives.cpp - Small collectives share a launch -------------===//
//
// In phases that run once per step, and where gradients are summed:
//
// The ops of a phase are walked in order. A call that may share a launch waits in the bucket of its kind, and
// what depends on it waits behind. When the next one does not fit any more, and at the end of the phase, all
// buckets are launched, each as one op; then what waited is walked in the same way.
//
// In the passes over the layers, parameters that are gathered layer by layer are gathered with the first of
// their layer.
//
//===----------------------------------------------------------------------===//

#include "LayerGathers.h"
#include "plumb/Dialect/CCL/CCL.h"
#include "plumb/Dialect/NN/NN.h"
#include "plumb/Dialect/Plumb/PipelineAttributes.h"
#include "plumb/Transforms/Buffers.h"
#include "plumb/Transforms/Passes.h"
#include "plumb/Transforms/Utils.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSet.h"
#include <map>

using namespace mlir;

namespace plumb {
#define GEN_PASS_DEF_BUCKETCOLLECTIVES
#include "plumb/Transforms/Passes.h.inc"
} // namespace plumb

using namespace plumb;

namespace {

/// What a bucket's calls have in common: kind, communicator, reduction, element type, whether layouts are
/// stated.
using Key = std::tuple<StringRef, StringRef, StringRef, const void *, bool>;

struct Bucket {
  SmallVector<Operation *> calls;
  int64_t bytes = 0;
};

/// Rewrites one phase of a stage.
class PhaseBucketing {
public:
  PhaseBucketing(const SymbolTable &symbols, Operation *end, Block &block, int64_t limit)
      : symbols(symbols), end(end), block(block), limit(limit) {}

  void run(SmallVector<Operation *> ops) {
    while (!ops.empty())
      ops = walk(ops);
  }

private:
  SmallVector<Operation *> walk(ArrayRef<Operation *> ops);
  bool isCandidate(Operation *op) const;
  bool spansPipeline(Operation *op) const;
  bool isLate(Operation *op) const;
  void makeLate(Operation *op);
  void emit(Operation *op);
  void launch(const Bucket &bucket);
  void launchAll();

  const SymbolTable &symbols;
  Operation *end; ///< The first op behind the phase; null if there is none.
  Block &block;
  int64_t limit; ///< Bytes of a bucket.
  llvm::MapVector<Key, Bucket, std::map<Key, unsigned>> open;
  // Ops that wait, and the states that they use.
  DenseSet<Operation *> late;
  llvm::StringSet<> loadedLate, storedLate;
};

} // namespace

static StringRef communicatorOf(Operation *op) {
  auto name = op->getAttrOfType<FlatSymbolRefAttr>("communicator");
  return name ? name.getValue() : StringRef();
}

static int64_t bytesOf(Operation *op) {
  return std::max(getByteSize(op->getOperand(0).getType()), getByteSize(op->getResult(0).getType()));
}

/// One op, in front of `place`, with the operands and results of all.
static Operation *merge(ArrayRef<Operation *> calls, Operation *place) {
  Operation *first = calls.front();
  OperationState state(first->getLoc(), first->getName());
  SmallVector<Attribute> layouts;
  for (Operation *call : calls) {
    state.addOperands(call->getOperands());
    state.addTypes(call->getResultTypes());
    if (auto own = call->getAttrOfType<ArrayAttr>(kLayoutsAttr))
      llvm::append_range(layouts, own);
  }
  for (StringRef name : {StringRef("communicator"), StringRef("reduction"), StringRef(kPhaseAttr)})
    if (Attribute attribute = first->getAttr(name))
      state.addAttribute(name, attribute);
  if (!layouts.empty())
    state.addAttribute(kLayoutsAttr, ArrayAttr::get(first->getContext(), layouts));
  Operation *merged = OpBuilder(place).create(state);
  for (auto [index, call] : llvm::enumerate(calls)) {
    call->getResult(0).replaceAllUsesWith(merged->getResult(static_cast<unsigned>(index)));
    call->erase();
  }
  return merged;
}

static Key keyOf(Operation *op) {
  auto reduction = op->getAttrOfType<StringAttr>("reduction");
  return {op->getName().getStringRef(), communicatorOf(op), reduction ? reduction.getValue() : "",
          getElementTypeOrSelf(op->getOperand(0)).getAsOpaquePointer(), op->hasAttr(kLayoutsAttr)};
}

//===----------------------------------------------------------------------===//
// Once per step, and sums of gradients
//===----------------------------------------------------------------------===//

/// Whether the members of the op's communicator run different programs.
bool PhaseBucketing::spansPipeline(Operation *op) const {
  auto communicator = symbols.lookup<ccl::CommunicatorOp>(communicatorOf(op));
  return communicator && !communicator.getPipeline().empty();
}

/// Sums of gradients, and gathers of parameters once per step. Ranks that run different programs would have
/// to agree on the contents of a bucket.
bool PhaseBucketing::isCandidate(Operation *op) const {
  bool isOfKind = isa<ccl::AllGatherOp>(op)
                      ? getPhase(op) != Phase::BackwardWeight
                      : isa<ccl::AllReduceOp, ccl::ReduceScatterOp>(op) && getPhase(op) != Phase::Update;
  return isOfKind && bytesOf(op) <= limit && !spansPipeline(op);
}

/// The states that an op uses: what it stores or loads, and what its operands were loaded from.
static void visitLoads(Operation *op, llvm::function_ref<void(LoadOp)> visit) {
  if (auto load = dyn_cast<LoadOp>(op))
    visit(load);
  for (Value operand : op->getOperands()) {
    Operation *def = operand.getDefiningOp();
    while (def && def->hasTrait<nn::Reinterprets>())
      def = def->getOperand(0).getDefiningOp();
    if (auto load = dyn_cast_or_null<LoadOp>(def))
      visit(load);
  }
}

bool PhaseBucketing::isLate(Operation *op) const {
  if (llvm::any_of(op->getOperands(), [&](Value operand) { return late.contains(operand.getDefiningOp()); }))
    return true;
  if (auto store = dyn_cast<StoreOp>(op))
    return loadedLate.contains(store.getSymbol()) || storedLate.contains(store.getSymbol());
  auto load = dyn_cast<LoadOp>(op);
  return load && storedLate.contains(load.getSymbol());
}

void PhaseBucketing::makeLate(Operation *op) {
  late.insert(op);
  visitLoads(op, [&](LoadOp load) { loadedLate.insert(load.getSymbol()); });
  if (auto store = dyn_cast<StoreOp>(op))
    storedLate.insert(store.getSymbol());
}

void PhaseBucketing::emit(Operation *op) { end ? op->moveBefore(end) : op->moveBefore(&block, block.end()); }

void PhaseBucketing::launch(const Bucket &bucket) {
  Operation *first = bucket.calls.front();
  emit(bucket.calls.size() == 1 ? first : merge(bucket.calls, first));
}

void PhaseBucketing::launchAll() {
  for (auto &[key, bucket] : open)
    launch(bucket);
  open.clear();
  late.clear();
  loadedLate.clear();
  storedLate.clear();
}

/// Moves to its end what need not wait. Returns what did, and what was not walked.
SmallVector<Operation *> PhaseBucketing::walk(ArrayRef<Operation *> ops) {
  SmallVector<Operation *> waiting;
  for (; !ops.empty(); ops = ops.drop_front()) {
    Operation *op = ops.front();
    if (isLate(op)) {
      // What different programs exchange stays in order.
      if (isa<ccl::SendOp, ccl::RecvOp>(op) || spansPipeline(op))
        break;
      makeLate(op);
      waiting.push_back(op);
    } else if (isCandidate(op)) {
      Bucket &bucket = open[keyOf(op)];
      if (!bucket.calls.empty() && bucket.bytes + bytesOf(op) > limit)
        break;
      bucket.calls.push_back(op);
      bucket.bytes += bytesOf(op);
      makeLate(op);
    } else {
      emit(op);
    }
  }
  launchAll();
  llvm::append_range(waiting, ops);
  return waiting;
}

//===----------------------------------------------------------------------===//
// Layer by layer
//===----------------------------------------------------------------------===//

/// Whether an all-gather completes a parameter that is gathered layer by layer.
static bool gathersLayer(Operation *op, const SymbolTable &symbols) {
  if (!isa<ccl::AllGatherOp>(op) || op->getNumOperands() != 1)
    return false;
  ParameterOp parameter = findGatheredParameter(op->getOperand(0), symbols);
  return parameter && parameter.getGather() == "layer";
}

/// Gathers parameters with the first of their layer.
static void gatherLayers(ArrayRef<Operation *> phase, const SymbolTable &symbols, int64_t limit) {
  llvm::MapVector<std::pair<StringRef, Key>, Bucket, std::map<std::pair<StringRef, Key>, unsigned>> layers;
  SmallVector<Bucket> full;
  for (Operation *op : phase) {
    if (!gathersLayer(op, symbols))
      continue;
    Bucket &bucket = layers[{getLayer(op), keyOf(op)}];
    if (!bucket.calls.empty() && bucket.bytes + bytesOf(op) > limit)
      full.push_back(std::exchange(bucket, {}));
    bucket.calls.push_back(op);
    bucket.bytes += bytesOf(op);
  }
  for (auto &[key, bucket] : layers)
    full.push_back(bucket);
  for (const Bucket &bucket : full) {
    if (bucket.calls.size() < 2)
      continue;
    for (Operation *call : ArrayRef(bucket.calls).drop_front())
      hoistGather(call, bucket.calls.front());
    merge(bucket.calls, bucket.calls.front());
  }
}

namespace {
struct BucketCollectivesPass : plumb::impl::BucketCollectivesBase<BucketCollectivesPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto pipeline = findOp<PipelineOp>(module);
    auto given = pipeline ? pipeline->getAttrOfType<IntegerAttr>(kBucketBytesAttr) : IntegerAttr();
    int64_t limit = given ? given.getInt() : kDefaultBucketBytes;
    SymbolTable symbols(module);
    for (StageOp stage : module.getOps<StageOp>())
      run(stage.getBody().front(), symbols, limit);
  }

  static void run(Block &block, const SymbolTable &symbols, int64_t limit) {
    SmallVector<Operation *> ops;
    for (Operation &op : block)
      ops.push_back(&op);
    for (size_t begin = 0, next; begin < ops.size(); begin = next) {
      next = begin + 1;
      while (next < ops.size() && getPhase(ops[next]) == getPhase(ops[begin]))
        ++next;
      Operation *end = next < ops.size() ? ops[next] : nullptr;
      ArrayRef<Operation *> phase = ArrayRef(ops).slice(begin, next - begin);
      if (getPhase(ops[begin]) >= Phase::BackwardWeight || getPhase(ops[begin]) == Phase::Begin)
        PhaseBucketing(symbols, end, block, limit).run(llvm::to_vector(phase));
      else
        gatherLayers(phase, symbols, limit);
    }
  }
};
} // namespace
