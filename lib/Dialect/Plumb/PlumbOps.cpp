//===- PlumbOps.cpp - Parsers and verifiers of the plumb operations --------===//

#include "mlir/IR/OpImplementation.h"
#include "plumb/Dialect/Plumb/PipelineAttributes.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace plumb;

//===----------------------------------------------------------------------===//
// Custom directives
//===----------------------------------------------------------------------===//

static ParseResult parseInteger(OpAsmParser &parser, IntegerAttr &attribute) {
  int64_t value;
  if (parser.parseInteger(value))
    return failure();
  attribute = parser.getBuilder().getI64IntegerAttr(value);
  return success();
}

static ParseResult parseBlockList(OpAsmParser &parser, DenseI64ArrayAttr &attribute) {
  SmallVector<int64_t> blocks;
  if (parseBlocks(parser, blocks))
    return failure();
  attribute = parser.getBuilder().getDenseI64ArrayAttr(blocks);
  return success();
}

static void printBlockList(OpAsmPrinter &printer, Operation *, DenseI64ArrayAttr attribute) {
  printBlocks(printer.getStream(), attribute.asArrayRef());
}

static void printInteger(OpAsmPrinter &printer, Operation *, IntegerAttr attribute) {
  printer << attribute.getInt();
}

static ParseResult parseFloat(OpAsmParser &parser, FloatAttr &attribute) {
  double value;
  if (parser.parseFloat(value))
    return failure();
  attribute = parser.getBuilder().getF64FloatAttr(value);
  return success();
}

static void printFloat(OpAsmPrinter &printer, Operation *, FloatAttr attribute) {
  printer.printAttributeWithoutType(attribute);
}

/// ["pp" = 2, "tp" = 2]
static ParseResult parseMeshAxes(OpAsmParser &parser, ArrayAttr &axes, DenseI64ArrayAttr &sizes) {
  SmallVector<Attribute> names;
  SmallVector<int64_t> extents;
  auto parseAxis = [&]() -> ParseResult {
    std::string name;
    if (parser.parseString(&name) || parser.parseEqual() || parser.parseInteger(extents.emplace_back()))
      return failure();
    names.push_back(parser.getBuilder().getStringAttr(name));
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseAxis))
    return failure();
  axes = parser.getBuilder().getArrayAttr(names);
  sizes = parser.getBuilder().getDenseI64ArrayAttr(extents);
  return success();
}

static void printMeshAxes(OpAsmPrinter &printer, Operation *, ArrayAttr axes, DenseI64ArrayAttr sizes) {
  printer << "[";
  llvm::interleaveComma(llvm::zip(axes, sizes.asArrayRef()), printer,
                        [&](auto entry) { printer << std::get<0>(entry) << " = " << std::get<1>(entry); });
  printer << "]";
}

#define GET_OP_CLASSES
#include "plumb/Dialect/Plumb/PlumbOps.cpp.inc"

//===----------------------------------------------------------------------===//
// Plan
//===----------------------------------------------------------------------===//

LogicalResult MeshOp::verify() {
  if (getAxes().size() != getSizes().size())
    return emitOpError("has ") << getAxes().size() << " axis names and " << getSizes().size() << " sizes";
  llvm::StringSet<> seen;
  for (auto [axis, size] : llvm::zip(getAxes().getAsValueRange<StringAttr>(), getSizes())) {
    if (axis == kMicrobatchAxis)
      return emitOpError("cannot have an axis named \"microbatch\": the name is reserved");
    if (!seen.insert(axis).second)
      return emitOpError("has the axis \"") << axis << "\" twice";
    if (size < 1)
      return emitOpError("axis \"") << axis << "\" has size " << size << ", which must be at least 1";
  }
  return success();
}

std::optional<unsigned> MeshOp::findAxis(StringRef name) {
  for (auto [index, axis] : llvm::enumerate(getAxes().getAsValueRange<StringAttr>()))
    if (axis == name)
      return index;
  return std::nullopt;
}

int64_t MeshOp::getAxisSize(StringRef name) {
  std::optional<unsigned> index = findAxis(name);
  return index ? getSizes()[*index] : 1;
}

LogicalResult OptimizerOp::verify() {
  if (!llvm::is_contained({"sgd", "adam", "adamw"}, getKind()))
    return emitOpError("has the kind \"") << getKind() << "\", which is not one of sgd, adam, adamw";
  StringRef schedule = getSchedule().value_or("constant");
  if (!llvm::is_contained({"constant", "linear", "cosine"}, schedule))
    return emitOpError("has the schedule \"")
           << schedule << "\", which is not one of constant, linear, cosine";
  int64_t warmup = getWarmup().value_or(0), steps = getSteps().value_or(0);
  if (warmup < 0 || (schedule != "constant" && steps <= warmup))
    return emitOpError("has ") << steps << " steps of the schedule \"" << schedule
                               << "\", which must be more than its " << warmup << " steps of warm-up";
  return success();
}

LogicalResult PipelineOp::verify() {
  if (static_cast<int64_t>(getMicrobatches()) < 1)
    return emitOpError("needs at least one microbatch");
  if (getStagesPerRank() && static_cast<int64_t>(*getStagesPerRank()) < 1)
    return emitOpError("needs at least one stage per rank");
  if (auto placement = getPlacement(); placement && *placement != "loop" && *placement != "v")
    return emitOpError("has the unknown placement \"") << *placement << "\"; it is \"loop\" or \"v\"";
  return success();
}

