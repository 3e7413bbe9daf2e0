#include "plumb/Import/ImportModel.h"

#include "AtenTargets.h"

#include "mlir/IR/Verifier.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Path.h"

using namespace mlir;

namespace plumb {

namespace {
struct Family {
  llvm::StringLiteral name;
  ArrayRef<AtenTarget> targets;
};
} // namespace

static ArrayRef<Family> families() {
  static const Family all[] = {
      {"products and attention", linearTargets()},
      {"arithmetic", elementwiseTargets()},
      {"functions of numbers", mathTargets()},
      {"activations", activationTargets()},
      {"comparisons, choices, conversions", logicTargets()},
      {"convolution, pooling, pictures", networkTargets()},
      {"normalisation", normalisationTargets()},
      {"recurrent networks", recurrentTargets()},
      {"sums, products, extremes, softmax, order", reductionTargets()},
      {"losses", lossTargets()},
      {"shapes", shapeTargets()},
      {"parts and constants", selectionTargets()},
      {"tables and ranges", indexTargets()},
      {"reading and writing by index", advancedIndexTargets()},
  };
  return all;
}

static const AtenTarget *findTarget(StringRef name) {
  static const llvm::StringMap<const AtenTarget *> table = [] {
    llvm::StringMap<const AtenTarget *> result;
    for (const Family &family : families())
      for (const AtenTarget &target : family.targets)
        result.try_emplace(target.name, &target);
    return result;
  }();
  return table.lookup(name);
}

std::vector<OperatorFamily> operatorFamilies() {
  std::vector<OperatorFamily> result;
  for (const Family &family : families()) {
    OperatorFamily &entry = result.emplace_back();
    entry.name = family.name.str();
    for (const AtenTarget &target : family.targets)
      if (StringRef name = target.name; name.consume_front("torch.ops.aten."))
        entry.operators.push_back(name.str());
    llvm::sort(entry.operators);
  }
  return result;
}

namespace {

/// A value that is not there because the node that computes it was refused, which was reported.
struct MissingValue {};

class ModelBuilder {
public:
  ModelBuilder(const pt2::Pt2Archive &archive, MLIRContext &context, Diagnostics &diagnostics)
      : archive_(archive), program_(archive.program()), diagnostics_(diagnostics), builder_(&context),
        errorsBefore_(diagnostics.errorCount()) {}

  OwningOpRef<ModuleOp> build() {
    checkTargets();
    checkOutputs();
    if (failed())
      return nullptr;
    std::string name = llvm::sys::path::stem(archive_.name()).str();
    OwningOpRef<ModuleOp> module = ModuleOp::create(builder_.getUnknownLoc());
    module_ = *module;
    module_->setAttr("plumb.model", builder_.getStringAttr(name));
    builder_.setInsertionPointToEnd(module_.getBody());
    buildModules();
    buildParameters();
    if (failed())
      return nullptr;
    while (!symbols_.insert(name).second)
      name += "_";
    auto program = ProgramOp::create(builder_, builder_.getUnknownLoc(), name);
    builder_.setInsertionPointToStart(&program.getBody().emplaceBlock());
    buildInputs();
    if (failed())
      return nullptr;
    for (const pt2::Node &node : program_.graph.nodes)
      buildNode(node);
    buildOutputs();
    if (failed() || !verifyModule())
      return nullptr;
    return module;
  }

private:
  bool failed() const { return diagnostics_.errorCount() != errorsBefore_; }
  Place archivePlace() const { return {archive_.name()}; }

  //===-- What cannot be imported -----------------------------------------===//

  Place placeOf(const pt2::Node &node) const {
    return node.frame ? node.frame->place() : program_.place(node);
  }

  static std::string ownerOf(const pt2::Node &node) {
    std::string module = node.modules.empty() ? "" : node.modules.back().str();
    return module.empty() ? "the root module" : "module \"" + module + "\"";
  }

