//===- ApplySplitRules.cpp - Split points and policies become markers --------===//

#include "ApplySpec.h"
#include "KernelName.h"
#include "ModelUnits.h"
#include "PortableOps.h"
#include "SplitLayout.h"
#include "StageBalance.h"
#include "plumb/Support/Suggest.h"
#include "plumb/Transforms/Buffers.h"
#include "plumb/Transforms/Utils.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringSwitch.h"
#include <map>

using namespace mlir;
using namespace plumb;

/// About what a GPU computes in the time in which its memory moves one byte.
static constexpr int64_t kOperationsPerMemoryByte = 200;

static std::vector<std::string> moduleNames(ModuleOp module) {
  std::vector<std::string> names;
  for (ModuleNameOp known : module.getOps<ModuleNameOp>())
    names.push_back(known.getSymName().str());
  return names;
}

namespace {

/// Where each module begins and ends, whatever the number of the call.
class ModuleEnds {
public:
  explicit ModuleEnds(ProgramOp program) {
    for (auto op : program.getBody().getOps<nn::TensorOpInterface>()) {
      auto path = op->getAttrOfType<StringAttr>(kModuleAttr);
      std::string name;
      for (StringRef rest = path ? path.getValue() : StringRef(); !rest.empty();) {
        auto [component, next] = rest.split('.');
        name += (name.empty() ? "" : ".") + component.split('@').first.str();
        auto [entry, isNew] = ends.try_emplace(name, std::pair(op.getOperation(), op.getOperation()));
        entry->second.second = op;
        rest = next;
      }
    }
  }

  /// The first and the last op of a module, or nulls.
  std::pair<Operation *, Operation *> find(StringRef module) const { return ends.lookup(module); }

private:
  llvm::StringMap<std::pair<Operation *, Operation *>> ends;
};

} // namespace

//===----------------------------------------------------------------------===//
// Split points
//===----------------------------------------------------------------------===//

/// Whether only loads and inputs, which belong to no place, stand between `op` and a marker in front of it.
static bool followsMarker(Operation *op) {
  for (Operation *before = op->getPrevNode(); before; before = before->getPrevNode()) {
    if (isa<PipeSplitOp>(before))
      return true;
    if (!isa<LoadOp, InputOp>(before))
      return false;
  }
  return false;
}

static void placeMarker(Location loc, Operation *before, StringRef module) {
  OpBuilder builder(before);
  auto marker = PipeSplitOp::create(builder, loc);
  marker->setAttr(kModuleAttr, builder.getStringAttr(module));
}

static LogicalResult applySplitPoint(ModuleOp module, const ModuleEnds &ends, SplitRuleOp rule) {
  auto [first, last] = ends.find(rule.getMatch());
  if (!first)
    return emitError(rule.getLoc()) << "split point \"" << rule.getMatch()
                                    << "\" matches no module that computes"
                                    << didYouMean(rule.getMatch().str(), moduleNames(module));
  // A split that repeats a marker of the graph is the same marker.
  Operation *successor = rule.getEnd() ? last->getNextNode() : first;
  if (successor && followsMarker(successor))
    return success();
  if (successor)
    placeMarker(rule.getLoc(), successor, rule.getMatch());
  else
    emitWarning(rule.getLoc()) << "nothing runs after module " << rule.getMatch()
                               << ": this split point is dropped";
  return success();
}

//===----------------------------------------------------------------------===//
// Policies
//===----------------------------------------------------------------------===//

namespace {

/// Where a stage begins: an op, and the module that it belongs to.
using Cut = std::pair<Operation *, std::string>;

class SplitPolicy {
public:
  SplitPolicy(ModuleOp module, ProgramOp program, const ModuleEnds &ends, SplitPolicyOp policy)
      : module(module), program(program), ends(ends), policy(policy) {}

  LogicalResult apply() {
    if (auto markers = program.getBody().getOps<PipeSplitOp>(); !markers.empty()) {
      InFlightDiagnostic diagnostic = error()
                                      << "a split policy cannot be combined with markers; remove one of them";
      diagnostic.attachNote((*markers.begin()).getLoc())
          << "a marker is here (" << describe(*markers.begin()) << ")";
      return diagnostic;
    }
    FailureOr<SmallVector<Cut>> cuts = findCuts();
    if (failed(cuts))
      return failure();
    for (auto [op, name] : *cuts)
      placeMarker(policy.getLoc(), op, name);
    return success();
  }

private:
  InFlightDiagnostic error() { return emitError(policy.getLoc()); }

  FailureOr<SmallVector<Cut>> findCuts() {
    return llvm::StringSwitch<llvm::function_ref<FailureOr<SmallVector<Cut>>()>>(policy.getKind())
        .Case("balanced", [&] { return balance(); })
        .Case("layers", [&] { return cutByLayers(); })
        .Case("each", [&] { return cutAtChildren(); })
        .Case("layout", [&] { return cutByLayout(); })
        .Case("modules", [&] { return cutByModules(); })
        .Default([&]() -> FailureOr<SmallVector<Cut>> {
          return error() << "there is no split policy \"" << policy.getKind()
                         << "\"; there are balanced, layers, each, layout and modules";
        })();
  }

