#include "plumb/Target/KernelBufferize.h"

#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Bufferization/Transforms/OneShotAnalysis.h"
#include "mlir/Dialect/Bufferization/Transforms/OneShotModuleBufferize.h"
#include "mlir/Dialect/Bufferization/Transforms/Passes.h"
#include "mlir/Dialect/Bufferization/Transforms/Transforms.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

namespace plumb::kernels {

static constexpr StringLiteral kInOut = "plumb.inout", kResult = "plumb.result";

/// The result written in place into an argument, if it is in-out.
static std::optional<int64_t> resultOfArgument(func::FuncOp function, unsigned argument) {
  if (!function.getArgAttr(argument, kInOut))
    return std::nullopt;
  auto result = function.getArgAttrOfType<IntegerAttr>(argument, kResult);
  return result ? result.getValue().getSExtValue() : -1;
}

static LogicalResult verifyType(func::FuncOp function, Type type, const Twine &what) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !tensor.hasStaticShape())
    return function.emitError() << what << " of a kernel must be a ranked tensor of static shape, not "
                                << type;
  Type element = tensor.getElementType();
  if (!element.isIntOrFloat() || element.getIntOrFloatBitWidth() > 64 ||
      (!element.isInteger(1) && element.getIntOrFloatBitWidth() % 8 != 0))
    return function.emitError() << what << " of a kernel has elements of type " << element
                                << "; bools, and integers and floats of 8 to 64 bits can be passed";
  return success();
}

LogicalResult verifyKernelSignature(func::FuncOp function) {
  if (!function.getBody().hasOneBlock())
    return function.emitError("a kernel must have one block; use structured control flow");
  for (auto [i, type] : llvm::enumerate(function.getArgumentTypes()))
    if (failed(verifyType(function, type, "argument " + Twine(i))))
      return failure();
  for (auto [i, type] : llvm::enumerate(function.getResultTypes()))
    if (failed(verifyType(function, type, "result " + Twine(i))))
      return failure();
  SmallVector<int64_t> argumentOf(function.getNumResults(), -1);
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    auto result = resultOfArgument(function, i);
    if (!result)
      continue;
    if (*result < 0 || *result >= function.getNumResults())
      return function.emitError() << "argument " << i << " is in-out, but its plumb.result names none of the "
                                  << function.getNumResults() << " results";
    if (function.getArgumentTypes()[i] != function.getResultTypes()[*result])
      return function.emitError() << "result " << *result << " of type " << function.getResultTypes()[*result]
                                  << " cannot be written into argument " << i << " of type "
                                  << function.getArgumentTypes()[i];
    if (argumentOf[*result] >= 0)
      return function.emitError() << "result " << *result << " is tied to arguments " << argumentOf[*result]
                                  << " and " << i << "; tie it to one";
    argumentOf[*result] = i;
  }
  return success();
}

/// Whether a result is an update of `argument` by loops, insertions and structured ops, which bufferise in
/// place.
static bool updates(Value result, Value argument) {
  while (result != argument) {
    auto opResult = dyn_cast<OpResult>(result);
    if (!opResult)
      return false;
    Operation *op = opResult.getOwner();
    if (auto loop = dyn_cast<scf::ForOp>(op))
      result = loop.getTiedLoopInit(opResult)->get();
    else if (auto insertion = dyn_cast<tensor::InsertSliceOp>(op))
      result = insertion.getDest();
    else if (auto insertion = dyn_cast<tensor::InsertOp>(op))
      result = insertion.getDest();
    else if (auto structured = dyn_cast<linalg::LinalgOp>(op))
      result = structured.getTiedOpOperand(opResult)->get();
    else
      return false;
  }
  return true;
}

/// The destination of each result: the argument it is written into in place, or a new one at the end.
static SmallVector<BlockArgument> addDestinations(func::FuncOp function) {
  Builder builder(function.getContext());
  SmallVector<BlockArgument> destinations(function.getNumResults());
  unsigned inputs = function.getNumArguments();
  for (unsigned i = 0; i < inputs; ++i) {
    auto result = resultOfArgument(function, i);
    if (result)
      destinations[*result] = function.getArgument(i);
    auto writable = builder.getNamedAttr(bufferization::BufferizationDialect::kWritableAttrName,
                                         builder.getBoolAttr(result.has_value()));
    function.setArgAttrs(i, builder.getDictionaryAttr(writable));
  }
  for (auto [destination, type] : llvm::zip_equal(destinations, function.getResultTypes())) {
    if (destination)
      continue;
    unsigned last = function.getNumArguments();
    (void)function.insertArgument(last, type, builder.getDictionaryAttr({}), function.getLoc());
    destination = function.getArgument(last);
  }
  return destinations;
}

