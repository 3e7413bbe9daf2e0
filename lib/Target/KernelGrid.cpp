#include "plumb/Target/KernelGrid.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

#include <numeric>

using namespace mlir;

namespace plumb::kernels {

/// Parameters of 4096 bytes.
static constexpr unsigned kMostArguments = 512;

/// Copies what computes a value from outside of `loop`, and what that is computed from.
static void cloneDefinition(OpBuilder &builder, Value value, IRMapping &values) {
  Operation *definition = value.getDefiningOp();
  if (!definition || values.contains(value))
    return;
  for (Value operand : definition->getOperands())
    cloneDefinition(builder, operand, values);
  builder.clone(*definition, values);
}

/// The number of the thread that runs.
static Value threadNumber(ImplicitLocOpBuilder &b) {
  auto index = [&](auto id) -> Value {
    return arith::IndexCastUIOp::create(b, b.getIndexType(), id.getResult());
  };
  Value block = index(NVVM::BlockIdXOp::create(b, b.getI32Type()));
  Value first = arith::MulIOp::create(b, block, arith::ConstantIndexOp::create(b, GridEntry::kThreads));
  return arith::AddIOp::create(b, first, index(NVVM::ThreadIdXOp::create(b, b.getI32Type())));
}

/// The loop as a function, which ends the threads that are too many for it at once.
static FailureOr<GridEntry> addEntry(func::FuncOp kernel, scf::ForallOp loop, const std::string &name) {
  int64_t threads = loop.getStaticUpperBound()[0];
  int64_t blocks = std::max<int64_t>(1, llvm::divideCeil(threads, GridEntry::kThreads));
  if (blocks > INT32_MAX)
    return loop.emitError() << "has " << threads << " elements, more than a device has threads for";
  ImplicitLocOpBuilder b(loop.getLoc(), kernel);
  auto entry = func::FuncOp::create(b, name, kernel.getFunctionType());
  b.setInsertionPointToStart(entry.addEntryBlock());
  IRMapping values;
  values.map(kernel.getArguments(), entry.getArguments());
  Value thread = threadNumber(b);
  Value inside =
      arith::CmpIOp::create(b, arith::CmpIPredicate::ult, thread, arith::ConstantIndexOp::create(b, threads));
  auto branch = scf::IfOp::create(b, inside, /*withElseRegion=*/false);
  func::ReturnOp::create(b);
  b.setInsertionPoint(branch.thenBlock()->getTerminator());
  values.map(loop.getInductionVar(0), thread);
  loop.walk([&](Operation *inner) {
    for (Value operand : inner->getOperands())
      if (!loop.getRegion().isAncestor(operand.getParentRegion()))
        cloneDefinition(b, operand, values);
  });
  for (Operation &inner : loop.getBody()->without_terminator())
    b.clone(inner, values);
  return GridEntry{name, blocks};
}

FailureOr<SmallVector<GridEntry>> outlineEntries(func::FuncOp kernel, StringRef name) {
  if (unsigned count = kernel.getNumArguments(); count > kMostArguments)
    return kernel.emitError() << "has " << count << " arguments, but a device takes at most "
                              << kMostArguments;
  SmallVector<GridEntry> entries;
  for (Operation &op : kernel.getBody().front().without_terminator()) {
    if (isMemoryEffectFree(&op) || hasSingleEffect<MemoryEffects::Read>(&op))
      continue;
    auto loop = dyn_cast<scf::ForallOp>(op);
    if (!loop)
      return op.emitError("has no form on a device");
    auto entry = addEntry(kernel, loop, (name + "_" + Twine(entries.size())).str());
    if (failed(entry))
      return failure();
    entries.push_back(*entry);
  }
  kernel.erase();
  return entries;
}

/// Turns the ids of block and thread into one argument more, the number of the thread.
static void takeThreadAsArgument(func::FuncOp entry) {
  unsigned last = entry.getNumArguments();
  Builder builder(entry.getContext());
  (void)entry.insertArgument(last, builder.getI32Type(), {}, entry.getLoc());
  ImplicitLocOpBuilder b(entry.getLoc(), OpBuilder::atBlockBegin(&entry.getBody().front()));
  Value size = arith::ConstantIntOp::create(b, GridEntry::kThreads, 32), number = entry.getArgument(last);
  Value block = arith::DivUIOp::create(b, number, size), thread = arith::RemUIOp::create(b, number, size);
  entry.walk([&](Operation *op) {
    if (isa<NVVM::BlockIdXOp, NVVM::ThreadIdXOp>(op)) {
      op->getResult(0).replaceAllUsesWith(isa<NVVM::BlockIdXOp>(op) ? block : thread);
      op->erase();
    }
  });
}

void emulateEntries(ModuleOp module, FunctionType type, ArrayRef<GridEntry> entries) {
  SymbolTable symbols(module);
  ImplicitLocOpBuilder b(module.getLoc(), OpBuilder::atBlockEnd(module.getBody()));
  auto kernel = func::FuncOp::create(b, "kernel", type);
  b.setInsertionPointToStart(kernel.addEntryBlock());
  for (const GridEntry &each : entries) {
    auto entry = symbols.lookup<func::FuncOp>(each.name);
    takeThreadAsArgument(entry);
    entry.setPrivate();
    // Steps without a common divisor with the number of threads meet each of them once.
    int64_t threads = each.blocks * GridEntry::kThreads, step = threads * 5 / 8 + 1;
    while (std::gcd(step, threads) != 1)
      ++step;
    auto index = [&](int64_t value) -> Value { return arith::ConstantIndexOp::create(b, value); };
    auto loop = scf::ForOp::create(b, index(0), index(threads), index(1));
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    Value number = arith::MulIOp::create(b, loop.getInductionVar(), index(step));
    number = arith::AddIOp::create(b, number, index(threads / 3));
    number = arith::RemUIOp::create(b, number, index(threads));
    SmallVector<Value> arguments(kernel.getArguments());
    arguments.push_back(arith::IndexCastUIOp::create(b, b.getI32Type(), number));
    func::CallOp::create(b, entry, arguments);
  }
  func::ReturnOp::create(b);
}

} // namespace plumb::kernels
