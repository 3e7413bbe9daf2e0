//===- ModelUnits.cpp - The pieces of a model that a policy does not cut -----===//

#include "ModelUnits.h"
#include "PortableOps.h"
#include "plumb/Transforms/Utils.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace plumb;

static bool isNumber(StringRef component) {
  component = component.split('@').first;
  return !component.empty() && llvm::all_of(component, llvm::isDigit);
}

namespace {

class UnitFinder {
public:
  UnitFinder(ModuleOp module, ProgramOp program)
      : body(*program.getBody().begin()), portable(findPortableOps(body)) {
    for (ModuleNameOp name : module.getOps<ModuleNameOp>()) {
      StringRef path = name.getSymName();
      depth = std::max<unsigned>(depth, path.count('.') + 1);
      if (isNumber(path.substr(path.rfind('.') + 1)))
        while (path.contains('.'))
          containers.insert(path = path.rsplit('.').first);
    }
  }

  SmallVector<ModelUnit, 0> find(unsigned extraLevels) {
    SmallVector<ModelUnit, 0> units;
    bool isStage = false; // whether the last unit has an op that makes a stage
    for (auto op : body.getOps<nn::TensorOpInterface>()) {
      auto path = op->getAttrOfType<StringAttr>(kModuleAttr);
      auto [name, isLayer] = path ? unitOf(path, extraLevels) : std::pair(StringRef(), false);
      if (units.empty() || (!name.empty() && name != units.back().module)) {
        if (units.empty() || (isStage && !units.back().module.empty())) {
          units.emplace_back();
          isStage = false;
        }
        units.back().module = name;
        units.back().isLayer = isLayer;
      }
      units.back().ops.push_back(op);
      isStage |= !portable.contains(op);
    }
    if (!isStage && units.size() > 1) {
      ModelUnit last = units.pop_back_val();
      units.back().ops.append(last.ops);
    }
    return units;
  }

  unsigned depth = 0; ///< Of the tree of modules.

private:
  /// The name of the unit that a path lies in, empty outside of all, and whether it is a layer.
  std::pair<StringRef, bool> unitOf(StringRef path, unsigned extraLevels) const {
    size_t end = 0;
    bool isLayer = false;
    for (unsigned levels = extraLevels + 1; end < path.size() && levels > 0;) {
      size_t begin = end ? end + 1 : 0;
      end = std::min(path.find('.', begin), path.size());
      if (isNumber(path.slice(begin, end))) {
        isLayer = true;
        --levels;
      } else if (isLayer || !containers.contains(path.take_front(end))) {
        --levels;
      } else if (end == path.size()) {
        return {};
      }
    }
    return {path.take_front(end), isLayer};
  }

  Block &body;
  llvm::DenseSet<Operation *> portable;
  llvm::StringSet<> containers; ///< Of layers.
};

} // namespace

SmallVector<ModelUnit, 0> plumb::findModelUnits(ModuleOp module, ProgramOp program, size_t atLeast) {
  UnitFinder finder(module, program);
  SmallVector<ModelUnit, 0> units = finder.find(0);
  for (unsigned levels = 1; units.size() < atLeast && levels < finder.depth; ++levels)
    units = finder.find(levels);
  return units;
}
