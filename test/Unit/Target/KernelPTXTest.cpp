// Device code: that it is made, is what it should be, and assembles where the CUDA assembler is at hand.
#include "KernelText.h"

#include "plumb/Target/KernelPTX.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Parser/Parser.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace plumb;
using namespace plumb::test;

namespace {

struct Translation {
  FailureOr<std::string> ptx = failure();
  std::string diagnostics;
};

Translation translate(const std::string &text, StringRef chip = "sm_90", StringRef features = "+ptx80") {
  Translation result;
  DialectRegistry registry;
  registry.insert<arith::ArithDialect, func::FuncDialect, linalg::LinalgDialect, math::MathDialect,
                  scf::SCFDialect, tensor::TensorDialect>();
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    result.diagnostics += diagnostic.str() + "\n";
    return success();
  });
  auto module = parseSourceString<ModuleOp>(text, &context);
  if (module)
    result.ptx = translateKernelsToPTX(*module, chip, features);
  return result;
}

/// A linear layer with relu, its backward products, an update in place, a row sum and a scatter.
std::string kernels() {
  using plumb::test::tensor;
  std::string x = tensor({30, 20}), w = tensor({50, 20}), y = tensor({30, 50}), bias = tensor({50});
  return "func.func @k_linear_relu(%x: " + x + ", %w: " + w + ", %b: " + bias + ") -> " + y + " {\n" +
         filled("%i", y) +
         generic("%c", "m, n; k", "m, k | n, k | m, n", {"%x", "%w"}, {x, w}, "%i", y, kMultiplyAdd) +
         filled("%e", y) + generic("%r", "m, n", "m, n | n | m, n", {"%c", "%b"}, {y, bias}, "%e", y, R"(
  ^bb0(%v: f32, %a: f32, %o: f32):
    %zero = arith.constant 0.0 : f32
    %s = arith.addf %v, %a : f32
    %m = arith.maximumf %s, %zero : f32
    linalg.yield %m : f32
)") +
         "  return %r : " + y + "\n}\n" + "func.func @k_backward(%dy: " + y + ", %x: " + x + ", %w: " + w +
         ") -> (" + x + ", " + w + ", " + bias + ") {\n" + filled("%ix", x) +
         generic("%dx", "m, k; n", "m, n | n, k | m, k", {"%dy", "%w"}, {y, w}, "%ix", x, kMultiplyAdd) +
         filled("%iw", w) +
         generic("%dw", "n, k; m", "m, n | m, k | n, k", {"%dy", "%x"}, {y, x}, "%iw", w, kMultiplyAdd) +
         filled("%ib", bias) +
         generic(
             "%db", "n; m", "m, n | n", {"%dy"}, {y}, "%ib", bias,
             "\n  ^bb0(%v: f32, %s: f32):\n    %n = arith.addf %v, %s : f32\n    linalg.yield %n : f32\n") +
         "  return %dx, %dw, %db : " + x + ", " + w + ", " + bias + "\n}\n" + "func.func @k_sgd(%p: " + w +
         " {plumb.inout, plumb.result = 0}, %g: " + w + ") -> " + w + " {\n" + filled("%e", w) +
         generic("%q", "i, j", "i, j | i, j | i, j", {"%p", "%g"}, {w, w}, "%e", w, R"(
  ^bb0(%a: f32, %d: f32, %o: f32):
    %lr = arith.constant 0.1 : f32
    %t = arith.mulf %d, %lr : f32
    %s = arith.subf %a, %t : f32
    linalg.yield %s : f32
)") +
         "  return %q : " + w + "\n}\n" + R"(
func.func @k_scatter(%table: tensor<7x37xf32> {plumb.inout, plumb.result = 0}, %index: tensor<11xi64>,
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
}
func.func @k_gelu(%x: tensor<100xf32>) -> tensor<100xf32> {
  %e = tensor.empty() : tensor<100xf32>
  %y = linalg.tanh ins(%x : tensor<100xf32>) outs(%e : tensor<100xf32>) -> tensor<100xf32>
  %z = linalg.rsqrt ins(%y : tensor<100xf32>) outs(%e : tensor<100xf32>) -> tensor<100xf32>
  return %z : tensor<100xf32>
}
)";
}

TEST(KernelPTX, EntriesAndLaunches) {
  Translation result = translate(kernels());
  ASSERT_TRUE(succeeded(result.ptx)) << result.diagnostics;
  for (const char *expected :
       {"// k_linear_relu_2: 6 blocks of 256 threads", "// k_sgd_0: 4 blocks of 256 threads",
        "// k_scatter_0: 1 blocks of 256 threads", ".visible .entry k_backward_5(", ".target sm_90",
        ".version 8.0", "fma.rn.f32"})
    EXPECT_NE(result.ptx->find(expected), std::string::npos) << expected << "\n" << *result.ptx;
  EXPECT_EQ(*translate(kernels()).ptx, *result.ptx);
}

TEST(KernelPTX, Assembles) {
  auto assembler = llvm::sys::findProgramByName("ptxas");
  if (!assembler)
    assembler = llvm::sys::findProgramByName("ptxas", {"/usr/local/cuda/bin"});
  if (!assembler)
    GTEST_SKIP() << "ptxas is not installed";
  Translation result = translate(kernels());
  ASSERT_TRUE(succeeded(result.ptx)) << result.diagnostics;
  llvm::SmallString<128> input;
  int descriptor;
  ASSERT_FALSE(llvm::sys::fs::createTemporaryFile("plumb-kernels", "ptx", descriptor, input));
  llvm::raw_fd_ostream(descriptor, /*shouldClose=*/true) << *result.ptx;
  std::string output = (input + ".cubin").str(), message;
  int code = llvm::sys::ExecuteAndWait(*assembler, {*assembler, "-arch=sm_90", input, "-o", output},
                                       std::nullopt, {}, 0, 0, &message);
  llvm::sys::fs::remove(input);
  llvm::sys::fs::remove(output);
  EXPECT_EQ(code, 0) << message << *result.ptx;
}

TEST(KernelPTX, Errors) {
  auto expectError = [](const Translation &result, const char *message) {
    EXPECT_TRUE(failed(result.ptx));
    EXPECT_NE(result.diagnostics.find(message), std::string::npos) << result.diagnostics;
  };
  expectError(translate(kernels(), "sm_90", "+ptx60"),
              "PTX version '+ptx60' does not do for sm_90; use +ptx80");
  expectError(translate(kernels(), "sm_100", "+ptx80"), "use +ptx88");
  expectError(translate(kernels(), "h200"), "'h200' is not a chip");
  expectError(translate(R"(
func.func @k_sin(%x: tensor<100xf32>) -> tensor<100xf32> {
  %e = tensor.empty() : tensor<100xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : tensor<100xf32>) outs(%e : tensor<100xf32>) {
  ^bb0(%v: f32, %o: f32):
    %r = math.sin %v : f32
    linalg.yield %r : f32
  } -> tensor<100xf32>
  return %y : tensor<100xf32>
})"),
              "which devices do not have");
  expectError(translate("func.func @k_f(%x: tensor<?xf32>) {\n  return\n}"), "static shape");
}

} // namespace
