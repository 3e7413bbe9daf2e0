//===- ApplyLayoutRules.cpp - Who lays out which module --------------------===//
//
// A rule with a style or with `params` is a *provider*: it owns the parameters of its modules. Model-wide
// rules come first and give way to rules of modules, then native bindings; overrides come last and replace
// only what they name. Rules that speak of ports alone own nothing.
//
//===----------------------------------------------------------------------===//

#include "StyledLayouts.h"
#include "plumb/Support/Glob.h"
#include "plumb/Support/Suggest.h"
#include "plumb/Transforms/Utils.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace plumb;

bool plumb::isParameterOf(ParameterOp parameter, StringRef module, StringRef name) {
  auto matches = [&](StringRef full) {
    if (!module.empty() && !(full.consume_front(module) && full.consume_front(".")))
      return false;
    return name.empty() ? !full.contains('.') : full == name;
  };
  if (matches(parameter.getSymName()))
    return true;
  ArrayAttr aliases = parameter.getAliasesAttr();
  return aliases && llvm::any_of(aliases.getAsValueRange<StringAttr>(), matches);
}

llvm::StringSet<> plumb::getBatchAxes(ProgramOp program) {
  llvm::StringSet<> axes;
  for (InputOp input : program.getBody().getOps<InputOp>())
    if (LayoutAttr layout = getLayout(input.getResult()))
      for (DimShardingAttr dim : layout.getDims())
        for (AxisRefAttr axis : dim.getAxes())
          axes.insert(axis.getName());
  axes.erase(kMicrobatchAxis);
  return axes;
}

namespace {

/// Whether a path names a module inside another.
bool isInside(StringRef path, StringRef module) {
  return path != module && (module.empty() || (path.starts_with(module) && path[module.size()] == '.'));
}

/// The ports of a module as a rule has them; a later rule may have taken a side over.
struct Ports {
  std::string module;
  LayoutRuleOp rule;
  bool inputs = true, outputs = true;
};

/// What a rule says of one parameter.
struct Claim {
  LayoutAttr layout;
  LayoutRuleOp rule;
};

class LayoutRules {
public:
  LayoutRules(ModuleOp module, ProgramOp program)
      : module(module), program(program), mesh(findOp<MeshOp>(module)), styles(module, program),
        batchAxes(getBatchAxes(program)) {
    for (ModuleNameOp known : module.getOps<ModuleNameOp>())
      moduleNames.push_back(known.getSymName().str());
  }

  LogicalResult run() {
    // What one phase finds wrong is reported at once; the next one relies on it.
    auto rules = llvm::to_vector(module.getOps<LayoutRuleOp>());
    bool isFine = true;
    for (LayoutRuleOp rule : rules)
      isFine &= succeeded(checkRule(rule)) && succeeded(collect(rule));
    if (!isFine || failed(bindNatively(rules)) || failed(checkCommunication()))
      return failure();
    for (auto &[name, rule] : providers)
      isFine &= succeeded(provide(rule, name));
    if (!isFine)
      return failure();
    for (LayoutRuleOp rule : rules)
      if (rule.getOverride())
        isFine &= succeeded(override(rule));
    if (!isFine || failed(checkCoverage()) || failed(applyAllPorts()))
      return failure();
    setLayoutsOfParameters();
    lintBiases(module, program, [&](ParameterOp parameter) {
      auto found = claims.find(parameter.getSymNameAttr());
      return found == claims.end() ? LayoutRuleOp() : found->second.rule;
    });
    for (LayoutRuleOp rule : rules)
      rule.erase();
    return success();
  }

private:
  static bool isProvider(LayoutRuleOp rule) {
    bool isBare = rule.getStyle() && rule.getStyle()->starts_with("prepare_");
    return rule.getParams() || (rule.getStyle() && !isBare);
  }
  static bool isModelWide(LayoutRuleOp rule) { return rule.getMatch() == "*" || rule.getMatch() == "**"; }

  //===--------------------------------------------------------------------===//
  // Who provides
  //===--------------------------------------------------------------------===//

