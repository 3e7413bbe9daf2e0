//===- VerifyCalls.cpp - Every call fits what it calls --------------------------===//
//
// A stage holds calls and what names memory. A launch has the types of its kernel and overwrites what the
// kernel overwrites; a collective's rows are as many as its communicator has members.
//
//===----------------------------------------------------------------------===//

#include "VerifyPlan.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "plumb/Dialect/CCL/CCL.h"
#include "plumb/Dialect/NN/NN.h"
#include "plumb/Transforms/Utils.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace plumb;

namespace {

class CallVerifier {
public:
  explicit CallVerifier(const Pipeline &pipeline) : pipeline(pipeline), symbols(pipeline.module) {}
  LogicalResult verify();

private:
  LogicalResult verifyKernel(func::FuncOp kernel);
  LogicalResult verifyCommunicator(ccl::CommunicatorOp communicator);
  LogicalResult verifyOp(Operation &op);
  LogicalResult verifyLaunch(LaunchOp launch);
  LogicalResult verifyRow(Operation &op, Value row, int64_t members, const Twine &whose);
  /// The product of the axes, or an error at `op` where the mesh does not have one of them.
  FailureOr<int64_t> countRanks(Operation *op, ArrayAttr axes);

  const Pipeline &pipeline;
  SymbolTable symbols;
};

} // namespace