  /// One error for each operator, with a note for each further place.
  void checkTargets() {
    llvm::MapVector<StringRef, std::vector<const pt2::Node *>> unknown;
    for (const pt2::Node &node : program_.graph.nodes)
      if (!findTarget(node.target))
        unknown[node.target].push_back(&node);
    constexpr size_t shown = 4;
    for (const auto &[target, nodes] : unknown) {
      plumb::Diagnostic &error = diagnostics_.error(
          placeOf(*nodes.front()),
          "the operator " + target.str() + " is not supported; it is used in " + ownerOf(*nodes.front()));
      for (const pt2::Node *node : ArrayRef(nodes).slice(1).take_front(shown))
        error.note(placeOf(*node), "and in " + ownerOf(*node));
      if (nodes.size() > shown + 1)
        error.note("and in " + std::to_string(nodes.size() - shown - 1) + " more places");
    }
  }

  void checkOutputs() {
    for (const pt2::OutputSpec &output : program_.outputs) {
      switch (output.kind) {
      case pt2::OutputKind::UserOutput:
      case pt2::OutputKind::Loss:
      case pt2::OutputKind::BufferMutation:
        break;
      case pt2::OutputKind::ParameterMutation:
        diagnostics_.error(archivePlace(), "the model writes to its parameter \"" + output.name +
                                               "\", which is not supported; make it a buffer");
        break;
      case pt2::OutputKind::UserInputMutation:
        diagnostics_.error(archivePlace(), "the model writes to its input \"" + output.name +
                                               "\", which is not supported; return the new value instead");
        break;
      case pt2::OutputKind::GradientToParameter:
      case pt2::OutputKind::GradientToUserInput:
        diagnostics_.error(archivePlace(),
                           "this archive holds a forward and backward graph (it returns the gradient "
                           "of \"" +
                               output.name + "\"); export the forward graph alone");
        return;
      case pt2::OutputKind::Token:
        diagnostics_.error(archivePlace(),
                           "the model has side effects that must be ordered, which is not supported");
        return;
      }
    }
  }

  void refuseNode(const pt2::Node &node, const std::string &reason) {
    diagnostics_.error(placeOf(node), node.target + " in " + ownerOf(node) + ": " + reason);
  }

  //===-- Names -------------------------------------------------------------===//

  void buildModules() {
    // The tree lists all modules; their classes stand only in the stacks of the nodes.
    llvm::StringMap<StringRef> types;
    for (const pt2::Node &node : program_.graph.nodes)
      for (const pt2::ModuleCall &call : node.modules)
        types.try_emplace(call.fqn, StringRef(call.type).rsplit('.').second);
    for (const pt2::Module &module : program_.modules) {
      if (module.fqn.empty() || module.call != 0 || !symbols_.insert(module.fqn).second)
        continue;
      StringRef type = types.lookup(module.fqn);
      ModuleNameOp::create(builder_, builder_.getUnknownLoc(), builder_.getStringAttr(module.fqn),
                           type.empty() ? StringAttr() : builder_.getStringAttr(type));
    }
  }

  static bool isWeight(const pt2::InputSpec &spec) {
    return spec.kind == pt2::InputKind::Parameter || spec.kind == pt2::InputKind::Buffer ||
           spec.kind == pt2::InputKind::TensorConstant;
  }

  const pt2::TensorMeta &metaOf(const pt2::Argument &argument) const {
    return program_.graph.tensors.at(argument.as<pt2::TensorRef>()->name);
  }

  void buildParameters() {
    llvm::StringMap<StringRef> canonical; // Of names that are aliases of another.
    llvm::StringMap<SmallVector<Attribute>> aliases;
    for (const std::vector<std::string> &group : archive_.aliases())
      for (const std::string &name : ArrayRef(group).drop_front()) {
        canonical.try_emplace(name, group.front());
        aliases[group.front()].push_back(builder_.getStringAttr(name));
      }
    for (const pt2::InputSpec &spec : program_.inputs) {
      if (!isWeight(spec))
        continue;
      auto alias = canonical.find(spec.name);
      StringRef symbol = alias == canonical.end() ? StringRef(spec.name) : alias->second;
      weights_.try_emplace(spec.value.as<pt2::TensorRef>()->name, symbol);
      if (alias != canonical.end())
        continue;
      if (!symbols_.insert(symbol).second) {
        diagnostics_.error(archivePlace(), "the archive uses the name \"" + spec.name + "\" for two things");
        continue;
      }
      buildParameter(spec, aliases.lookup(symbol));
    }
  }

