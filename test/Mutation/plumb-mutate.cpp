//===- plumb-mutate.cpp - Changes one call of a plan, and asks verify-plan -------===//
//
//   plumb-mutate PLAN.mlir COUNT SEED FOLDER
//   plumb-mutate PLAN.mlir COUNT SEED --valid
//
// Makes COUNT copies of a verified plan, in each of which one call, action or attribute is dropped, moved,
// resized, retyped or sent elsewhere. Prints per change how many were rejected and how many accepted. An
// accepted plan is written to FOLDER/accepted-N.mlir: only a run can tell whether it is harmless. Plans that
// were rejected because calls wait for each other go to FOLDER/deadlock-N.mlir, with the mark of a verified
// plan: they must hang.
//
//===----------------------------------------------------------------------===//

#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "plumb/Dialect/CCL/CCL.h"
#include "plumb/Dialect/Plumb/PipelineAttributes.h"
#include "plumb/Dialect/Registration.h"
#include "plumb/Schedule/Action.h"
#include "plumb/Transforms/Passes.h"
#include "plumb/Transforms/Slots.h"
#include "plumb/Transforms/Utils.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/ToolOutputFile.h"
#include <map>
#include <random>
#include <set>

using namespace mlir;
using namespace plumb;

namespace {

class Mutator {
public:
  Mutator(ModuleOp module, std::mt19937_64 &random) : module(module), random(random), builder(module) {
    for (StageOp stage : module.getOps<StageOp>())
      for (Operation &op : stage.getBody().front()) {
        if (isa<ccl::CCLDialect>(op.getDialect()))
          calls.push_back(&op);
        if (isa<StoreOp>(op))
          stores.push_back(&op);
        if (op.hasAttr(kOffsetAttr))
          placed.push_back(&op);
        if (op.hasAttr(kSlotAttr))
          slotted.push_back(&op);
        if (op.hasAttr(kWaitsAttr) || op.hasAttr(kRecordsAttr))
          joined.push_back(&op);
      }
  }

  using Change = bool (Mutator::*)();
  static const std::vector<std::pair<const char *, Change>> changes;

private:
  size_t upTo(size_t count) { return static_cast<size_t>(random() % count); }
  Operation *pick(const std::vector<Operation *> &ops) {
    return ops.empty() ? nullptr : ops[upTo(ops.size())];
  }
  static FlatSymbolRefAttr communicatorOf(Operation *op) {
    return op->getAttrOfType<FlatSymbolRefAttr>("communicator");
  }

  bool drop(Operation *op) {
    if (!op)
      return false;
    for (OpResult result : op->getResults()) {
      Value other;
      for (Operation *before = op->getPrevNode(); before && !other; before = before->getPrevNode())
        for (Value candidate : before->getResults())
          if (candidate.getType() == result.getType())
            other = candidate;
      if (op->getNumOperands() && op->getOperand(0).getType() == result.getType())
        other = op->getOperand(0);
      if (!other && !result.use_empty())
        return false;
      result.replaceAllUsesWith(other);
    }
    op->erase();
    return true;
  }
  bool dropCall() { return drop(pick(calls)); }
  bool dropStore() { return drop(pick(stores)); }

  /// Makes a call twice: the second on the result of the first.
  bool doubleCall() {
    Operation *op = pick(calls);
    if (!op || op->getNumOperands() != 1)
      return false;
    builder.setInsertionPointAfter(op);
    Operation *again = builder.clone(*op);
    if (op->getNumResults() && op->getResult(0).getType() == op->getOperand(0).getType()) {
      op->getResult(0).replaceAllUsesExcept(again->getResult(0), again);
      again->setOperand(0, op->getResult(0));
    }
    return true;
  }

  bool swapCalls() {
    Operation *one = pick(calls), *two = pick(calls);
    if (!one || one == two || one->getBlock() != two->getBlock() || getPhase(one) != getPhase(two))
      return false;
    if (two->isBeforeInBlock(one))
      std::swap(one, two);
    Operation *after = two->getNextNode();
    two->moveBefore(one);
    after ? one->moveBefore(after) : one->moveBefore(two->getBlock(), two->getBlock()->end());
    return true;
  }

