//===- FormKernels.cpp - Outlines groups of tensor ops into kernels ---------===//

#include "KernelGroups.h"
#include "KernelName.h"
#include "plumb/Dialect/CCL/CCL.h"
#include "plumb/Transforms/Passes.h"
#include "plumb/Transforms/PlanAttributes.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

namespace plumb {
#define GEN_PASS_DEF_FORMKERNELS
#include "plumb/Transforms/Passes.h.inc"
} // namespace plumb

using namespace mlir;
using namespace plumb;

static void removeDeadCode(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isa<nn::TensorOpInterface, LoadOp, InputOp, ccl::SliceOp, ccl::ExtractOp>(op) && op.use_empty())
      op.erase();
}

namespace {

/// A group as a function: what it reads, the ops in its body, what others read of it.
struct KernelShape {
  SetVector<Value> inputs;
  SetVector<Operation *> body;
  SmallVector<Value> results;
  SmallVector<int64_t> inplace; ///< Per result the input it overwrites, or -1.
};

/// The kernels of a module. Equal ones are made once.
class KernelLibrary {
public:
  explicit KernelLibrary(ModuleOp module) : module(module), builder(module.getBodyRegion()) {
    builder.setInsertionPointToEnd(module.getBody());
    for (Operation &op : module.getOps())
      if (auto symbol = dyn_cast<SymbolOpInterface>(op))
        names[symbol.getName()] = 1;
  }

  func::FuncOp get(const KernelShape &shape, ArrayRef<nn::TensorOpInterface> ops);

private:
  std::string describe(const KernelShape &shape) const;
  func::FuncOp build(const KernelShape &shape, StringRef name);
  std::string makeUnique(std::string name);

  ModuleOp module;
  OpBuilder builder;
  llvm::StringMap<func::FuncOp> known;
  llvm::StringMap<int> names;
};

/// Rewrites one stage.
class StageOutliner {
public:
  StageOutliner(StageOp stage, KernelLibrary &library) : stage(stage), library(library), groups(stage) {}
  void run();

private:
  void outline(int group);
  KernelShape getShape(int group);
  void collect(Operation *op, int group, KernelShape &shape);
  bool isReadOutside(Value value, int group) const;
  void tieStores(int group, KernelShape &shape);
  /// Moves what `value` needs in front of `before`.
  void hoist(Value value, Operation *before);

  StageOp stage;
  KernelLibrary &library;
  KernelGroups groups;
  DenseSet<Operation *> passed; ///< Ops in front of the place where the next kernel goes.
};

class FormKernelsPass : public plumb::impl::FormKernelsBase<FormKernelsPass> {
  void runOnOperation() override {
    KernelLibrary library(getOperation());
    for (StageOp stage : getOperation().getOps<StageOp>()) {
      removeDeadCode(stage.getBody().front());
      StageOutliner(stage, library).run();
    }
  }
};

} // namespace

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

/// Two groups with equal descriptions have equal kernels. Attributes and types are unique objects, so their
/// addresses stand for them; they decide equality only, never an order.
std::string KernelLibrary::describe(const KernelShape &shape) const {
  std::string text;
  auto append = [&](const void *object) {
    text.append(reinterpret_cast<const char *>(&object), sizeof object);
  };
  auto appendNumber = [&](int64_t number) {
    text.append(reinterpret_cast<const char *>(&number), sizeof number);
  };
  DenseMap<Value, int64_t> numbers;
  auto number = [&](Value value) { numbers.try_emplace(value, static_cast<int64_t>(numbers.size())); };
  for (Value input : shape.inputs) {
    number(input);
    append(input.getType().getAsOpaquePointer());
  }
  for (Operation *op : shape.body) {
    append(op->getName().getAsOpaquePointer());
    NamedAttrList attributes;
    for (NamedAttribute attribute : op->getAttrs())
      if (!attribute.getName().strref().starts_with("plumb."))
        attributes.append(attribute);
    append(attributes.getDictionary(op->getContext()).getAsOpaquePointer());
    for (Value operand : op->getOperands())
      appendNumber(numbers.lookup(operand));
    for (Value result : op->getResults()) {
      number(result);
      append(result.getType().getAsOpaquePointer());
    }
  }
  for (auto [result, operand] : llvm::zip(shape.results, shape.inplace)) {
    appendNumber(numbers.lookup(result));
    appendNumber(operand);
  }
  return text;
}

std::string KernelLibrary::makeUnique(std::string name) {
  int count = ++names[name];
  return count == 1 ? name : makeUnique(name + "_v" + std::to_string(count));
}

func::FuncOp KernelLibrary::get(const KernelShape &shape, ArrayRef<nn::TensorOpInterface> ops) {
  func::FuncOp &kernel = known[describe(shape)];
  if (!kernel)
    kernel = build(shape, makeUnique(getKernelName(ops)));
  return kernel;
}