/// Says where results are to be. A new argument is written as soon as its result is there, and stands for it
/// from then on, so that other results made from it read it there. An in-out argument is written at the very
/// end, after all that reads it.
static void materializeResults(func::FuncOp function, ArrayRef<BlockArgument> destinations, unsigned inputs) {
  Block &body = function.getBody().front();
  auto terminator = cast<func::ReturnOp>(body.getTerminator());
  auto materialize = [&](OpBuilder &builder, Value value, Value destination) {
    return bufferization::MaterializeInDestinationOp::create(builder, terminator.getLoc(),
                                                             destination.getType(), value, destination);
  };
  for (auto [operand, destination] : llvm::zip_equal(terminator->getOpOperands(), destinations)) {
    if (destination.getArgNumber() < inputs)
      continue;
    OpBuilder builder(terminator);
    if (Operation *definition = operand.get().getDefiningOp()) {
      builder.setInsertionPointAfter(definition);
      Value value = operand.get();
      auto written = materialize(builder, value, destination);
      value.replaceAllUsesExcept(written.getResult(), written);
    } else {
      builder.setInsertionPointToStart(&body);
      operand.set(materialize(builder, operand.get(), destination).getResult());
    }
  }
  OpBuilder builder(terminator);
  for (auto [operand, destination] : llvm::zip_equal(terminator->getOpOperands(), destinations)) {
    if (destination.getArgNumber() >= inputs || updates(operand.get(), destination))
      continue;
    Value value = operand.get(), written = materialize(builder, value, destination).getResult();
    for (OpOperand &other : terminator->getOpOperands())
      if (other.get() == value)
        other.set(written);
  }
}

/// Forgets destinations in which a value is built already; the analysis takes the second write for a
/// conflict.
static void dropFulfilledDestinations(func::FuncOp function) {
  for (auto op : llvm::make_early_inc_range(function.getOps<bufferization::MaterializeInDestinationOp>()))
    if (updates(op.getSource(), op.getDest())) {
      op.getResult().replaceAllUsesWith(op.getSource());
      op.erase();
    }
}

LogicalResult bufferizeKernel(func::FuncOp function) {
  unsigned inputs = function.getNumArguments();
  SmallVector<BlockArgument> destinations = addDestinations(function);
  materializeResults(function, destinations, inputs);
  // Bufferisation makes new arguments.
  auto numbers =
      llvm::map_to_vector(destinations, [](BlockArgument argument) { return argument.getArgNumber(); });
  auto module = function->getParentOfType<ModuleOp>();
  IRRewriter rewriter(module.getContext());
  if (failed(bufferization::eliminateEmptyTensors(rewriter, module)))
    return failure();
  dropFulfilledDestinations(function);
  PassManager pm(module.getContext());
  bufferization::OneShotBufferizePassOptions options;
  options.bufferizeFunctionBoundaries = true;
  options.functionBoundaryTypeConversion = bufferization::LayoutMapOption::IdentityLayoutMap;
  pm.addPass(bufferization::createOneShotBufferizePass(options));
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
  if (failed(pm.run(module)))
    return failure();

  // The results are the destinations now, but for an update that could not be made in place.
  auto terminator = cast<func::ReturnOp>(function.getBody().front().getTerminator());
  OpBuilder builder(terminator);
  for (auto [result, destination] : llvm::zip_equal(terminator.getOperands(), numbers))
    if (result != function.getArgument(destination))
      memref::CopyOp::create(builder, terminator.getLoc(), result, function.getArgument(destination));
  terminator->setOperands({});
  function.setType(FunctionType::get(function.getContext(), function.getArgumentTypes(), {}));
  function.removeResAttrsAttr();
  return success();
}

} // namespace plumb::kernels