int64_t PipelineOp::coordinateOf(int64_t stage, int64_t ranks) {
  if (auto list = (*this)->getAttrOfType<DenseI64ArrayAttr>(kRanksAttr))
    return stage < list.size() ? list[stage] : -1;
  int64_t round = stage / ranks, position = stage % ranks;
  return getPlacement() == "v" && round % 2 ? ranks - 1 - position : position;
}

//===----------------------------------------------------------------------===//
// State
//===----------------------------------------------------------------------===//

LogicalResult ParameterOp::verify() {
  auto type = llvm::dyn_cast<RankedTensorType>(getType());
  if (!type || !type.hasStaticShape())
    return emitOpError("needs a ranked tensor type of static shape, not ") << getType();
  if (auto layout = getLayoutAttr())
    if (!layout.getPartial().empty())
      return emitOpError("cannot have the partial layout ") << layout;
  if (getTrainable() && getNonpersistent())
    return emitOpError("is trained, and so must be saved");
  return success();
}

/// The type that a parameter or state symbol declares, or an error at `user`.
static LogicalResult verifyStateUse(Operation *user, FlatSymbolRefAttr symbol, Type type,
                                    SymbolTableCollection &symbols) {
  Operation *target = symbols.lookupNearestSymbolFrom(user, symbol);
  if (!llvm::isa_and_nonnull<ParameterOp, StateOp>(target))
    return user->emitOpError("names ") << symbol << ", which is no parameter or state";
  // Local types differ from the declared global one as soon as a layout shards; rank and element type never
  // do.
  auto declared =
      llvm::cast<RankedTensorType>(llvm::isa<ParameterOp>(target) ? llvm::cast<ParameterOp>(target).getType()
                                                                  : llvm::cast<StateOp>(target).getType());
  auto used = llvm::cast<RankedTensorType>(type);
  if (declared.getRank() != used.getRank() || declared.getElementType() != used.getElementType())
    return user->emitOpError("uses ") << symbol << " as " << used << ", it is declared as " << declared;
  return success();
}

LogicalResult LoadOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyStateUse(*this, getSymbolAttr(), getResult().getType(), symbols);
}

LogicalResult StoreOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyStateUse(*this, getSymbolAttr(), getValue().getType(), symbols);
}

LogicalResult AccumulateOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyStateUse(*this, getSymbolAttr(), getValue().getType(), symbols);
}

//===----------------------------------------------------------------------===//
// Program and execution
//===----------------------------------------------------------------------===//

LogicalResult LossOp::verify() {
  auto type = llvm::cast<RankedTensorType>(getValue().getType());
  if (type.getRank() != 0 || !type.getElementType().isFloat())
    return emitOpError("needs a floating-point scalar, not ") << type;
  return success();
}

LogicalResult BatchNormOp::verify() {
  auto type = llvm::cast<RankedTensorType>(getInput().getType());
  if (type.getRank() < 2 || getResult().getType() != type)
    return emitOpError("normalises the channels, dim 1, of a tensor to one of its type, not ")
           << type << " to " << getResult().getType();
  auto perChannel = RankedTensorType::get({type.getDimSize(1)}, type.getElementType());
  if ((getRunning().size() != 0 && getRunning().size() != 2) || getUpdated().size() != getRunning().size())
    return emitOpError("has ") << getRunning().size() << " running statistics and " << getUpdated().size()
                               << " new ones; there are two of each, or none";
  for (Type of :
       llvm::concat<Type>(llvm::to_vector(getRunning().getTypes()), llvm::to_vector(getUpdated().getTypes())))
    if (of != perChannel)
      return emitOpError("has running statistics of type ") << of << ", one per channel is " << perChannel;
  return success();
}

LogicalResult RedistributeOp::verify() {
  auto from = llvm::cast<RankedTensorType>(getInput().getType());
  auto to = llvm::cast<RankedTensorType>(getResult().getType());
  if (from.getElementType() != to.getElementType() || from.getRank() != to.getRank())
    return emitOpError("changes ") << from << " to " << to << "; it can only change the layout";
  if (!getGlobal() && from != to)
    return emitOpError("changes the type from ") << from << " to " << to << " but names no global type";
  for (LayoutAttr layout : {getFrom(), getTo()})
    if (static_cast<int64_t>(layout.getDims().size()) != from.getRank())
      return emitOpError("has the layout ") << layout << " for a tensor of rank " << from.getRank();
  return success();
}

LogicalResult LaunchOp::verify() {
  if (getInplace().size() != getNumResults())
    return emitOpError("has ") << getNumResults() << " results and " << getInplace().size()
                               << " entries in 'inplace'";
  for (auto [result, operand] : llvm::zip(getOutputs(), getInplace())) {
    if (operand < -1 || operand >= static_cast<int64_t>(getOperands().size()))
      return emitOpError("overwrites operand ") << operand << ", which it does not have";
    if (operand >= 0 && getOperands()[operand].getType() != result.getType())
      return emitOpError("overwrites ") << getOperands()[operand].getType() << " by " << result.getType();
  }
  return success();
}

LogicalResult LaunchOp::verifySymbolUses(SymbolTableCollection &symbols) {
  if (!symbols.lookupNearestSymbolFrom(*this, getKernelAttr()))
    return emitOpError("names the kernel ") << getKernelAttr() << ", which is not defined";
  return success();
}
