//===- ApplyLayoutRules.cpp - Layouts of parameters --------------------------===//
//
// A style says on which side of a product a module is sharded. Which dim of a parameter that is follows from
// the op that reads it: a dim of a weight whose factor the product sums away is contracted, one whose factor
// reaches the result is an output feature. So the same style serves torch's linear and the transposed weights
// of Conv1D.
//
//===----------------------------------------------------------------------===//

#include "ApplySpec.h"
#include "plumb/Dialect/NN/NN.h"
#include "plumb/Support/Glob.h"
#include "plumb/Support/Suggest.h"
#include "plumb/Transforms/Utils.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace plumb;

namespace {

/// What one module's rule says of one of its parameters.
struct Claim {
  LayoutAttr layout;
  LayoutRuleOp rule;
};

class LayoutRules {
public:
  LayoutRules(ModuleOp module, ProgramOp program)
      : module(module), program(program), mesh(findOp<MeshOp>(module)) {
    for (ModuleNameOp known : module.getOps<ModuleNameOp>())
      moduleNames.push_back(known.getSymName().str());
    for (ParameterOp parameter : module.getOps<ParameterOp>()) {
      names[parameter.getSymName()] = parameter;
      if (ArrayAttr aliases = parameter.getAliasesAttr())
        for (StringRef alias : aliases.getAsValueRange<StringAttr>())
          names[alias] = parameter;
    }
    for (LoadOp load : program.getBody().getOps<LoadOp>())
      loads[load.getSymbol()].push_back(load);
  }

  LogicalResult run() {
    bool isFine = true;
    for (LayoutRuleOp rule : module.getOps<LayoutRuleOp>())
      isFine &= succeeded(apply(rule));
    if (!isFine)
      return failure();
    for (LayoutRuleOp rule : llvm::make_early_inc_range(module.getOps<LayoutRuleOp>()))
      rule.erase();
    for (ParameterOp parameter : module.getOps<ParameterOp>()) {
      auto found = claims.find(parameter.getSymNameAttr());
      parameter.setLayoutAttr(found != claims.end() ? found->second.layout : replicated(parameter));
    }
    return success();
  }

private:
  LayoutAttr replicated(ParameterOp parameter) {
    return LayoutAttr::replicated(FlatSymbolRefAttr::get(mesh),
                                  cast<RankedTensorType>(parameter.getType()).getRank());
  }

  LogicalResult apply(LayoutRuleOp rule) {
    Glob glob(rule.getMatch().str());
    bool matched = false;
    for (const std::string &name : moduleNames) {
      if (!glob.matches(name))
        continue;
      matched = true;
      if (failed(rule.getParams() ? applyParams(rule, name) : applyStyle(rule, name)))
        return failure();
    }
    if (matched)
      return success();
    return emitError(rule.getLoc()) << "pattern \"" << rule.getMatch() << "\" matches 0 of "
                                    << moduleNames.size() << " modules"
                                    << didYouMean(rule.getMatch().str(), moduleNames);
  }

  LogicalResult checkAxis(LayoutRuleOp rule, StringRef axis) {
    if (axis == findOp<PipelineOp>(module).getAxis())
      return emitError(rule.getLoc()) << "the pipeline axis \"" << axis << "\" cannot shard a parameter";
    if (mesh.findAxis(axis))
      return success();
    std::vector<std::string> axes;
    for (StringRef name : mesh.getAxes().getAsValueRange<StringAttr>())
      axes.push_back(name.str());
    return emitError(rule.getLoc()) << "the mesh has no axis \"" << axis << "\""
                                    << didYouMean(axis.str(), axes);
  }

  LogicalResult applyParams(LayoutRuleOp rule, StringRef moduleName) {
    for (NamedAttribute entry : rule.getParamsAttr()) {
      std::string name = (moduleName + "." + entry.getName().strref()).str();
      auto parameter = names.find(name);
      if (parameter == names.end())
        return emitError(rule.getLoc())
               << "module " << moduleName << " has no parameter \"" << entry.getName().strref() << "\""
               << didYouMean(name, parameterNames());
      LayoutAttr layout = replicated(parameter->second);
      for (NamedAttribute placement : cast<DictionaryAttr>(entry.getValue())) {
        FailureOr<Placement> parsed = parsePlacement(rule, cast<StringAttr>(placement.getValue()));
        if (failed(parsed) || failed(checkAxis(rule, placement.getName())))
          return failure();
        if (parsed->shardDim && failed(shard(rule, parameter->second, layout, *parsed->shardDim,
                                             placement.getName(), parsed->blocks)))
          return failure();
      }
      if (failed(claim(rule, parameter->second, layout)))
        return failure();
    }
    return success();
  }

  LogicalResult applyStyle(LayoutRuleOp rule, StringRef moduleName) {
    StringRef axis = rule.getAxis().value_or("tp");
    if (failed(checkAxis(rule, axis)))
      return failure();
    bool served = false;
    for (ParameterOp parameter : module.getOps<ParameterOp>()) {
      if (!belongsTo(parameter, moduleName))
        continue;
      served = true;
      LayoutAttr layout = replicated(parameter);
      if (rule.getStyle() != "replicate") {
        FailureOr<std::optional<int64_t>> dim = styledDim(rule, parameter, moduleName);
        if (failed(dim))
          return failure();
        if (*dim && failed(shard(rule, parameter, layout, **dim, axis, rule.getBlocks().value_or(1))))
          return failure();
      }
      if (failed(claim(rule, parameter, layout)))
        return failure();
    }
    if (served)
      return success();
    return emitError(rule.getLoc()) << "style \"" << rule.getStyle().value_or("") << "\" cannot serve module "
                                    << moduleName << ", which has no parameters of its own";
  }

