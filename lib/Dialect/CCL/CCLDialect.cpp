//===- CCLDialect.cpp - Verifiers of the ccl operations ---------------------===//

#include "mlir/IR/OpImplementation.h"
#include "plumb/Dialect/CCL/CCL.h"
#include "llvm/Support/MathExtras.h"
#include <map>

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

//===----------------------------------------------------------------------===//
// Axes
//===----------------------------------------------------------------------===//

std::optional<Axis> Axis::parse(StringRef text) {
  auto [name, factor] = text.split(':');
  Axis axis{name};
  if (name.empty())
    return std::nullopt;
  if (name.size() == text.size())
    return axis;
  bool bad = !factor.consume_front("(") || factor.consumeInteger(10, axis.preSize) ||
             !factor.consume_front(")") || factor.getAsInteger(10, axis.size);
  if (bad || axis.preSize < 1 || axis.size < 1)
    return std::nullopt;
  return axis;
}

SmallVector<Axis> plumb::ccl::parseAxes(ArrayAttr axes) {
  return llvm::map_to_vector(axes.getAsValueRange<StringAttr>(),
                             [](StringRef text) { return *Axis::parse(text); });
}

static LogicalResult verifyAxes(Operation *op, ArrayAttr axes) {
  for (StringRef text : axes.getAsValueRange<StringAttr>())
    if (!Axis::parse(text))
      return op->emitOpError("names '")
             << text << "', which is no axis: write \"tp\", or \"tp:(2)4\" for a factor";
  return success();
}