  void buildParameter(const pt2::InputSpec &spec, ArrayRef<Attribute> aliases) {
    try {
      RankedTensorType type = convertType(metaOf(spec.value), builder_.getContext());
      const pt2::Weight *weight = archive_.weight(spec.name);
      bool isTrained = spec.kind == pt2::InputKind::Parameter && weight && weight->meta.requiresGrad;
      bool isSaved = !archive_.nonPersistent().contains(spec.name);
      ParameterOp::create(builder_, builder_.getUnknownLoc(), builder_.getStringAttr(spec.name),
                          TypeAttr::get(type), isTrained ? builder_.getUnitAttr() : UnitAttr(),
                          isSaved ? UnitAttr() : builder_.getUnitAttr(),
                          aliases.empty() ? ArrayAttr() : builder_.getArrayAttr(aliases),
                          /*layout=*/LayoutAttr(), /*gathered=*/LayoutAttr(), /*gather=*/StringAttr(),
                          /*updated=*/LayoutAttr(), /*owner=*/IntegerAttr(), /*holders=*/DenseI64ArrayAttr());
    } catch (const Refusal &refusal) {
      diagnostics_.error(archivePlace(), "the parameter \"" + spec.name + "\": " + refusal.reason);
    }
  }

  //===-- Program -----------------------------------------------------------===//

  void buildInputs() {
    int64_t index = 0; // Counts all user inputs, also the constants among them, which stand in the graph.
    for (const pt2::InputSpec &spec : program_.inputs) {
      if (spec.kind == pt2::InputKind::UserInput) {
        if (const auto *reference = spec.value.as<pt2::TensorRef>())
          buildInput(spec, reference->name, index);
        ++index;
      } else if (!isWeight(spec)) {
        diagnostics_.error(archivePlace(),
                           "the model needs \"" + spec.name +
                               "\", a custom object or an ordering token, which is not supported");
      }
    }
  }

  void buildInput(const pt2::InputSpec &spec, const std::string &value, int64_t index) {
    try {
      RankedTensorType type = convertType(metaOf(spec.value), builder_.getContext());
      values_[value] = InputOp::create(builder_, builder_.getUnknownLoc(), type, spec.name, index);
    } catch (const Refusal &refusal) {
      diagnostics_.error(archivePlace(), "the input \"" + spec.name + "\": " + refusal.reason);
    }
  }

  Location locationOf(const pt2::Node &node) {
    if (!node.frame)
      return builder_.getUnknownLoc();
    return FileLineColLoc::get(builder_.getContext(), node.frame->file, node.frame->line, 0);
  }

  /// The value of a name in the graph. A weight is loaded just before its first use, once under all its
  /// names.
  Value valueOf(const std::string &name, llvm::function_ref<Value(Type, FlatSymbolRefAttr)> load) {
    auto found = values_.find(name);
    if (found != values_.end())
      return found->second;
    auto weight = weights_.find(name);
    if (weight == weights_.end())
      throw MissingValue();
    Value &value = loads_[weight->second];
    if (!value)
      value = load(convertType(program_.graph.tensors.at(name), builder_.getContext()),
                   FlatSymbolRefAttr::get(builder_.getContext(), weight->second));
    return value;
  }

  template <typename Visit>
  static void forEachResult(const pt2::Node &node, Visit visit) {
    for (const pt2::Argument &output : node.outputs) {
      if (const auto *reference = output.as<pt2::TensorRef>())
        visit(reference->name);
      else if (const auto *references = output.as<pt2::Tensors>())
        for (const pt2::TensorRef &element : *references)
          visit(element.name);
    }
  }