  bool changeType(bool element) {
    Operation *op = pick(calls);
    if (!op || !op->getNumResults())
      return false;
    auto type = cast<RankedTensorType>(op->getResult(0).getType());
    SmallVector<int64_t> shape(type.getShape());
    if (!element && shape.empty())
      return false;
    if (!element)
      shape[upTo(shape.size())] += 1;
    op->getResult(0).setType(
        RankedTensorType::get(shape, element ? builder.getF16Type() : type.getElementType()));
    return true;
  }
  bool resizeCall() { return changeType(false); }
  bool retypeCall() { return changeType(true); }

  bool changeCommunicator() {
    Operation *op = pick(calls);
    auto all = llvm::to_vector(module.getOps<ccl::CommunicatorOp>());
    if (!op || !communicatorOf(op))
      return false;
    auto other = all[upTo(all.size())];
    if (other.getSymName() == communicatorOf(op).getValue())
      return false;
    op->setAttr("communicator", FlatSymbolRefAttr::get(other));
    return true;
  }

  bool changePeer() {
    Operation *op = pick(calls);
    auto peer = op ? op->getAttrOfType<IntegerAttr>("peer") : IntegerAttr();
    if (!peer)
      return false;
    op->setAttr("peer", builder.getI64IntegerAttr(static_cast<int64_t>(upTo(5))));
    return op->getAttr("peer") != peer;
  }

  bool changeMembers() {
    auto all = llvm::to_vector(module.getOps<ccl::CommunicatorOp>());
    ccl::CommunicatorOp op = all[upTo(all.size())];
    SmallVector<int64_t> members(op.getPipeline());
    if (members.empty())
      return false;
    if (upTo(2))
      std::reverse(members.begin(), members.end());
    else
      members[upTo(members.size())] += upTo(2) ? 1 : -1;
    op.setPipeline(members);
    return true;
  }

  bool changeStream() {
    Operation *op = pick(calls);
    if (!op || !op->hasAttr(kStreamAttr))
      return false;
    auto streams = static_cast<int64_t>(module->getAttrOfType<ArrayAttr>(kStreamsAttr).size());
    Attribute before = op->getAttr(kStreamAttr);
    op->setAttr(kStreamAttr, builder.getI64IntegerAttr(static_cast<int64_t>(upTo(streams))));
    return op->getAttr(kStreamAttr) != before;
  }

  bool changeEntry(Operation *op, StringRef name, int64_t by) {
    if (!op)
      return false;
    SmallVector<int64_t> entries(op->getAttrOfType<DenseI64ArrayAttr>(name).asArrayRef());
    if (entries.empty())
      return false;
    entries[upTo(entries.size())] += by;
    op->setAttr(name, builder.getDenseI64ArrayAttr(entries));
    return true;
  }
  bool changeOffset() { return changeEntry(pick(placed), kOffsetAttr, upTo(2) ? 64 : -64); }
  bool changeSlotClass() { return changeEntry(pick(slotted), kSlotAttr, upTo(2) ? 1 : -1); }

  StageOp pickStage() {
    auto stages = llvm::to_vector(module.getOps<StageOp>());
    return stages[upTo(stages.size())];
  }

  bool changeSlotTable() {
    StageOp stage = pickStage();
    SmallVector<SlotClass> classes = readSlots(stage);
    if (classes.empty())
      return false;
    SlotClass &slots = classes[upTo(classes.size())];
    int64_t &slot = slots.table[upTo(slots.table.size())], before = slot;
    slot = static_cast<int64_t>(upTo(slots.table.size()));
    writeSlots(stage, classes);
    return slot != before;
  }

  /// Drops or changes one event of one launch.
  bool changeEvents() {
    Operation *op = pick(joined);
    StringRef name = upTo(2) ? kWaitsAttr : kRecordsAttr;
    if (!op || !op->hasAttr(name))
      return false;
    SmallVector<int64_t> entries(op->getAttrOfType<DenseI64ArrayAttr>(name).asArrayRef());
    size_t event = 2 * upTo(entries.size() / 2);
    if (upTo(2))
      entries.erase(entries.begin() + event, entries.begin() + event + 2);
    else
      entries[event] += upTo(2) ? 1 : -1;
    op->setAttr(name, builder.getDenseI64ArrayAttr(entries));
    return true;
  }