static bool isTensor(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && tensor.hasStaticShape() && tensor.getElementType().isIntOrFloat();
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

/// The result that overwrites an argument; -1 if it is only read.
static int64_t resultOver(func::FuncOp kernel, unsigned argument) {
  auto result = kernel.getArgAttrOfType<IntegerAttr>(argument, kResultAttr);
  return result ? result.getInt() : -1;
}

LogicalResult CallVerifier::verifyKernel(func::FuncOp kernel) {
  FunctionType type = kernel.getFunctionType();
  if (!llvm::all_of(type.getInputs(), isTensor) || !llvm::all_of(type.getResults(), isTensor))
    return kernel.emitError("kernel @") << kernel.getSymName() << " has arguments or results that are no "
                                        << "tensors of numbers and known size: " << type;
  llvm::SmallDenseSet<int64_t> overwriting;
  for (unsigned argument = 0; argument < type.getNumInputs(); ++argument) {
    int64_t result = resultOver(kernel, argument);
    bool marked = kernel.getArgAttr(argument, kInoutAttr) || kernel.getArgAttr(argument, kResultAttr);
    if (marked && (!kernel.getArgAttr(argument, kInoutAttr) || result < 0 || result >= type.getNumResults() ||
                   type.getInput(argument) != type.getResult(result) || !overwriting.insert(result).second))
      return kernel.emitError("kernel @")
             << kernel.getSymName() << " overwrites its argument " << argument << " by its result " << result
             << "; that needs both " << kInoutAttr << " and " << kResultAttr
             << ", a result of the same type, and no other argument that it overwrites";
  }
  auto scratch = kernel->getAttrOfType<IntegerAttr>(kScratchAttr);
  if (kernel->hasAttr(kScratchAttr) && (!scratch || scratch.getInt() < 0))
    return kernel.emitError("kernel @")
           << kernel.getSymName() << " has " << kScratchAttr << " " << kernel->getAttr(kScratchAttr)
           << ", which must be a number of bytes";
  if (kernel->hasAttr(kSymbolAttr) && !kernel->getAttrOfType<StringAttr>(kSymbolAttr))
    return kernel.emitError("kernel @")
           << kernel.getSymName() << " has a " << kSymbolAttr << " that is no name";
  return success();
}

LogicalResult CallVerifier::verifyLaunch(LaunchOp launch) {
  auto kernel = symbols.lookup<func::FuncOp>(launch.getKernel());
  if (!kernel)
    return emitModelError(launch) << "launches @" << launch.getKernel() << ", which is no kernel";
  FunctionType type = kernel.getFunctionType();
  auto reportTypes = [&] {
    InFlightDiagnostic diagnostic = emitModelError(launch);
    diagnostic << "launches @" << launch.getKernel() << " as "
               << FunctionType::get(launch.getContext(), launch.getOperandTypes(), launch.getResultTypes());
    diagnostic.attachNote(kernel.getLoc()) << "the kernel is " << type;
    return diagnostic;
  };
  if (launch.getOperandTypes() != type.getInputs() || launch.getResultTypes() != type.getResults())
    return reportTypes();
  for (auto [index, argument] : llvm::enumerate(launch.getInplace()))
    if (argument >= 0 && resultOver(kernel, argument) != static_cast<int64_t>(index))
      return emitModelError(launch) << "overwrites operand " << argument << " by result " << index
                                    << ", but @" << launch.getKernel() << " does not";
  for (unsigned argument = 0; argument < type.getNumInputs(); ++argument)
    if (int64_t result = resultOver(kernel, argument);
        result >= 0 && launch.getInplace()[result] != static_cast<int64_t>(argument))
      return emitModelError(launch) << "does not overwrite operand " << argument << ", but @"
                                    << launch.getKernel() << " writes its result " << result << " there";
  auto scratch = launch->getAttrOfType<IntegerAttr>(kScratchOffsetAttr);
  if (launch->hasAttr(kScratchOffsetAttr) && !scratch)
    return emitModelError(launch) << "has a " << kScratchOffsetAttr << " that is no offset";
  auto bytes = kernel->getAttrOfType<IntegerAttr>(kScratchAttr);
  if ((bytes && bytes.getInt() > 0) != static_cast<bool>(scratch))
    return emitModelError(launch) << (scratch
                                          ? "has scratch memory, but its kernel needs none"
                                          : "has no scratch memory, but its kernel needs some; run the pass "
                                            "plan-memory after compile-kernels");
  return success();
}

//===----------------------------------------------------------------------===//
// Communicators
//===----------------------------------------------------------------------===//

FailureOr<int64_t> CallVerifier::countRanks(Operation *op, ArrayAttr axes) {
  ModuleOp module = pipeline.module;
  auto mesh = findOp<MeshOp>(module);
  auto pipelineOp = findOp<PipelineOp>(module);
  llvm::StringSet<> seen;
  int64_t ranks = 1;
  for (auto [text, axis] : llvm::zip(axes.getAsValueRange<StringAttr>(), ccl::parseAxes(axes))) {
    if (!mesh || !mesh.findAxis(axis.name))
      return op->emitError("names the axis \"") << axis.name << "\", which the mesh does not have";
    if (pipelineOp && axis.name == pipelineOp.getAxis())
      return op->emitError("names the pipeline axis \"")
             << axis.name << "\"; its coordinates are listed one by one";
    if (!seen.insert(text).second)
      return op->emitError("names the axis \"") << text << "\" twice";
    int64_t size = axis.isWhole() ? mesh.getAxisSize(axis.name) : axis.size;
    if (__builtin_mul_overflow(ranks, size, &ranks))
      return op->emitError("has more ranks than can be counted");
  }
  return ranks;
}

LogicalResult CallVerifier::verifyCommunicator(ccl::CommunicatorOp communicator) {
  if (failed(countRanks(communicator, communicator.getAxes())))
    return failure();
  llvm::SmallDenseSet<int64_t> seen;
  for (int64_t coordinate : communicator.getPipeline()) {
    if (coordinate < 0 || coordinate >= pipeline.coordinates)
      return communicator.emitError("@") << communicator.getSymName() << " has the pipeline coordinate "
                                         << coordinate << "; there are 0 to " << pipeline.coordinates - 1;
    if (!seen.insert(coordinate).second)
      return communicator.emitError("@") << communicator.getSymName() << " has the pipeline coordinate "
                                         << coordinate << " twice; a rank has one place in a communicator";
  }
  return success();
}

LogicalResult CallVerifier::verifyRow(Operation &op, Value row, int64_t members, const Twine &whose) {
  auto type = cast<RankedTensorType>(row.getType());
  if (type.getRank() > 0 && type.getDimSize(0) == members)
    return success();
  return emitModelError(&op) << "has a row " << type << ", but " << whose << " has " << members
                             << (members == 1 ? " rank" : " ranks") << ", each with one block of it";
}

//===----------------------------------------------------------------------===//
// Stages
//===----------------------------------------------------------------------===//

LogicalResult CallVerifier::verifyOp(Operation &op) {
  bool isCall = isa<InputOp, LoadOp, StoreOp, LaunchOp>(op) || isa<ccl::CCLDialect>(op.getDialect()) ||
                op.hasTrait<nn::Reinterprets>();
  if (!isCall)
    return emitModelError(&op) << "is no call that a program can make; run the pass form-kernels first";
  for (Type type : op.getResultTypes())
    if (!isTensor(type))
      return emitModelError(&op) << "makes " << type << ", which is no tensor of numbers and known size";
  if (auto launch = dyn_cast<LaunchOp>(op))
    return verifyLaunch(launch);
  if (auto slice = dyn_cast<ccl::SliceOp>(op)) {
    FailureOr<int64_t> ranks = countRanks(&op, slice.getAxes());
    return failed(ranks) ? failure() : verifyRow(op, slice.getInput(), *ranks, "the group of its axes");
  }
  if (auto keep = dyn_cast<ccl::KeepFirstOp>(op))
    return countRanks(&op, keep.getAxes());
  if (!isa<ccl::AllGatherOp, ccl::ReduceScatterOp, ccl::AllToAllOp>(op))
    return success();
  auto name = op.getAttrOfType<FlatSymbolRefAttr>("communicator").getValue();
  auto communicator = symbols.lookup<ccl::CommunicatorOp>(name);
  int64_t members = *countRanks(communicator, communicator.getAxes()) *
                    std::max<int64_t>(1, static_cast<int64_t>(communicator.getPipeline().size()));
  ValueRange rows = isa<ccl::AllGatherOp>(op) ? ValueRange(op.getResults()) : ValueRange(op.getOperands());
  return success(
      llvm::all_of(rows, [&](Value row) { return succeeded(verifyRow(op, row, members, "@" + name)); }));
}

LogicalResult CallVerifier::verify() {
  ModuleOp module = pipeline.module;
  for (Operation &op : module.getOps()) {
    if (auto kernel = dyn_cast<func::FuncOp>(op); kernel && failed(verifyKernel(kernel)))
      return failure();
    if (auto communicator = dyn_cast<ccl::CommunicatorOp>(op);
        communicator && failed(verifyCommunicator(communicator)))
      return failure();
  }
  for (StageOp stage : pipeline.stages)
    for (Operation &op : stage.getBody().front())
      if (failed(verifyOp(op)))
        return failure();
  return success();
}

LogicalResult verification::verifyCalls(const Pipeline &pipeline) { return CallVerifier(pipeline).verify(); }
