//===- Utils.cpp - What several passes need ---------------------------------===//

#include "plumb/Transforms/Utils.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace plumb;

int64_t plumb::getPipelineSize(ModuleOp module) {
  auto mesh = findOp<MeshOp>(module);
  auto pipeline = findOp<PipelineOp>(module);
  return mesh && pipeline ? mesh.getAxisSize(pipeline.getAxis()) : 1;
}

int64_t plumb::getPipelineCoordinate(ModuleOp module, int64_t stage) {
  auto pipeline = findOp<PipelineOp>(module);
  return pipeline ? pipeline.coordinateOf(stage, getPipelineSize(module)) : 0;
}

int64_t plumb::getMicrobatches(ModuleOp module) {
  auto pipeline = findOp<PipelineOp>(module);
  return pipeline ? static_cast<int64_t>(pipeline.getMicrobatches()) : 1;
}

int64_t plumb::getAxisSize(ModuleOp module, AxisRefAttr axis) {
  if (!axis.isWhole())
    return axis.getSize();
  if (axis.getName() == kMicrobatchAxis)
    return getMicrobatches(module);
  auto mesh = findOp<MeshOp>(module);
  return mesh ? mesh.getAxisSize(axis.getName()) : 1;
}

ArrayRef<AxisRefAttr> plumb::getWalkedAxes(LayoutAttr layout) {
  for (DimShardingAttr dim : layout.getDims())
    for (auto [place, axis] : llvm::enumerate(dim.getAxes()))
      if (axis.getName() == kMicrobatchAxis)
        return dim.getAxes().take_front(place + 1);
  return {};
}

std::string plumb::toPlanText(LayoutAttr layout) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  auto name = [&](AxisRefAttr axis) {
    stream << (text.empty() ? "" : ", ") << "\"" << axis.getName().getValue();
    if (!axis.isWhole())
      stream << ":(" << axis.getPreSize() << ")" << axis.getSize();
    stream << "\": ";
  };
  for (auto [dim, sharding] : llvm::enumerate(layout.getDims()))
    for (AxisRefAttr axis : sharding.getAxes()) {
      name(axis);
      stream << "\"shard(" << dim;
      if (sharding.hasUnequalBlocks()) {
        stream << ", blocks=";
        printBlocks(stream, sharding.getBlocks());
      } else if (sharding.countBlocks() != 1) {
        stream << ", blocks=" << sharding.countBlocks();
      }
      stream << ")\"";
    }
  for (PartialAttr partial : layout.getPartial()) {
    name(partial.getAxis());
    stream << "\"partial(" << partial.getReduction().getValue() << ")\"";
  }
  return "{" + text + "}";
}

bool plumb::cutsEvenly(ModuleOp module, int64_t size, DimShardingAttr dim) {
  int64_t parts = 1;
  for (AxisRefAttr axis : dim.getAxes())
    parts *= getAxisSize(module, axis);
  if (dim.hasUnequalBlocks())
    return llvm::all_of(dim.getBlocks(), [&](int64_t block) { return block % parts == 0; });
  return dim.getAxes().empty() || size % (parts * dim.countBlocks()) == 0;
}

RankedTensorType plumb::getLocalType(ModuleOp module, RankedTensorType global, LayoutAttr layout) {
  SmallVector<int64_t> shape(global.getShape());
  for (auto [size, dim] : llvm::zip(shape, layout.getDims()))
    for (AxisRefAttr axis : dim.getAxes())
      size = llvm::divideCeilSigned(size, getAxisSize(module, axis));
  return RankedTensorType::get(shape, global.getElementType());
}

ArrayRef<int64_t> plumb::getHolders(StateOp state, ParameterOp of) {
  if (auto holders = state.getHolders())
    return *holders;
  return of && of.getHolders() ? *of.getHolders() : ArrayRef<int64_t>();
}

StateOp plumb::getStepCounter(ModuleOp module, ProgramOp program) {
  for (StateOp state : module.getOps<StateOp>())
    if (state.getKind() == "counter")
      return state;
  OpBuilder builder(program);
  return StateOp::create(builder, program.getLoc(), "optimizer.step", "counter",
                         RankedTensorType::get({}, builder.getF64Type()));
}

ProvenanceScope::ProvenanceScope(OpBuilder &builder, Operation *origin, Phase phase)
    : builder(builder), previous(builder.getListener()), origin(origin), phase(phase) {
  builder.setListener(this);
}

ProvenanceScope::~ProvenanceScope() { builder.setListener(previous); }

void ProvenanceScope::notifyOperationInserted(Operation *op, OpBuilder::InsertPoint) {
  for (StringRef name : {kModuleAttr, kSourceAttr, kStageAttr, kRecomputeAttr})
    if (Attribute value = origin->getAttr(name))
      op->setAttr(name, value);
  setPhase(op, phase);
}

bool plumb::isInModule(StringRef path, StringRef module) {
  // A path component may carry the number of the call: compare component by component.
  while (!module.empty()) {
    if (path.empty())
      return false;
    auto [pathHead, pathRest] = path.split('.');
    auto [moduleHead, moduleRest] = module.split('.');
    if (pathHead.split('@').first != moduleHead)
      return false;
    path = pathRest;
    module = moduleRest;
  }
  return true;
}