  /// Whether some name of the parameter is `moduleName` and one component more.
  bool belongsTo(ParameterOp parameter, StringRef moduleName) {
    auto matches = [&](StringRef name) {
      return name.consume_front(moduleName) && name.consume_front(".") && !name.contains('.');
    };
    if (matches(parameter.getSymName()))
      return true;
    ArrayAttr aliases = parameter.getAliasesAttr();
    return aliases && llvm::any_of(aliases.getAsValueRange<StringAttr>(), matches);
  }

  /// The dim that the style shards of a parameter: nothing for the bias of a row-wise module.
  FailureOr<std::optional<int64_t>> styledDim(LayoutRuleOp rule, ParameterOp parameter,
                                              StringRef moduleName) {
    bool colwise = rule.getStyle() == "colwise";
    if (!colwise && rule.getStyle() != "rowwise")
      return emitError(rule.getLoc()) << "unknown style \"" << rule.getStyle().value_or("")
                                      << "\"; expected \"colwise\", \"rowwise\" or \"replicate\"";
    auto type = cast<RankedTensorType>(parameter.getType());
    if (type.getRank() == 1)
      return colwise ? std::optional<int64_t>(0) : std::nullopt;
    auto wanted = colwise ? nn::FactorKind::Parallel : nn::FactorKind::Reduction;
    for (LoadOp load : loads[parameter.getSymName()]) {
      for (OpOperand &use : load->getUses()) {
        auto path = use.getOwner()->getAttrOfType<StringAttr>(kModuleAttr);
        auto op = dyn_cast<nn::TensorOpInterface>(use.getOwner());
        if (!op || !path || !isInModule(path, moduleName))
          continue;
        nn::ShardingRule factors = op.getShardingRule();
        for (auto [dim, members] : llvm::enumerate(factors.operands[use.getOperandNumber()]))
          if (members.size() == 1 && factors.factors[members[0]].kind == wanted)
            return std::optional<int64_t>(dim);
      }
    }
    return emitError(rule.getLoc()) << "style \"" << *rule.getStyle() << "\" cannot serve module "
                                    << moduleName << ": no op reads " << parameter.getSymName() << " with "
                                    << (colwise ? "an output feature dim" : "a contracted dim");
  }

  LogicalResult shard(LayoutRuleOp rule, ParameterOp parameter, LayoutAttr &layout, int64_t dim,
                      StringRef axis, int64_t blocks) {
    auto type = cast<RankedTensorType>(parameter.getType());
    int64_t normalized = dim < 0 ? dim + type.getRank() : dim;
    if (normalized < 0 || normalized >= type.getRank())
      return emitError(rule.getLoc()) << "shard(" << dim << ") names a dim that parameter "
                                      << parameter.getSymName() << " of type " << type << " does not have";
    layout = shardDim(module, layout, normalized, axis, blocks);
    int64_t parts = blocks;
    for (AxisRefAttr ref : layout.getDims()[normalized].getAxes())
      parts *= getAxisSize(module, ref);
    if (type.getDimSize(normalized) % parts == 0)
      return success();
    InFlightDiagnostic diagnostic = emitError(rule.getLoc())
                                    << "parameter " << parameter.getSymName() << " has "
                                    << type.getDimSize(normalized) << " rows in dim " << normalized
                                    << ", which " << axis << " = " << mesh.getAxisSize(axis);
    if (blocks > 1)
      diagnostic << " times " << blocks << " blocks";
    return diagnostic << " does not divide";
  }

  LogicalResult claim(LayoutRuleOp rule, ParameterOp parameter, LayoutAttr layout) {
    auto [entry, inserted] = claims.insert({parameter.getSymNameAttr(), {layout, rule}});
    if (inserted || entry->second.layout == layout)
      return success();
    InFlightDiagnostic diagnostic = emitError(rule.getLoc()) << "parameter " << parameter.getSymName()
                                                             << " is given the layout " << layout << " here";
    diagnostic.attachNote(entry->second.rule.getLoc())
        << "and the layout " << entry->second.layout << " here";
    return diagnostic;
  }

  std::vector<std::string> parameterNames() {
    std::vector<std::string> result;
    for (ParameterOp parameter : module.getOps<ParameterOp>())
      result.push_back(parameter.getSymName().str());
    return result;
  }

  ModuleOp module;
  ProgramOp program;
  MeshOp mesh;
  std::vector<std::string> moduleNames;
  llvm::StringMap<ParameterOp> names;
  llvm::StringMap<SmallVector<LoadOp>> loads;
  llvm::MapVector<StringAttr, Claim> claims;
};

} // namespace

LogicalResult plumb::applyLayoutRules(ModuleOp module, ProgramOp program) {
  return LayoutRules(module, program).run();
}
