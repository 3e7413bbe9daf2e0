// The mapping to devices, run on the host: every thread of every block, one after the other.
#include "KernelText.h"

#include "plumb/Target/KernelBufferize.h"
#include "plumb/Target/KernelGrid.h"
#include "plumb/Target/KernelLower.h"
#include "plumb/Target/KernelNormalize.h"
#include "plumb/Target/KernelScratch.h"
#include "plumb/Target/KernelSource.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Target/LLVMIR/Export.h"

#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/Support/TargetSelect.h"

using namespace mlir;
using namespace plumb::kernels;
using plumb::test::expectClose;
using plumb::test::filled;
using plumb::test::generic;
using plumb::test::kMultiplyAdd;
using plumb::test::randomFloats;

namespace {

/// Turns the ids of block and thread into two more arguments, which every entry gets last.
void takeIdsAsArguments(ModuleOp module) {
  for (auto function : module.getOps<func::FuncOp>()) {
    Type type = IntegerType::get(module.getContext(), 32);
    unsigned count = function.getNumArguments();
    (void)function.insertArgument(count, type, {}, function.getLoc());
    (void)function.insertArgument(count + 1, type, {}, function.getLoc());
    function.walk([&](Operation *op) {
      if (isa<NVVM::BlockIdXOp, NVVM::ThreadIdXOp>(op)) {
        op->getResult(0).replaceAllUsesWith(function.getArgument(count + isa<NVVM::ThreadIdXOp>(op)));
        op->erase();
      }
    });
  }
}

/// Runs the kernel @k of a module on its inputs and outputs, three or four with the scratch memory.
void runOnGrid(const std::string &text, std::vector<void *> pointers) {
  DialectRegistry registry = kernelDialects();
  registry.insert<NVVM::NVVMDialect>();
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  auto module = parseSourceString<ModuleOp>(text, &context);
  ASSERT_TRUE(module);
  auto function = *module->getOps<func::FuncOp>().begin();
  OwningOpRef<ModuleOp> entries = ModuleOp::create(UnknownLoc::get(&context));
  ASSERT_TRUE(succeeded(normalizeKernel(function)) && succeeded(bufferizeKernel(function)));
  auto scratch = assignScratch(function);
  ASSERT_TRUE(succeeded(scratch));
  std::vector<char> memory(*scratch, char(0xff));
  if (*scratch)
    pointers.push_back(memory.data());
  auto grid = mapToGrid(function, "k", *entries);
  ASSERT_TRUE(succeeded(grid));
  takeIdsAsArguments(*entries);
  ASSERT_TRUE(succeeded(lowerToLLVM(*entries)));

  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  auto llvmContext = std::make_unique<llvm::LLVMContext>();
  auto translated = translateModuleToLLVMIR(*entries, *llvmContext);
  auto jit = llvm::cantFail(llvm::orc::LLJITBuilder().create());
  llvm::cantFail(
      jit->addIRModule(llvm::orc::ThreadSafeModule(std::move(translated), std::move(llvmContext))));
  using Three = void(void *, void *, void *, int, int);
  using Four = void(void *, void *, void *, void *, int, int);
  ASSERT_TRUE(pointers.size() == 3 || pointers.size() == 4);
  for (const GridEntry &entry : *grid) {
    auto address = llvm::cantFail(jit->lookup(entry.name));
    for (int block = 0; block < entry.blocks; ++block)
      for (int thread = 0; thread < GridEntry::kThreads; ++thread)
        if (pointers.size() == 3)
          address.toPtr<Three *>()(pointers[0], pointers[1], pointers[2], block, thread);
        else
          address.toPtr<Four *>()(pointers[0], pointers[1], pointers[2], pointers[3], block, thread);
  }
}

TEST(KernelGrid, ProductAndReduction) {
  int64_t m = 9, n = 40, k = 13;
  std::string a = plumb::test::tensor({m, k}), b = plumb::test::tensor({n, k}),
              c = plumb::test::tensor({m, n}), r = plumb::test::tensor({n});
  std::string text =
      "func.func @k(%a: " + a + ", %b: " + b + ") -> " + r + " {\n" + filled("%i", c) +
      generic("%c", "m, n; k", "m, k | n, k | m, n", {"%a", "%b"}, {a, b}, "%i", c, kMultiplyAdd) +
      filled("%j", r) + generic("%r", "n; m", "m, n | n", {"%c"}, {c}, "%j", r, R"(
  ^bb0(%v: f32, %s: f32):
    %q = arith.mulf %v, %v : f32
    %t = arith.addf %s, %q : f32
    linalg.yield %t : f32
)") +
      "  return %r : " + r + "\n}";
  auto va = randomFloats(m * k, 1), vb = randomFloats(n * k, 2);
  std::vector<float> expected(n), result(n, NAN);
  for (int64_t j = 0; j < n; ++j)
    for (int64_t i = 0; i < m; ++i) {
      double sum = 0;
      for (int64_t l = 0; l < k; ++l)
        sum += double(va[i * k + l]) * vb[j * k + l];
      expected[j] += sum * sum;
    }
  runOnGrid(text, {va.data(), vb.data(), result.data()});
  expectClose(result, expected);
}

TEST(KernelGrid, ScatterInOneThread) {
  auto table = randomFloats(7 * 37, 1), grad = randomFloats(11 * 37, 2), expected = table;
  std::vector<int64_t> index = {3, 0, 6, 3, 3, 1, 5, 0, 2, 6, 4};
  for (int64_t i = 0; i < 11; ++i)
    for (int64_t j = 0; j < 37; ++j)
      expected[index[i] * 37 + j] += grad[i * 37 + j];
  runOnGrid(R"(
func.func @k(%table: tensor<7x37xf32> {plumb.inout, plumb.result = 0}, %index: tensor<11xi64>,
             %grad: tensor<11x37xf32>) -> tensor<7x37xf32> {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %count = arith.constant 11 : index
  %r = scf.for %i = %zero to %count step %one iter_args(%t = %table) -> (tensor<7x37xf32>) {
    %at = tensor.extract %index[%i] : tensor<11xi64>
    %row = arith.index_cast %at : i64 to index
    %old = tensor.extract_slice %t[%row, 0] [1, 37] [1, 1] : tensor<7x37xf32> to tensor<37xf32>
    %g = tensor.extract_slice %grad[%i, 0] [1, 37] [1, 1] : tensor<11x37xf32> to tensor<37xf32>
    %new = linalg.add ins(%old, %g : tensor<37xf32>, tensor<37xf32>) outs(%old : tensor<37xf32>) -> tensor<37xf32>
    %next = tensor.insert_slice %new into %t[%row, 0] [1, 37] [1, 1] : tensor<37xf32> into tensor<7x37xf32>
    scf.yield %next : tensor<7x37xf32>
  }
  return %r : tensor<7x37xf32>
})",
            {table.data(), index.data(), grad.data()});
  expectClose(table, expected, 0);
}

} // namespace