  /// The modules that a pattern names; an error if there are none.
  FailureOr<SmallVector<StringRef>> matches(LayoutRuleOp rule, StringRef pattern) {
    SmallVector<StringRef> found;
    if (pattern == ".")
      return SmallVector<StringRef>{""};
    Glob glob(pattern.str());
    for (const std::string &name : moduleNames)
      if (glob.matches(name))
        found.push_back(name);
    if (found.empty())
      return emitError(rule.getLoc()) << "pattern \"" << pattern << "\" matches 0 of " << moduleNames.size()
                                      << " modules" << didYouMean(pattern.str(), moduleNames);
    return found;
  }

  LogicalResult checkRule(LayoutRuleOp rule) {
    StringRef style = rule.getStyle().value_or("replicate");
    static constexpr StringLiteral known[] = {"colwise",   "rowwise",       "sequence",
                                              "expert",    "prepare_input", "prepare_output",
                                              "replicate", "gather",        "prepare_input_output"};
    if (!llvm::is_contained(known, style))
      return emitError(rule.getLoc()) << "unknown style \"" << style
                                      << "\"; expected \"colwise\", \"rowwise\", \"sequence\", \"expert\", "
                                         "\"replicate\", \"gather\" or \"prepare_…\"";
    bool needsAxis =
        rule.getStyle() && !style.starts_with("prepare_") && (style != "replicate" || rule.getAxis());
    if (needsAxis && failed(checkAxis(rule, getStyleAxis(rule))))
      return failure();
    bool isProduct = style == "colwise" || style == "rowwise";
    if (isProduct && batchAxes.contains(getStyleAxis(rule)))
      return emitError(rule.getLoc())
             << "the axis \"" << getStyleAxis(rule) << "\" shards the batch; style \"" << style
             << "\" needs an axis whose ranks compute with the same tokens";
    return checkPortNames(rule);
  }

  /// The two sides of inputs name the same ports; names of outputs are unique.
  LogicalResult checkPortNames(LayoutRuleOp rule) {
    if (rule.getParams() && rule.getInSrc().has_value() != rule.getInDst().has_value())
      return emitError(rule.getLoc())
             << "an entry with \"params\" declares both \"in_src\" and \"in_dst\", or neither";
    if (rule.getInSrc() && rule.getInDst())
      for (auto [side, other, name] : {std::tuple(*rule.getInSrc(), *rule.getInDst(), "in_dst"),
                                       std::tuple(*rule.getInDst(), *rule.getInSrc(), "in_src")})
        for (NamedAttribute port : side)
          if (!other.contains(port.getName()))
            return emitError(rule.getLoc())
                   << "port \"" << port.getName().getValue() << "\" is missing in \"" << name
                   << "\"; the two sides of the inputs must name the same ports";
    llvm::StringSet<> names;
    if (ArrayAttr list = rule.getOutNamesAttr())
      for (StringRef name : list.getAsValueRange<StringAttr>())
        if (!names.insert(name).second)
          return emitError(rule.getLoc()) << "output name \"" << name << "\" is given twice";
    return success();
  }

  LogicalResult collect(LayoutRuleOp rule) {
    if (rule.getBind() || rule.getOverride())
      return success();
    FailureOr<SmallVector<StringRef>> names = matches(rule, rule.getMatch());
    if (failed(names))
      return failure();
    for (StringRef name : *names) {
      ports.push_back({name.str(), rule});
      if (!isProvider(rule))
        continue;
      auto [entry, isFirst] = providers.insert({name.str(), rule});
      if (isFirst)
        continue;
      if (isModelWide(entry->second) && !isModelWide(rule)) {
        llvm::erase_if(
            ports, [&](const Ports &known) { return known.module == name && known.rule == entry->second; });
        entry->second = rule;
      } else if (isModelWide(rule) && !isModelWide(entry->second)) {
        ports.pop_back();
      } else {
        return emitTwice(rule, entry->second, "module " + name + " is laid out by two entries");
      }
    }
    return success();
  }