  void buildNode(const pt2::Node &node) {
    NodeBuilder nodeBuilder(builder_, locationOf(node), node, program_.graph, [&](const std::string &name) {
      return valueOf(name, [&](Type type, FlatSymbolRefAttr symbol) {
        return nodeBuilder.create<LoadOp>(type, {}, {{"symbol", symbol}})[0];
      });
    });
    try {
      findTarget(node.target)->build(nodeBuilder);
      nodeBuilder.checkAllRead();
      size_t index = 0;
      ArrayRef<Value> results = nodeBuilder.checkedResults();
      forEachResult(node, [&](const std::string &name) {
        Value result = results[index++];
        if (!node.hasGradient && isFloat(result))
          result = nodeBuilder.create<nn::DetachOp>(typeOf(result), result)[0];
        values_[name] = result;
      });
    } catch (const Refusal &refusal) {
      refuseNode(node, refusal.reason);
    } catch (const MissingValue &) {
      // A consequence of an error that was reported.
    }
  }

  void buildOutputs() {
    int64_t index = 0; // Counts all outputs, also constants, which are the same in every run.
    for (const pt2::OutputSpec &output : program_.outputs) {
      const auto *reference = output.value.as<pt2::TensorRef>();
      if (output.kind == pt2::OutputKind::BufferMutation)
        buildWrite(output, reference->name);
      else if (reference)
        buildOutput(output, reference->name, index);
      index += output.kind != pt2::OutputKind::BufferMutation;
    }
  }

  /// The new value of a buffer; it is none of the model's outputs.
  void buildWrite(const pt2::OutputSpec &output, const std::string &name) {
    auto buffer = llvm::find_if(program_.inputs, [&](const pt2::InputSpec &input) {
      return isWeight(input) && input.name == output.name;
    });
    auto value = values_.find(name);
    if (buffer == program_.inputs.end() || value == values_.end())
      return; // A buffer keeps its value, or an error was reported.
    StringRef symbol = weights_.lookup(buffer->value.as<pt2::TensorRef>()->name);
    Operation *writer = value->second.getDefiningOp();
    OpBuilder::InsertionGuard guard(builder_);
    builder_.setInsertionPointAfter(writer);
    auto store = StoreOp::create(builder_, writer->getLoc(),
                                 FlatSymbolRefAttr::get(builder_.getContext(), symbol), value->second);
    for (StringRef attribute : {kModuleAttr, kSourceAttr})
      if (Attribute known = writer->getAttr(attribute))
        store->setAttr(attribute, known);
  }

  void buildOutput(const pt2::OutputSpec &output, const std::string &value, int64_t index) {
    auto load = [&](Type type, FlatSymbolRefAttr symbol) -> Value {
      auto loaded = LoadOp::create(builder_, builder_.getUnknownLoc(), type, symbol);
      loaded->setAttr(kModuleAttr, builder_.getStringAttr(""));
      return loaded;
    };
    try {
      OutputOp::create(builder_, builder_.getUnknownLoc(), valueOf(value, load),
                       output.name.empty() ? std::to_string(index) : output.name, index);
    } catch (const MissingValue &) {
      // A consequence of an error that was reported.
    }
  }

  /// All operations were verified when they were built; this is about what lies between them.
  bool verifyModule() {
    ScopedDiagnosticHandler handler(builder_.getContext(), [&](mlir::Diagnostic &diagnostic) {
      if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
        diagnostics_.error(archivePlace(), "the program cannot be imported: " + diagnostic.str());
      return success();
    });
    return succeeded(verify(module_));
  }

  const pt2::Pt2Archive &archive_;
  const pt2::ExportedProgram &program_;
  Diagnostics &diagnostics_;
  OpBuilder builder_;
  size_t errorsBefore_;
  ModuleOp module_;
  llvm::StringSet<> symbols_;
  llvm::StringMap<StringRef> weights_; ///< Symbol of a weight by its name in the graph.
  llvm::StringMap<Value> values_;      ///< Of names in the graph.
  llvm::StringMap<Value> loads_;       ///< Of weights by symbol.
};

} // namespace

OwningOpRef<ModuleOp> importModel(const pt2::Pt2Archive &archive, MLIRContext &context,
                                  Diagnostics &diagnostics) {
  context.loadDialect<PlumbDialect, nn::NNDialect>();
  return ModelBuilder(archive, context, diagnostics).build();
}

} // namespace plumb
