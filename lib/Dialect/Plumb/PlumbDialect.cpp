//===- PlumbDialect.cpp - The plumb dialect and its op attributes ----------===//

#include "plumb/Dialect/Plumb/PipelineAttributes.h"

using namespace mlir;
using namespace plumb;

#include "plumb/Dialect/Plumb/PlumbDialect.cpp.inc"

void PlumbDialect::initialize() {
  registerAttributes();
  addOperations<
#define GET_OP_LIST
#include "plumb/Dialect/Plumb/PlumbOps.cpp.inc"
      >();
}

//===----------------------------------------------------------------------===//
// Attributes on ops of a program
//===----------------------------------------------------------------------===//

int64_t plumb::getStage(Operation *op) {
  auto stage = op->getAttrOfType<IntegerAttr>(kStageAttr);
  return stage ? stage.getInt() : 0;
}

void plumb::setStage(Operation *op, int64_t stage) {
  op->setAttr(kStageAttr, Builder(op->getContext()).getI64IntegerAttr(stage));
}

Phase plumb::getPhase(Operation *op) {
  auto phase = op->getAttrOfType<PhaseAttr>(kPhaseAttr);
  return phase ? phase.getValue() : Phase::Forward;
}

void plumb::setPhase(Operation *op, Phase phase) {
  op->setAttr(kPhaseAttr, PhaseAttr::get(op->getContext(), phase));
}

LayoutAttr plumb::getLayout(Value value) {
  auto result = llvm::dyn_cast<OpResult>(value);
  if (!result)
    return {};
  auto layouts = result.getOwner()->getAttrOfType<ArrayAttr>(kLayoutsAttr);
  return layouts ? llvm::cast<LayoutAttr>(layouts[result.getResultNumber()]) : LayoutAttr();
}

void plumb::setLayouts(Operation *op, ArrayRef<LayoutAttr> layouts) {
  SmallVector<Attribute> attributes(layouts.begin(), layouts.end());
  op->setAttr(kLayoutsAttr, ArrayAttr::get(op->getContext(), attributes));
}

std::string plumb::describe(Operation *op) {
  std::string text;
  if (auto module = op->getAttrOfType<StringAttr>(kModuleAttr))
    text = module.empty() ? "the model's root module" : "module " + module.str();
  if (auto source = op->getAttrOfType<StringAttr>(kSourceAttr))
    text += (text.empty() ? "" : ", ") + source.str();
  return text;
}

InFlightDiagnostic plumb::emitModelError(Operation *op) {
  InFlightDiagnostic diagnostic = emitError(op->getLoc());
  std::string place = describe(op);
  if (!place.empty())
    diagnostic << place << ": ";
  diagnostic << "'" << op->getName().getStringRef() << "' ";
  return diagnostic;
}

//===----------------------------------------------------------------------===//
// Verification
//===----------------------------------------------------------------------===//

/// Checks one layout against its tensor and, when the mesh is in sight, against the mesh's axes.
static LogicalResult verifyLayout(Operation *op, LayoutAttr layout, RankedTensorType type) {
  if (static_cast<int64_t>(layout.getDims().size()) != type.getRank())
    return op->emitOpError("layout ") << layout << " has " << layout.getDims().size() << " dims, the tensor "
                                      << type << " has " << type.getRank();
  auto mesh = SymbolTable::lookupNearestSymbolFrom<MeshOp>(op, layout.getMesh());
  if (!mesh)
    return op->emitOpError("layout names the mesh ") << layout.getMesh() << ", which is not defined here";

  SmallVector<AxisRefAttr> seen;
  auto check = [&](AxisRefAttr axis) -> LogicalResult {
    StringRef name = axis.getName().getValue();
    if (name != kMicrobatchAxis && !mesh.findAxis(name))
      return op->emitOpError("layout names the axis \"") << name << "\", which the mesh does not have";
    for (AxisRefAttr other : seen)
      if (other == axis || (other.getName() == axis.getName() && (other.isWhole() || axis.isWhole())))
        return op->emitOpError("layout uses the axis \"") << name << "\" twice";
    seen.push_back(axis);
    return success();
  };
  for (DimShardingAttr dim : layout.getDims())
    for (AxisRefAttr axis : dim.getAxes())
      if (failed(check(axis)))
        return failure();
  for (PartialAttr partial : layout.getPartial())
    if (failed(check(partial.getAxis())))
      return failure();
  return success();
}

static LogicalResult verifyLayouts(Operation *op, Attribute value) {
  auto layouts = llvm::dyn_cast<ArrayAttr>(value);
  if (!layouts || layouts.size() != op->getNumResults())
    return op->emitOpError("'plumb.layouts' needs one layout for each of the ")
           << op->getNumResults() << " results";
  for (auto [attribute, result] : llvm::zip(layouts, op->getResults())) {
    auto layout = llvm::dyn_cast<LayoutAttr>(attribute);
    auto type = llvm::dyn_cast<RankedTensorType>(result.getType());
    if (!layout || !type)
      return op->emitOpError("'plumb.layouts' holds layouts of ranked tensors, not ") << attribute;
    if (failed(verifyLayout(op, layout, type)))
      return failure();
  }
  return success();
}

LogicalResult PlumbDialect::verifyOperationAttribute(Operation *op, NamedAttribute attribute) {
  StringRef name = attribute.getName();
  if (name == kLayoutsAttr)
    return verifyLayouts(op, attribute.getValue());
  if (name == kModuleAttr || name == kSourceAttr || name == kRecomputeAttr)
    return success(llvm::isa<StringAttr>(attribute.getValue()) ||
                   (op->emitOpError("'") << name << "' must be a string", false));
  if (name == kPhaseAttr)
    return success(llvm::isa<PhaseAttr>(attribute.getValue()) ||
                   (op->emitOpError("'") << name << "' must be a #plumb.phase", false));
  if (name == kStageAttr) {
    auto stage = llvm::dyn_cast<IntegerAttr>(attribute.getValue());
    return success((stage && stage.getInt() >= 0) ||
                   (op->emitOpError("'") << name << "' must be a non-negative integer", false));
  }
  return verifyPipelineAttribute(op, attribute);
}