  LogicalResult bindNatively(ArrayRef<LayoutRuleOp> rules) {
    llvm::StringMap<LayoutRuleOp> owned;
    for (auto &[name, rule] : providers)
      owned[name] = rule;
    for (LayoutRuleOp rule : rules) {
      if (!rule.getBind())
        continue;
      for (StringRef pattern : rule.getBindAttr().getAsValueRange<StringAttr>()) {
        FailureOr<SmallVector<StringRef>> names = matches(rule, pattern);
        if (failed(names))
          return failure();
        for (StringRef name : *names) {
          for (auto &[other, owner] : providers)
            if (other == name || isInside(name, other) || (owned.contains(other) && isInside(other, name)))
              return emitTwice(rule, owner,
                               "module " + name + " is bound, but it overlaps module " + other +
                                   ", which has an owner already");
          providers.insert({name.str(), rule});
          ports.push_back({name.str(), rule});
        }
      }
    }
    return success();
  }

  static LogicalResult emitTwice(LayoutRuleOp here, LayoutRuleOp there, const Twine &what) {
    InFlightDiagnostic diagnostic = emitError(here.getLoc()) << what;
    diagnostic.attachNote(there.getLoc()) << "the other entry";
    return diagnostic;
  }

  /// Modules that do their own collectives may not lie in each other when they use the same axis, or one uses
  /// the whole mesh.
  LogicalResult checkCommunication() {
    for (auto &[inner, rule] : providers)
      for (auto &[outer, other] : providers) {
        if (!isInside(inner, outer) || !rule.getCommunication() || !other.getCommunication())
          continue;
        StringRef kind = *rule.getCommunication(), otherKind = *other.getCommunication();
        if (kind == otherKind || kind == "mesh" || otherKind == "mesh")
          return emitTwice(rule, other,
                           "module " + Twine(inner) + " does its own collectives over \"" + kind +
                               "\" inside module " + outer + ", which does so over \"" + otherKind + "\"");
      }
    return success();
  }

  LogicalResult checkAxis(LayoutRuleOp rule, StringRef axis) {
    auto pipeline = findOp<PipelineOp>(module);
    if (mesh.findAxis(axis) && axis != pipeline.getAxis())
      return success();
    std::vector<std::string> axes;
    for (StringRef name : mesh.getAxes().getAsValueRange<StringAttr>())
      axes.push_back(name.str());
    InFlightDiagnostic diagnostic = emitError(rule.getLoc());
    if (axis == pipeline.getAxis())
      diagnostic << "the pipeline axis \"" << axis << "\" cannot shard a parameter";
    else
      diagnostic << "the mesh has no axis \"" << axis << "\"" << didYouMean(axis.str(), axes);
    diagnostic.attachNote(mesh.getLoc()) << "the mesh has " << llvm::join(axes, ", ");
    return diagnostic;
  }

  //===--------------------------------------------------------------------===//
  // What they provide
  //===--------------------------------------------------------------------===//

  LogicalResult provide(LayoutRuleOp rule, StringRef moduleName) {
    return rule.getParams() ? provideParams(rule, moduleName, /*isOverride=*/false)
                            : provideStyle(rule, moduleName);
  }

  /// The innermost provider whose module has the parameter under some name, other than `moduleName`.
  LayoutRuleOp nestedOwner(ParameterOp parameter, StringRef moduleName) {
    for (auto &[name, rule] : providers)
      if (isInside(name, moduleName) && isUnder(parameter, name))
        return rule;
    return {};
  }

  static bool isUnder(ParameterOp parameter, StringRef moduleName) {
    auto matches = [&](StringRef name) { return isInside(name, moduleName); };
    ArrayAttr aliases = parameter.getAliasesAttr();
    return matches(parameter.getSymName()) ||
           (aliases && llvm::any_of(aliases.getAsValueRange<StringAttr>(), matches));
  }