  bool changeActions() {
    auto schedule = findOp<ScheduleOp>(module);
    SmallVector<std::string> rows;
    for (StringRef row : schedule.getActions().getAsValueRange<StringAttr>())
      rows.push_back(row.str());
    std::string &row = rows[upTo(rows.size())];
    SmallVector<StringRef> parts;
    StringRef(row).split(parts, ',');
    SmallVector<std::string> cells(parts.begin(), parts.end());
    size_t one = upTo(cells.size()), two = upTo(cells.size());
    switch (upTo(4)) {
    case 0:
      std::swap(cells[one], cells[(one + 1) % cells.size()]);
      break;
    case 1:
      std::swap(cells[one], cells[two]);
      break;
    case 2:
      cells.erase(cells.begin() + one);
      break;
    case 3:
      cells.insert(cells.begin() + two, cells[one]);
      break;
    }
    std::string changed = llvm::join(cells, ",");
    if (changed == row)
      return false;
    row = changed;
    SmallVector<StringRef> texts(rows.begin(), rows.end());
    schedule.setActionsAttr(builder.getStrArrayAttr(texts));
    return true;
  }

  /// What one rank does for different microbatches, interleaved anew: what it does for one microbatch keeps
  /// its order, and so do the messages of one kind.
  bool changeOrder() {
    auto schedule = findOp<ScheduleOp>(module);
    SmallVector<StringRef> rows(schedule.getActions().getAsValueRange<StringAttr>()), cells;
    StringRef &row = rows[upTo(rows.size())];
    if (row.contains('('))
      return false;
    row.split(cells, ',');
    auto isDigit = [](char c) { return llvm::isDigit(c); };
    std::string changed;
    while (!cells.empty()) {
      std::set<StringRef> begun;
      SmallVector<size_t> free; // Of each microbatch and each kind of message the first.
      for (auto [index, cell] : llvm::enumerate(cells)) {
        StringRef kind = cell.rtrim("0123456789"), microbatch = cell.substr(kind.size());
        bool isFirst = begun.insert(microbatch).second;
        if ((kind.drop_while(isDigit).size() == 1 || begun.insert(kind).second) && isFirst)
          free.push_back(index);
      }
      size_t next = free[upTo(free.size())];
      changed += (changed.empty() ? "" : ",") + cells[next].str();
      cells.erase(cells.begin() + static_cast<long>(next));
    }
    if (changed == row)
      return false;
    row = changed;
    schedule.setActionsAttr(builder.getStrArrayAttr(rows));
    return true;
  }

  ModuleOp module;
  std::mt19937_64 &random;
  OpBuilder builder;
  std::vector<Operation *> calls, stores, placed, slotted, joined;
};

const std::vector<std::pair<const char *, Mutator::Change>> Mutator::changes = {
    {"drop a call", &Mutator::dropCall},
    {"drop a store", &Mutator::dropStore},
    {"double a call", &Mutator::doubleCall},
    {"swap two calls", &Mutator::swapCalls},
    {"resize a call", &Mutator::resizeCall},
    {"retype a call", &Mutator::retypeCall},
    {"another communicator", &Mutator::changeCommunicator},
    {"another peer", &Mutator::changePeer},
    {"other members", &Mutator::changeMembers},
    {"another stream", &Mutator::changeStream},
    {"another offset", &Mutator::changeOffset},
    {"another slot class", &Mutator::changeSlotClass},
    {"another slot", &Mutator::changeSlotTable},
    {"other events", &Mutator::changeEvents},
    {"other actions", &Mutator::changeActions},
    {"another order", &Mutator::changeOrder},
};

bool write(ModuleOp module, const std::string &path) {
  std::error_code error;
  llvm::ToolOutputFile file(path, error, llvm::sys::fs::OF_Text);
  if (error) {
    llvm::errs() << path << ": " << error.message() << "\n";
    return false;
  }
  module.print(file.os());
  file.keep();
  return true;
}

} // namespace

/// A random order of all actions that the dataflow of a chain of stages allows, one row per coordinate, as
/// CSV.
static std::string drawActions(const Pipeline &pipeline, std::mt19937_64 &random) {
  using schedule::Action;
  auto stages = static_cast<int>(pipeline.stages.size()),
       microbatches = static_cast<int>(pipeline.microbatches);
  std::vector<Action> ready;
  for (int m = 0; m < microbatches; ++m)
    ready.push_back(Action::forward(0, m));
  auto addBackward = [&](int stage, int m) {
    ready.push_back(random() % 2 ? Action::backward(stage, m) : Action::inputGrad(stage, m));
  };
  std::vector<std::string> rows(pipeline.coordinates);
  while (!ready.empty()) {
    std::swap(ready[random() % ready.size()], ready.back());
    Action action = ready.back();
    ready.pop_back();
    std::string &row = rows[pipeline.coordinateOf(action.stage)];
    row += (row.empty() ? "" : ",") + schedule::toString(action);
    int stage = action.stage, m = action.microbatch;
    switch (action.kind) {
    case schedule::ActionKind::Forward:
      stage + 1 < stages ? ready.push_back(Action::forward(stage + 1, m)) : addBackward(stage, m);
      break;
    case schedule::ActionKind::InputGrad:
      ready.push_back(Action::weightGrad(stage, m));
      [[fallthrough]];
    case schedule::ActionKind::Backward:
      if (stage > 0)
        addBackward(stage - 1, m);
      break;
    default:
      break;
    }
  }
  return llvm::join(rows, "\n");
}

