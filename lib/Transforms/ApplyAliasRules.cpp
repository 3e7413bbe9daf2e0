//===- ApplyAliasRules.cpp - Parameters that the plan declares to be one ------===//

#include "ApplySpec.h"
#include "plumb/Support/Suggest.h"
#include "plumb/Transforms/Utils.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace plumb;

namespace {

class AliasRules {
public:
  AliasRules(ModuleOp module, ProgramOp program) : module(module), program(program) {
    for (ParameterOp parameter : module.getOps<ParameterOp>()) {
      order.push_back(parameter);
      names[parameter.getSymName()] = parameter;
      if (ArrayAttr aliases = parameter.getAliasesAttr())
        for (StringRef alias : aliases.getAsValueRange<StringAttr>())
          names[alias] = parameter;
    }
  }

  LogicalResult apply(AliasRuleOp rule) {
    llvm::SetVector<ParameterOp> group;
    for (StringRef name : rule.getNames().getAsValueRange<StringAttr>()) {
      ParameterOp parameter = names.lookup(name);
      if (!parameter)
        return emitError(rule.getLoc())
               << "the model has no parameter \"" << name << "\"" << didYouMean(name.str(), knownNames());
      group.insert(parameter);
    }
    // The first in the archive's order is the canonical one.
    ParameterOp owner =
        *llvm::find_if(order, [&](ParameterOp parameter) { return group.contains(parameter); });
    for (ParameterOp other : group)
      if (other != owner && failed(merge(rule, owner, other)))
        return failure();
    return success();
  }

private:
  LogicalResult merge(AliasRuleOp rule, ParameterOp owner, ParameterOp other) {
    if (owner.getType() != other.getType() || owner.getTrainable() != other.getTrainable())
      return emitError(rule.getLoc())
             << owner.getSymName() << " and " << other.getSymName() << " cannot be one parameter: one is "
             << describeKind(owner) << ", the other " << describeKind(other);
    SmallVector<Attribute> aliases;
    auto append = [&](ArrayAttr list) {
      llvm::append_range(aliases, list ? list.getValue() : ArrayRef<Attribute>());
    };
    append(owner.getAliasesAttr());
    aliases.push_back(other.getSymNameAttr());
    append(other.getAliasesAttr());
    owner.setAliasesAttr(ArrayAttr::get(module.getContext(), aliases));
    owner.setNonpersistent(owner.getNonpersistent() && other.getNonpersistent());
    for (LoadOp load : program.getBody().getOps<LoadOp>())
      if (load.getSymbol() == other.getSymName())
        load.setSymbolAttr(FlatSymbolRefAttr::get(owner));
    for (auto &entry : names)
      if (entry.second == other)
        entry.second = owner;
    llvm::erase(order, other);
    other.erase();
    return success();
  }

  static std::string describeKind(ParameterOp parameter) {
    std::string text = parameter.getTrainable() ? "trained, of type " : "frozen, of type ";
    llvm::raw_string_ostream(text) << parameter.getType();
    return text;
  }

  std::vector<std::string> knownNames() const {
    std::vector<std::string> result;
    for (const auto &entry : names)
      result.push_back(entry.first().str());
    llvm::sort(result);
    return result;
  }

  ModuleOp module;
  ProgramOp program;
  SmallVector<ParameterOp> order;
  llvm::StringMap<ParameterOp> names; ///< Aliases too.
};

} // namespace

LogicalResult plumb::applyAliasRules(ModuleOp module, ProgramOp program) {
  AliasRules rules(module, program);
  bool isFine = true;
  for (AliasRuleOp rule : llvm::make_early_inc_range(module.getOps<AliasRuleOp>())) {
    isFine &= succeeded(rules.apply(rule));
    rule.erase();
  }
  return success(isFine);
}
