//===- ApplyRecomputeRules.cpp - Modules that are computed again -----------===//

#include "ApplySpec.h"
#include "plumb/Support/Glob.h"
#include "plumb/Support/Suggest.h"

using namespace mlir;
using namespace plumb;

/// The path of a module without the numbers of calls: "h.0@1.attn" is a call of "h.0.attn".
static std::string nameOf(StringRef path) {
  std::string name;
  while (!path.empty()) {
    auto [head, rest] = path.split('.');
    name += (name.empty() ? "" : ".") + head.split('@').first.str();
    path = rest;
  }
  return name;
}

/// The outermost module on a path that one of the patterns names, with the numbers of its calls; empty if
/// there is none.
static StringRef findOutermost(StringRef path, ArrayRef<Glob> globs) {
  for (size_t end = 0; end != StringRef::npos && !path.empty();) {
    end = path.find('.', end ? end + 1 : 0);
    std::string name = nameOf(path.substr(0, end));
    if (llvm::any_of(globs, [&](const Glob &glob) { return glob.matches(name); }))
      return path.substr(0, end);
  }
  return {};
}

LogicalResult plumb::applyRecomputeRules(ModuleOp module, ProgramOp program) {
  std::vector<std::string> names;
  for (ModuleNameOp name : module.getOps<ModuleNameOp>())
    names.push_back(name.getSymName().str());
  SmallVector<Glob> globs;
  bool isFine = true;
  for (RecomputeRuleOp rule : llvm::make_early_inc_range(module.getOps<RecomputeRuleOp>())) {
    globs.emplace_back(rule.getMatch().str());
    if (llvm::none_of(names, [&](const std::string &name) { return globs.back().matches(name); })) {
      emitError(rule.getLoc()) << "pattern \"" << rule.getMatch() << "\" matches 0 of " << names.size()
                               << " modules" << didYouMean(rule.getMatch().str(), names);
      isFine = false;
    }
    rule.erase();
  }
  if (globs.empty() || !isFine)
    return success(isFine);
  for (Operation &op : *program.getBody().begin())
    if (auto path = op.getAttrOfType<StringAttr>(kModuleAttr))
      if (StringRef found = findOutermost(path, globs); !found.empty())
        op.setAttr(kRecomputeAttr, StringAttr::get(module.getContext(), found));
  return success();
}