LogicalResult CommunicatorOp::verify() { return verifyAxes(*this, getAxes()); }
LogicalResult KeepFirstOp::verify() { return verifyAxes(*this, getAxes()); }

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

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
LogicalResult ExchangeOp::verifySymbolUses(SymbolTableCollection &symbols) {
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

static LogicalResult verifyReduction(Operation *op, StringRef reduction) {
  if (llvm::is_contained({"sum", "avg", "min", "max", "product"}, reduction))
    return success();
  return op->emitOpError("reduces by '") << reduction << "'; there are sum, avg, min, max and product";
}

/// A collective makes one result of each operand.
template <typename OpT>
static LogicalResult verifyEach(OpT op, llvm::function_ref<LogicalResult(Type input, Type output)> verify) {
  if (op.getInputs().empty() || op.getInputs().size() != op.getOutputs().size())
    return op.emitOpError("makes ") << op.getOutputs().size() << " results of " << op.getInputs().size()
                                    << " operands; there must be one of each, and one at least";
  for (auto [input, output] : llvm::zip(op.getInputs().getTypes(), op.getOutputs().getTypes()))
    if (failed(verify(input, output)))
      return failure();
  return success();
}

LogicalResult AllReduceOp::verify() {
  if (failed(verifyReduction(*this, getReduction())))
    return failure();
  return verifyEach(*this, [&](Type input, Type output) -> LogicalResult {
    if (input == output)
      return success();
    return emitOpError("changes ") << input << " to " << output;
  });
}
LogicalResult AllGatherOp::verify() {
  return verifyEach(*this, [&](Type input, Type output) { return verifyBlocks(*this, output, input); });
}
LogicalResult ReduceScatterOp::verify() {
  if (failed(verifyReduction(*this, getReduction())))
    return failure();
  return verifyEach(*this, [&](Type input, Type output) { return verifyBlocks(*this, input, output); });
}
LogicalResult AllToAllOp::verify() {
  if (getInput().getType() != getResult().getType())
    return emitOpError("changes ") << getInput().getType() << " to " << getResult().getType();
  return success();
}
LogicalResult SliceOp::verify() {
  if (failed(verifyAxes(*this, getAxes())))
    return failure();
  return verifyBlocks(*this, getInput().getType(), getResult().getType());
}

//===----------------------------------------------------------------------===//
// Blocks that are copied
//===----------------------------------------------------------------------===//

/// Checks that `whole` is `part` with a second dim.
static LogicalResult verifyRows(Operation *op, ArrayAttr axes, Type whole, Type part) {
  if (failed(verifyAxes(op, axes)))
    return failure();
  auto wholeType = cast<RankedTensorType>(whole), partType = cast<RankedTensorType>(part);
  SmallVector<int64_t> shape(wholeType.getShape());
  if (shape.size() > 1)
    shape.erase(shape.begin() + 1);
  if (wholeType.getRank() < 2 || ArrayRef(shape) != partType.getShape() ||
      wholeType.getElementType() != partType.getElementType())
    return op->emitOpError() << wholeType << " does not have rows of blocks " << partType;
  return success();
}

LogicalResult ExtractOp::verify() {
  return verifyRows(*this, getAxes(), getInput().getType(), getResult().getType());
}
LogicalResult InsertOp::verify() {
  return verifyRows(*this, getAxes(), getResult().getType(), getInput().getType());
}

static int64_t countElements(Value value) { return cast<RankedTensorType>(value.getType()).getNumElements(); }

/// Whether [begin, begin + size) lies in [0, limit), whatever the numbers are.
static bool isInside(int64_t begin, int64_t size, int64_t limit) {
  return begin >= 0 && size >= 0 && begin <= limit && size <= limit - begin;
}

static LogicalResult verifyPieces(CopyOp op, Value input, DenseI64ArrayAttr pieces) {
  ArrayRef<int64_t> numbers = pieces;
  if (numbers.size() % 6 != 0)
    return op.emitOpError("has a piece that is not six numbers");
  for (; !numbers.empty(); numbers = numbers.drop_front(6)) {
    int64_t run = numbers[2], rows = numbers[3];
    auto fits = [&](int64_t offset, int64_t pitch, int64_t limit) {
      int64_t span = 0;
      return rows >= 1 && pitch >= (rows > 1 ? run : 0) && !llvm::MulOverflow(rows - 1, pitch, span) &&
             !llvm::AddOverflow(span, run, span) && isInside(offset, span, limit);
    };
    if (run < 1 || !fits(numbers[0], numbers[4], countElements(input)) ||
        !fits(numbers[1], numbers[5], countElements(op.getResult())))
      return op.emitOpError("has a piece outside of ") << input.getType() << " or " << op.getType();
  }
  return success();
}

LogicalResult CopyOp::verify() {
  if (failed(verifyAxes(*this, getAxes())))
    return failure();
  if (getPieces().size() != getInputs().size())
    return emitOpError("has pieces of ") << getPieces().size() << " operands, but " << getInputs().size();
  for (auto [input, entry] : llvm::zip(getInputs(), getPieces())) {
    if (cast<RankedTensorType>(input.getType()).getElementType() != getType().getElementType())
      return emitOpError("copies ") << input.getType() << " into " << getType();
    auto members = dyn_cast<ArrayAttr>(entry);
    if (!members || members.size() != cast<ArrayAttr>(getPieces()[0]).size())
      return emitOpError("does not have the pieces of every member for each operand");
    for (Attribute pieces : members) {
      auto numbers = dyn_cast<DenseI64ArrayAttr>(pieces);
      if (!numbers)
        return emitOpError("has pieces that are not numbers");
      if (failed(verifyPieces(*this, input, numbers)))
        return failure();
    }
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Exchanges
//===----------------------------------------------------------------------===//

/// Per pair of members (sender, receiver), the count of its message.
using Traffic = std::map<std::pair<int64_t, int64_t>, int64_t>;

static LogicalResult readTraffic(ExchangeOp op, ArrayAttr members, Value buffer, bool sends,
                                 Traffic &traffic) {
  auto size = static_cast<int64_t>(members.size());
  for (auto [index, entry] : llvm::enumerate(members.getAsRange<DenseI64ArrayAttr>())) {
    ArrayRef<int64_t> numbers = entry;
    auto self = static_cast<int64_t>(index);
    if (numbers.size() % 3 != 0)
      return op.emitOpError("has a message that is not three numbers");
    for (; !numbers.empty(); numbers = numbers.drop_front(3)) {
      int64_t peer = numbers[0], count = numbers[2];
      if (peer < 0 || peer >= size)
        return op.emitOpError("has a message of member ")
               << self << " with member " << peer << " of " << size;
      if (count < 1 || !isInside(numbers[1], count, countElements(buffer)))
        return op.emitOpError("has a message outside of ") << buffer.getType();
      if (!traffic.try_emplace(sends ? std::pair(self, peer) : std::pair(peer, self), count).second)
        return op.emitOpError("has two messages of members ")
               << self << " and " << peer << " in one direction";
    }
  }
  return success();
}

LogicalResult ExchangeOp::verify() {
  if (getSends().size() != getReceives().size())
    return emitOpError("has ") << getSends().size() << " senders and " << getReceives().size()
                               << " receivers";
  if (cast<RankedTensorType>(getInput().getType()).getElementType() != getType().getElementType())
    return emitOpError("changes ") << getInput().getType() << " to " << getType();
  Traffic sent, received;
  if (failed(readTraffic(*this, getSends(), getInput(), true, sent)) ||
      failed(readTraffic(*this, getReceives(), getResult(), false, received)))
    return failure();
  for (const auto &[pair, count] : received)
    if (auto it = sent.find(pair); it == sent.end() || it->second != count)
      return emitOpError("has a message of ") << count << " elements from member " << pair.first
                                              << " to member " << pair.second << " that is not sent so";
  if (sent.size() != received.size())
    return emitOpError("has messages that are sent and not received");
  return success();
}
