//===- CCLDialect.cpp - Verifiers of the ccl operations ---------------------===//

#include "mlir/IR/OpImplementation.h"
#include "plumb/Dialect/CCL/CCL.h"

using namespace mlir;
using namespace plumb::ccl;

#include "plumb/Dialect/CCL/CCLDialect.cpp.inc"

#define GET_OP_CLASSES
#include "plumb/Dialect/CCL/CCLOps.cpp.inc"

void CCLDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "plumb/Dialect/CCL/CCLOps.cpp.inc"
      >();
}

static LogicalResult verifyCommunicator(Operation *user, FlatSymbolRefAttr symbol,
                                        SymbolTableCollection &symbols) {
  if (!symbols.lookupNearestSymbolFrom<CommunicatorOp>(user, symbol))
    return user->emitOpError("names the communicator ") << symbol << ", which is not defined";
  return success();
}

LogicalResult AllReduceOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyCommunicator(*this, getCommunicatorAttr(), symbols);
}
LogicalResult AllGatherOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyCommunicator(*this, getCommunicatorAttr(), symbols);
}
LogicalResult ReduceScatterOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyCommunicator(*this, getCommunicatorAttr(), symbols);
}
LogicalResult AllToAllOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyCommunicator(*this, getCommunicatorAttr(), symbols);
}
LogicalResult SendOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyCommunicator(*this, getCommunicatorAttr(), symbols);
}
LogicalResult RecvOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyCommunicator(*this, getCommunicatorAttr(), symbols);
}

/// Checks that `whole` is `block` with a leading dim of the members.
static LogicalResult verifyBlocks(Operation *op, Type whole, Type block) {
  auto wholeType = cast<RankedTensorType>(whole), blockType = cast<RankedTensorType>(block);
  if (wholeType.getRank() != blockType.getRank() + 1 ||
      wholeType.getShape().drop_front() != blockType.getShape() ||
      wholeType.getElementType() != blockType.getElementType())
    return op->emitOpError() << wholeType << " is not a row of blocks " << blockType;
  return success();
}

LogicalResult AllReduceOp::verify() {
  if (getInput().getType() != getResult().getType())
    return emitOpError("changes ") << getInput().getType() << " to " << getResult().getType();
  return success();
}
LogicalResult AllGatherOp::verify() {
  return verifyBlocks(*this, getResult().getType(), getInput().getType());
}
LogicalResult ReduceScatterOp::verify() {
  return verifyBlocks(*this, getInput().getType(), getResult().getType());
}
LogicalResult AllToAllOp::verify() {
  if (getInput().getType() != getResult().getType())
    return emitOpError("changes ") << getInput().getType() << " to " << getResult().getType();
  return success();
}
LogicalResult SliceOp::verify() { return verifyBlocks(*this, getInput().getType(), getResult().getType()); }