  LogicalResult provideParams(LayoutRuleOp rule, StringRef moduleName, bool isOverride) {
    for (NamedAttribute entry : rule.getParamsAttr()) {
      StringRef name = entry.getName().strref();
      ParameterOp parameter = findParameter(moduleName, name);
      if (!parameter)
        return emitError(rule.getLoc()) << "module " << moduleName << " has no parameter \"" << name << "\""
                                        << didYouMean((moduleName + "." + name).str(), parameterNames());
      if (LayoutRuleOp owner = nestedOwner(parameter, moduleName); owner && !isOverride)
        return emitTwice(rule, owner,
                         "parameter " + parameter.getSymName() +
                             " belongs to a nested module that has an entry "
                             "of its own");
      FailureOr<LayoutAttr> layout = statedLayout(rule, parameter, cast<DictionaryAttr>(entry.getValue()));
      if (failed(layout) || failed(claim(rule, parameter, *layout, isOverride)))
        return failure();
    }
    return success();
  }

  FailureOr<LayoutAttr> statedLayout(LayoutRuleOp rule, ParameterOp parameter, DictionaryAttr placements) {
    LayoutAttr layout = styles.replicated(parameter);
    // In the order of the mesh, whatever the order of the dictionary.
    for (NamedAttribute placement : placements)
      if (failed(checkAxis(rule, placement.getName())))
        return failure();
    for (StringRef axis : mesh.getAxes().getAsValueRange<StringAttr>()) {
      auto text = placements.getAs<StringAttr>(axis);
      if (!text)
        continue;
      if (text.getValue().trim().starts_with("partial"))
        return emitPartial(rule, parameter, axis);
      FailureOr<Placement> parsed = parsePlacement(rule, text);
      if (failed(parsed) ||
          (parsed->shardDim && failed(styles.shard(rule, parameter, layout, *parsed->shardDim, axis,
                                                   parsed->blocks, rule.getUnit().value_or(1)))))
        return failure();
    }
    return layout;
  }

  static LogicalResult emitPartial(LayoutRuleOp rule, ParameterOp parameter, StringRef axis) {
    InFlightDiagnostic diagnostic = emitError(rule.getLoc())
                                    << "parameter " << parameter.getSymName() << " cannot be partial over \""
                                    << axis << "\"; parameters are values, of which shards may be stored";
    diagnostic.attachNote(parameter.getLoc()) << "the parameter";
    return diagnostic;
  }

  LogicalResult provideStyle(LayoutRuleOp rule, StringRef moduleName) {
    bool served = false;
    for (ParameterOp parameter : module.getOps<ParameterOp>()) {
      if (!isParameterOf(parameter, moduleName))
        continue;
      served = true;
      FailureOr<LayoutAttr> layout = styles.get(rule, parameter, moduleName);
      if (failed(layout) || failed(claim(rule, parameter, *layout, /*isOverride=*/false)))
        return failure();
    }
    StringRef style = *rule.getStyle();
    bool needsParameters = style == "colwise" || style == "rowwise" || style == "expert";
    if (served || !needsParameters)
      return success();
    return emitError(rule.getLoc()) << "style \"" << style << "\" cannot serve module " << moduleName
                                    << ", which has no parameters of its own";
  }

  /// Replaces what an entry names: layouts of single parameters, and ports (see applyAllPorts).
  LogicalResult override(LayoutRuleOp rule) {
    FailureOr<SmallVector<StringRef>> names = matches(rule, rule.getMatch());
    if (failed(names))
      return failure();
    for (StringRef name : *names) {
      if (rule.getParams() && failed(provideParams(rule, name, /*isOverride=*/true)))
        return failure();
      for (Ports &earlier : ports)
        if (earlier.module == name) {
          earlier.inputs &= !rule.getInSrc() && !rule.getInDst();
          earlier.outputs &= !rule.getOutSrc() && !rule.getOutDst();
        }
      ports.push_back({name.str(), rule});
    }
    return success();
  }

