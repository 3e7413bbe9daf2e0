//===- AssignOwnership.cpp - One owner per parameter, and how others read it ==//

#include "plumb/Dialect/CCL/CCL.h"
#include "plumb/Dialect/NN/NN.h"
#include "plumb/Dialect/Plumb/PipelineAttributes.h"
#include "plumb/Support/Glob.h"
#include "plumb/Support/Suggest.h"
#include "plumb/Transforms/Ownership.h"
#include "plumb/Transforms/Passes.h"
#include <map>

using namespace mlir;

namespace plumb {
#define GEN_PASS_DEF_ASSIGNOWNERSHIP
#include "plumb/Transforms/Passes.h.inc"
} // namespace plumb

using namespace plumb;

namespace {

/// The rules of the plan about parameters that several stages read.
class SharingRules {
public:
  explicit SharingRules(ModuleOp module) {
    for (SharingRuleOp rule : module.getOps<SharingRuleOp>())
      rules.push_back({Glob(rule.getMatch().str()), rule, false});
  }

  LogicalResult check() {
    for (const Rule &rule : rules) {
      SharingRuleOp op = rule.op;
      if (!llvm::is_contained({"replicate", "transmit", "auto"}, op.getChoice()))
        return emitError(op.getLoc()) << "a parameter cannot be shared by \"" << op.getChoice()
                                      << "\"; there are replicate, transmit and auto";
    }
    return success();
  }

  /// The last rule that matches the parameter under any of its names, or null.
  SharingRuleOp find(ParameterOp parameter) {
    SharingRuleOp last;
    for (Rule &rule : rules) {
      bool matches = rule.glob.matches(parameter.getSymName().str());
      if (ArrayAttr aliases = parameter.getAliasesAttr())
        for (StringRef alias : aliases.getAsValueRange<StringAttr>())
          matches |= rule.glob.matches(alias.str());
      if (matches)
        last = rule.op;
      rule.matched |= matches;
    }
    return last;
  }

  LogicalResult finish(ArrayRef<std::string> names) {
    bool isFine = true;
    for (Rule &rule : rules) {
      if (!rule.matched) {
        emitError(rule.op.getLoc()) << "pattern \"" << rule.op.getMatch() << "\" matches none of "
                                    << names.size() << " parameters"
                                    << didYouMean(rule.op.getMatch().str(), names);
        isFine = false;
      }
      rule.op.erase();
    }
    return success(isFine);
  }

private:
  struct Rule {
    Glob glob;
    SharingRuleOp op;
    bool matched;
  };
  SmallVector<Rule, 0> rules;
};

class OwnershipAssigner {
public:
  OwnershipAssigner(ModuleOp module, ProgramOp program)
      : module(module), program(program), builder(module.getContext()), rules(module),
        copies(countCopies(findOp<PipelineOp>(module))) {
    for (Operation &op : *program.getBody().begin())
      stages = std::max(stages, getStage(&op) + 1);
    for (LoadOp load : program.getBody().getOps<LoadOp>())
      readers[load.getSymbol()].push_back(load);
    // A buffer that is written but never read belongs to the writer.
    for (StoreOp store : program.getBody().getOps<StoreOp>())
      if (SmallVector<Operation *> &known = readers[store.getSymbol()]; known.empty())
        known.push_back(store);
  }

  LogicalResult run() {
    if (failed(rules.check()))
      return failure();
    std::vector<std::string> names;
    builder.setInsertionPointToStart(&*program.getBody().begin());
    for (ParameterOp parameter : llvm::make_early_inc_range(module.getOps<ParameterOp>())) {
      names.push_back(parameter.getSymName().str());
      SharingRuleOp rule = rules.find(parameter);
      StringRef choice = rule ? rule.getChoice() : "replicate";
      if (copies > 1 && choice == "transmit")
        return emitError(rule.getLoc())
               << "parameter " << parameter.getSymName()
               << " cannot be transmitted: the schedule gives stages copies, which read "
                  "it on several ranks anyway; let it be replicated";
      if (auto found = readers.find(parameter.getSymName()); found != readers.end())
        assign(parameter, found->second, copies > 1 ? "replicate" : choice);
    }
    return rules.finish(names);
  }

private:
  void assign(ParameterOp parameter, ArrayRef<Operation *> readers, StringRef choice) {
    std::map<int64_t, int64_t> firstReaders; // by coordinate
    for (Operation *load : readers) {
      // The copies of a stage read what it reads. The same stage, or its copy, holds the value on all
      // coordinates.
      for (int64_t copy = 0; copy < copies; ++copy) {
        int64_t stage = copy * stages + getStage(load);
        auto [entry, isNew] = firstReaders.try_emplace(getPipelineCoordinate(module, stage), stage);
        if (std::pair(stage % stages, stage) < std::pair(entry->second % stages, entry->second))
          entry->second = stage;
      }
    }
    SmallVector<int64_t> holders;
    for (auto [coordinate, stage] : firstReaders)
      holders.push_back(stage);
    llvm::sort(holders);
    bool transmits =
        choice == "transmit" ||
        (choice == "auto" &&
         getSharingCosts(module, parameter, static_cast<int64_t>(holders.size())).prefersTransmit());
    if (holders.size() > 1 && transmits) {
      transmit(parameter, readers, holders);
      holders.resize(1);
    }
    parameter.setOwner(holders.front());
    parameter.setHolders(holders);
  }

  /// Before the first forward the owner's rank sends the value; the others keep it in a state, which their
  /// stages read instead.
  void transmit(ParameterOp parameter, ArrayRef<Operation *> readers, ArrayRef<int64_t> firstReaders) {
    Location loc = parameter.getLoc();
    std::string name = "copy." + parameter.getSymName().str();
    auto symbol = FlatSymbolRefAttr::get(builder.getContext(), name);
    {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPoint(program);
      StateOp::create(builder, loc, name, "copy", parameter.getType(), parameter.getSymNameAttr(),
                      IntegerAttr(), StringAttr(), LayoutAttr());
    }
    int64_t owner = getPipelineCoordinate(module, firstReaders.front());
    auto value = LoadOp::create(builder, loc, parameter.getType(), FlatSymbolRefAttr::get(parameter));
    place(value, owner);
    for (int64_t reader : firstReaders.drop_front())
      place(StoreOp::create(builder, loc, symbol, value), getPipelineCoordinate(module, reader));
    for (Operation *load : readers)
      if (getPipelineCoordinate(module, getStage(load)) != owner)
        cast<LoadOp>(load).setSymbolAttr(symbol);
  }

  void place(Operation *op, int64_t coordinate) {
    setStage(op, getFirstStage(module, coordinate));
    setPhase(op, Phase::Begin);
  }

  ModuleOp module;
  ProgramOp program;
  OpBuilder builder;
  SharingRules rules;
  int64_t copies, stages = 0;                        ///< Of each stage; of each copy.
  llvm::StringMap<SmallVector<Operation *>> readers; ///< Of each parameter.
};

struct AssignOwnershipPass : plumb::impl::AssignOwnershipBase<AssignOwnershipPass> {
  void runOnOperation() override {
    auto program = findOp<ProgramOp>(getOperation());
    if (program && failed(OwnershipAssigner(getOperation(), program).run()))
      signalPassFailure();
  }
};

} // namespace