func::FuncOp KernelLibrary::build(const KernelShape &shape, StringRef name) {
  ValueRange inputs(shape.inputs.getArrayRef());
  auto type = builder.getFunctionType(inputs.getTypes(), ValueRange(shape.results).getTypes());
  auto kernel = func::FuncOp::create(builder, module.getLoc(), name, type);
  for (auto [result, operand] : llvm::enumerate(shape.inplace))
    if (operand >= 0) {
      kernel.setArgAttr(operand, kInoutAttr, builder.getUnitAttr());
      kernel.setArgAttr(operand, kResultAttr, builder.getI64IntegerAttr(static_cast<int64_t>(result)));
    }
  OpBuilder body = OpBuilder::atBlockBegin(kernel.addEntryBlock());
  IRMapping lowered;
  lowered.map(inputs, kernel.getArguments());
  int64_t flops = 0;
  for (Operation *op : shape.body) {
    auto tensorOp = cast<nn::TensorOpInterface>(op);
    SmallVector<Value> operands;
    for (Value operand : op->getOperands())
      operands.push_back(lowered.lookup(operand));
    lowered.map(op->getResults(), tensorOp.lower(body, operands));
    flops += countFlops(tensorOp);
  }
  SmallVector<Value> results;
  for (Value result : shape.results)
    results.push_back(lowered.lookup(result));
  func::ReturnOp::create(body, module.getLoc(), results);
  kernel->setAttr(kFlopsAttr, builder.getI64IntegerAttr(flops));
  return kernel;
}

//===----------------------------------------------------------------------===//
// Stages
//===----------------------------------------------------------------------===//

void StageOutliner::run() {
  SmallVector<Operation *> order;
  for (Operation &op : stage.getBody().front())
    order.push_back(&op);
  for (Operation *op : order) {
    int group = groups.find(op);
    if (group < 0)
      passed.insert(op);
    else if (groups.all()[group].ops.front() == op)
      outline(group);
  }
  // Uses that are left are those of one group's ops by each other, and by views that only they read.
  for (Operation *op : order)
    if (groups.find(op) >= 0) {
      op->dropAllUses();
      op->erase();
    }
  removeDeadCode(stage.getBody().front());
}

/// Adds an op to the body, after what it reads.
void StageOutliner::collect(Operation *op, int group, KernelShape &shape) {
  if (shape.body.contains(op))
    return;
  for (Value operand : op->getOperands()) {
    if (groups.isInternal(operand.getDefiningOp(), group))
      collect(operand.getDefiningOp(), group, shape);
    else
      shape.inputs.insert(operand);
  }
  shape.body.insert(op);
}

bool StageOutliner::isReadOutside(Value value, int group) const {
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    if (groups.find(user) == group)
      return false;
    return !groups.isInternal(user, group) || isReadOutside(user->getResult(0), group);
  });
}

KernelShape StageOutliner::getShape(int group) {
  KernelShape shape;
  for (nn::TensorOpInterface op : groups.all()[group].ops)
    collect(op, group, shape);
  for (nn::TensorOpInterface op : groups.all()[group].ops)
    for (Value result : op->getResults())
      if (isReadOutside(result, group))
        shape.results.push_back(result);
  tieStores(group, shape);
  return shape;
}

void StageOutliner::tieStores(int group, KernelShape &shape) {
  for (Value result : shape.results) {
    LoadOp load;
    int64_t operand = -1;
    if (groups.findInPlaceStore(result, group, load))
      operand = std::distance(shape.inputs.begin(), llvm::find(shape.inputs, load.getResult()));
    shape.inplace.push_back(operand);
  }
}

void StageOutliner::hoist(Value value, Operation *before) {
  Operation *def = value.getDefiningOp();
  if (!def || !passed.insert(def).second)
    return;
  for (Value operand : def->getOperands())
    hoist(operand, before);
  def->moveBefore(before);
}

void StageOutliner::outline(int group) {
  KernelShape shape = getShape(group);
  if (shape.results.empty())
    return;
  ArrayRef<nn::TensorOpInterface> ops = groups.all()[group].ops;
  Operation *first = ops.front();
  for (Value input : shape.inputs)
    hoist(input, first);
  OpBuilder builder(first);
  auto launch = LaunchOp::create(builder, first->getLoc(), ValueRange(shape.results).getTypes(),
                                 SymbolRefAttr::get(library.get(shape, ops).getSymNameAttr()),
                                 shape.inputs.getArrayRef(), builder.getDenseI64ArrayAttr(shape.inplace));
  for (StringRef name : {kModuleAttr, kSourceAttr, kPhaseAttr})
    if (Attribute value = first->getAttr(name))
      launch->setAttr(name, value);
  SmallVector<LayoutAttr> layouts = llvm::map_to_vector(shape.results, [](Value v) { return getLayout(v); });
  if (llvm::all_of(layouts, [](LayoutAttr layout) { return layout != nullptr; }))
    setLayouts(launch, layouts);
  SmallVector<Attribute> needed = llvm::map_to_vector(shape.inputs, [&](Value input) -> Attribute {
    LayoutAttr layout = getLayout(input);
    return layout ? Attribute(layout) : builder.getUnitAttr();
  });
  if (llvm::any_of(needed, llvm::IsaPred<LayoutAttr>))
    launch->setAttr(kOperandLayoutsAttr, builder.getArrayAttr(needed));
  passed.insert(launch);
  for (auto [old, result] : llvm::zip(shape.results, launch.getResults()))
    old.replaceUsesWithIf(result, [&](OpOperand &use) { return groups.find(use.getOwner()) != group; });
}