/// Makes the plan anew in random orders. Returns the number that verify-plan rejects.
static int planAnew(ModuleOp plan, int count, std::mt19937_64 &random) {
  MLIRContext *context = plan.getContext();
  PassManager passes(context);
  passes.addPass(createSchedule());
  passes.addPass(createAssignStreams());
  passes.addPass(createPlanMemory());
  passes.addPass(createVerifyPlan());
  FailureOr<Pipeline> pipeline = Pipeline::read(plan);
  int rejected = 0;
  for (int made = 0; made < count; ++made) {
    OwningOpRef<ModuleOp> copy(plan.clone());
    for (StageOp stage : copy->getOps<StageOp>())
      for (Operation &op : stage.getBody().front())
        op.removeAttr(kCopyAttr);
    auto op = findOp<PipelineOp>(*copy);
    Builder builder(context);
    op.setSchedule("custom");
    op->setAttr(kActionsAttr,
                builder.getDictionaryAttr(
                    {builder.getNamedAttr("file", builder.getStringAttr("drawn")),
                     builder.getNamedAttr("text", builder.getStringAttr(drawActions(*pipeline, random)))}));
    rejected += failed(passes.run(*copy));
  }
  return rejected;
}

int main(int argc, char **argv) {
  if (argc != 5) {
    llvm::errs() << "usage: plumb-mutate PLAN.mlir COUNT SEED FOLDER|--valid\n";
    return 2;
  }
  DialectRegistry registry;
  registerDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  OwningOpRef<ModuleOp> plan = parseSourceFile<ModuleOp>(argv[1], &context);
  PassManager verifier(&context);
  verifier.addPass(createVerifyPlan());
  if (!plan || failed(verifier.run(*plan)))
    return 1;

  std::mt19937_64 random(std::strtoull(argv[3], nullptr, 10));
  int count = std::atoi(argv[2]);
  if (llvm::StringRef(argv[4]) == "--valid") {
    int rejected = planAnew(*plan, count, random);
    llvm::outs() << count - rejected << " of " << count << " valid plans accepted\n";
    return rejected ? 1 : 0;
  }
  std::string said; // the first error
  context.getDiagEngine().registerHandler([&](Diagnostic &diagnostic) {
    if (said.empty())
      said = diagnostic.str();
    return success();
  });
  std::map<std::string, std::pair<int, int>> counts; // rejected, accepted
  int accepted = 0, deadlocks = 0;
  for (int made = 0, tried = 0; made < count && tried < 100 * count; ++tried) {
    OwningOpRef<ModuleOp> changed(plan->clone());
    const auto &[name, change] = Mutator::changes[random() % Mutator::changes.size()];
    Mutator mutator(*changed, random);
    if (!(mutator.*change)())
      continue;
    ++made;
    said.clear();
    bool isAccepted = succeeded(mlir::verify(*changed)) && succeeded(verifier.run(*changed));
    ++(isAccepted ? counts[name].second : counts[name].first);
    bool waits = !isAccepted && llvm::StringRef(said).contains("wait for each other");
    std::string path = std::string(argv[4]) + "/" + (isAccepted ? "accepted-" : "deadlock-") +
                       std::to_string(isAccepted ? accepted : deadlocks) + ".mlir";
    if (!isAccepted && !waits) {
      if (std::getenv("PLUMB_MUTATE_VERBOSE"))
        llvm::outs() << name << ": " << said << "\n";
      continue;
    }
    ++(isAccepted ? accepted : deadlocks);
    (*changed)->setAttr("plumb.change", StringAttr::get(&context, name));
    if (!write(*changed, path))
      return 1;
  }
  for (const auto &[name, numbers] : counts)
    llvm::outs() << name << ": " << numbers.first << " rejected, " << numbers.second << " accepted\n";
  llvm::outs() << accepted << " accepted, " << deadlocks << " deadlocks\n";
  return 0;
}