  static Cut cutBefore(const ModelUnit &unit) {
    return {nn::TensorOpInterface(unit.ops.front()).getOperation(), unit.module.str()};
  }

  //===-- balanced --------------------------------------------------------===//

  FailureOr<SmallVector<Cut>> balance() {
    auto pipeline = findOp<PipelineOp>(module);
    int64_t stages = policy.getStages() ? static_cast<int64_t>(*policy.getStages())
                                        : getPipelineSize(module) *
                                              static_cast<int64_t>(pipeline.getStagesPerRank().value_or(1));
    SmallVector<ModelUnit, 0> units = findModelUnits(module, program, stages);
    if (static_cast<int64_t>(units.size()) < stages)
      return error() << "the model has " << units.size() << " modules that can be stages, which cannot make "
                     << stages << " stages";
    FailureOr<std::vector<UnitCost>> costs = countCosts(units);
    if (failed(costs))
      return failure();
    SmallVector<Cut> cuts;
    std::vector<size_t> firsts = balanceStages(*costs, stages);
    for (size_t first : ArrayRef(firsts).drop_front())
      cuts.push_back(cutBefore(units[first]));
    return cuts;
  }

  FailureOr<std::vector<UnitCost>> countCosts(ArrayRef<ModelUnit> units) {
    StringRef by = policy.getBy().value_or("flops");
    if (by != "flops" && by != "parameters" && by != "time")
      return error() << "stages can be balanced by flops, parameters or time, not by \"" << by << "\"";
    std::vector<UnitCost> costs(units.size());
    llvm::StringMap<size_t> lastReader;
    for (auto [index, unit] : llvm::enumerate(units)) {
      if (by == "parameters") {
        countParameters(unit, index, lastReader, costs[index]);
        continue;
      }
      for (nn::TensorOpInterface op : unit.ops)
        costs[index].own += by == "flops" ? countFlops(op) : estimateTime(op);
    }
    return costs;
  }

  /// Elements of the parameters that the unit reads; those that other units read too count once per stage.
  static void countParameters(const ModelUnit &unit, size_t index, llvm::StringMap<size_t> &lastReader,
                              UnitCost &cost) {
    for (nn::TensorOpInterface op : unit.ops)
      for (Value operand : op->getOperands())
        if (auto load = operand.getDefiningOp<LoadOp>()) {
          auto [reader, isNew] = lastReader.try_emplace(load.getSymbol(), index);
          if (!isNew && reader->second == index)
            continue;
          cost.shared.push_back({cast<RankedTensorType>(operand.getType()).getNumElements(),
                                 isNew ? SharedCost::none : reader->second});
          reader->second = index;
        }
  }

  /// Operations, or the time in which memory moves what the op reads and writes, whichever is longer.
  static int64_t estimateTime(nn::TensorOpInterface op) {
    if (op->hasTrait<nn::Reinterprets>())
      return 0;
    int64_t bytes = 0;
    for (Type type : llvm::concat<const Type>(llvm::to_vector(op->getOperandTypes()),
                                              llvm::to_vector(op->getResultTypes())))
      bytes += getByteSize(type);
    return std::max(countFlops(op), bytes * kOperationsPerMemoryByte);
  }

  //===-- layers, layout --------------------------------------------------===//

  FailureOr<SmallVector<Cut>> cutByLayers() {
    SmallVector<ModelUnit, 0> units = findModelUnits(module, program);
    llvm::erase_if(units, [](const ModelUnit &unit) { return !unit.isLayer; });
    int64_t sum = 0;
    ArrayRef<int64_t> list = policy.getList().value_or(ArrayRef<int64_t>());
    for (int64_t count : list)
      sum += count;
    if (sum != static_cast<int64_t>(units.size()))
      return error() << "the list distributes " << sum << " layers, the model has " << units.size()
                     << describeLayers(units);
    SmallVector<Cut> cuts;
    size_t next = 0;
    for (int64_t count : list.drop_back())
      cuts.push_back(cutBefore(units[next += count]));
    return cuts;
  }

  /// " (h.0 to h.11)"
  static std::string describeLayers(ArrayRef<ModelUnit> layers) {
    return layers.empty() ? "" : (" (" + layers.front().module + " to " + layers.back().module + ")").str();
  }