  LogicalResult claim(LayoutRuleOp rule, ParameterOp parameter, LayoutAttr layout, bool isOverride) {
    auto [entry, inserted] = claims.insert({parameter.getSymNameAttr(), {layout, rule}});
    if (isOverride)
      entry->second = {layout, rule};
    if (inserted || entry->second.layout == layout)
      return success();
    InFlightDiagnostic diagnostic = emitError(rule.getLoc()) << "parameter " << parameter.getSymName()
                                                             << " is given the layout " << layout << " here";
    diagnostic.attachNote(entry->second.rule.getLoc())
        << "and the layout " << entry->second.layout << " here";
    return diagnostic;
  }

  //===--------------------------------------------------------------------===//
  // Afterwards
  //===--------------------------------------------------------------------===//

  /// A rule that lists parameters lists all that are trained, of which no nested rule has charge.
  LogicalResult checkCoverage() {
    for (auto &[name, rule] : providers) {
      if (!rule.getParams())
        continue;
      for (ParameterOp parameter : module.getOps<ParameterOp>()) {
        if (!parameter.getTrainable() || !isUnder(parameter, name) ||
            claims.count(parameter.getSymNameAttr()))
          continue;
        InFlightDiagnostic diagnostic = emitError(rule.getLoc())
                                        << "parameter " << parameter.getSymName() << " of "
                                        << (name.empty() ? "the model" : "module " + name)
                                        << " is missing in \"params\"; {} replicates it";
        diagnostic.attachNote(parameter.getLoc()) << "the parameter";
        return diagnostic;
      }
    }
    return success();
  }

  LogicalResult applyAllPorts() {
    // Outer modules first: what enters an inner one has entered the outer one before.
    llvm::stable_sort(ports, [](const Ports &a, const Ports &b) {
      auto depth = [](StringRef name) { return name.empty() ? 0 : 1 + name.count('.'); };
      return depth(a.module) < depth(b.module);
    });
    for (const Ports &entry : ports)
      if (failed(applyPorts(module, program, entry.rule, entry.module, entry.inputs, entry.outputs)))
        return failure();
    return success();
  }

  /// Axes that shard the batch, named by `params`, say how the parameter is stored; it is computed with as
  /// the other axes have it.
  void setLayoutsOfParameters() {
    for (ParameterOp parameter : module.getOps<ParameterOp>()) {
      auto found = claims.find(parameter.getSymNameAttr());
      if (found == claims.end()) {
        parameter.setLayoutAttr(styles.replicated(parameter));
        continue;
      }
      LayoutAttr layout = found->second.layout;
      parameter.setLayoutAttr(layout);
      LayoutAttr computed = found->second.rule.getParams() ? withoutBatchAxes(layout) : layout;
      if (computed != layout) {
        parameter.setGatheredAttr(computed);
        parameter.setGather("pass");
      }
    }
  }

  LayoutAttr withoutBatchAxes(LayoutAttr layout) {
    SmallVector<DimShardingAttr> dims;
    for (DimShardingAttr dim : layout.getDims()) {
      SmallVector<AxisRefAttr> axes;
      for (AxisRefAttr axis : dim.getAxes())
        if (!batchAxes.contains(axis.getName()))
          axes.push_back(axis);
      dims.push_back(dim.withAxes(axes));
    }
    return LayoutAttr::get(layout.getContext(), layout.getMesh(), dims, {});
  }

  ParameterOp findParameter(StringRef moduleName, StringRef name) {
    for (ParameterOp parameter : module.getOps<ParameterOp>())
      if (isParameterOf(parameter, moduleName, name))
        return parameter;
    return {};
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
  StyledLayouts styles;
  llvm::StringSet<> batchAxes;
  std::vector<std::string> moduleNames;
  llvm::MapVector<std::string, LayoutRuleOp, std::map<std::string, unsigned>> providers;
  SmallVector<Ports> ports;
  llvm::MapVector<StringAttr, Claim> claims;
};

} // namespace

LogicalResult plumb::applyLayoutRules(ModuleOp module, ProgramOp program) {
  if (failed(expandTemplates(module)))
    return failure();
  return LayoutRules(module, program).run();
}
