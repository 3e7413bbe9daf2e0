//===- LayerGathers.cpp - Parameters that are gathered for a pass -------------===//

#include "LayerGathers.h"
#include "plumb/Dialect/NN/NN.h"
#include "plumb/Transforms/Utils.h"

using namespace mlir;
using namespace plumb;

ParameterOp plumb::findGatheredParameter(Value operand, const SymbolTable &symbols) {
  Operation *def = operand.getDefiningOp();
  while (isa<nn::TensorOpInterface>(def) && def->getNumOperands() == 1)
    def = def->getOperand(0).getDefiningOp();
  auto load = dyn_cast<LoadOp>(def);
  return load ? symbols.lookup<ParameterOp>(load.getSymbol()) : ParameterOp();
}

StringRef plumb::getLayer(Operation *op) {
  auto path = op->getAttrOfType<StringAttr>(kModuleAttr);
  StringRef name = path ? path.getValue() : "";
  for (size_t end = 0; end < name.size(); ++end) {
    size_t begin = end;
    end = std::min(name.find('.', begin), name.size());
    StringRef component = name.slice(begin, end).split('@').first;
    if (!component.empty() && llvm::all_of(component, llvm::isDigit))
      return name.take_front(end);
  }
  return name;
}

void plumb::hoistGather(Operation *gather, Operation *place) {
  for (Value operand : gather->getOperands()) {
    Operation *def = operand.getDefiningOp();
    if (getPhase(def) == getPhase(place) && place->isBeforeInBlock(def))
      hoistGather(def, place);
  }
  gather->moveBefore(place);
}