  FailureOr<SmallVector<Cut>> cutByLayout() {
    llvm::Expected<std::vector<std::string>> stages = parseSplitLayout(policy.getOf().value_or(""));
    if (!stages)
      return error() << llvm::toString(stages.takeError());
    SmallVector<ModelUnit, 0> units = findModelUnits(module, program);
    std::map<char, SmallVector<ModelUnit *>> byLetter;
    bool afterLayers = false;
    for (ModelUnit &unit : units) {
      afterLayers |= unit.isLayer;
      bool predicts = llvm::is_contained(llvm::split(unit.module, '.'), "mtp");
      byLetter[unit.isLayer ? predicts ? 'm' : 't' : afterLayers ? 'L' : 'E'].push_back(&unit);
    }
    for (char letter : {'t', 'm'}) {
      int64_t wanted = 0;
      for (StringRef stage : *stages)
        wanted += stage.count(letter);
      if (wanted != static_cast<int64_t>(byLetter[letter].size()))
        return error() << "the layout string has " << wanted << " layers '" << StringRef(&letter, 1)
                       << "', the model has " << byLetter[letter].size()
                       << (letter == 't' ? describeLayers(layersOf(units)) : "");
    }
    return cutAtLetters(*stages, byLetter);
  }

  static SmallVector<ModelUnit, 0> layersOf(ArrayRef<ModelUnit> units) {
    SmallVector<ModelUnit, 0> layers(llvm::make_filter_range(units, [](auto &unit) { return unit.isLayer; }));
    return layers;
  }

  /// A stage begins with the first unit of its first letter. The embedding and the head may be nothing.
  FailureOr<SmallVector<Cut>> cutAtLetters(const std::vector<std::string> &stages,
                                           std::map<char, SmallVector<ModelUnit *>> &byLetter) {
    std::map<char, size_t> taken;
    SmallVector<Cut> cuts;
    for (auto [index, stage] : llvm::enumerate(stages)) {
      ArrayRef<ModelUnit *> units = byLetter[stage.front()];
      size_t first = taken[stage.front()];
      if (first >= units.size() && (index || stage.size() == 1))
        return error() << "stage " << index << " of the layout string, \"" << stage
                       << "\", would be empty: nothing runs "
                       << (stage.front() == 'E' ? "before the layers" : "after the layers");
      if (index)
        cuts.push_back(cutBefore(*units[first]));
      for (char letter : stage)
        ++taken[letter];
    }
    return cuts;
  }

  //===-- each, modules ---------------------------------------------------===//

  FailureOr<SmallVector<Cut>> cutAtChildren() {
    StringRef parent = policy.getOf().value_or("");
    size_t depth = parent.count('.') + 1;
    llvm::SetVector<StringRef> children;
    SmallVector<Cut> cuts;
    for (auto op : program.getBody().getOps<nn::TensorOpInterface>()) {
      auto path = op->getAttrOfType<StringAttr>(kModuleAttr);
      if (!path || !isInModule(path, parent))
        continue;
      SmallVector<StringRef> components;
      path.getValue().split(components, '.');
      if (components.size() > depth && children.insert(components[depth].split('@').first))
        cuts.push_back({op.getOperation(), (parent + "." + children.back()).str()});
    }
    if (cuts.empty())
      return error() << "no child of module \"" << parent << "\" computes anything"
                     << didYouMean(parent.str(), moduleNames(module));
    cuts.erase(cuts.begin());
    return cuts;
  }

  FailureOr<SmallVector<Cut>> cutByModules() {
    SmallVector<Cut> cuts;
    Cut last; // Where the last stage ends.
    for (Attribute stage : policy.getModulesAttr()) {
      Cut first, end = last;
      for (StringRef name : cast<ArrayAttr>(stage).getAsValueRange<StringAttr>()) {
        auto [begin, finish] = ends.find(name);
        if (!begin && !llvm::is_contained(moduleNames(module), name.str()))
          return error() << "the model has no module \"" << name << "\""
                         << didYouMean(name.str(), moduleNames(module));
        if (!begin)
          continue;
        if (last.first && begin->isBeforeInBlock(last.first))
          return error() << "module " << name << " runs before module " << last.second
                         << ", which an earlier stage has; stages must follow the order of the program";
        if (!first.first || begin->isBeforeInBlock(first.first))
          first = {begin, name.str()};
        if (!end.first || end.first->isBeforeInBlock(finish))
          end = {finish, name.str()};
      }
      if (!first.first)
        return error() << "stage " << cuts.size() << " has no module that computes";
      cuts.push_back(first);
      last = end;
    }
    cuts.erase(cuts.begin());
    return cuts;
  }

  ModuleOp module;
  ProgramOp program;
  const ModuleEnds &ends;
  SplitPolicyOp policy;
};

} // namespace

LogicalResult plumb::applySplitRules(ModuleOp module, ProgramOp program) {
  ModuleEnds ends(program);
  bool isFine = true;
  for (SplitPolicyOp policy : llvm::make_early_inc_range(module.getOps<SplitPolicyOp>())) {
    isFine &= succeeded(SplitPolicy(module, program, ends, policy).apply());
    policy.erase();
  }
  for (SplitRuleOp rule : llvm::make_early_inc_range(module.getOps<SplitRuleOp>())) {
    isFine &= succeeded(applySplitPoint(module, ends, rule));
    rule.erase();
  }
  return success(isFine);
}
